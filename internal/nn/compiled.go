// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package nn

import (
	"bytes"
	"container/list"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// MaxGraphs is how many compiled graphs the programs of the process keep together; those that were not used for longest
// make room for others. Objects of ever other sizes would fill the memory otherwise.
const MaxGraphs = 1000

// compiled is a program's graph for one combination of shapes and parameter names.
type compiled struct {
	exec    *Exec // holds this graph alone
	program *Program
	key     string
	place   *list.Element
	calls   int  // that run now
	dropped bool // the last of them frees the graph
}

// graphs are the compiled graphs of all programs.
var graphs = graphCache{limit: MaxGraphs, crowded: fewMappingsLeft}

// graphCache keeps graphs in the order of their last use, latest first.
type graphCache struct {
	mu      sync.Mutex
	order   list.List // of *compiled
	limit   int
	crowded func() bool // asks for some room before the limit is reached
}

// get returns a program's graph and counts a call of it. If there is none it takes what make returns.
func (c *graphCache) get(p *Program, key string, make func() (*Exec, error)) (*compiled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	g := p.graphs[key]
	if g == nil {
		exec, err := make()
		if err != nil {
			return nil, err
		}
		g = &compiled{exec: exec, program: p, key: key}
		g.place = c.order.PushFront(g)
		p.graphs[key] = g
		keep := c.limit
		if c.crowded() {
			keep = min(keep, c.order.Len()*7/8)
		}
		defer c.shrink(keep)
	}
	g.calls++
	c.order.MoveToFront(g.place)
	return g, nil
}

// shrink frees the graphs that were not used for longest.
func (c *graphCache) shrink(keep int) {
	for e := c.order.Back(); e != nil && c.order.Len() > keep; {
		g := e.Value.(*compiled)
		if e = e.Prev(); g.calls == 0 {
			c.drop(g)
			g.exec.Finalize()
		}
	}
}

// fewMappingsLeft reports whether the process has more than half of the memory mappings that Linux lets it have, 65,530
// as a rule. XLA's CPU plugin takes more than a hundred for each graph, and ends the process when it gets none.
func fewMappingsLeft() bool {
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return false // another system
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return false
	}
	lines, err := os.ReadFile("/proc/self/maps")
	return err == nil && 2*bytes.Count(lines, []byte{'\n'}) > limit
}

// drop forgets a graph. The caller frees it, if no call runs it.
func (c *graphCache) drop(g *compiled) {
	g.dropped = true
	c.order.Remove(g.place)
	delete(g.program.graphs, g.key)
}

// done ends a call.
func (c *graphCache) done(g *compiled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.calls--; g.dropped && g.calls == 0 {
		g.exec.Finalize()
	}
}

// close drops all graphs of a program, for ever.
func (c *graphCache) close(p *Program) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.closed = true
	for _, g := range p.graphs {
		c.drop(g)
		if g.calls == 0 {
			g.exec.Finalize()
		}
	}
}

// keyOf names a graph: by the parameters' names and the arguments' shapes.
func keyOf(names []string, args []any) string {
	key := fmt.Appendf(nil, "%q", names)
	for _, arg := range args {
		shape := arg.(*tensors.Tensor).Shape()
		key = fmt.Appendf(key, " %d%d", shape.DType, shape.Dimensions)
	}
	return string(key)
}
