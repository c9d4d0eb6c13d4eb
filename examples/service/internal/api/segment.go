// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gomlx3d/image3d/examples/internal/segmenter"
	"github.com/gomlx3d/image3d/examples/service/internal/finder"
	"github.com/gomlx3d/image3d/examples/service/internal/store"
	"github.com/gomlx3d/image3d/sam3d"
	"github.com/gomlx3d/image3d/sam3d/segment"
)

// Types of the problems that a client may want to tell apart.
const (
	problemNoSegmenter = "urn:image3d:problem:no-segmenter" // the service was started without one
	problemNoEncoding  = "urn:image3d:problem:no-encoding"  // it has expired, or made room for others
	problemNothing     = "urn:image3d:problem:nothing-found"
)

const (
	maxInstances = 32 // in one answer
	busyAfter    = 5 * time.Second
)

type encodeForm struct {
	Image huma.FormFile `form:"image" required:"true" doc:"Photograph: PNG, JPEG, GIF, WebP, TIFF or BMP"`
}

type encodeInput struct {
	RawBody huma.MultipartFormFiles[encodeForm]
}

type encodeOutput struct {
	Location string `header:"Location"`
	Body     finder.Encoding
}

type encodingInput struct {
	ID string `path:"id" maxLength:"64"`
}

type clickInput struct {
	ID   string `path:"id" maxLength:"64"`
	Body struct {
		store.Clicks
		Mask string `json:"mask,omitempty" maxLength:"20" doc:"Mask-Id of an earlier answer about this encoding, which these clicks correct"`
	}
}

type clickOutput struct {
	ContentType string  `header:"Content-Type"`
	MaskID      string  `header:"Mask-Id" doc:"Names this mask in later clicks"`
	Score       float32 `header:"Score" doc:"How well the mask fits, as the network estimates: intersection over union"`
	Body        []byte
}

type wordsInput struct {
	ID   string `path:"id" maxLength:"64"`
	Body store.Words
}

// Instance is an object that words describe.
type Instance struct {
	Mask  []byte     `json:"mask" doc:"PNG of the photograph's size, white on black"`
	Box   [4]float64 `json:"box" nullable:"false" doc:"x0, y0, x1, y1 in pixels; it may reach over the photograph's borders"`
	Score float32    `json:"score"`
}

type wordsOutput struct {
	Body struct {
		Found     int        `json:"found" doc:"Objects above the threshold; the best 32 are instances"`
		Instances []Instance `json:"instances" nullable:"false" doc:"Best score first"`
	}
}

// segmentation registers what finds objects in photographs.
func (s *Server) segmentation(api huma.API) {
	const kinds = " Without a segmenter: 501, of type " + problemNoSegmenter + "."
	huma.Register(api, huma.Operation{OperationID: "encode", Method: http.MethodPost, Path: "/v1/encodings",
		Summary: "Send a photograph to find objects in", DefaultStatus: http.StatusCreated,
		Description: "This is most of the work of the segmenter: prompts for the encoding are answered at once. The same photograph " +
			"gives the same encoding, as long as it is kept." + kinds,
		Errors: []int{400, 401, 408, 413, 415, 422, 429, 501, 503}}, s.encode)
	huma.Register(api, huma.Operation{OperationID: "drop-encoding", Method: http.MethodDelete, Path: "/v1/encodings/{id}",
		Summary: "Drop an encoding", DefaultStatus: http.StatusNoContent, Errors: []int{404, 501}},
		func(ctx context.Context, in *encodingInput) (*struct{}, error) {
			if err := s.Finder.Remove(clientOf(ctx), in.ID); err != nil {
				return nil, noEncoding()
			}
			return nil, nil
		})
	huma.Register(api, huma.Operation{OperationID: "click", Method: http.MethodPost, Path: "/v1/encodings/{id}/clicks",
		Summary: "Find the object under clicks, in a box, or near an earlier mask",
		Description: "The mask is black if no object is seen. An encoding that is not there, or not any more, is 404, of type " +
			problemNoEncoding + "." + kinds,
		Responses: map[string]*huma.Response{"200": {Description: "The mask, of the photograph's size, white on black",
			Content: map[string]*huma.MediaType{"image/png": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}},
		Errors: []int{401, 404, 422, 501, 503}}, s.click)
	huma.Register(api, huma.Operation{OperationID: "words", Method: http.MethodPost, Path: "/v1/encodings/{id}/words",
		Summary: "Find all objects that words describe",
		Description: "If no score exceeds the threshold the answer is 422, of type " + problemNothing +
			". An encoding that is not there, or not any more, is 404, of type " + problemNoEncoding + "." + kinds,
		Errors: []int{401, 404, 422, 429, 501, 503}}, s.words)
}

func (s *Server) encode(ctx context.Context, in *encodeInput) (*encodeOutput, error) {
	if err := onlyFieldsOf[encodeForm](in.RawBody.Form); err != nil {
		return nil, err
	}
	file := in.RawBody.Data().Image
	defer file.Close()
	digest, read, err := s.photograph(file)
	if err != nil {
		return nil, s.internal(ctx, err)
	}
	encoding, err := s.Finder.Add(ctx, clientOf(ctx), digest, read)
	if err != nil {
		return nil, s.notFound(ctx, err)
	}
	return &encodeOutput{Location: "/v1/encodings/" + encoding.ID, Body: encoding}, nil
}

// photograph returns the hash of a picture's file, and what decodes it.
func (s *Server) photograph(file io.ReadSeeker) (digest string, read func() (image.Image, error), err error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", nil, err
	}
	return hex.EncodeToString(sum.Sum(nil)), func() (image.Image, error) {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		return sam3d.Loader{MaxPixels: s.MaxPixels}.Image(file)
	}, nil
}

