# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""MoGe-1, -2 and -3, from a picture to the maps at its size. The camera, which ours finds as well, is left out."""
import torch
from torch import nn
from torch.nn import functional as F

from . import voxels
from .vision import Dino


def conv3(width_in, width):
    return nn.Conv2d(width_in, width, 3, padding=1, padding_mode="replicate")


def uv(h, w, aspect=1.0):
    """Coordinates of pixel centres, half the diagonal being 1: [1, 2, h, w]."""
    diagonal = (1 + aspect * aspect) ** 0.5
    axis = lambda n, reach: (2 * torch.arange(n) + 1) / n * reach - reach
    u, v = torch.meshgrid(axis(w, aspect / diagonal), axis(h, 1 / diagonal), indexing="xy")
    return torch.stack([u, v])[None]


def resize(x, h, w):
    return F.interpolate(x, (h, w), mode="bilinear", align_corners=False)


def patch_map(tokens, h, w):
    return tokens[:, 1:].transpose(1, 2).unflatten(2, (h, w))


class Res(nn.Module):
    def __init__(self, width, hidden, norms):
        super().__init__()
        norm1 = nn.GroupNorm(1, width) if norms else nn.Identity()
        norm2 = nn.GroupNorm(hidden // 32, hidden) if norms else nn.Identity()
        self.layers = nn.Sequential(norm1, nn.ReLU(), conv3(width, hidden), norm2, nn.ReLU(), conv3(hidden, width))

    def forward(self, x):
        return x + self.layers(x)


class Moge1(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Dino(registers=0, taps=(20, 21, 22, 23))
        self.projects = nn.ModuleList([nn.Conv2d(1024, 512, 1) for _ in range(4)])
        widths = [512, 256, 128, 64]
        self.up = nn.ModuleList([
            nn.Sequential(nn.ConvTranspose2d(a + 2, b, 2, 2), conv3(b, b), Res(b, 2 * b, True), Res(b, 2 * b, True))
            for a, b in zip(widths, widths[1:])])
        self.outputs = nn.ModuleList([nn.Sequential(conv3(66, 32), nn.ReLU(), nn.Conv2d(32, c, 1)) for c in (3, 1)])

    def forward(self, image, tokens):
        side, scale = image.shape[2:], (tokens * 196 / (image.shape[2] * image.shape[3])) ** 0.5
        h, w = int(side[0] * scale), int(side[1] * scale)
        grid = h // 14, w // 14
        x = F.interpolate(image, (h, w), mode="bicubic", antialias=True)
        x = F.interpolate((x - 0.45) / 0.225, (14 * grid[0], 14 * grid[1]), mode="bilinear", antialias=True)
        x = sum(p(patch_map(f, *grid)) for p, f in zip(self.projects, self.backbone(x)))
        for up in self.up:
            x = up(torch.cat([x, uv(*x.shape[2:])], 1))
        x = torch.cat([resize(x, h, w), uv(h, w)], 1)
        points, mask = [resize(out(x), *side) for out in self.outputs]
        z = points[:, 2:].exp()
        return torch.cat([points[:, :2] * z, z], 1), mask


class Stack(nn.Module):
    """Five levels of convolutions, each twice the size of the one before."""

    def __init__(self, inputs, blocks, out=0, widths=(1024, 256, 128, 64, 32)):
        super().__init__()
        self.inputs = nn.ModuleList([nn.Conv2d(a, b, 1) for a, b in zip(inputs, widths)])
        self.blocks = nn.ModuleList([nn.Sequential(*[Res(w, w, False) for _ in range(n)]) for w, n in zip(widths, blocks)])
        double = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.up = nn.ModuleList([
            nn.Sequential(nn.ConvTranspose2d(a, b, 2, 2) if i < 3 else double, conv3(b if i < 3 else a, b))
            for i, (a, b) in enumerate(zip(widths, widths[1:]))])
        self.output = nn.Conv2d(widths[-1], out, 1) if out else None

    def forward(self, features):
        maps, x = [], 0
        for i, (enter, f) in enumerate(zip(self.inputs, features)):
            x = self.blocks[i](x + enter(f))
            maps.append(x)
            if i < 4:
                x = self.up[i](x)
        return self.output(x) if self.output else maps


class Moge2(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Dino(registers=0, taps=(5, 11, 17, 23))
        self.projects = nn.ModuleList([nn.Conv2d(1024, 1024, 1) for _ in range(4)])
        self.neck = Stack([1026, 2, 2, 2, 2], [0, 2, 2, 2, 0])
        head = lambda out: Stack([1024, 256, 128, 64, 32], [0, 1, 1, 1, 0], out)
        self.points, self.normal, self.mask = head(3), head(3), head(1)
        linear = lambda out: nn.Linear(1024, out)
        self.scale = nn.Sequential(linear(1024), nn.ReLU(), linear(1024), nn.ReLU(), linear(1))

    def refined(self, points, features):
        return points

    def forward(self, image, tokens):
        side, n = image.shape[2:], round(tokens ** 0.5)  # of patches a side, the picture being square
        x = F.interpolate(image, (14 * n, 14 * n), mode="bilinear", antialias=True)
        taps = self.backbone((x - 0.45) / 0.225)
        x = sum(p(patch_map(f, n, n)) for p, f in zip(self.projects, taps))
        planes = [uv(n << level, n << level) for level in range(5)]
        first = torch.cat([x, planes[0]], 1)
        maps = self.neck([first, *planes[1:]])
        points = resize(self.refined(self.points(maps), first), *side)
        normal, mask = F.normalize(resize(self.normal(maps), *side), dim=1), torch.sigmoid(resize(self.mask(maps), *side))
        z = points[:, 2:].exp()
        return torch.cat([points[:, :2] * z, z], 1), normal, mask, self.scale(taps[-1][:, 0]).exp()


class VoxelRes(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.conv1, self.conv2 = nn.LayerNorm(width, 1e-6), voxels.Conv(width, width), voxels.Conv(width, width)

    def forward(self, x, pairs):
        return x + self.conv2(F.silu(self.conv1(F.silu(self.norm(x)), pairs)), pairs)


class Refiner(nn.Module):
    """Corrects log depth by a U-Net on the voxels of all pixels. Like ours it is given a wall, and learns nothing of it."""

    def __init__(self, widths=(32, 64, 128, 256, 512), features=1026):
        super().__init__()
        self.enter, self.leave = nn.Linear(3, widths[0]), nn.Linear(widths[0], 1)
        self.down = nn.ModuleList([VoxelRes(w) for w in widths])
        self.coarser = nn.ModuleList([nn.Linear(a, b) for a, b in zip(widths, widths[1:])])
        self.look = nn.Linear(features, widths[-1])
        self.fuse = nn.Sequential(nn.Linear(2 * widths[-1], widths[-1]), nn.SiLU(), nn.Linear(widths[-1], widths[-1]))
        self.bottom = VoxelRes(widths[-1])
        self.finer = nn.ModuleList([nn.Linear(b, a) for a, b in zip(widths, widths[1:])])
        self.up = nn.ModuleList([VoxelRes(w) for w in widths[:-1]])
        nn.init.zeros_(self.leave.weight), nn.init.zeros_(self.leave.bias)

    def forward(self, points, features):
        h, w = points.shape[2:]
        rows = points[0].flatten(1).T  # [h*w, 3]
        bins = torch.round(rows[:, 2] * 256).long()
        pixel = torch.arange(h * w)
        coords = torch.stack([pixel // w, pixel % w, bins - bins.min()], 1)
        x, kept = self.enter(rows), []
        for level, block in enumerate(self.down):
            table = voxels.pairs(coords)
            x = block(x, table)
            if level < 4:
                parents, parent, count = torch.unique(coords // 2, dim=0, return_inverse=True, return_counts=True)
                kept.append((x, table, parent))
                x = torch.zeros(len(parents), x.shape[1]).index_add_(0, parent, x) / count[:, None]
                x, coords = self.coarser[level](x), parents
        seen = self.look(features[0, :, coords[:, 0], coords[:, 1]].T)
        x = self.bottom(self.fuse(torch.cat([x, seen], 1)), table)
        for level in reversed(range(4)):
            skip, table, parent = kept[level]
            x = self.up[level](self.finer[level](x)[parent] + skip, table)
        return points + F.pad(self.leave(x).view(1, 1, h, w), (0, 0, 0, 0, 2, 0))


class Moge3(Moge2):
    def __init__(self):
        super().__init__()
        self.refiner = Refiner()
        nn.init.zeros_(self.points.output.weight)

    def refined(self, points, features):
        for _ in range(3):
            points = self.refiner(points, features)
        return points


def moge(network, tokens):
    network, image = network(), torch.rand(1, 3, 518, 518)
    return network, {"infer": lambda: network(image, tokens)}
