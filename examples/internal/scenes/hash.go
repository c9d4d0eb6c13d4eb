// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// HashFile returns the SHA-256 of a file.
func HashFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hexOf(h), nil
}

// hashOf returns the SHA-256 of a value's JSON.
func hashOf(value any) (string, error) {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(value); err != nil {
		return "", err
	}
	return hexOf(h), nil
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// sample is how much of a model's file is looked at, at both ends.
const sample = 1 << 16

// Fingerprint tells models apart without reading all of them: it is of the names, sizes, beginnings and ends of the files
// in a folder, or of one file. The end of a PyTorch file lists the checksums of all its tensors.
func Fingerprint(folder string) (string, error) {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && path != folder && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return addFile(h, filepath.ToSlash(name), path)
	})
	return hexOf(h), err
}

// addFile adds a file to a fingerprint. The caches of model hubs are of links to files.
func addFile(h hash.Hash, name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	fmt.Fprintf(h, "%q %d\n", name, info.Size())
	for _, at := range []int64{0, max(0, info.Size()-sample)} {
		if _, err := io.Copy(h, io.NewSectionReader(file, at, sample)); err != nil {
			return err
		}
	}
	return nil
}
