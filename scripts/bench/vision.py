# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""Vision transformers: DINOv2 and the image encoder of SAM 3."""
import torch
from torch import nn
from torch.nn import functional as F

from .layers import SelfAttention, attend, mlp


class Block(nn.Module):
    """A block of DINOv2, with its scales of what it adds."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.attention, self.mlp = SelfAttention(width, heads), mlp(width, 4 * width, nn.GELU())
        self.scale1, self.scale2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))

    def forward(self, x):
        x = x + self.scale1 * self.attention(self.norm1(x))
        return x + self.scale2 * self.mlp(self.norm2(x))


class Dino(nn.Module):
    """ViT-L/14: [1, 3, 14h, 14w] -> the normed tokens of the tapped blocks, [1, 1+registers+h*w, D] each."""

    def __init__(self, registers, taps=(23,), width=1024, heads=16, depth=24, side=37):
        super().__init__()
        self.taps, self.side = taps, side
        self.patches = nn.Conv2d(3, width, 14, 14)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.registers = nn.Parameter(torch.randn(1, registers, width)) if registers else None
        self.position = nn.Parameter(torch.randn(1, 1 + side * side, width))
        self.unused = nn.Parameter(torch.zeros(1, width))  # the mask token of training
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, 1e-6)

    def table(self, h, w):
        first, rest = self.position[:, :1], self.position[:, 1:]
        if (h, w) != (self.side, self.side):
            grid = rest.view(1, self.side, self.side, -1).permute(0, 3, 1, 2)
            rest = F.interpolate(grid, (h, w), mode="bicubic").permute(0, 2, 3, 1).flatten(1, 2)
        return torch.cat([first, rest], 1)

    def forward(self, image):
        x = self.patches(image)
        h, w = x.shape[2:]
        x = torch.cat([self.first, x.flatten(2).transpose(1, 2)], 1) + self.table(h, w)
        if self.registers is not None:
            x = torch.cat([x[:, :1], self.registers, x[:, 1:]], 1)
        out = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in self.taps:
                out.append(self.norm(x))
        return out


class RotaryAttention(SelfAttention):
    """Attention in a square of side x side tokens, whose columns and rows turn queries and keys."""

    def __init__(self, width, heads, side, scale):
        super().__init__(width, heads)
        self.side = side
        frequency = 10000.0 ** (-torch.arange(16) / 16)
        row, col = torch.meshgrid(torch.arange(side) * scale, torch.arange(side) * scale, indexing="ij")
        phase = torch.cat([col.reshape(-1, 1) * frequency, row.reshape(-1, 1) * frequency], 1)
        self.register_buffer("turn", torch.polar(torch.ones_like(phase), phase))

    def rotate(self, x):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * self.turn).flatten(-2)

    def forward(self, x):
        q, k, v = self.project(x.flatten(1, 2))
        return self.out(attend(self.rotate(q), self.rotate(k), v)).view(x.shape)


class SamBlock(nn.Module):
    def __init__(self, everywhere, width=1024, heads=16, hidden=4736, grid=72, window=24):
        super().__init__()
        self.window = 0 if everywhere else window
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = RotaryAttention(width, heads, grid if everywhere else window, window / grid if everywhere else 1)
        self.mlp = mlp(width, hidden, nn.GELU())

    def forward(self, x):
        h, s = self.norm1(x), self.window
        if s:
            b, n, width = x.shape[0], x.shape[1] // s, x.shape[3]
            h = h.view(b, n, s, n, s, width).transpose(2, 3).reshape(-1, s, s, width)
            h = self.attention(h).view(b, n, n, s, s, width).transpose(2, 3).reshape(x.shape)
        else:
            h = self.attention(h)
        x = x + h
        return x + self.mlp(self.norm2(x))


class Sam(nn.Module):
    """The image encoder of SAM 3 with the neck for clicks: [1, 3, 1008, 1008] -> maps of 288, 144 and 72 a side."""

    def __init__(self, width=1024, narrow=256):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 14, 14, bias=False)
        self.position = nn.Parameter(torch.randn(1, 1 + 24 * 24, width))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList([SamBlock(i % 8 == 7) for i in range(32)])
        level = lambda start, c: nn.Sequential(*start, nn.Conv2d(c, narrow, 1), nn.Conv2d(narrow, narrow, 3, padding=1))
        self.neck = nn.ModuleList([
            level([nn.ConvTranspose2d(width, 512, 2, 2), nn.GELU(), nn.ConvTranspose2d(512, 256, 2, 2)], 256),
            level([nn.ConvTranspose2d(width, 512, 2, 2)], 512), level([], width)])
        self.fine, self.middle = nn.Conv2d(narrow, 32, 1), nn.Conv2d(narrow, 64, 1)
        self.no_memory = nn.Parameter(torch.randn(1, narrow, 1, 1))

    def forward(self, image):
        x = self.patches(image).permute(0, 2, 3, 1)
        x = self.norm(x + self.position[:, 1:].view(1, 24, 24, -1).repeat(1, 3, 3, 1))
        for block in self.blocks:
            x = block(x)
        x = x.permute(0, 3, 1, 2)
        fine, middle, coarse = [level(x) for level in self.neck]
        return self.fine(fine), self.middle(middle), coarse + self.no_memory


def dinov2():
    network, image = Dino(registers=4), torch.randn(1, 3, 518, 518)
    return network, {"encode": lambda: network(image)}


def sam():
    network, image = Sam(), torch.randn(1, 3, 1008, 1008)
    return network, {"encode": lambda: network(image)}


def enlarge():
    """Logits of eight masks at the size of a picture of 1920 x 1080, cut at zero."""
    logits = torch.randn(1, 8, 288, 288)
    enlarged = lambda: F.interpolate(logits, (1080, 1920), mode="bilinear", align_corners=False)
    return None, {"enlarge": lambda: (enlarged() > 0).to(torch.uint8) * 255}
