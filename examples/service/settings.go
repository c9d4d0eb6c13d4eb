// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/gomlx3d/image3d/examples/internal/cli"
	"github.com/gomlx3d/image3d/examples/service/internal/api"
	"github.com/gomlx3d/image3d/examples/service/internal/worker"
)

// errUsage is a wrong command line.
var errUsage = errors.New("wrong command line")

// settings are the flags.
type settings struct {
	listen, model, backend, data, keysFile string
	segmenter, vocabulary                  string
	encodings                              int
	keepEncodings                          time.Duration
	hosts                                  []string
	maxUpload                              int64
	maxPixels                              int
	memory                                 cli.Bytes
	uploadTime, grace                      time.Duration
	limits                                 worker.Limits
	keys                                   api.Keys
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	var hosts string
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8080", "address; one that other machines reach needs -keys")
	flags.StringVar(&s.model, "model", "", "checkpoint: a folder, or a repository owner/name[@revision] of the model hub (default: a small embedded model)")
	flags.StringVar(&s.backend, "backend", "", "go, xla:cpu, xla:cuda or xla:rocm (default: $GOMLX_BACKEND, or go)")
	flags.StringVar(&s.segmenter, "segmenter", "", "checkpoint of SAM 3 or SAM 3.1, to find objects by words and clicks: a file, a folder, or owner/name[@revision] (default: clients send masks)")
	flags.StringVar(&s.vocabulary, "vocabulary", "", "vocabulary of the segmenter's text encoder: bpe_simple_vocab_16e6.txt.gz, merges.txt or tokenizer.json (default: beside its checkpoint)")
	flags.IntVar(&s.encodings, "encodings", 4, "photographs that the segmenter keeps encoded on the device, 220 MB each at the released size")
	flags.DurationVar(&s.keepEncodings, "keep-encodings", 15*time.Minute, "how long an encoding stays after its last use")
	flags.StringVar(&s.data, "data", "image3d-data", "folder of jobs and results")
	flags.StringVar(&s.keysFile, "keys", "", "file of API keys: a client's name and its key on each line")
	flags.StringVar(&hosts, "hosts", "", "host names, with commas, that a service without keys answers to besides localhost")
	flags.IntVar(&s.limits.Queue, "queue", 64, "waiting jobs in all")
	flags.IntVar(&s.limits.Client, "queue-client", 16, "waiting jobs of one client")
	flags.IntVar(&s.limits.Attempts, "attempts", 5, "starts of a job that each end with a crash, before it counts as failed")
	flags.DurationVar(&s.limits.Time, "job-time", 15*time.Minute, "for one job")
	flags.DurationVar(&s.limits.Keep, "keep", 24*time.Hour, "how long jobs and results stay after their end")
	flags.DurationVar(&s.grace, "grace", 30*time.Second, "for the running job to end when the service is stopped; it goes back into the queue otherwise")
	flags.Int64Var(&s.maxUpload, "max-upload", 64<<20, "bytes of one submission")
	flags.IntVar(&s.maxPixels, "max-pixels", 25_000_000, "of a photograph, a mask or a point map")
	flags.Var(&s.memory, "memory-limit", "of the model, as 8GB or 7.5GiB (default: none)")
	flags.DurationVar(&s.uploadTime, "upload-time", 2*time.Minute, "for one submission to arrive")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("%w: unexpected argument %q", errUsage, flags.Arg(0))
	}
	if hosts != "" {
		s.hosts = strings.Split(hosts, ",")
	}
	return s, s.check()
}

// check reports settings that make no sense, and reads the keys.
func (s *settings) check() error {
	for name, value := range map[string]int64{"queue": int64(s.limits.Queue), "queue-client": int64(s.limits.Client),
		"attempts": int64(s.limits.Attempts), "job-time": int64(s.limits.Time), "keep": int64(s.limits.Keep),
		"max-upload": s.maxUpload, "max-pixels": int64(s.maxPixels), "upload-time": int64(s.uploadTime), "encodings": int64(s.encodings),
		"keep-encodings": int64(s.keepEncodings)} {
		if value <= 0 {
			return fmt.Errorf("%w: -%s must be above 0", errUsage, name)
		}
	}
	if s.vocabulary != "" && s.segmenter == "" {
		return fmt.Errorf("%w: -vocabulary needs a -segmenter", errUsage)
	}
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return fmt.Errorf("%w: -listen: %w", errUsage, err)
	}
	if s.keysFile == "" {
		if !api.Loopback(host) {
			return fmt.Errorf("%w: other machines reach -listen %s: give -keys, or anybody there may use the service", errUsage, s.listen)
		}
		return nil
	}
	file, err := os.Open(s.keysFile)
	if err != nil {
		return err
	}
	defer file.Close()
	s.keys, err = api.ReadKeys(file)
	return err
}
