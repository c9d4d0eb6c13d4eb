# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""The tables."""
from .cases import OBJECT, OBJECT_BAR, RATE_BAR


def whole_object(results):
    """An object put together from its stages, or None if one was not measured."""
    rows = []
    for stage in OBJECT:
        measured = results.get(stage.case)
        if not measured:
            return None
        ours, peer = measured["ours"], measured.get("peer", {})
        one, other = ours[stage.part or next(iter(ours))], peer.get(stage.part, 0)
        rows.append({"stage": stage.name, "runs": stage.ours, "ours_s": stage.ours * one, "peer_s": stage.peer * other,
                     "tflop": stage.ours * stage.tflop})
    ours, peer = sum(r["ours_s"] for r in rows), sum(r["peer_s"] for r in rows)
    return {"name": "whole_object", "ours_s": ours, "peer_s": peer, "ratio": ours / peer, "bar": OBJECT_BAR, "stages": rows}


def dense_rate(results):
    """The rate of the dense layers of a structure block, and the best that XLA reaches for their bare products."""
    layers, products = results.get("dense_layers_of_limit"), results.get("matrix_multiply")
    if not layers or not products:
        return None
    best = {}
    for name, seconds in products["ours"].items():
        layer = name.split("/")[1]
        best[layer] = min(best.get(layer, seconds), seconds)
    tflop = layers["tflop"]
    rate, limit = tflop / next(iter(layers["ours"].values())), tflop / sum(best.values())
    return {"name": "dense_layers_of_limit", "tflop_s": rate, "limit_tflop_s": limit, "ratio": rate / limit, "bar": RATE_BAR}


def markdown(report):
    machine = report["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, PyTorch {machine['torch']}, our backend {machine['backend']}; float32 on "
        "both sides, medians of alternating runs.", "",
        "| stage | ours, s | PyTorch, s | ratio | bar | our peak, GB | its peak, GB | our compilation, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    gigabytes = lambda r, key: f"{r[key] / 1000:.1f}" if r.get(key) else ""
    for r in [*report["results"].values(), report["whole_object"]]:
        if r and "ratio" in r:
            compilation = f"{r['compile_s']:.1f}" if "compile_s" in r else ""
            lines.append(f"| {r['name']} | {r['ours_s']:.2f} | {r['peer_s']:.2f} | {r['ratio']:.2f} | {r['bar']:.2f} | "
                         f"{gigabytes(r, 'ours_peak_mb')} | {gigabytes(r, 'peer_peak_mb')} | {compilation} |")
    rate = report["dense"]
    if rate:
        lines += ["", f"The dense layers of a structure block reach {rate['tflop_s']:.3f} TFLOP/s, {rate['ratio']:.0%} of the "
                  f"{rate['limit_tflop_s']:.3f} of their bare products."]
    return "\n".join(lines) + "\n"


def profile(report):
    """Where the time of a whole object goes."""
    whole, rate = report["whole_object"], report["dense"]
    limit = rate["limit_tflop_s"] if rate else None
    lines = ["| stage | runs | s | share | TFLOP | TFLOP/s | of the matrix-multiply limit |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    total = {"stage": "all", "runs": "", "ours_s": whole["ours_s"], "tflop": sum(r["tflop"] for r in whole["stages"])}
    for r in [*whole["stages"], total]:
        speed = r["tflop"] / r["ours_s"]
        of_limit = f"{speed / limit:.0%}" if limit else ""
        lines.append(f"| {r['stage']} | {r['runs']} | {r['ours_s']:.1f} | {r['ours_s'] / whole['ours_s']:.0%} | {r['tflop']:.2f} | "
                     f"{speed:.3f} | {of_limit} |")
    return "\n".join(lines) + "\n"
