// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package sam3d

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gomlx/compute"

	"github.com/gomlx3d/image3d/internal/nn"
	"github.com/gomlx3d/image3d/moge"
	"github.com/gomlx3d/image3d/sam3d/condition"
	"github.com/gomlx3d/image3d/sam3d/decoder"
	"github.com/gomlx3d/image3d/sam3d/flow"
	"github.com/gomlx3d/image3d/weights"
)

// Options say how a pipeline is opened. The zero value is usable.
type Options struct {
	// Backend is a GoMLX backend: "go", "xla:cpu", "xla:cuda" or "xla:rocm". Empty means $GOMLX_BACKEND, and if that is
	// empty too DefaultBackend.
	Backend string
	// Hub says how a source that is no local folder is fetched.
	Hub weights.HubOptions
	// DepthModel is a MoGe of any version in place of the checkpoint's: a file, a folder or a repository of the model hub,
	// see weights.OpenDepth. MoGe-2 and MoGe-3 know metres, MoGe-1 distances up to a factor.
	DepthModel string
	// KeepWeights has the weights of all stages on the device from Open to Close: for services, whose objects then come
	// sooner. Otherwise a stage's weights are there during that stage only, read anew for each object: the device holds
	// those of one stage instead of all, and the checkpoint's files stay open and must not change.
	KeepWeights bool
	// MemoryLimit bounds, in bytes, the memory of the device; on a CPU that is the process's resident set. Weights are
	// not kept if they do not fit, and the mesh decoder works in slabs where it must; results differ by rounding at
	// most. If that is not enough for an object of the most voxels, Open fails with a *MemoryError that says what is. The
	// needs are estimates, made from measurements on xla:cpu. They are those of the pipeline: what the process holds
	// besides, results and pictures that wait, comes on top. 0 is no limit.
	MemoryLimit int64
	// ScoreBytes bounds the attention scores that are stored at a time, in bytes; less than 16 MiB counts as that.
	// 0 chooses: chunks that are fast on xla:cpu, which stores no scores, and 256 MiB on GPUs, and on the pure Go backend
	// under a MemoryLimit.
	ScoreBytes int64
	// FusedAttention lets the encoders and flows attend by the backend's own kernel where it has one (xla:cuda, cuDNN's),
	// in bfloat16. It takes part of the time and never stores the scores; but it is not float32, and so off by default.
	// Cross attention, windows and the depth model do without, as does every other backend.
	FusedAttention bool
}

// Pipeline holds a model on a device. It is safe for concurrent use.
type Pipeline struct {
	cfg     config
	backend compute.Backend // of the depth model,
	models  compute.Backend // and of the others

	depth            *held[*moge.Model] // nil if there is none
	noDepth          string             // why there is none
	depthTokens      int                // patches that the depth model looks at; 0: its finest level
	condition        held[*condition.Encoder]
	structure        held[*flow.Structure]
	structureDecoder held[*decoder.Structure]
	latent           held[*flow.Latent]
	gaussians        held[*decoder.GaussiansDecoder]
	gaussians4       held[*decoder.GaussiansDecoder]
	mesh             held[*decoder.MeshDecoder]

	scoreBytes int64    // bound of what attention stores; 0: none
	limit      int64    // of memory; 0: none
	demand     demand   // if there is a limit
	stream     bool     // weights are on the device during their stage only,
	files      []func() // and come from these files, which this closes

	turn      chan struct{} // holds one token: whoever has it may use the device
	closing   chan struct{} // closed by Close
	closeOnce sync.Once
}

