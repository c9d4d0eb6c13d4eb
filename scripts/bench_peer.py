# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""Runs our stages and plain PyTorch modules of the same shapes in turn on the same cores, and prints their ratios.

The peer computes what the original does: condition tokens are projected at every step, an unguided pass attends to all
of them though they are zero, and windows are joined under a dense mask. Its weights are random, in float32.

Usage: bench_peer.py [--runs N] [--only NAME,...] [--json FILE] [--markdown FILE]; see `make bench-peer`.
"""
import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Attention whose queries come from x, and keys and values from a context."""

    def __init__(self, width, heads, context=None):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(context or width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(context).view(b, context.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(out.transpose(1, 2).reshape(b, t, d))


def mlp(width, ratio, activation):
    return nn.Sequential(nn.Linear(width, ratio * width), activation, nn.Linear(ratio * width, width))


class FlowBlock(nn.Module):
    """A block of the structure flow: modulated self attention of two streams, cross attention, perceptron."""

    def __init__(self, width=1024, heads=16):
        super().__init__()
        stream = lambda make: nn.ModuleList([make(), make()])
        self.modulation = nn.Linear(width, 6 * width)
        self.attention = stream(lambda: Attention(width, heads))
        self.cross = stream(lambda: Attention(width, heads))
        self.norm = stream(lambda: nn.LayerNorm(width))
        self.mlp = stream(lambda: mlp(width, 4, nn.GELU("tanh")))

    def forward(self, streams, time_embedding, tokens):
        m = self.modulation(F.silu(time_embedding)).unsqueeze(1).chunk(6, -1)
        plain = lambda x: F.layer_norm(x, x.shape[-1:])
        normed = [plain(x) * (1 + m[1]) + m[0] for x in streams]
        attended = [self.attention[0](normed[0]), self.attention[1](normed[1], torch.cat(normed[::-1], 1))]
        out = []
        for i, x in enumerate(streams):
            x = x + m[2] * attended[i]
            x = x + self.cross[i](self.norm[i](x), tokens)
            out.append(x + m[5] * self.mlp[i](plain(x) * (1 + m[4]) + m[3]))
        return out


class Encoder(nn.Module):
    """DINOv2 ViT-L/14 on 518 x 518 pixels, with four registers: 1374 tokens."""

    def __init__(self, width=1024, heads=16, depth=24):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 14, 14)
        block = lambda: nn.ModuleList([nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width), mlp(width, 4, nn.GELU())])
        self.blocks = nn.ModuleList([block() for _ in range(depth)])

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([x.new_zeros(1, 5, x.shape[2]), x], 1)
        for norm1, attention, norm2, perceptron in self.blocks:
            x = x + attention(norm1(x))
            x = x + perceptron(norm2(x))
        return x


class Torso(nn.Module):
    """The transformer of a Gaussian decoder: windows of voxels, joined under one mask."""

    def __init__(self, width=768, heads=12, depth=12):
        super().__init__()
        self.enter, self.leave = nn.Linear(8, width), nn.Linear(width, 448)
        self.blocks = nn.ModuleList([nn.ModuleList([Attention(width, heads), mlp(width, 4, nn.GELU("tanh"))]) for _ in range(depth)])

    def forward(self, x, coords):
        x = self.enter(x)
        plain = lambda x: F.layer_norm(x, x.shape[-1:])
        for i, (attention, perceptron) in enumerate(self.blocks):
            window = (coords + 4 * (i % 2)) // 8
            number = (window[:, 0] * 64 + window[:, 1]) * 64 + window[:, 2]
            x = x + attention(plain(x), mask=number[:, None] == number[None, :])
            x = x + perceptron(plain(x))
        return self.leave(x)


def shell(radius):
    """The voxels of our benchmarks' hollow sphere."""
    grid = torch.stack(torch.meshgrid(*[torch.arange(64)] * 3, indexing="ij"), -1).view(-1, 3)
    return grid[((grid - 31.5).norm(dim=1) - radius).abs() < 0.855]


