// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package nn holds the graph functions that the models share: projections, norms, attention, embeddings, convolutions
// and resizing, and Program, which compiles a graph function and runs it.
//
// Graph functions take and return nodes and panic with an error on a wrong shape, as graph functions do; Program.Call
// returns those as errors. Weights keep the precision of their file and are widened to the activations' dtype in the
// graph, so that half-precision weights cost half the memory whatever the arithmetic is.
//
// Dimension letters: B batch, N or T tokens, S keys, C channels, D model width, H heads, K head width.
package nn

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// ErrClosed is returned by calls of a closed Program.
var ErrClosed = errors.New("nn: program is closed")

// Weights are a module's parameters on a device, by their checkpoint names.
type Weights map[string]*tensors.Tensor

// In returns the parameters below a module's name ("blocks.3"), under the rest of their names. Nothing is copied.
func (w Weights) In(format string, args ...any) Weights {
	prefix := fmt.Sprintf(format, args...) + "."
	sub := make(Weights)
	for name, t := range w {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			sub[rest] = t
		}
	}
	return sub
}

// Only returns the parameters of the named modules and drops the others, names unchanged.
func (w Weights) Only(modules ...string) Weights {
	sub := make(Weights)
	for name, t := range w {
		if slices.ContainsFunc(modules, func(m string) bool { return name == m || strings.HasPrefix(name, m+".") }) {
			sub[name] = t
		}
	}
	return sub
}

// Free releases the parameters' device memory.
func (w Weights) Free() { Free(slices.Collect(maps.Values(w))...) }

// Free releases the device memory of tensors; nil ones are ignored.
func Free(ts ...*tensors.Tensor) {
	for _, t := range ts {
		if t != nil && t.Ok() {
			_ = t.FinalizeAll() // fails only for what is already gone
		}
	}
}

// Params are the parameters of a module inside a graph.
type Params struct {
	graph  *Graph
	prefix string
	nodes  map[string]*Node
}

// Graph returns the graph under construction.
func (p Params) Graph() *Graph { return p.graph }

// In returns the parameters of a sub-module.
func (p Params) In(format string, args ...any) Params {
	return Params{graph: p.graph, prefix: p.prefix + fmt.Sprintf(format, args...) + ".", nodes: p.nodes}
}

// Has reports whether the module has a parameter of that name.
func (p Params) Has(name string) bool { return p.nodes[p.prefix+name] != nil }

// Get returns a parameter in its stored precision.
func (p Params) Get(name string) *Node {
	node := p.nodes[p.prefix+name]
	if node == nil {
		panic(fmt.Errorf("nn: no parameter %q", p.prefix+name))
	}
	return node
}

// As returns a parameter in the dtype of x.
func (p Params) As(x *Node, name string) *Node { return ConvertDType(p.Get(name), x.DType()) }

// GraphFn builds a graph from a module's parameters and the inputs.
type GraphFn func(p Params, in []*Node) []*Node

// Program is a graph function compiled once for each combination of input shapes, and again if it was not used for so
// long that MaxGraphs others were. Its weights are arguments, so that one compiled block serves all layers of the same
// shape. It is safe for concurrent use.
type Program struct {
	backend compute.Backend
	choices *tuned
	name    string
	build   GraphFn

	graphs map[string]*compiled // under the lock of the graphs of all programs, as closed
	closed bool

	mu      sync.Mutex
	started map[*Graph]time.Time
}

var compilations, compileTime atomic.Int64

// Compilations returns the number of graphs built so far in the process.
func Compilations() int64 { return compilations.Load() }

// CompileTime returns the time that building and compiling graphs has taken so far in the process.
func CompileTime() time.Duration { return time.Duration(compileTime.Load()) }

// NewProgram returns a program that compiles on its first call.
func NewProgram(backend compute.Backend, name string, build GraphFn) *Program {
	return &Program{backend: Plain(backend), choices: choices(backend), name: name, build: build, graphs: make(map[string]*compiled), started: make(map[*Graph]time.Time)}
}

// Call runs the program on the backend's first device. Inputs are tensors, or Go values as graph.Exec takes them. The
// outputs stay on the device and belong to the caller, who frees them. Any panic of graph building is returned as error.
func (p *Program) Call(w Weights, in ...any) (out []*tensors.Tensor, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %w", p.name, AsError(r))
		}
	}()
	names := slices.Sorted(maps.Keys(w))
	args := make([]any, 0, len(in)+len(names))
	for _, arg := range in {
		if _, ours := arg.(*tensors.Tensor); !ours {
			t, err := tensors.FromAnyValue(arg)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			defer Free(t) // Exec leaves its own to the garbage collector if anything fails
			arg = t
		}
		args = append(args, arg)
	}
	for _, name := range names {
		args = append(args, w[name])
	}
	g, err := graphs.get(p, keyOf(names, args), func() (*Exec, error) { return p.exec(names) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	defer graphs.done(g)
	out, err = g.exec.Exec(args...)
	if err != nil {
		p.forget()
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return out, nil
}

// AsError is what was recovered from a panic, as an error.
func AsError(r any) error {
	if err, ok := r.(error); ok {
		return err
	}
	return fmt.Errorf("%v", r)
}

// Call1 is Call for a program of one output.
func (p *Program) Call1(w Weights, in ...any) (*tensors.Tensor, error) {
	out, err := p.Call(w, in...)
	if err != nil {
		return nil, err
	}
	if len(out) != 1 {
		Free(out...)
		return nil, fmt.Errorf("%s: %d outputs instead of one", p.name, len(out))
	}
	return out[0], nil
}

// exec returns what compiles the program, with parameters of the given names.
func (p *Program) exec(names []string) (*Exec, error) {
	build := func(g *Graph, args []*Node) []*Node {
		defer func() {
			// Exec catches errors only; anything else would leave it waiting for this compilation for ever.
			if r := recover(); r != nil {
				panic(AsError(r))
			}
		}()
		compilations.Add(1)
		g.AttachState(tunedState{}, p.choices)
		p.clock(g, true)
		inputs := len(args) - len(names)
		nodes := make(map[string]*Node, len(names))
		for i, name := range names {
			nodes[name] = args[inputs+i]
		}
		return p.build(Params{graph: g, nodes: nodes}, args[:inputs])
	}
	exec, err := NewExecCanonical(p.backend, build, -1, -1, false, true, true)
	if err != nil {
		return nil, err
	}
	exec = exec.WithName(p.name)
	// The hook is for parameters that no argument gives. There are none; but it runs between compilation and execution.
	exec.SetSideParamsHook(func(g *Graph, _ []compute.Buffer, _ []bool) error {
		p.clock(g, false)
		return nil
	})
	return exec, nil
}

// clock takes the time from when a graph begins to be built until it is compiled.
func (p *Program) clock(g *Graph, begins bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if begins {
		p.started[g] = time.Now()
	} else if started, ok := p.started[g]; ok {
		compileTime.Add(int64(time.Since(started)))
		delete(p.started, g)
	}
}

// forget drops the begun times, those of graphs that failed among them.
func (p *Program) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.started)
}

// Close frees the compiled graphs, those in use when their calls end. Later calls fail with ErrClosed.
func (p *Program) Close() { graphs.close(p) }
