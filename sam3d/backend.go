// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // "go"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gomlx3d/image3d/internal/nn"
)

// DefaultBackend is used when neither Options.Backend nor $GOMLX_BACKEND names one: GoMLX's pure Go backend, which
// needs no library and is meant for small models. At the released size use "xla:cpu", "xla:cuda" or "xla:rocm".
const DefaultBackend = "go"

// backends holds the backends opened so far. Starting a client costs seconds and device memory, and a process gains
// nothing from a second one, so they live as long as the process.
var backends struct {
	sync.Mutex
	byConfig map[string]compute.Backend
}

// OpenBackend returns the backend that config names, as Options.Backend does, opening it on first use: for the packages
// that are used by themselves. It must not be finalized. An empty config means $GOMLX_BACKEND, then DefaultBackend. There
// is no fall-back: a backend that cannot be opened is an ErrBackend.
//
// On CUDA float32 products are of float32: "xla:cuda,tf32" rounds their factors to TF32 instead, which is faster and
// keeps 10 bits of 23.
func OpenBackend(config string) (backend compute.Backend, err error) {
	if config == "" {
		config = os.Getenv(compute.ConfigEnvVar)
	}
	if config == "" {
		config = DefaultBackend
	}
	if config == "go" {
		// By default the pure Go backend runs operations in parallel, and then hangs when as many large products as it
		// has workers wait for workers at once (compute v0.1.3, workerspool.Saturate).
		config = "go:ops_sequential"
	}
	config = withoutTF32(config)
	backends.Lock()
	defer backends.Unlock()
	if backend := backends.byConfig[config]; backend != nil {
		return backend, nil
	}
	defer func() {
		if r := recover(); r != nil { // GoMLX panics for a name it does not know
			err = fmt.Errorf("%w %q: %v", ErrBackend, config, r)
		}
	}()
	name, plugin, _ := strings.Cut(config, ":")
	switch name {
	case "go":
	case "xla", "stablehlo", "shlo", "hlo", "pjrt":
		if err := checkPlugin(plugin); err != nil {
			return nil, fmt.Errorf("%w %q: %w", ErrBackend, config, err)
		}
	default:
		return nil, fmt.Errorf("%w %q: unknown; there are go, xla:cpu, xla:cuda and xla:rocm", ErrBackend, config)
	}
	backend, err = compute.NewWithConfig(config)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrBackend, config, err)
	}
	if err := probe(backend); err != nil {
		backend.Finalize()
		return nil, fmt.Errorf("%w %q: %w", ErrBackend, config, err)
	}
	if backends.byConfig == nil {
		backends.byConfig = make(map[string]compute.Backend)
	}
	backends.byConfig[config] = backend
	return backend, nil
}

// withoutTF32 has a CUDA backend multiply in float32 unless the configuration says otherwise: go-xla's default is TF32.
func withoutTF32(config string) string {
	name := strings.ToLower(config)
	if strings.Contains(name, "tf32") || !strings.Contains(name, ":") ||
		!strings.Contains(name, "cuda") && !strings.Contains(name, "nvidia") {
		return config
	}
	return config + ",tf32=false"
}

// probe runs a first small program, because a plugin may not support the device that it found, and would tell only when
// an object is half made.
func probe(backend compute.Backend) error {
	program := nn.NewProgram(backend, "probe", func(_ nn.Params, in []*Node) []*Node { return []*Node{Add(in[0], in[0])} })
	defer program.Close()
	out, err := program.Call1(nil, []float32{1, 2})
	var sums []float32
	if err == nil {
		defer nn.Free(out)
		sums, err = tensors.CopyFlatData[float32](out)
	}
	if err == nil && !slices.Equal(sums, []float32{2, 4}) {
		err = fmt.Errorf("1 + 1 and 2 + 2 are %v", sums)
	}
	if err == nil {
		return nil
	}
	devices := make([]string, backend.NumDevices())
	for i := range devices {
		devices[i] = backend.DeviceDescription(compute.DeviceNum(i))
	}
	return fmt.Errorf("%s cannot run a first program on its devices %q: %w", backend.Description(), devices, err)
}