// Open loads a model: a folder in the official layout or in that of the MLX port, or a repository "owner/name" or
// "owner/name@revision" of the model hub with one of them.
//
// The weights go to the device in the precision of their files. Every tensor must be there, and no other: an ErrWeights
// lists all that is wrong. Other errors match ErrMemory, ErrBackend, ErrConfig, weights.ErrMissing, weights.ErrFormat, the hub
// errors of package weights, or ctx.Err().
func Open(ctx context.Context, source string, options Options) (p *Pipeline, err error) {
	defer guard(&err)
	backend, err := OpenBackend(options.Backend)
	if err != nil {
		return nil, err
	}
	folder, err := weights.Resolve(ctx, source, options.Hub)
	if err != nil {
		return nil, fmt.Errorf("sam3d: open %s: %w", source, err)
	}
	checkpoint, err := weights.OpenCheckpoint(folder)
	if err != nil {
		return nil, fmt.Errorf("sam3d: open %s: %w", source, err)
	}
	defer func() {
		if p == nil || !p.stream {
			_ = checkpoint.Close()
		}
	}()
	cfg, err := readConfig(checkpoint)
	if err != nil {
		return nil, fmt.Errorf("sam3d: open %s: %w", source, withMissingYAML(err, checkpoint))
	}
	opened := &Pipeline{cfg: cfg, backend: backend, models: backend, limit: options.MemoryLimit, stream: !options.KeepWeights, turn: make(chan struct{}, 1), closing: make(chan struct{})}
	defer func() {
		if p == nil { // an error or a panic
			opened.free()
		}
	}()
	if options.FusedAttention {
		opened.models = nn.HalfAttention(backend)
	}
	opened.limitScores(options)
	opened.turn <- struct{}{}
	err = opened.load(ctx, checkpoint, options)
	if errors.Is(err, ErrWeights) {
		err = withMissingYAML(err, checkpoint)
	}
	if err != nil {
		return nil, fmt.Errorf("sam3d: open %s: %w", source, err)
	}
	return opened, nil
}

// Generate makes one object. A request that cannot be run is refused at once; one that can waits for its turn, in the
// order of arrival. It returns an error that is ctx.Err() within one step of being cancelled, and leaves nothing on the
// device whatever happens. Errors match ErrRequest, ErrClosed, ErrNotFinite, ErrEmptyMask and the other errors of this
// package and of package input.
func (p *Pipeline) Generate(ctx context.Context, request Request) (result *Result, err error) {
	defer guard(&err)
	return inTurn(ctx, p, &request, (*run).generate)
}

// inTurn checks a request, prepares a run of it, waits for the device and does the work.
func inTurn[T any](ctx context.Context, p *Pipeline, request *Request, work func(*run) (T, error)) (out T, err error) {
	if err := p.closed(); err != nil {
		return out, err
	}
	picture, err := p.check(request)
	if err != nil {
		return out, err
	}
	r := newRun(ctx, p, request, picture)
	defer r.cancel()
	if err := r.prepare(); err != nil {
		return out, err
	}
	if err := p.begin(ctx); err != nil {
		return out, err
	}
	defer p.end()
	defer r.free()
	return work(r)
}

// closed returns ErrClosed once Close was called.
func (p *Pipeline) closed() error {
	select {
	case <-p.closing:
		return ErrClosed
	default:
		return nil
	}
}

// begin waits for the device.
func (p *Pipeline) begin(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("sam3d: waiting for other objects: %w", ctx.Err())
	case <-p.closing:
		return ErrClosed
	case <-p.turn:
	}
	err := ctx.Err() // if more than one was ready, select took any
	if err == nil {
		err = p.closed()
	}
	if err != nil {
		p.end()
	}
	return err
}

func (p *Pipeline) end() { p.turn <- struct{}{} }

// Close waits for a running Generate, makes waiting ones fail with ErrClosed, and frees the device memory. It may be
// called more than once, and from any goroutine but a progress callback.
func (p *Pipeline) Close() (err error) {
	defer guard(&err)
	p.closeOnce.Do(func() {
		close(p.closing)
		<-p.turn // never given back
		p.free()
	})
	return nil
}

// free releases what is loaded.
func (p *Pipeline) free() {
	for _, part := range p.parts() {
		part.close()
	}
	for _, closeFile := range p.files {
		closeFile()
	}
	p.files = nil
}
