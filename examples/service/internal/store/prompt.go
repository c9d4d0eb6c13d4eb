// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package store

// Point is a place in the photograph, in pixels from its upper left corner; the centre of the first pixel is (0.5, 0.5).
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Box is a rectangle in the photograph, in pixels from its upper left corner.
type Box struct {
	X0 float64 `json:"x0"`
	Y0 float64 `json:"y0"`
	X1 float64 `json:"x1"`
	Y1 float64 `json:"y1"`
}

// Clicks show one object.
type Clicks struct {
	Positive []Point `json:"positive,omitempty" nullable:"false" maxItems:"128" doc:"On the object"`
	Negative []Point `json:"negative,omitempty" nullable:"false" maxItems:"128" doc:"Beside the object"`
	Box      *Box    `json:"box,omitempty" doc:"Around the object"`
}

// Words describe objects.
type Words struct {
	Text      string  `json:"text" minLength:"1" maxLength:"500" doc:"What to look for, in a few English words: chair, yellow bus"`
	Threshold float64 `json:"threshold,omitempty" minimum:"0" exclusiveMaximum:"1" doc:"Score that an object must exceed; 0.5 if left out"`
}
