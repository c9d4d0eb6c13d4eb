// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/testdata"
)

// asService makes the test program the service, so that tests can end it as a crash would.
const asService = "IMAGE3D_TEST_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// process is a running service.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string

	mu  sync.Mutex
	log bytes.Buffer
	end chan struct{} // closed when its log is complete
}

// launch starts a service on the embedded model.
func launch(t *testing.T, data string, args ...string) *process {
	t.Helper()
	p := &process{t: t, end: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], append([]string{"-listen", "127.0.0.1:0", "-data", data, "-backend", "go"}, args...)...)
	p.cmd.Env = append(os.Environ(), asService+"=1")
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.end)
		lines := bufio.NewReader(stderr)
		for {
			line, err := lines.ReadString('\n')
			p.mu.Lock()
			p.log.WriteString(line)
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { p.kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, p.text())
	p.url = strings.TrimSpace(line)
	return p
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// kill ends the service as a crash would, and waits.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.end
	_ = p.cmd.Wait()
}

// terminate asks the service to end, and returns its exit status.
func (p *process) terminate() int {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	<-p.end
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// answerJob is what the tests read of a job.
type answerJob struct {
	ID, State string
	Starts    int
	Summary   struct {
		Files []struct{ Name, SHA256 string }
	}
}

// submission is the form of a job with the embedded picture.
func submission(fields ...string) (body *bytes.Buffer, kind string) {
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for name, data := range map[string][]byte{"image": testdata.Image, "mask": testdata.Mask} {
		part, _ := w.CreateFormFile(name, name+".png")
		_, _ = part.Write(data)
	}
	for i := 0; i < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	_ = w.Close()
	return body, w.FormDataContentType()
}

func (p *process) submit(fields ...string) answerJob {
	p.t.Helper()
	body, kind := submission(fields...)
	answer, err := http.Post(p.url+"/v1/jobs", kind, body)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusAccepted, answer.StatusCode)
	var job answerJob
	p.decode(answer, &job)
	return job
}

func (p *process) decode(answer *http.Response, value any) {
	p.t.Helper()
	defer answer.Body.Close()
	require.NoError(p.t, json.NewDecoder(answer.Body).Decode(value))
}

func (p *process) get(path string) []byte {
	p.t.Helper()
	answer, err := http.Get(p.url + path)
	require.NoError(p.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	return data
}

func (p *process) job(id string) (job answerJob) {
	p.t.Helper()
	require.NoError(p.t, json.Unmarshal(p.get("/v1/jobs/"+id), &job))
	return job
}

// follow reads a job's events until one has the text, or to the end.
func (p *process) follow(id, text string) {
	p.t.Helper()
	answer, err := http.Get(p.url + "/v1/jobs/" + id + "/events")
	require.NoError(p.t, err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if text != "" && strings.Contains(lines.Text(), text) {
			return
		}
	}
}

// A job that a kill -9 cuts off runs again and ends with the bytes that it would have had.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts the service several times")
	}
	data := t.TempDir()
	p := launch(t, data)
	p.follow(p.submit("seed", "5").ID, "")
	reference := p.submit("seed", "6")
	p.follow(reference.ID, "")
	expected := p.job(reference.ID)
	require.Equal(t, "done", expected.State)

	cut, waiting := p.submit("seed", "6"), p.submit("seed", "6")
	p.follow(cut.ID, `"stage":"structure"`)
	p.kill()
	p = launch(t, data)
	p.follow(waiting.ID, "")
	for _, id := range []string{cut.ID, waiting.ID} {
		job := p.job(id)
		require.Equal(t, "done", job.State)
		require.Equal(t, expected.Summary, job.Summary, "every file has the same hash")
	}
	require.Equal(t, 2, p.job(cut.ID).Starts)
	require.Equal(t, 1, p.job(waiting.ID).Starts)
	require.Equal(t, "done", p.job(reference.ID).State)

	// SIGTERM without grace puts the job back; with grace it ends first.
	again := p.submit("seed", "7")
	p.follow(again.ID, `"state":"running"`)
	require.Zero(t, p.terminate(), p.text())
	p = launch(t, data, "-grace", "0s")
	require.Equal(t, "done", p.job(again.ID).State)
	again = p.submit("seed", "8", "steps", "1000")
	p.follow(again.ID, `"stage":"structure"`)
	require.Zero(t, p.terminate(), p.text())
	require.Contains(t, p.text(), "goes back into the queue")
	p = launch(t, data, "-keep", "1ms")
	request, err := http.NewRequest(http.MethodDelete, p.url+"/v1/jobs/"+again.ID, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	_ = answer.Body.Close()
	p.follow(again.ID, "")
	for line := range strings.Lines(p.text()) {
		require.True(t, json.Valid([]byte(line)), line)
	}
}

// Clients that stop sending are let go, also when their request was refused before.
func TestSlowClients(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: loads the model")
	}
	p := launch(t, t.TempDir(), "-upload-time", "200ms", "-max-upload", "100000")
	address := strings.TrimPrefix(p.url, "http://")
	for name, c := range map[string]struct {
		head   string
		status int
	}{
		"upload":      {"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 5000\r\n\r\n--b\r\n", 408},
		"after it":    {"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 5000\r\n\r\n--b--\r\n", 422},
		"too large":   {"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n", 413},
		"no such way": {"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n", 405},
	} {
		t.Run(name, func(t *testing.T) {
			connection, err := net.Dial("tcp", address)
			require.NoError(t, err)
			defer connection.Close()
			require.NoError(t, connection.SetDeadline(time.Now().Add(time.Minute)))
			_, err = io.WriteString(connection, c.head)
			require.NoError(t, err)
			answer, err := io.ReadAll(connection) // until the service closes it
			require.NoError(t, err)
			require.Contains(t, string(answer), fmt.Sprintf("HTTP/1.1 %d ", c.status))
		})
	}
}

func TestWrongCommandLines(t *testing.T) {
	folder := t.TempDir()
	empty := filepath.Join(folder, "keys")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for text, args := range map[string][]string{
		"-queue must be above 0": {"-queue", "0"},
		"other machines reach":   {"-listen", ":8080"},
		"missing port":           {"-listen", "localhost"},
		"unexpected argument":    {"photo.jpg"},
		"flag provided but not":  {"-nothing"},
		"there is none":          {"-keys", empty},
		"no such file":           {"-keys", filepath.Join(folder, "none")},
		"not a directory":        {"-data", empty},
		"neither an official":    {"-model", folder},
		"abacus":                 {"-backend", "abacus"},
	} {
		var stdout, stderr bytes.Buffer
		args = append([]string{"-listen", "127.0.0.1:0", "-data", filepath.Join(folder, "data")}, args...)
		require.NotZero(t, run(context.Background(), args, &stdout, &stderr), text)
		require.Contains(t, stderr.String(), text)
	}
	require.Zero(t, run(context.Background(), []string{"-help"}, io.Discard, io.Discard))
}
