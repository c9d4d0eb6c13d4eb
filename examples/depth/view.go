// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/gomlx3d/image3d/moge"
)

// view is a picture with its geometry.
type view struct {
	*moge.Result
	image  moge.Image
	sorted []float32 // the valid depths, ascending
}

func newView(image moge.Image, r *moge.Result) *view {
	v := &view{Result: r, image: image}
	for i := range r.Depth {
		if v.valid(i) {
			v.sorted = append(v.sorted, r.Depth[i])
		}
	}
	slices.Sort(v.sorted)
	return v
}

// valid reports whether a pixel has a point in front of the camera.
func (v *view) valid(i int) bool {
	p := v.Points[3*i : 3*i+3]
	sum := p[0] + p[1] + p[2]
	return sum-sum == 0 && p[2] > 0
}

// quantile returns the depth that a share of the valid pixels does not exceed.
func (v *view) quantile(share float64) float64 {
	if len(v.sorted) == 0 {
		return math.NaN()
	}
	return float64(v.sorted[int(share*float64(len(v.sorted)-1))])
}

// millimetre is the step of the 16-bit picture if the unit is the metre.
const millimetre = 0.001

// step returns the depth of one step of the 16-bit picture: a millimetre, or what makes room for the greatest depth.
func (v *view) step() float64 {
	if v.MetricScale > 0 || len(v.sorted) == 0 {
		return millimetre
	}
	return v.quantile(1) / math.MaxUint16
}

// summary is what -json prints.
type summary struct {
	Files       []string `json:"files"`
	Version     int      `json:"moge"`
	Width       int      `json:"width"`
	Height      int      `json:"height"`
	Valid       float64  `json:"valid"`                  // share of the pixels
	Metric      bool     `json:"metric"`                 // whether depths are metres
	MetricScale float32  `json:"metric_scale,omitempty"` // what they were multiplied with to be so
	Nearest     *float64 `json:"nearest,omitempty"`
	Median      *float64 `json:"median,omitempty"`
	Farthest    *float64 `json:"farthest,omitempty"`
	// The camera, if one was found: degrees, and fx, fy, cx, cy in pixels, (0, 0) being the centre of the first.
	FOVX       float64   `json:"fov_x,omitempty"`
	Intrinsics []float64 `json:"intrinsics,omitempty"`
	DepthScale float64   `json:"depth_scale"` // depth of a step of depth16.png
	Seconds    float64   `json:"seconds"`
	Warnings   []string  `json:"warnings,omitempty"`
}

func (v *view) summarise(version int, took time.Duration) *summary {
	s := &summary{
		Files: []string{}, Version: version, Width: v.Width, Height: v.Height, Metric: v.MetricScale > 0, MetricScale: v.MetricScale,
		Valid: float64(len(v.sorted)) / float64(len(v.Depth)), DepthScale: v.step(), Seconds: took.Seconds(),
	}
	if len(v.sorted) > 0 {
		for share, field := range map[float64]**float64{0: &s.Nearest, 0.5: &s.Median, 1: &s.Farthest} {
			depth := v.quantile(share)
			*field = &depth
		}
	} else {
		s.Warnings = append(s.Warnings, "the model sees nothing valid: the pictures are empty; -all keeps what it takes for invalid")
	}
	if v.Degenerate() {
		s.Warnings = append(s.Warnings, "no camera fits the points")
	} else {
		k, width, height := v.Intrinsics, float64(v.Width), float64(v.Height)
		s.FOVX = 2 * math.Atan(0.5/k[0][0]) * 180 / math.Pi
		s.Intrinsics = []float64{k[0][0] * width, k[1][1] * height, k[0][2]*width - 0.5, k[1][2]*height - 0.5}
	}
	if far := len(v.sorted) - v.within(math.MaxUint16*s.DepthScale); far > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d pixels are too far for the 16-bit picture, which ends at %.4g: they are 0 there",
			far, math.MaxUint16*s.DepthScale))
	}
	return s
}

// within returns the number of valid pixels up to a depth, with some room for rounding.
func (v *view) within(depth float64) int {
	n, _ := slices.BinarySearch(v.sorted, float32(depth*(1+1e-6)))
	return n
}

// print writes the summary for people.
func (s *summary) print(w io.Writer) error {
	unit := ""
	if s.Metric {
		unit = " m"
	}
	text := fmt.Sprintf("MoGe-%d: %dx%d pixels, %.1f %% valid, %.2f s\n", s.Version, s.Width, s.Height, 100*s.Valid, s.Seconds)
	if s.Intrinsics != nil {
		text += fmt.Sprintf("field of view %.1f degrees\n", s.FOVX)
	}
	if s.Median != nil {
		text += fmt.Sprintf("depth %.4g to %.4g%s, median %.4g%s; one step of depth16.png is %.4g%s\n", *s.Nearest, *s.Farthest, unit,
			*s.Median, unit, s.DepthScale, unit)
	}
	for _, file := range s.Files {
		text += file + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
