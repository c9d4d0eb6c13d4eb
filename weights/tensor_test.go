// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"testing"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// odd returns the bytes of values at an address that is not aligned.
func odd(values ...float32) []byte {
	buffer := make([]byte, 1, 1+4*len(values))
	if uintptr(unsafe.Pointer(&buffer[0]))%2 == 1 {
		buffer = make([]byte, 0, 4*len(values))
	}
	start := len(buffer)
	for _, v := range values {
		buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
	}
	return buffer[start:]
}

// copying is a backend without shared buffers. It demands aligned slices, as accelerators do.
type copying struct {
	compute.Backend
	fail bool
}

func (copying) HasSharedBuffers() bool { return false }

func (b copying) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	if b.fail && shape.Size() == 2 {
		return nil, errors.New("out of memory")
	}
	if v := reflect.ValueOf(flat); v.Len() > 0 && v.Pointer()%uintptr(shape.DType.Size()) != 0 {
		return nil, errors.New("slice is not aligned")
	}
	return b.Backend.BufferFromFlatData(device, flat, shape)
}

func TestUploadAnyAlignment(t *testing.T) {
	data := odd(1, 2, 3, 4, 5, 6)
	set := weights.NewSet(map[string]weights.Tensor{
		"a.matrix": {DType: dtypes.Float32, Shape: []int{2, 3}, Data: data},
		"a.scalar": {DType: dtypes.Float32, Data: data[20:]},
		"a.halves": {DType: dtypes.BFloat16, Shape: []int{2}, Data: data[20:24]},
		"b":        {DType: dtypes.Uint8, Shape: []int{3}, Data: data[1:4]},
		"empty":    {DType: dtypes.Float32, Shape: []int{0, 4}},
	})
	for name, backend := range map[string]compute.Backend{
		"local": nil, "shared": fixture.Backend(t), "copying": copying{Backend: fixture.Backend(t)},
	} {
		t.Run(name, func(t *testing.T) {
			device, err := set.Upload(backend)
			require.NoError(t, err)
			require.Len(t, device, set.Len())
			require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, tensors.MustCopyFlatData[float32](device["a.matrix"]))
			require.Equal(t, []int{2, 3}, device["a.matrix"].Shape().Dimensions)
			require.EqualValues(t, 6, tensors.ToScalar[float32](device["a.scalar"]))
			require.Equal(t, data[1:4], tensors.MustCopyFlatData[uint8](device["b"]))
			require.Equal(t, []int{0, 4}, device["empty"].Shape().Dimensions)
			require.Equal(t, dtypes.BFloat16, device["a.halves"].DType())
			for _, d := range device {
				require.NoError(t, d.FinalizeAll())
			}
		})
	}
}

func TestUploadFails(t *testing.T) {
	four := make([]byte, 16)
	set := weights.NewSet(map[string]weights.Tensor{
		"good": {DType: dtypes.Float32, Shape: []int{4}, Data: four},
		"bad":  {DType: dtypes.Float32, Shape: []int{2}, Data: four[:8]},
	})
	_, err := set.Upload(copying{Backend: fixture.Backend(t), fail: true})
	require.ErrorContains(t, err, `"bad"`)
	require.ErrorContains(t, err, "out of memory")
	broken := errors.New("broken")
	device := fixture.NewDevice(fixture.Backend(t))
	device.Fail(func(int, string) error { panic(broken) })
	_, err = set.Upload(device)
	require.ErrorIs(t, err, broken)

	for name, tensor := range map[string]weights.Tensor{
		"short":    {DType: dtypes.Float32, Shape: []int{4}, Data: four[:3]},
		"negative": {DType: dtypes.Float32, Shape: []int{-4}, Data: four},
	} {
		_, err := weights.NewSet(map[string]weights.Tensor{name: tensor}).Upload(nil)
		require.ErrorContains(t, err, name)
	}
}

func TestSub(t *testing.T) {
	set := weights.NewSet(map[string]weights.Tensor{
		"a.x": {DType: dtypes.Uint8, Data: []byte{1}}, "a.y": {DType: dtypes.Uint8, Data: []byte{2}},
		"b.x": {DType: dtypes.Uint8, Data: []byte{3}},
	})
	sub := set.Sub("a.")
	require.Equal(t, []string{"x", "y"}, sub.Names())
	require.NoError(t, sub.Close())
	require.Equal(t, 3, set.Len())
	var zero weights.Set
	require.Zero(t, zero.Len())
	require.Empty(t, zero.Names())
	require.NoError(t, zero.Verify())
	require.NoError(t, zero.Close())
}

func TestCheck(t *testing.T) {
	set := weights.NewSet(map[string]weights.Tensor{
		"m.a": {DType: dtypes.BFloat16, Shape: []int{2}}, "m.b": {DType: dtypes.Int32},
		"m.c": {DType: dtypes.Float32, Shape: []int{2, 3}},
	})
	block := weights.Spec{
		"a": {Shape: []int{2}},
		"b": {DTypes: []dtypes.DType{dtypes.Int32}},
		"c": {Shape: []int{2, 3}},
		"d": {Shape: []int{9}, Optional: true},
	}
	spec := weights.Spec{}
	spec.Add("m.", block)
	require.NoError(t, set.Check(spec))

	spec.Add("n.", block)
	delete(spec, "m.a")
	spec["m.b"] = weights.Param{}
	spec["m.c"] = weights.Param{Shape: []int{3, 2}, DTypes: []dtypes.DType{dtypes.Float64}}
	spec["k"] = weights.Param{}
	err := set.Check(spec)
	require.ErrorIs(t, err, weights.ErrMismatch)
	require.NotErrorIs(t, err, weights.ErrFormat)
	var diff *weights.MismatchError
	require.ErrorAs(t, err, &diff)
	require.Equal(t, &weights.MismatchError{
		Missing:    []string{"k", "n.a", "n.b", "n.c"},
		Unexpected: []string{"m.a"},
		Shape:      []string{"m.c: shape [2 3], want [3 2]"},
		DType: []string{"m.b: dtype Int32, want one of [Float32 Float16 BFloat16]",
			"m.c: dtype Float32, want one of [Float64]"},
	}, diff)
	require.Equal(t, "weights: tensors do not match the model: 4 missing (k, n.a, n.b, n.c); 1 unexpected (m.a); "+
		"1 of another shape (m.c: shape [2 3], want [3 2]); 2 of another dtype (m.b: dtype Int32, want one of "+
		"[Float32 Float16 BFloat16], m.c: dtype Float32, want one of [Float64])", err.Error())
}
