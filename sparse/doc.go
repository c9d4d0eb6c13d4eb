// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package sparse computes on lists of voxels: an array of coordinates (batch item, x, y, z) and an array of features,
// one row each for every occupied cell of a grid. It serves the latent flow and the Gaussian and mesh decoders.
//
// It has two halves. Topology is made on the host in plain Go, once for each object and resolution:
//
//	Coords     voxels, checked: New, Downsample, Subdivide
//	Neighbors  who is next to whom, for the 26 offsets of a 3x3x3 convolution
//	Pooling    parents on the grid of half the resolution
//	Windows    cubes of voxels that attend to each other, packed into bins
//	Slab       a part of the voxels with what surrounds it, for work that does not fit memory as a whole
//
// Each has an Upload method that returns Arrays, device tensors that are passed to a nn.Program with Args and taken
// back inside its graph function, in the same order, with Read. The other half is graph functions over them: Conv,
// ConvUpsampled, ConvSubdivided, ConvChildren, Downsample, Upsample, Subdivide, GroupNorm, attention and blocks.
//
//	rows, err := coords.Upload(backend)
//	near, err := coords.Neighbors().Upload(backend)
//	conv := nn.NewProgram(backend, "conv", func(p nn.Params, nodes []*Node) []*Node {
//		in := sparse.Read(nodes)
//		x, rows, near := in.Node(), in.Rows(), in.Neighbors()
//		return []*Node{sparse.Conv(p, x, rows, near)}
//	})
//	y, err := conv.Call1(weights.In("conv"), sparse.Args(x, rows, near)...)
//
// # Padding
//
// Compiled programs are bound to shapes, and no two objects have the same number of voxels. Therefore every row array
// on the device is padded: a Layout of Count voxels has Rows rows, the next of eight steps an octave (at most 12.5 %
// more, 5 % on average), and always at least one more than Count. The lists of Neighbors have one of nine triples of
// lengths for a given number of rows, and the bins of Windows likewise few numbers. Few objects compile anything once
// some dozens have been seen; programs whose shapes are Rows alone, among them the transformer blocks of the latent
// flow, hardly ever.
//
// Padding rows hold finite values of no meaning. No function here lets them reach a voxel: convolutions and pooling
// set them to zero before they gather (a padded pair adds the last row, which is zero then), attention masks them as
// keys, and norms over voxels leave them out. Functions that work row by row need not care.
//
// Source: facebookresearch/sam-3d-objects, model/backbone/tdfy_dit/modules/sparse, with spconv 2.3.8. Submanifold
// convolution: Graham et al. 2018 (arXiv:1711.10275); shifted windows: Liu et al. 2021 (arXiv:2103.14030).
//
// Dimension letters: B batch items, N rows (padded), C channels, H heads, K head width, P pairs, L length of a bin.
package sparse
