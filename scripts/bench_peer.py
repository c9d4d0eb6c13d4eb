# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""Runs our stages and plain PyTorch modules of the same shapes in turn on the same cores, and prints their ratios.

The peers compute what the original does: condition tokens are projected at every step, an unguided pass attends to all
of them though they are zero, windows are joined under a dense mask, meshes come of a full grid. See bench/cases.py for
what is measured; `make bench-peer` runs this.
"""
import argparse
import json
import os
import platform
import statistics
import sys

from bench import report
from bench.cases import ALONE, CASES, OBJECT
from bench.processes import ROOT, Failed, Ours, Peer, serve

FLOP_OF_DENSE_LAYERS = 2 * 4096 * 1024 * (3072 + 3 * 1024 + 2 * 4096)


def compare(name, case, runs, warm):
    """Runs both sides in turn."""
    ours, peer = Ours(case.package), Peer(name, warm)
    try:
        pairs = [(ours.run(case.ours.values(), case.calls), peer.ask("run")) for _ in range(1 if case.slow else runs)]
        peak = peer.ask("peak")
    finally:
        peer.close()
    middle = statistics.median
    ours_parts = {part: middle(one[b]["s"] for one, _ in pairs) for part, b in case.ours.items()}
    peer_parts = {part: middle(other[part]["s"] for _, other in pairs) for part in case.ours}
    sums = [(sum(f["s"] for f in one.values()), sum(f["s"] for f in other.values())) for one, other in pairs]
    figures = [f for one, _ in pairs for f in one.values()]
    last = pairs[-1]
    extra = {unit: value for f in last[0].values() for unit, value in f.items() if unit in ("vertices", "faces", "voxels")}
    return {
        "name": name, "ours_s": middle(a for a, _ in sums), "peer_s": middle(b for _, b in sums), "ratio": middle(a / b for a, b in sums),
        "bar": case.bar, "runs": sums, "ours": ours_parts, "peer": peer_parts,
        "ours_peak_mb": max(f.get("MB-peak", 0) for f in figures), "peer_peak_mb": peak,
        "compile_s": max(0, middle(sum(f.get("s-first", f["s"]) - f["s"] for f in one.values()) for one, _ in pairs)),
        "parameters": case.parameters, "peer_shapes": {part: f["shapes"] for part, f in last[1].items()}, "ours_counts": extra,
    }


def alone(name):
    package, benchmarks = ALONE[name]
    figures = Ours(package).run(benchmarks, 5)
    return {"name": name, "ours": {b: f["s"] for b, f in figures.items()}, "tflop": FLOP_OF_DENSE_LAYERS / 1e12}


def chosen(only):
    names = [n for n in only.split(",") if n]
    known = [*CASES, *ALONE, "whole_object"]
    for name in names:
        if name not in known:
            sys.exit(f"no case {name}; there are {', '.join(known)}")
    wanted = set(names or known)
    if "whole_object" in wanted:
        wanted |= {stage.case for stage in OBJECT}
    if wanted & {"whole_object", "dense_layers_of_limit"}:
        wanted |= {"dense_layers_of_limit", "matrix_multiply"}
    return [n for n in known if n in wanted]


def measure(options, results):
    """Adds what is measured to results, and writes them after each case. Returns the names of those that failed."""
    failed = []
    for name in chosen(options.only):
        try:
            if name in CASES:
                results[name] = r = compare(name, CASES[name], 1 if options.quick else options.runs, not options.quick)
                print(f"RATIO {name} {r['ratio']:.3f} {r['bar']:.2f}", flush=True)
            elif name in ALONE:
                results[name] = alone(name)
        except Failed as e:
            print(f"{name}: {e}", file=sys.stderr, flush=True)
            failed.append(name)
        save(options, results)
    return failed


def save(options, results):
    """Writes what there is so far. Returns it."""
    import torch
    found = {"results": results, "dense": report.dense_rate(results), "whole_object": report.whole_object(results)}
    found["machine"] = {"cpu": cpu(), "cores": len(os.sched_getaffinity(0)), "torch": torch.__version__, "backend": os.environ["GOMLX_BACKEND"]}
    if options.json:
        write(options.json, json.dumps(found, indent=2))
    if options.markdown:
        write(options.markdown, report.markdown(found))
    if options.profile and found["whole_object"]:
        write(options.profile, report.profile(found))
    return found


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=3, help="of each side; cases of minutes take one")
    options.add_argument("--quick", action="store_true", help="one run of each side, the peer not warmed up")
    options.add_argument("--update", action="store_true", help="keep what the JSON file has of cases that are not run")
    options.add_argument("--only", default="", help="names of cases, with commas between")
    for table in ("json", "markdown", "profile"):
        options.add_argument("--" + table, default="", help="file to write")
    options.add_argument("--peer", default="", help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.peer:
        return serve(options.peer)
    os.environ.setdefault("GOMLX_BACKEND", "xla:cpu")
    os.environ.setdefault("PJRT_PLUGIN_LIBRARY_PATH", os.path.join(ROOT, ".plugins"))
    results = {}
    if options.update and os.path.exists(options.json):
        with open(options.json) as f:
            results = json.load(f)["results"]
    failed = measure(options, results)
    found = save(options, results)
    if found["dense"]:
        print("RATE dense_layers_of_limit {ratio:.3f} {bar:.2f}".format(**found["dense"]))
    if found["whole_object"]:
        print("RATIO whole_object {ratio:.3f} {bar:.2f}".format(**found["whole_object"]))
    if failed:
        sys.exit("failed: " + ", ".join(failed))


def cpu():
    """The processor's name, where the system tells."""
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
