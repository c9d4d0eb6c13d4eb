# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""Reads the sample files of TestWriteSamples with other projects' readers and compares every number.

    EXPORT_DIR=/tmp/samples go test ./export -run TestWriteSamples
    python3 export/check_readers.py /tmp/samples [path of splat-transform]

It needs numpy, trimesh and plyfile, and ends with an error at the first difference. The folder must exist.
"""
import csv
import pathlib
import subprocess
import sys

import numpy as np
import trimesh
from plyfile import PlyData

folder = pathlib.Path(sys.argv[1])
SH, SCALE, ROT = ([f"{name}_{i}" for i in range(n)] for name, n in (("f_dc", 3), ("scale", 3), ("rot", 4)))
PARTS = {"means": ["x", "y", "z"], "sh": SH, "logits": ["opacity"], "logscales": SCALE, "rotations": ROT}


def bare(name, width, dtype="<f4"):
    return np.fromfile(folder / name, dtype).reshape(-1, width)


def same(what, got, want, atol=0.0):
    assert got.shape == want.shape, (what, got.shape, want.shape)
    got, want = got.astype(float), want.astype(float)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        worst = np.max(np.where(got == want, 0, np.abs(got - want)))
    assert worst <= atol, (what, worst)
    print(f"{what:44s} {got.shape!s:12s} largest difference {worst:.2g}")


def splats(name):
    vertex = PlyData.read(folder / name)["vertex"]
    for part, columns in PARTS.items():
        want = bare(f"splats.{part}", len(columns))
        same(f"{name} {part}, plyfile", np.stack([vertex[c] for c in columns], 1), want)
    zero = [p.name for p in vertex.properties if p.name.startswith(("f_rest", "n"))]
    assert len(zero) in (3, 48) and not any(np.any(vertex[c]) for c in zero)


def mesh(name):
    vertices, faces, colors = bare(f"{name}.vertices", 3), bare(f"{name}.faces", 3, "<u4"), bare(f"{name}.colors", 3)
    y_up = vertices[:, [0, 2, 1]] * [1, 1, -1]
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    for file in (f"{name}.glb", f"{name}_raw.glb"):
        if (folder / file).exists():
            (got,) = trimesh.load(folder / file, process=False).geometry.values()
            same(f"{file} vertices, trimesh", got.vertices, y_up)
            same(f"{file} faces, trimesh", got.faces, faces)
            if "raw" in file:
                same(f"{file} colours, trimesh (bytes)", got.visual.vertex_colors[:, :3], 255 * colors, 0.51)
            else:
                got = got.visual.vertex_attributes["color"]
                same(f"{file} colours, trimesh (16 bits)", got[:, :3], 65535 * linear, 0.6)
    got = trimesh.load(folder / f"{name}.obj", process=False, maintain_order=True)
    same(f"{name}.obj vertices, trimesh", got.vertices, vertices, 1e-8)
    same(f"{name}.obj faces, trimesh", got.faces, faces)
    same(f"{name}.obj colours, trimesh (bytes)", got.visual.vertex_colors[:, :3], 255 * colors, 1.01)
    got = trimesh.load(folder / f"{name}.stl", process=False)
    same(f"{name}.stl triangles, trimesh", got.triangles, vertices[faces])


for file in ("splats.ply", "splats_padded.ply"):
    splats(file)
for file in ("hook", "ball"):
    mesh(file)
posed = trimesh.load(folder / "hook_posed.glb", process=False).to_geometry()  # with the node's transform applied
same("hook_posed.glb in the world, trimesh", posed.vertices, bare("hook_posed.means", 3), 1e-6)
assert posed.volume > 0 and posed.is_watertight
if len(sys.argv) > 2:
    subprocess.run([sys.argv[2], "-w", folder / "splats.ply", folder / "splats.csv"], check=True, stdout=subprocess.DEVNULL)
    rows = list(csv.DictReader(open(folder / "splats.csv")))
    for part, columns in PARTS.items():
        got = np.array([[float(row[c]) for c in columns] for row in rows])
        same(f"splats.ply {part}, splat-transform", got, bare(f"splats.{part}", len(columns)), 1e-6)
