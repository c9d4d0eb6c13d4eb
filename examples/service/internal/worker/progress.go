// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"slices"
	"time"

	"github.com/gomlx3d/image3d/examples/service/internal/events"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/sam3d"
)

// shares are rough parts of the whole time at the released size. They make the percentage move evenly, no more.
var shares = map[sam3d.Stage]float64{
	sam3d.StageDepth: 8, sam3d.StageInput: 1, sam3d.StageCondition: 5, sam3d.StageStructure: 38, sam3d.StageVoxels: 2,
	sam3d.StageLatent: 32, sam3d.StageGaussians: 5, sam3d.StageGaussians4: 3, sam3d.StageMesh: 6,
}

// expected returns the stages of a job, without the files that follow.
func expected(job store.Job) []sam3d.Stage {
	stages := []sam3d.Stage{sam3d.StageDepth, sam3d.StageInput, sam3d.StageCondition, sam3d.StageStructure,
		sam3d.StageVoxels, sam3d.StageLatent}
	if job.HasPoints || job.Options.NoDepth {
		stages = stages[1:]
	}
	for name, stage := range map[string]sam3d.Stage{"gaussians": sam3d.StageGaussians, "gaussians4": sam3d.StageGaussians4, "mesh": sam3d.StageMesh} {
		if slices.Contains(job.Options.Outputs, name) {
			stages = append(stages, stage)
		}
	}
	return stages
}

// watch turns the pipeline's events into those of a job, and adds up the time of each stage.
type watch struct {
	publish func(events.Event)
	total   float64
	done    map[sam3d.Stage]float64 // part of each stage, 0 to 1
	last    float64                 // percentage, which never falls
	began   time.Duration
	seconds map[string]float64
}

func newWatch(job store.Job, publish func(events.Event)) *watch {
	w := &watch{publish: publish, done: make(map[sam3d.Stage]float64), seconds: make(map[string]float64)}
	for _, stage := range expected(job) {
		w.total += shares[stage]
	}
	return w
}

func (w *watch) event(e sam3d.Event) {
	if e.Step == 0 {
		w.began = e.Elapsed
	}
	w.seconds[string(e.Stage)] = (e.Elapsed - w.began).Seconds()
	w.done[e.Stage] = float64(e.Step) / float64(max(e.Of, 1))
	sum := 0.0
	for stage, part := range w.done {
		sum += part * shares[stage]
	}
	w.last = max(w.last, min(99, 99*sum/w.total)) // the last percent is for the files
	w.publish(events.Event{State: string(store.Running), Stage: string(e.Stage), Step: e.Step, Of: e.Of,
		Percent: math.Round(10*w.last) / 10})
}
