# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""FlexiCubes (Shen et al. 2023, arXiv:2308.05371) on a full grid, all cubes of it, as the original works."""
import functools

import torch

EDGES = [(0, 1), (1, 5), (4, 5), (0, 4), (2, 3), (3, 7), (6, 7), (2, 6), (2, 0), (3, 1), (7, 5), (6, 4)]
CORNERS = torch.tensor([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
WEIGHTS = 21  # of a cube: 12 of edges, 8 of corners, one of its diagonals


def case_patches(case):
    """The patches of a case as lists of edges, and the faces whose inside corners are diagonal."""
    inside = lambda c: case >> c & 1
    crossing = [e for e, (a, b) in enumerate(EDGES) if inside(a) != inside(b)]
    group, ambiguous = {e: e for e in crossing}, []

    def join(a, b):
        old, new = group[a], group[b]
        for e in crossing:
            if group[e] == old:
                group[e] = new
    for axis in range(3):
        for side in (0, 1):
            face = [e for e in crossing if all(c >> axis & 1 == side for c in EDGES[e])]
            if len(face) == 2:
                join(*face)
            elif len(face) == 4:
                ambiguous.append([(2 * side - 1) * (axis == a) for a in range(3)])
                for corner in range(8):
                    if inside(corner) and corner >> axis & 1 == side:
                        join(*[e for e in face if corner in EDGES[e]])
    count = sum(map(inside, range(8)))
    few = 1 if count <= 4 else 0
    patches = [[e for e in crossing if group[e] == g] for g in set(group.values())]
    patches.sort(key=lambda p: (min(c for e in p for c in EDGES[e] if inside(c) == few), min(p)))
    return patches, ambiguous, count


@functools.cache
def tables():
    """patches [256, 4, 7] padded with -1; their number [256]; whether a case may be inverted, and towards which cube [256, 4]."""
    patches, number, check = torch.full((256, 4, 7), -1), torch.zeros(256, dtype=torch.long), torch.zeros(256, 4, dtype=torch.long)
    for case in range(256):
        found, ambiguous, inside = case_patches(case)
        number[case] = len(found)
        for i, patch in enumerate(found):
            patches[case, i, :len(patch)] = torch.tensor(patch)
        if inside >= 5 and len(ambiguous) == 1:
            check[case] = torch.tensor([1, *ambiguous[0]])
    return patches, number, check


def corner_index(coords, size):
    """Numbers of the corners of cubes [N, 3] -> [N, 8], in the grid of size+1 points an axis."""
    points = coords[:, None] + CORNERS
    return (points[..., 0] * (size + 1) + points[..., 1]) * (size + 1) + points[..., 2]


def dense(features, coords, size):
    """What voxels say, as fields of the whole grid: distance, positions and colours of points, weights of cubes."""
    corners = corner_index(coords, size).view(-1)
    values = torch.cat([features[:, :8, None] - 1 / size, features[:, 8:32].unflatten(1, (8, 3)), features[:, 53:].unflatten(1, (8, 6))], 2)
    touched, inverse = torch.unique(corners, return_inverse=True)
    mean = torch.zeros(len(touched), 10).scatter_reduce_(
        0, inverse[:, None].expand(-1, 10), values.view(-1, 10), "mean", include_self=False)
    points = torch.zeros((size + 1) ** 3, 10)
    points[:, 0] = 1
    points[touched] = mean
    weights = torch.zeros(size ** 3, WEIGHTS)
    weights[(coords[:, 0] * size + coords[:, 1]) * size + coords[:, 2]] = features[:, 32:53]
    axis = torch.arange(size + 1)
    grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).view(-1, 3)
    positions = grid / size - 0.5 + (1 - 1e-8) / (2 * size) * torch.tanh(points[:, 1:4])
    return points[:, 0], positions, torch.sigmoid(points[:, 4:]), weights


def case_numbers(inside, surface, size):
    """Case of each surface cube, after inversion of those that meet their like at an ambiguous face."""
    _, _, check = tables()
    case = (inside * (1 << torch.arange(8))).sum(1)
    flags = check[case]
    of_cube = torch.zeros(size ** 3, dtype=torch.long)
    of_cube[surface] = flags[:, 0]
    asked = torch.nonzero(flags[:, 0]).view(-1)
    cube = surface[asked]
    other = torch.stack([cube // size // size, cube // size % size, cube % size], 1) + flags[asked, 1:]
    within = ((other >= 0) & (other < size)).all(1)
    asked, other = asked[within], other[within]
    asked = asked[of_cube[(other[:, 0] * size + other[:, 1]) * size + other[:, 2]] == 1]
    case[asked] = 255 - case[asked]
    return case


def extract(distance, positions, colours, weights, size):
    """Vertices [V, 3], faces [F, 3] and colours [V, 6]."""
    patches, number, _ = tables()
    axis = torch.arange(size)
    cubes = corner_index(torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).view(-1, 3), size)
    inside = (distance < 0)[cubes]
    count = inside.sum(1)
    surface = torch.nonzero((count > 0) & (count < 8)).view(-1)
    corners, raw = cubes[surface], weights[surface]
    beta, alpha = 0.99 * torch.tanh(raw[:, :12]) + 1, 0.99 * torch.tanh(raw[:, 12:20]) + 1
    gamma = 0.99 * torch.sigmoid(raw[:, 20]) + 0.005
    case = case_numbers(inside[surface], surface, size)

    ends = torch.tensor(EDGES)
    edges, inverse, shared = torch.unique(corners[:, ends].view(-1, 2), dim=0, return_inverse=True, return_counts=True)
    cut = (distance[edges] < 0).sum(1) == 1
    dual = torch.full((len(surface), 12), -1)  # the vertex of the patch that an edge belongs to
    vertices, attributes, gammas = [], [], []
    for n in range(1, 5):
        cube = torch.nonzero(number[case] == n).view(-1)
        patch = patches[case[cube], :n].flatten(0, 1)  # [P, 7]
        row = cube.repeat_interleave(n)[:, None].expand(-1, 7)
        valid = patch >= 0
        edge = patch.clamp(min=0)
        a, b = ends[edge].unbind(-1)
        s_a, s_b = [(distance[corners[row, c]] * alpha[row, c])[..., None] for c in (a, b)]
        blend = lambda field: (field[corners[row, a]] * s_b - field[corners[row, b]] * s_a) / torch.where(valid[..., None], s_b - s_a, 1)
        share = (beta[row, edge] * valid)[..., None]
        total = share.sum(1)
        first = sum(map(len, vertices))
        vertices.append((share * blend(positions)).sum(1) / total)
        attributes.append((share * blend(colours)).sum(1) / total)
        gammas.append(gamma[row[:, 0]])
        dual[row[valid], edge[valid]] = torch.arange(first, first + len(patch))[:, None].expand(-1, 7)[valid]
    vertices, attributes, gammas = torch.cat(vertices), torch.cat(attributes), torch.cat(gammas)

    used = (cut & (shared == 4))[inverse]
    edge, order = torch.sort(inverse[used], stable=True)
    quads, edge = dual.view(-1)[used][order].view(-1, 4), edge.view(-1, 4)[:, 0]
    outward = distance[edges[edge, 0]] > 0
    quads = torch.cat([quads[outward][:, [0, 1, 3, 2]], quads[~outward][:, [2, 3, 1, 0]]])
    g = gammas[quads]
    straight = (g[:, 0] * g[:, 2] > g[:, 1] * g[:, 3])[:, None]
    faces = torch.where(straight, quads[:, [0, 1, 2, 0, 2, 3]], quads[:, [0, 1, 3, 3, 1, 2]]).view(-1, 3)
    return vertices, faces, attributes
