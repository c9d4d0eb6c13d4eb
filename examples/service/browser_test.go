// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/testdata"
)

// tab is the service's page in a headless browser that draws in software.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	faults   []string // console errors, exceptions and requests to other hosts
	download chan string
}

// openTab opens the page, or skips the test if there is no browser.
func openTab(t *testing.T, address string) *tab {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no browser: chromium is not in PATH")
	}
	profile, err := os.MkdirTemp("", "image3d-browser-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(profile) }) // the browser may still be writing when it should be gone
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.Flag("use-angle", "swiftshader"), chromedp.Flag("enable-unsafe-swiftshader", true), chromedp.Flag("disable-gpu", false),
		chromedp.Flag("disable-quic", true), chromedp.UserDataDir(profile), chromedp.WindowSize(1280, 1000),
		chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, download: make(chan string, 1)}
	home, err := url.Parse(address)
	require.NoError(t, err)
	chromedp.ListenTarget(ctx, func(event any) { b.listen(event, home.Host) })
	b.do(cdplog.Enable(), network.Enable(), chromedp.Navigate(address), chromedp.WaitVisible("#drop"))
	return b
}

func (b *tab) listen(event any, host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			b.faults = append(b.faults, fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError {
			b.faults = append(b.faults, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if to, err := url.Parse(e.Request.URL); err != nil || strings.HasPrefix(to.Scheme, "http") && to.Host != host {
			b.faults = append(b.faults, "request to "+e.Request.URL)
		}
	case *browser.EventDownloadProgress:
		if e.State == browser.DownloadProgressStateCompleted {
			b.download <- e.GUID
		}
	}
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Run(b.ctx, actions...))
}

// drawn waits until the page is shown as it is: the browser takes a click for where things were before they scrolled.
var drawn = chromedp.Evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`,
	nil, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) })

// click presses the element.
func click(selector string) chromedp.Action {
	return chromedp.Tasks{chromedp.ScrollIntoView(selector, chromedp.ByQuery), drawn, chromedp.Click(selector, chromedp.ByQuery)}
}

func (b *tab) text(selector string) (text string) {
	b.t.Helper()
	b.do(chromedp.Text(selector, &text, chromedp.ByQuery))
	return text
}

// until waits for a JavaScript condition.
func (b *tab) until(condition string) {
	b.t.Helper()
	var ok bool
	require.NoError(b.t, chromedp.Run(b.ctx, chromedp.Poll("Boolean("+condition+")", &ok, chromedp.WithPollingTimeout(2*time.Minute))), condition)
}

// picture returns what the element looks like.
func (b *tab) picture(selector string) image.Image {
	b.t.Helper()
	var data []byte
	b.do(chromedp.Screenshot(selector, &data, chromedp.ByQuery))
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(b.t, err)
	return img
}

// save keeps a picture of the page in the folder that SCREENSHOTS names, for people to look at.
func (b *tab) save(name string) {
	b.t.Helper()
	if folder := os.Getenv("SCREENSHOTS"); folder != "" {
		var data []byte
		b.do(chromedp.FullScreenshot(&data, 100))
		require.NoError(b.t, os.WriteFile(filepath.Join(folder, name), data, 0o666))
	}
}

// drag moves the mouse from one point of an element to another, in parts of its size, with the button down.
func (b *tab) drag(selector string, from, to [2]float64) {
	b.t.Helper()
	var box struct{ X, Y, Width, Height float64 }
	b.do(chromedp.ScrollIntoView(selector, chromedp.ByQuery), drawn,
		chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).getBoundingClientRect().toJSON()", selector), &box))
	at := func(p [2]float64) (x, y float64) { return box.X + p[0]*box.Width, box.Y + p[1]*box.Height }
	x, y := at(from)
	b.do(chromedp.MouseEvent(input.MousePressed, x, y, chromedp.ButtonLeft))
	for i := 1; i <= 8; i++ {
		part := float64(i) / 8
		x, y = at([2]float64{from[0] + part*(to[0]-from[0]), from[1] + part*(to[1]-from[1])})
		b.do(chromedp.MouseEvent(input.MouseMoved, x, y, chromedp.ButtonLeft))
	}
	b.do(chromedp.MouseEvent(input.MouseReleased, x, y, chromedp.ButtonLeft))
}

// settled waits until the viewer has drawn what it has to.
func (b *tab) settled() {
	b.t.Helper()
	b.do(chromedp.Evaluate(`new Promise((done) => { let n = 0; const step = () => (++n > 30 ? done(true) : requestAnimationFrame(step)); step(); })`,
		nil, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// differ returns the part of the pixels that are clearly different.
func differ(a, b image.Image) float64 {
	size, count := a.Bounds().Size(), 0
	for y := range size.Y {
		for x := range size.X {
			r1, g1, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			if max(r1, r2)-min(r1, r2)+max(g1, g2)-min(g1, g2)+max(b1, b2)-min(b1, b2) > 24<<8 {
				count++
			}
		}
	}
	return float64(count) / float64(size.X*size.Y)
}

// wall writes a point map: a wall at a distance of 3, seen by a camera of the embedded picture's size.
func wall(t *testing.T, path string) {
	const width, height, focal = 320, 240, 400.0
	var data bytes.Buffer
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, 3), }", height, width)
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	data.WriteString("\x93NUMPY\x01\x00")
	data.Write(binary.LittleEndian.AppendUint16(nil, uint16(len(header))))
	data.WriteString(header)
	for y := range height {
		for x := range width {
			z := 3 + 0.3*math.Sin(float64(x)/20)
			for _, v := range []float64{-(float64(x) + 0.5 - width/2) * z / focal, -(float64(y) + 0.5 - height/2) * z / focal, z} {
				data.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v))))
			}
		}
	}
	require.NoError(t, os.WriteFile(path, data.Bytes(), 0o600))
}

// A service with keys asks for one, and then works as without.
func TestPageAsksForAKey(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("me a-long-enough-key-0001\n"), 0o600))
	b := openTab(t, launch(t, t.TempDir(), "-keys", keys).url)
	for _, key := range []string{"wrong", "a-long-enough-key-0001"} {
		b.until(`document.getElementById('key-dialog').open`)
		b.do(chromedp.SendKeys("#key", key), click("#key-dialog button"))
	}
	b.until(`document.getElementById('service').textContent.includes('Demonstration') || document.getElementById('service').textContent.includes('loaded')`)
}

func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	folder := t.TempDir()
	for name, data := range map[string][]byte{"photo.png": testdata.Image, "mask.png": testdata.Mask} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
	}
	wall(t, filepath.Join(folder, "points.npy"))
	b := openTab(t, launch(t, t.TempDir()).url)
	b.save("1-empty.png")
	b.paint(folder)
	// There is no segmenter: nothing that needs one is seen.
	b.until(`['click-tool', 'beside-part', 'words', 'instances'].every((id) => document.getElementById(id).getClientRects().length === 0)`)
	b.generate(folder)
	b.look()
	b.fetch(folder)
	b.cancel()
	b.phone()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.faults)
}

// paint loads the photograph and makes a mask: by mouse, by keyboard and from a file.
func (b *tab) paint(folder string) {
	b.t.Helper()
	b.do(chromedp.SetUploadFiles("#photo", []string{filepath.Join(folder, "mask.png")}), chromedp.WaitVisible("#editor"),
		chromedp.SetUploadFiles("#photo", []string{filepath.Join(folder, "photo.png")}))
	b.until(`document.getElementById('start').disabled && document.getElementById('coverage').textContent === ''`)
	b.drag("#stage", [2]float64{0.3, 0.5}, [2]float64{0.7, 0.5})
	b.until(`!document.getElementById('start').disabled`)
	byMouse := b.text("#coverage")
	b.do(chromedp.Focus("#stage"), chromedp.KeyEvent("e"), chromedp.KeyEvent(" "))
	b.until(fmt.Sprintf("document.getElementById('coverage').textContent !== %q", byMouse)) // the eraser took some away
	b.do(click("#undo"))
	require.Equal(b.t, byMouse, b.text("#coverage"))
	b.do(click("#undo"))
	b.until(`document.getElementById('start').disabled`)
	b.do(click("#redo"), click("#invert"), click("#clear"))
	b.until(`document.getElementById('start').disabled`)
	b.do(chromedp.SetUploadFiles("#mask", []string{filepath.Join(folder, "mask.png")}))
	b.until(`!document.getElementById('start').disabled`)
	require.Contains(b.t, b.text("#coverage"), "%")
	b.save("2-mask.png")
}

// generate makes the object, with a point map that tells where the camera is.
func (b *tab) generate(folder string) {
	b.t.Helper()
	b.do(click("summary"), chromedp.SetUploadFiles("#pointmap", []string{filepath.Join(folder, "points.npy")}),
		chromedp.SetValue("#seed", "7"), chromedp.SetValue("#steps", "3"), click("#start"), chromedp.WaitVisible("#progress"))
	b.until(`document.getElementById('scene').dataset.ready`)
	require.Contains(b.t, b.text("#facts"), "seed 7")
}

// look turns the object and changes what is shown.
func (b *tab) look() {
	b.t.Helper()
	b.settled()
	b.do(click("#show-splats"))
	b.settled()
	empty := b.picture("#scene")
	b.do(click("#show-splats"))
	b.settled()
	splats := b.picture("#scene")
	require.Greater(b.t, differ(empty, splats), 0.01, "splats are seen")
	b.save("3-splats.png")
	b.drag("#scene", [2]float64{0.4, 0.5}, [2]float64{0.7, 0.6})
	b.settled()
	turned := b.picture("#scene")
	require.Greater(b.t, differ(splats, turned), 0.005, "the mouse turns them")
	b.do(chromedp.Focus("#scene"), chromedp.KeyEvent("0"))
	b.settled()
	require.Less(b.t, differ(splats, b.picture("#scene")), 0.003, "and 0 turns them back")
	for range 5 {
		b.do(chromedp.KeyEvent("\u0302")) // arrow right
	}
	b.do(click("#show-splats"), click("#show-mesh"))
	b.settled()
	require.Greater(b.t, differ(empty, b.picture("#scene")), 0.005, "the mesh is seen")
	b.save("4-mesh.png")
	b.do(click("#show-mesh"), click("#show-points"), click(`input[name="view"][value="photo"]`))
	b.settled()
	overPhoto := b.picture("#scene")
	b.do(click("#show-points"))
	b.settled()
	require.Greater(b.t, differ(overPhoto, b.picture("#scene")), 0.005, "the points lie over the photograph")
	b.do(click("#show-splats"), click("#show-mesh"))
	b.settled()
	b.save("5-photo.png")
	b.do(click("#reset"))
}

// fetch downloads every file.
func (b *tab) fetch(folder string) {
	b.t.Helper()
	var nodes []*cdp.Node
	b.do(chromedp.Nodes("#files a", &nodes, chromedp.ByQueryAll))
	require.GreaterOrEqual(b.t, len(nodes), 9)
	b.do(browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllowAndName).WithDownloadPath(folder).WithEventsEnabled(true))
	for _, node := range nodes {
		name := node.AttributeValue("download")
		b.do(click(fmt.Sprintf("#files a[download=%q]", name)))
		select {
		case id := <-b.download:
			info, err := os.Stat(filepath.Join(folder, id))
			require.NoError(b.t, err, name)
			require.Positive(b.t, info.Size(), name)
		case <-b.ctx.Done():
			b.t.Fatal("no download of ", name)
		}
	}
}

// cancel starts a long job and stops it.
func (b *tab) cancel() {
	b.t.Helper()
	b.do(chromedp.SetValue("#steps", "1000"), click("#start"))
	b.until(`document.getElementById('stage-name').textContent.startsWith('Finding') && document.getElementById('bar').value > 3`)
	b.save("6-progress.png")
	b.do(click("#cancel"))
	b.until(`document.getElementById('empty').textContent.includes('Cancelled')`)
	b.until(`!document.getElementById('start').disabled`)
}

// phone looks at the page on a small dark screen.
func (b *tab) phone() {
	b.t.Helper()
	b.do(emulation.SetDeviceMetricsOverride(390, 844, 1, true),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}))
	var overflow bool
	b.do(chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &overflow))
	require.False(b.t, overflow, "nothing is wider than the screen")
	b.save("7-phone.png")
}
