# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""Runs either side in a process of its own, so that the peak of its memory is its own."""
import importlib
import json
import os
import re
import subprocess
import sys
import time

from .cases import CASES

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Failed(Exception):
    """A side did not answer."""


class Ours:
    """Our benchmarks of a package, compiled once."""

    binaries = {}

    def __init__(self, package):
        self.folder = os.path.join(ROOT, package)
        if package not in self.binaries:
            path = os.path.join(ROOT, "out", package.replace("/", "_") + ".test")
            if subprocess.run(["go", "test", "-c", "-o", path, "."], cwd=self.folder).returncode:
                raise Failed("does not compile")
            self.binaries[package] = path
        self.binary = self.binaries[package]

    def run(self, benchmarks, calls=1):
        """Figures of each benchmark, by unit: seconds a call in "s", of the first in "s-first", memory in "MB-peak"."""
        levels = zip(*[b.split("/") for b in benchmarks])
        pattern = "/".join("^(" + "|".join(re.escape(n) for n in sorted(set(level))) + ")$" for level in levels)
        done = subprocess.run([self.binary, "-test.run", "^$", "-test.bench", pattern, "-test.benchtime", f"{calls}x"],
                              cwd=self.folder, capture_output=True, text=True)
        found = {}
        for name, figures in re.findall(r"^(Benchmark\S+)\s+\d+\s+(\S.*)$", done.stdout, re.M):
            fields = figures.split()
            units = {unit: float(value) for value, unit in zip(fields[::2], fields[1::2])}
            units["s"] = units["ns/op"] / 1e9
            found[re.sub(r"-\d+$", "", name)] = units
        if done.returncode or set(benchmarks) - set(found):
            raise Failed(f"{self.binary} {pattern}: {done.stdout}{done.stderr}")
        return {name: found[name] for name in benchmarks}


class Peer:
    """The peer of a case. It is built, and warmed up if asked to, before anything is measured."""

    def __init__(self, name, warm):
        command = [sys.executable, os.path.join(ROOT, "scripts", "bench_peer.py"), "--peer", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("warm" if warm else "build")

    def ask(self, word):
        """"warm" and "run" give seconds and shapes of each part, "peak" the most memory that it ever had, in 10⁶ bytes."""
        try:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            raise Failed("the peer ended") from None

    def close(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass  # it has ended already
        self.process.wait()


def serve(name):
    """The peer's side of class Peer."""
    import torch
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    case = CASES[name]
    module, function, *arguments = case.peer
    module = importlib.import_module("bench." + module)
    arguments = [getattr(module, a) if isinstance(a, str) else a for a in arguments]
    network, parts = getattr(module, function)(*arguments)
    parameters = sum(p.numel() for p in network.parameters()) if network else 0
    if parameters != case.parameters:
        sys.exit(f"{name}: the peer has {parameters:,} parameters, the checkpoint {case.parameters:,}")
    answer = lambda value: print(json.dumps(value), flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            word = line.strip()
            if word == "build":
                answer(None)
            elif word == "peak":
                answer(peak())
            else:
                answer({part: call(case, parts[part], part) for part in case.ours})


def call(case, function, part):
    """Seconds of a call, and the shapes of what it returns."""
    begin = time.perf_counter()
    for _ in range(case.calls):
        out = function()
    seconds = case.factor * (time.perf_counter() - begin) / case.calls
    out = out if isinstance(out, (list, tuple)) else [out]
    shapes = [list(x.shape) for x in out if hasattr(x, "shape")]
    if case.shapes and shapes != case.shapes:
        sys.exit(f"{part}: the peer returns {shapes}, not {case.shapes}")
    return {"s": seconds, "shapes": shapes}


def peak():
    with open("/proc/self/status") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1]) * 1024 / 1e6
