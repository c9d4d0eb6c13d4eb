# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""The velocity networks of both stages."""
import torch
from torch import nn
from torch.nn import functional as F

from . import voxels
from .layers import CrossAttention, SelfAttention, TimeEmbedding, attend, grid_embedding, mlp, plain


class StructureBlock(nn.Module):
    """A block of stage 1: the shape attends to itself, the pose to both, and both to the condition tokens."""

    def __init__(self, width=1024, heads=16):
        super().__init__()
        streams = lambda make: nn.ModuleList([make(), make()])
        self.modulation = nn.Linear(width, 6 * width)
        self.attention = streams(lambda: SelfAttention(width, heads, head_norms=True))
        self.cross = streams(lambda: CrossAttention(width, heads))
        self.norm = streams(lambda: nn.LayerNorm(width, 1e-6))
        self.mlp = streams(lambda: mlp(width, 4 * width, nn.GELU("tanh")))

    def forward(self, streams, time, tokens):
        m = self.modulation(F.silu(time)).unsqueeze(1).chunk(6, -1)
        shape, pose = [a.project(plain(x) * (1 + m[1]) + m[0]) for a, x in zip(self.attention, streams)]
        joint = attend(pose[0], torch.cat([pose[1], shape[1]], 2), torch.cat([pose[2], shape[2]], 2))
        attended = [self.attention[0].out(attend(*shape)), self.attention[1].out(joint)]
        out = []
        for i, x in enumerate(streams):
            x = x + m[2] * attended[i]
            x = x + self.cross[i](self.norm[i](x), tokens)
            out.append(x + m[5] * self.mlp[i](plain(x) * (1 + m[4]) + m[3]))
        return out


class LatentBlock(nn.Module):
    """A block of stage 2, on the voxels of half the resolution."""

    def __init__(self, width=1024, heads=16):
        super().__init__()
        self.modulation = nn.Linear(width, 6 * width)
        self.attention, self.cross = SelfAttention(width, heads, head_norms=True), CrossAttention(width, heads)
        self.norm, self.mlp = nn.LayerNorm(width, 1e-6), mlp(width, 4 * width, nn.GELU("tanh"))

    def forward(self, x, time, tokens):
        m = self.modulation(F.silu(time)).unsqueeze(1).chunk(6, -1)
        x = x + m[2] * self.attention(plain(x) * (1 + m[1]) + m[0])
        x = x + self.cross(self.norm(x), tokens)
        return x + m[5] * self.mlp(plain(x) * (1 + m[4]) + m[3])


class ResBlock(nn.Module):
    """Two sparse convolutions around a shortcut; the input has gone to its resolution before."""

    def __init__(self, width_in, width, time):
        super().__init__()
        self.norm = nn.LayerNorm(width_in, 1e-6)
        self.conv1, self.conv2 = voxels.Conv(width_in, width), voxels.Conv(width, width)
        self.time = nn.Linear(time, 2 * width)
        self.skip = nn.Linear(width_in, width) if width_in != width else nn.Identity()

    def forward(self, x, time, pairs):
        scale, shift = self.time(F.silu(time)).chunk(2, -1)
        h = self.conv1(F.silu(self.norm(x)), pairs)
        return self.conv2(F.silu(plain(h) * (1 + scale) + shift), pairs) + self.skip(x)


class Latent(nn.Module):
    """The network of stage 2. Its blocks share the weights of one, as in our benchmark, to take less memory."""

    def __init__(self, width=1024, outer=128, depth=24):
        super().__init__()
        self.depth = depth
        self.time, self.enter, self.leave = TimeEmbedding(width), nn.Linear(8, outer), nn.Linear(outer, 8)
        self.before = nn.ModuleList([ResBlock(outer, outer, width), ResBlock(outer, width, width)])
        self.block = LatentBlock(width)
        self.after = nn.ModuleList([ResBlock(2 * width, outer, width), ResBlock(2 * outer, outer, width)])

    def forward(self, x, t, tokens, grid):
        time = self.time(t)
        fine = self.before[0](self.enter(x), time, grid.fine)
        total = torch.zeros(len(grid.coarse_coords), fine.shape[1]).index_add_(0, grid.parent, fine)
        coarse = self.before[1](total / (grid.children[:, None] + 1), time, grid.coarse)
        h = (coarse + grid_embedding(grid.coarse_coords, coarse.shape[1]))[None]
        for _ in range(self.depth):
            h = self.block(h, time, tokens)
        h = self.after[0](torch.cat([h[0], coarse], 1)[grid.parent], time, grid.fine)
        h = self.after[1](torch.cat([h, fine], 1), time, grid.fine)
        return self.leave(plain(h, 1e-5))


class Grid:
    """The tables of a set of voxels and of their parents."""

    def __init__(self, coords):
        self.coarse_coords, self.parent = torch.unique(coords // 2, dim=0, return_inverse=True)
        self.children = torch.bincount(self.parent)
        self.fine, self.coarse = voxels.pairs(coords), voxels.pairs(self.coarse_coords)


def structure():
    """One block of 24; the unguided pass is the same work, all 7,528 tokens being zero in it."""
    block, tokens = StructureBlock(), torch.randn(1, 7528, 1024)
    streams, time, zeros = [torch.randn(1, 4096, 1024), torch.randn(1, 4, 1024)], torch.randn(1, 1024), torch.zeros(1, 7528, 1024)
    return block, {"conditional": lambda: block(streams, time, tokens), "unconditional": lambda: block(streams, time, zeros)}


def latent(radius):
    network, coords, t = Latent(), voxels.shell(radius), torch.tensor([500.0])
    grid, x = Grid(coords), torch.randn(len(coords), 8)
    tokens, zeros = torch.randn(1, 5496, 1024), torch.zeros(1, 5496, 1024)
    return network, {"conditional": lambda: network(x, t, tokens, grid), "unconditional": lambda: network(x, t, zeros, grid)}
