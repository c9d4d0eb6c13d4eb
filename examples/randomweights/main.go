// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Command randomweights writes a checkpoint of the released size, or a tiny one, filled with random numbers: to measure
// and to test every stage at its real size without the released weights. What such a model makes means nothing.
//
//	go run ./examples/randomweights -out checkpoints -dtype bfloat16 -backend xla:cpu
//	go run ./examples/generate -model checkpoints -image photo.jpg -mask chair.png -backend xla:cpu
//
// Tensors are streamed to the disk one by one. Their values depend on the seed, the component and the name alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx/compute/dtypes"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/sam3d" // and the backends
	"github.com/gomlx3d/image3d/weights"
)

func main() {
	cli.Main(func(ctx context.Context, args []string, _, stderr io.Writer) int { return run(ctx, args, stderr) })
}

// dtypeName is a precision on the command line and in config.json.
type dtypeName string

var precisions = map[dtypeName]dtypes.DType{
	"float32": dtypes.Float32, "float16": dtypes.Float16, "bfloat16": dtypes.BFloat16,
}

// job is one checkpoint to be written.
type job struct {
	ctx       context.Context
	out       string
	layout    weights.Layout
	model     model
	dtypeName dtypeName
	dtype     dtypes.DType
	seed      uint64
	voxels    int
	force     bool
	backend   string
	bias      float64 // of occupancy
	messages  io.Writer
}

// run is the program. It returns the exit status: 0, 1 for a failure, 2 for a wrong command line.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	p := cli.Program{Name: "randomweights", Stderr: stderr}
	j, err := parse(ctx, args, stderr)
	if err != nil {
		return p.Refuse(err)
	}
	return p.End(j.write())
}

func parse(ctx context.Context, args []string, stderr io.Writer) (job, error) {
	j := job{ctx: ctx, messages: stderr}
	var layout, precision, scale string
	flags := flag.NewFlagSet("randomweights", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&j.out, "out", "", "folder of the checkpoint")
	flags.StringVar(&layout, "layout", string(weights.Official), "official or mlx (without a depth model)")
	flags.StringVar(&precision, "dtype", "bfloat16", "float32, float16 or bfloat16: 14, 8 or 8 GB at the released size; the depth model stays float32")
	flags.StringVar(&scale, "scale", "released", "released or tiny")
	flags.Uint64Var(&j.seed, "seed", 1, "of the weights")
	flags.IntVar(&j.voxels, "voxels", 8000, "about how many voxels an object is to have, of 262,144 at the released size")
	flags.StringVar(&j.backend, "backend", "", "backend that measures the voxels: go, xla:cpu, ... (default: $GOMLX_BACKEND, or go)")
	flags.BoolVar(&j.force, "force", false, "overwrite files that exist")
	if err := flags.Parse(args); err != nil {
		return j, err
	}
	var known bool
	j.layout, j.dtypeName = weights.Layout(layout), dtypeName(precision)
	switch j.dtype, known = precisions[j.dtypeName]; {
	case flags.NArg() > 0:
		return j, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case j.out == "":
		return j, errors.New("-out is needed")
	case !known:
		return j, fmt.Errorf("-dtype: unknown %q", precision)
	case j.layout != weights.Official && j.layout != weights.MLX:
		return j, fmt.Errorf("-layout: unknown %q", layout)
	case j.voxels < 1:
		return j, fmt.Errorf("-voxels %d: at least one is needed", j.voxels)
	}
	switch scale {
	case "released":
		j.model = released()
	case "tiny":
		j.model = tiny()
	default:
		return j, fmt.Errorf("-scale: unknown %q", scale)
	}
	if j.backend == "" {
		j.backend = os.Getenv("GOMLX_BACKEND")
	}
	if j.backend == "" {
		j.backend = sam3d.DefaultBackend
	}
	return j, nil
}

// write writes the checkpoint.
func (j job) write() error {
	if err := os.MkdirAll(j.out, 0o777); err != nil {
		return err
	}
	begin := time.Now()
	bias, voxels, err := j.measureBias(j.ctx, max(1, int(float64(j.voxels)/j.model.gain)))
	if err != nil {
		return err
	}
	j.bias = bias
	fmt.Fprintf(j.messages, "an occupancy bias of %.4g leaves %d voxels of noise, about %d of an object (%s)\n", bias, voxels,
		int(float64(voxels)*j.model.gain), time.Since(begin).Round(time.Second))
	if j.layout == weights.MLX {
		return j.writeBundle()
	}
	return j.writeOfficial()
}

// entries are the tensors of a component, under names with a prefix. If last is not nil, it chooses those whose second
// axis is stored as the last.
func (j job) entries(component, prefix string, last func(component, name string, shape []int) bool) []weights.Entry {
	dtype := j.dtype
	if component == weights.Depth {
		dtype = dtypes.Float32 // as released
	}
	var entries []weights.Entry
	for name, p := range j.model.specs()[component] {
		d := drawOf(component, name, p.Shape, j.model)
		if component == weights.SSDecoder && name == occupancyBias {
			d.listed = []float64{j.bias}
		}
		write := func(w io.Writer) error {
			if err := j.ctx.Err(); err != nil {
				return err
			}
			return d.write(w, j.seed, component, name, p.Shape, dtype)
		}
		e := weights.Entry{Name: prefix + name, DType: dtype, Shape: p.Shape, Write: write}
		if last != nil && last(component, name, p.Shape) {
			e = moved(e)
		}
		entries = append(entries, e)
	}
	return entries
}

// say tells what is being written.
func (j job) say(file string, entries []weights.Entry) {
	size := 0
	for _, e := range entries {
		size += elements(e.Shape) * e.DType.Size()
	}
	fmt.Fprintf(j.messages, "%s: %d tensors, %.2f GB\n", file, len(entries), float64(size)/1e9)
}

// writeText writes a small file.
func (j job) writeText(name string, text []byte) error {
	path := filepath.Join(j.out, name)
	mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !j.force {
		mode |= os.O_EXCL
	}
	file, err := os.OpenFile(path, mode, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}
