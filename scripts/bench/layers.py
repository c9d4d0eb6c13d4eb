# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""Layers that the peers share. Shapes: B batch, T tokens, D width, H heads, K width of a head."""
import math

import torch
from torch import nn
from torch.nn import functional as F


def plain(x, eps=1e-6):
    """Layer norm without parameters."""
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def split(x, parts, heads):
    """[B, T, parts*D] -> parts x [B, H, T, K]"""
    b, t, _ = x.shape
    return x.view(b, t, parts, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)


def attend(q, k, v, mask=None):
    """[B, H, T, K] -> [B, T, D]"""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


def mlp(width, hidden, activation):
    return nn.Sequential(nn.Linear(width, hidden), activation, nn.Linear(hidden, width))


class HeadNorm(nn.Module):
    """Scales each head's values to a length that is learned."""

    def __init__(self, heads, width):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(heads, width))

    def forward(self, x):
        return F.normalize(x, dim=-1) * self.gamma[:, None] * math.sqrt(x.shape[-1])


class SelfAttention(nn.Module):
    def __init__(self, width, heads, head_norms=False):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        norm = (lambda: HeadNorm(heads, width // heads)) if head_norms else nn.Identity
        self.q_norm, self.k_norm = norm(), norm()

    def project(self, x):
        q, k, v = split(self.qkv(x), 3, self.heads)
        return self.q_norm(q), self.k_norm(k), v

    def forward(self, x, mask=None):
        return self.out(attend(*self.project(x), mask))


class CrossAttention(nn.Module):
    """Projects the condition tokens in every call, as the original does."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x, tokens):
        return self.out(attend(*split(self.q(x), 1, self.heads), *split(self.kv(tokens), 2, self.heads)))


class TimeEmbedding(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, t):
        phase = t * torch.exp(torch.arange(128) * (-math.log(10000) / 128))
        return self.mlp(torch.cat([phase.cos(), phase.sin()])[None])


def grid_embedding(coords, width):
    """Sines and cosines of integer coordinates [N, 3] -> [N, width]"""
    n = width // 6
    phase = coords[:, :, None] * 10000.0 ** (-torch.arange(n) / n)
    flat = torch.cat([phase.sin(), phase.cos()], 2).flatten(1)
    return F.pad(flat, (0, width - flat.shape[1]))