def structure(passes):
    block, tokens = FlowBlock(), torch.randn(1, 7528, 1024)
    streams, embedding = [torch.randn(1, 4096, 1024), torch.randn(1, 4, 1024)], torch.randn(1, 1024)
    return lambda: [block(streams, embedding, tokens) for _ in range(passes)]


def encoder():
    network, image = Encoder(), torch.randn(1, 3, 518, 518)
    return lambda: network(image)


def gaussians():
    network, coords = Torso(), shell(19.3)
    latents = torch.randn(1, len(coords), 8)
    return lambda: network(latents, coords)


def ply():
    """Packing as the original does it, an attribute list a splat, scaled up from a hundredth of the splats."""
    import numpy as np
    rows = np.random.rand(136_000, 17).astype("f4")

    def pack():
        elements = np.empty(len(rows), dtype=[(f"p{i}", "f4") for i in range(17)])
        elements[:] = list(map(tuple, rows))
        return elements.tobytes()
    return pack


# name: package, our benchmarks (their times are added), peer, by how much to multiply its time, bar
CASES = {
    "dinov2": ("./dinov2", ["BenchmarkEncode"], encoder, 1, 0.90),
    "structure_step_guided": ("./sam3d/flow", ["BenchmarkStructureBlockConditional", "BenchmarkStructureBlockUnconditional"],
                              lambda: structure(2), 1, 0.60),
    "structure_step_unguided": ("./sam3d/flow", ["BenchmarkStructureBlockConditional"], lambda: structure(1), 1, 0.90),
    "gaussians_decoder": ("./sam3d/decoder", ["BenchmarkGaussiansDecoder"], gaussians, 1, 0.30),
    "ply_13.6M": ("./export", ["BenchmarkWritePLY"], ply, 100, 0.90),
}


def ours(package, benchmarks):
    """Seconds of one call of each benchmark, after one that compiles."""
    pattern = "^(" + "|".join(benchmarks) + ")$"
    done = subprocess.run(["go", "test", package, "-run", "^$", "-bench", pattern, "-benchtime", "1x"], capture_output=True, text=True)
    times = re.findall(r"^Benchmark\S+\s+\d+\s+([\d.]+) ns/op", done.stdout, re.M)
    if done.returncode or len(times) != len(benchmarks):
        sys.exit(f"{package}: {done.stdout}{done.stderr}")
    return sum(map(float, times)) / 1e9


def peer(call, factor):
    with torch.inference_mode():
        begin = time.perf_counter()
        call()
        return factor * (time.perf_counter() - begin)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--only", default="")
    options.add_argument("--json", default="")
    options.add_argument("--markdown", default="")
    options = options.parse_args()
    torch.manual_seed(0)
    results = []
    for name, (package, benchmarks, make, factor, bar) in CASES.items():
        if options.only and name not in options.only.split(","):
            continue
        call = make()
        peer(call, 1)  # warms up
        pairs = [(ours(package, benchmarks), peer(call, factor)) for _ in range(options.runs)]
        ratio = statistics.median(a / b for a, b in pairs)
        a, b = (statistics.median(column) for column in zip(*pairs))
        results.append({"name": name, "ours_s": a, "peer_s": b, "ratio": ratio, "bar": bar})
        print(f"RATIO {name} {ratio:.3f} {bar:.2f}", flush=True)
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__}
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"machine": machine, "results": results}, f, indent=2)
    if options.markdown:
        with open(options.markdown, "w") as f:
            f.write("| stage | ours, s | PyTorch, s | ratio | bar |\n| --- | --- | --- | --- | --- |\n")
            for r in results:
                f.write("| {name} | {ours_s:.2f} | {peer_s:.2f} | {ratio:.2f} | {bar:.2f} |\n".format(**r))


if __name__ == "__main__":
    main()
