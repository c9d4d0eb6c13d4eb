// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"fmt"
	"image"
	"image/color"

	"github.com/gomlx3d/image3d/sam3d/input"
)

func Example() {
	photo := image.NewNRGBA(image.Rect(0, 0, 120, 90))
	mask := image.NewGray(photo.Rect)
	for y := 30; y < 60; y++ {
		for x := 40; x < 90; x++ {
			mask.SetGray(x, y, color.Gray{Y: 255})
		}
	}
	picture, err := input.New(photo, mask)
	if err != nil {
		fmt.Println(err)
		return
	}
	conditions, err := picture.Prepare(nil, input.Options{Size: 56})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(picture.Box(), len(conditions.Crop.Image), len(conditions.Full.Mask))

	_, err = input.New(photo, image.NewGray(image.Rect(0, 0, 90, 120)))
	fmt.Println(err)
	// Output:
	// (40,30)-(90,60) 9408 3136
	// input: the mask is 90x120 but the picture is 120x90
}
