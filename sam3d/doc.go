// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package sam3d turns one photograph and a mask of an object into Gaussian splats, a triangle mesh and a pose, with
// the SAM 3D Objects model (Meta, 2025) compiled by GoMLX.
//
//	pipeline, err := sam3d.Open(ctx, "checkpoints", sam3d.Options{Backend: "xla:cpu"})
//	defer pipeline.Close()
//	result, err := pipeline.Generate(ctx, sam3d.Request{Image: photo, Mask: mask})
//
// For several objects of one photograph, Pipeline.Prepare does once what they share.
//
// # Frames, units and orders
//
// Object frame: the cube [-0.5, 0.5]³ centred on 0, z up. Voxels, Gaussians and mesh are in it. Voxel (x, y, z) of a
// grid of R covers [x/R, (x+1)/R] - 0.5 on each axis.
//
// Camera frame (PyTorch3D's): +X left, +Y up, +Z forward, away from the camera. Point maps are in it and the pose leads
// to it. Its unit is that of the point map. The depth model of the MLX bundle, MoGe-3, and MoGe-2 estimate metres:
// translation and scale of the pose are then metric, the scale being the length of the object cube's side. That of the
// official checkpoint, MoGe-1, knows distances up to an unknown factor of the scene. Result.Metric tells which it is.
//
// Pose: a point p of the object frame, as a row, is at (p * Scale) R(Rotation) + Translation in the camera frame, where
// R(q) is the ordinary rotation matrix of the quaternion q; for columns the rotation is therefore R(q)ᵀ.
//
// Quaternions are (w, x, y, z) everywhere in Go and (x, y, z, w) in glTF files only.
//
// glTF: y up. Package export writes (x, z, -y) of the object frame.
//
// Values of splat.Gaussians are activated (linear scales, opacities in 0 to 1); see there.
//
// # Concurrency
//
// A Pipeline may be used from many goroutines. One Generate runs at a time, the others wait in the order they came.
package sam3d
