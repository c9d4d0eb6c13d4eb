// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/examples/internal/segmenter/tiny"
	"github.com/gomlx3d/image3d/testdata"
)

// TestPageFinds makes an object of clicks and words.
func TestPageFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts a browser")
	}
	folder, model := t.TempDir(), t.TempDir()
	require.NoError(t, tiny.Write(model, tiny.Sure))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "photo.png"), testdata.Image, 0o600))
	b := openTab(t, launch(t, t.TempDir(), "-segmenter", model, "-encodings", "1").url)
	b.until(`!document.getElementById('click-tool').hidden`)
	b.do(chromedp.SetUploadFiles("#photo", []string{filepath.Join(folder, "photo.png")}), chromedp.WaitVisible("#editor"))
	b.clicks()
	b.words()
	b.do(click("summary"), chromedp.SetValue("#steps", "1"), click("#start"), chromedp.WaitVisible("#progress"))
	b.until(`document.getElementById('scene').dataset.ready`)
	b.do(emulation.SetDeviceMetricsOverride(390, 844, 1, true))
	var overflow bool
	b.do(chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &overflow))
	require.False(t, overflow, "nothing is wider than the screen")
	b.save("f3-phone.png")
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.faults)
}

// press clicks on a place of the stage, in parts of its size.
func (b *tab) press(x, y float64, modifiers ...input.Modifier) {
	b.t.Helper()
	var box struct{ X, Y, Width, Height float64 }
	b.do(chromedp.ScrollIntoView("#stage", chromedp.ByQuery), drawn,
		chromedp.Evaluate(`document.getElementById('stage').getBoundingClientRect().toJSON()`, &box))
	b.do(chromedp.MouseClickXY(box.X+x*box.Width, box.Y+y*box.Height, chromedp.ButtonModifiers(modifiers...)))
}

// marks waits until there are clicks on the object and beside it, all of them answered.
func (b *tab) marks(on, beside int) {
	b.t.Helper()
	b.until(fmt.Sprintf(`['.mark', '.mark.beside', '.mark.waiting'].map((s) => document.querySelectorAll(s).length).join() === '%d,%d,0'`,
		on+beside, beside))
	b.until(`document.getElementById('find-note').textContent.startsWith('Score')`)
}

// clicks finds an object by clicks, with the mouse and the keyboard, and takes them back.
func (b *tab) clicks() {
	b.t.Helper()
	bare := b.picture("#stage")
	b.do(click("#click-tool"))
	b.press(0.2, 0.2, input.ModifierShift)
	b.until(`document.getElementById('edit-error').textContent.includes('on the object first')`)
	b.press(0.5, 0.5)
	b.marks(1, 0)
	b.until(`document.getElementById('coverage').textContent.includes('%')`)
	require.Greater(b.t, differ(bare, b.picture("#stage")), 0.01, "the mask is shown")
	one := b.text("#coverage")
	b.press(0.1, 0.1, input.ModifierShift)
	b.marks(1, 1)
	b.do(click("#beside"))
	b.press(0.9, 0.1)
	b.marks(1, 2)
	b.do(click("#beside"), chromedp.Focus("#stage"), chromedp.KeyEvent("\u0301"), chromedp.KeyEvent(" ")) // arrow left
	b.marks(2, 2)
	b.save("f1-clicks.png")
	b.press(0.9, 0.9)
	for range 4 { // the first at once, before the answer
		b.do(click("#undo"))
	}
	b.marks(1, 0)
	require.Equal(b.t, one, b.text("#coverage"), "undo brings the mask of the first click back")
	b.do(chromedp.KeyEvent("b"))
	b.drag("#stage", [2]float64{0.1, 0.9}, [2]float64{0.9, 0.9}) // the brush edits what the clicks found
	b.marks(0, 0)
}

// words finds objects by words and picks one.
func (b *tab) words() {
	b.t.Helper()
	b.do(click("#clear"), chromedp.SendKeys("#text", "the mug\r"))
	b.until(fmt.Sprintf(`document.querySelectorAll('#instances input').length === %d`, tiny.Queries))
	require.Contains(b.t, b.text("#find-note"), "found")
	b.do(click("#instances label:nth-child(2)"))
	b.until(`document.getElementById('coverage').textContent.includes('%')`)
	second := b.text("#coverage")
	b.do(click("#instances label:nth-child(1)"), click("#undo"))
	require.Equal(b.t, second, b.text("#coverage"))
	b.until(`document.querySelector('#instances label:nth-child(2) input').checked`)
	b.save("f2-words.png")
}
