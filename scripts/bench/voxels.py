# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""Sparse voxels: convolution, the transformer of the decoders, and the decoders."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import cubes
from .layers import SelfAttention, grid_embedding, mlp, plain


def shell(radius):
    """The voxels of our benchmarks' hollow spheres [N, 3]."""
    grid = torch.stack(torch.meshgrid(*[torch.arange(64)] * 3, indexing="ij"), -1).view(-1, 3)
    return grid[((grid - 31.5).norm(dim=1) - radius).abs() < 0.855]


def pairs(coords):
    """For each of the 27 taps of a convolution: rows of voxels, and of their neighbours."""
    x, y, z = (coords.amax(0) + 3).tolist()
    place = ((coords[:, 0] + 1) * y + coords[:, 1] + 1) * z + coords[:, 2] + 1
    table = torch.full((x * y * z,), -1, dtype=torch.int32)
    table[place] = torch.arange(len(coords), dtype=torch.int32)
    out = []
    for tap in range(27):
        found = table[place + ((tap // 9 - 1) * y + tap // 3 % 3 - 1) * z + tap % 3 - 1]
        rows = torch.nonzero(found >= 0).view(-1)
        out.append((rows, found[rows].long()))
    return out


class Conv(nn.Module):
    """A submanifold convolution of three taps an axis: the neighbours that exist are gathered, multiplied and added."""

    def __init__(self, width_in, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(27, width_in, width) / math.sqrt(27 * width_in))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x, pairs):
        y = torch.addmm(self.bias, x, self.weight[13])
        for tap, (rows, neighbours) in enumerate(pairs):
            if tap != 13 and len(rows):
                y.index_add_(0, rows, x[neighbours] @ self.weight[tap])
        return y


class Torso(nn.Module):
    """Blocks of attention in windows, which are joined under one mask as the original does with this attention."""

    def __init__(self, width=768, heads=12, depth=12):
        super().__init__()
        self.enter = nn.Linear(8, width)
        self.blocks = nn.ModuleList([
            nn.ModuleList([SelfAttention(width, heads), mlp(width, 4 * width, nn.GELU("tanh"))]) for _ in range(depth)])

    def forward(self, latents, coords):
        x = self.enter(latents)
        x = (x + grid_embedding(coords, x.shape[1]))[None]
        for i, (attention, perceptron) in enumerate(self.blocks):
            window = (coords + 4 * (i % 2)) // 8
            number = (window[:, 0] * 64 + window[:, 1]) * 64 + window[:, 2]
            x = x + attention(plain(x), number[:, None] == number[None, :])
            x = x + perceptron(plain(x))
        return x[0]


class Gaussians(nn.Module):
    """Latents to the attributes of splats."""

    def __init__(self, splats):
        super().__init__()
        self.splats = splats
        self.torso, self.leave = Torso(), nn.Linear(768, 14 * splats)
        self.perturbation = nn.Parameter(torch.randn(splats, 3))

    def forward(self, latents, coords):
        out = self.leave(plain(self.torso(latents, coords), 1e-5))
        xyz, colour, scale, rotation, opacity = [
            a.view(len(coords), self.splats, -1) for a in out.split([n * self.splats for n in (3, 3, 3, 4, 1)], 1)]
        xyz = (coords[:, None] + 0.5 + torch.tanh(xyz + self.perturbation) * 0.75) / 64 - 0.5
        scale = (F.softplus(scale - 5.5194602) ** 2 + 0.0009 ** 2).sqrt()
        rotation = 0.1 * rotation
        rotation[..., 0] += 1
        return [a.flatten(0, 1) for a in (xyz, colour, scale, F.normalize(rotation, dim=-1), torch.sigmoid(opacity - 2.1972246))]


class Subdivide(nn.Module):
    """Eight voxels of each, with two convolutions."""

    def __init__(self, width_in, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, width_in), nn.GroupNorm(32, width)
        self.conv1, self.conv2 = Conv(width_in, width), Conv(width, width)
        self.skip = nn.Linear(width_in, width)

    def forward(self, x, pairs):
        normed = lambda norm, x: F.silu(norm(x.T[None])[0].T)
        eight = lambda x: x.repeat_interleave(8, 0)
        h = self.conv1(eight(normed(self.norm1, x)), pairs)
        return self.conv2(normed(self.norm2, h), pairs) + self.skip(eight(x))


def children(coords):
    offsets = torch.stack(torch.meshgrid(*[torch.arange(2)] * 3, indexing="ij"), -1).view(1, 8, 3)
    return (2 * coords[:, None] + offsets).view(-1, 3)


class Mesh(nn.Module):
    """Latents to a mesh. As in our benchmark every corner of a voxel is inside: a surface of a real object's size."""

    def __init__(self):
        super().__init__()
        self.torso, self.levels = Torso(), nn.ModuleList([Subdivide(768, 192), Subdivide(192, 96)])
        self.leave = nn.Linear(96, 101)
        nn.init.zeros_(self.leave.weight)
        with torch.no_grad():
            self.leave.bias.copy_(torch.cat([torch.full((8,), -0.5), torch.zeros(93)]))

    def forward(self, latents, coords):
        x, size = self.torso(latents, coords), 64
        for level in self.levels:
            coords, size = children(coords), 2 * size
            x = level(x, pairs(coords))
        return cubes.extract(*cubes.dense(self.leave(x), coords, size), size)


class Volume(nn.Module):
    """The decoder of stage 1: convolutions on a full grid."""

    class Norm(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.movedim(1, -1)).movedim(-1, 1)

    class Res(nn.Module):
        def __init__(self, width):
            super().__init__()
            conv = lambda: nn.Conv3d(width, width, 3, padding=1)
            self.layers = nn.Sequential(Volume.Norm(width), nn.SiLU(), conv(), Volume.Norm(width), nn.SiLU(), conv())

        def forward(self, x):
            return x + self.layers(x)

    class Up(nn.Module):
        def __init__(self, width_in, width):
            super().__init__()
            self.conv = nn.Conv3d(width_in, 8 * width, 3, padding=1)

        def forward(self, x):
            x = self.conv(x)
            b, c, n = x.shape[0], x.shape[1] // 8, x.shape[2]
            return x.view(b, c, 2, 2, 2, n, n, n).permute(0, 1, 5, 2, 6, 3, 7, 4).reshape(b, c, 2 * n, 2 * n, 2 * n)

    def __init__(self):
        super().__init__()
        res = Volume.Res
        self.layers = nn.Sequential(
            nn.Conv3d(8, 512, 3, padding=1), *[res(512) for _ in range(4)], Volume.Up(512, 128), res(128), res(128),
            Volume.Up(128, 32), res(32), res(32), Volume.Norm(32), nn.SiLU(), nn.Conv3d(32, 1, 3, padding=1))

    def forward(self, x):
        return self.layers(x)


def structure_decoder():
    network, x = Volume(), torch.randn(1, 8, 16, 16, 16)
    return network, {"decode": lambda: network(x)}


def gaussians(splats):
    network, coords = Gaussians(splats), shell(19.3)
    latents = torch.randn(len(coords), 8)
    return network, {"decode": lambda: network(latents, coords)}


def mesh():
    network, coords = Mesh(), shell(19.3)
    latents = torch.randn(len(coords), 8)
    return network, {"decode": lambda: network(latents, coords)}
