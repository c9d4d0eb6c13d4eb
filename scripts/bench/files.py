# Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0
"""Writing files as the original does."""
import numpy as np


def ply():
    """Packs splats, a tuple of attributes for each: a hundredth of a scene's 13.6 million."""
    rows = np.random.rand(136_000, 17).astype("f4")

    def pack():
        elements = np.empty(len(rows), dtype=[(f"p{i}", "f4") for i in range(17)])
        elements[:] = list(map(tuple, rows))
        return elements.tobytes()
    return None, {"write": pack}
