// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

// Package store keeps jobs and their files on disk: the records in an embedded database, everything else in a folder for
// each job. What it has accepted survives a crash of the program and of the machine.
package store

import (
	"errors"
	"time"
)

// State is where a job stands.
type State string

// The states. A job goes from Queued to Running and from there to one of the other three, or back to Queued when the
// service ends during its work. A queued job may also be cancelled.
const (
	Queued    State = "queued"
	Running   State = "running"
	Done      State = "done"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Final reports whether the state is one that a job does not leave.
func (s State) Final() bool { return s == Done || s == Failed || s == Cancelled }

// Options are what the client chose.
type Options struct {
	Seed        uint64   `json:"seed"`
	Steps       int      `json:"steps,omitempty"`        // of the structure; 0 is the checkpoint's number
	LatentSteps int      `json:"latent_steps,omitempty"` // of the latents; 0 is the checkpoint's number
	Distilled   bool     `json:"distilled,omitempty"`
	NoDepth     bool     `json:"no_depth,omitempty"`
	Outputs     []string `json:"outputs"`          // of "gaussians", "gaussians4" and "mesh"
	Words       *Words   `json:"words,omitempty"`  // what the object was found by, if not by a mask
	Clicks      *Clicks  `json:"clicks,omitempty"` // the same
}

// Failure says why a job failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// File is one file of a result.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hexadecimal
}

// Summary says what was made.
type Summary struct {
	Voxels    int      `json:"voxels"`
	Gaussians int      `json:"gaussians"`
	Vertices  int      `json:"vertices"`
	Faces     int      `json:"faces"`
	Warnings  []string `json:"warnings,omitempty"`
	Files     []File   `json:"files"`
}

// Job is the record of one object to make.
type Job struct {
	ID        string  `json:"id"`
	Seq       uint64  `json:"seq"`    // order of arrival, from 1
	Client    string  `json:"client"` // who may see it
	RequestID string  `json:"request_id"`
	Digest    string  `json:"digest"`        // of pictures and options
	Key       string  `json:"key,omitempty"` // the idempotency key
	Options   Options `json:"options"`
	HasMask   bool    `json:"has_mask,omitempty"`
	HasPoints bool    `json:"has_points,omitempty"`

	State    State     `json:"state"`
	Cancel   bool      `json:"cancel,omitempty"` // its client gave it up
	Attempts int       `json:"attempts"`         // starts, without those that a shutdown undid
	Starts   uint64    `json:"starts"`           // all starts of the job
	Served   uint64    `json:"served"`           // order of its latest start among all jobs, from 1
	Created  time.Time `json:"created"`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`

	Failure *Failure           `json:"failure,omitempty"`
	Summary *Summary           `json:"summary,omitempty"`
	Seconds map[string]float64 `json:"seconds,omitempty"` // of each stage
}

var (
	// ErrNotFound says that there is no such job.
	ErrNotFound = errors.New("store: no such job")
	// ErrKeyReused says that an idempotency key came with another request than the first time.
	ErrKeyReused = errors.New("store: the idempotency key was used for another request")
	// ErrInUse says that another program has the folder.
	ErrInUse = errors.New("store: the folder is in use by another service")
)

// Names of the files that a client sends, in the folder of a job.
const (
	ImageFile  = "image"
	MaskFile   = "mask"
	PointsFile = "points"
)
