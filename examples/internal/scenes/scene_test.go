// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A record that was changed by hand makes an object again, and reads nothing outside of the folder.
func TestIsWhole(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "a.ply")
	require.NoError(t, os.WriteFile(path, []byte("splats"), 0o666))
	sum, err := HashFile(path)
	require.NoError(t, err)
	good := func() *Made {
		return &Made{State: Done, Pose: &Pose{Rotation: [4]float64{1}, Scale: 1}, Files: []File{{"a.ply", 6, sum}}}
	}
	whole, err := good().isWhole(folder)
	require.NoError(t, err)
	require.True(t, whole)
	for name, change := range map[string]func(o *Made){
		"pending":   func(o *Made) { o.State = Pending },
		"no pose":   func(o *Made) { o.Pose = nil },
		"bad pose":  func(o *Made) { o.Pose.Scale = 0 },
		"no files":  func(o *Made) { o.Files = nil },
		"gone":      func(o *Made) { o.Files[0].Path = "b.ply" },
		"outside":   func(o *Made) { o.Files[0].Path = "../" + filepath.Base(folder) + "/a.ply" },
		"absolute":  func(o *Made) { o.Files[0].Path = path },
		"size":      func(o *Made) { o.Files[0].Bytes++ },
		"content":   func(o *Made) { o.Files[0].SHA256 = "0" },
		"a second":  func(o *Made) { o.Files = append(o.Files, File{"c.glb", 0, ""}) },
		"no object": func(o *Made) { *o = Made{} },
	} {
		o := good()
		change(o)
		whole, err := o.isWhole(folder)
		require.NoError(t, err, name)
		require.False(t, whole, name)
	}
}

func TestDistinguish(t *testing.T) {
	var objects []Object
	for _, name := range []string{"chair", "Chair", "chair", "chair-2", "..", "", ". .", "a/b\\c:d\n", "été", "x."} {
		objects = append(objects, Object{Name: name})
	}
	Distinguish(objects)
	var got []string
	for _, o := range objects {
		got = append(got, o.Name)
		require.Equal(t, o.Name, filepath.Base(o.Name))
	}
	require.Equal(t, []string{"chair", "Chair-2", "chair-3", "chair-2-2", "object", "object-2", "object-3", "a_b_c_d_", "été", "x"}, got)
}

// A fingerprint is of the files' names and contents, not of where they are.
func TestFingerprint(t *testing.T) {
	write := func(files map[string]string) string {
		folder := t.TempDir()
		for name, content := range files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666))
		}
		return must(Fingerprint(folder))
	}
	want := write(map[string]string{"a": "1", "b": "2"})
	require.Equal(t, want, write(map[string]string{"a": "1", "b": "2"}))
	for _, other := range []map[string]string{{"a": "1"}, {"a": "1", "b": "3"}, {"a": "2", "b": "1"}, {"a": "1", "c": "2"}, {"a": "12", "b": ""}} {
		require.NotEqual(t, want, write(other))
	}
	_, err := Fingerprint(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	link := filepath.Join(t.TempDir(), "link")
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a"), []byte("1"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "target"), []byte("2"), 0o666))
	require.NoError(t, os.Rename(filepath.Join(folder, "target"), filepath.Join(filepath.Dir(folder), "blob")))
	if os.Symlink(filepath.Join(filepath.Dir(folder), "blob"), filepath.Join(folder, "b")) == nil && os.Symlink(folder, link) == nil {
		require.Equal(t, want, must(Fingerprint(link)), "as in the cache of a hub")
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