func (s *Server) click(ctx context.Context, in *clickInput) (*clickOutput, error) {
	answer, err := s.Finder.Click(ctx, clientOf(ctx), in.ID, in.Body.Mask, in.Body.Clicks)
	if err != nil {
		return nil, s.notFound(ctx, err)
	}
	data, err := encodeMask(answer.Mask)
	if err != nil {
		return nil, s.internal(ctx, err)
	}
	return &clickOutput{ContentType: "image/png", MaskID: answer.ID, Score: answer.Score, Body: data}, nil
}

func (s *Server) words(ctx context.Context, in *wordsInput) (*wordsOutput, error) {
	objects, err := s.Finder.Words(ctx, clientOf(ctx), in.ID, in.Body)
	if err != nil {
		return nil, s.notFound(ctx, err)
	}
	out := &wordsOutput{}
	out.Body.Found = len(objects)
	for _, o := range objects[:min(len(objects), maxInstances)] {
		data, err := encodeMask(o.Mask)
		if err != nil {
			return nil, s.internal(ctx, err)
		}
		out.Body.Instances = append(out.Body.Instances, Instance{data, [4]float64{o.Box.X0, o.Box.Y0, o.Box.X1, o.Box.Y1}, o.Score})
	}
	return out, nil
}

// encodeMask writes a mask with one bit a pixel.
func encodeMask(mask *image.Gray) ([]byte, error) {
	bits := image.NewPaletted(mask.Rect, color.Palette{color.Gray{}, color.Gray{Y: 255}})
	for i, v := range mask.Pix {
		bits.Pix[i] = v >> 7
	}
	var out bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, bits)
	return out.Bytes(), err
}

func typed(kind string, status int, detail string) *huma.ErrorModel {
	return &huma.ErrorModel{Type: kind, Status: status, Title: http.StatusText(status), Detail: detail}
}

func noSegmenter() *huma.ErrorModel {
	return typed(problemNoSegmenter, http.StatusNotImplemented, "this service has no segmenter: send a mask")
}

func noEncoding() *huma.ErrorModel {
	return typed(problemNoEncoding, http.StatusNotFound, "there is no such encoding, or it was dropped: send the photograph again")
}

// notFound turns an error of the finder into an answer.
func (s *Server) notFound(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, finder.ErrNotReady):
		return huma.Error503ServiceUnavailable("the segmenter is being loaded")
	case errors.Is(err, finder.ErrBusy):
		return huma.ErrorWithHeaders(huma.Error429TooManyRequests("the segmenter has too much to do"),
			http.Header{"Retry-After": {fmt.Sprint(busyAfter.Seconds())}})
	case errors.Is(err, finder.ErrNoEncoding):
		return noEncoding()
	case errors.Is(err, finder.ErrNoMask):
		return huma.Error422UnprocessableEntity("validation failed", &huma.ErrorDetail{Location: "body.mask",
			Message: "there is no such mask, or it was dropped"})
	case errors.Is(err, finder.ErrPrompt):
		return huma.Error422UnprocessableEntity("validation failed", &huma.ErrorDetail{Location: "body.text", Message: "there are no words"})
	case errors.Is(err, segmenter.ErrNothing):
		return typed(problemNothing, http.StatusUnprocessableEntity,
			"nothing in the photograph fits: try other words or clicks, or a lower threshold")
	case errors.Is(err, segment.ErrNoHead), errors.Is(err, segment.ErrVocabulary):
		return typed(problemNoSegmenter, http.StatusNotImplemented, "this service's segmenter does not take such prompts")
	case errors.Is(err, segment.ErrInput), errors.Is(err, sam3d.ErrImageFile), errors.Is(err, sam3d.ErrTooLarge):
		return s.unfit(ctx, err)
	}
	return s.internal(ctx, err)
}
