// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomlx3d/image3d/internal/fixture"
	"github.com/gomlx3d/image3d/weights"
)

// badCase is a line of the manifest of damaged and hostile files.
type badCase struct {
	File        string `json:"file"`
	What        string `json:"what"`
	Expect      string `json:"expect"`
	MLX         string `json:"mlx"`
	Torch       string `json:"torch"`
	Safetensors string `json:"safetensors"`
}

// maxAllocation bounds what reading any of the files may allocate, in bytes.
const maxAllocation = 16 << 20

// keywords are what the error for a file must contain. A file that is not listed must share words with the manifest's
// description.
var keywords = map[string][]string{
	"truncated_zip.ckpt":                  {"not a complete ZIP archive"},
	"empty_file.ckpt":                     {"empty file"},
	"html_page.ckpt":                      {"not a checkpoint", "HTML"},
	"lfs_pointer.ckpt":                    {"not a checkpoint", "Git LFS pointer"},
	"no_data_pkl.ckpt":                    {"no data.pkl in archive"},
	"two_data_pkl.ckpt":                   {"ambiguous: more than one data.pkl"},
	"duplicate_entry.ckpt":                {"duplicate archive entry tiny/data/0"},
	"path_traversal.ckpt":                 {"storage key", "is not a plain name"},
	"missing_record.ckpt":                 {"record data/1", "bias", "is missing"},
	"short_record.ckpt":                   {"record data/0 has 20 bytes, 24 expected"},
	"big_endian.ckpt":                     {"big-endian checkpoints are not supported"},
	"crc_mismatch.ckpt":                   {"checksum error in data/0"},
	"os_system.ckpt":                      {"unsupported pickle global posix.system"},
	"os_system_nested.ckpt":               {"unsupported pickle global", "system"},
	"truncated_pickle.ckpt":               {"truncated pickle"},
	"pickle_stack_underflow.ckpt":         {"malformed pickle", "stack underflow"},
	"pickle_bad_memo.ckpt":                {"malformed pickle", "memo"},
	"pickle_huge_string.ckpt":             {"truncated pickle"},
	"pickle_deep_nesting.ckpt":            {"too deep"},
	"root_is_list.ckpt":                   {"not a dictionary of tensors", "list"},
	"key_not_string.ckpt":                 {"tensor name is not a string", "7"},
	"value_not_tensor.ckpt":               {`entry "version" is not a tensor`},
	"self_reference.ckpt":                 {"not a dictionary of tensors"},
	"storage_oob.ckpt":                    {"weight", "tensor lies outside its storage"},
	"negative_offset.ckpt":                {"weight", "negative storage offset"},
	"negative_shape.ckpt":                 {"weight", "negative dimension"},
	"huge_shape.ckpt":                     {"weight", "too large"},
	"huge_storage.ckpt":                   {"record data/0 has 24 bytes", "shorter than declared"},
	"shape_stride_rank.ckpt":              {"shape and stride ranks differ"},
	"shape_not_int.ckpt":                  {"malformed tensor shape"},
	"zero_stride.ckpt":                    {"not contiguous"},
	"transposed.ckpt":                     {"not contiguous"},
	"unknown_storage.ckpt":                {"unsupported storage type QInt8Storage"},
	"wrong_dtype.ckpt":                    {"record data/0 has 24 bytes, 48 expected"},
	"persistent_id_not_storage.ckpt":      {"unsupported persistent id"},
	"storage_disagree.ckpt":               {"storage 0", "declared twice with different type or size"},
	"rebuild_without_args.ckpt":           {"malformed tensor record"},
	"legacy_truncated.pt":                 {"truncated storage"},
	"header_longer_than_file.safetensors": {"header longer than the file"},
	"header_length_huge.safetensors":      {"header length", "invalid"},
	"shorter_than_8.safetensors":          {"file too short"},
	"bad_json.safetensors":                {"invalid JSON", "header"},
	"header_not_object.safetensors":       {"header", "is not an object"},
	"header_bad_utf8.safetensors":         {"invalid UTF-8 in header"},
	"overlapping.safetensors":             {"bias", "overlapping tensors"},
	"gap.safetensors":                     {"gap", "in the data section"},
	"trailing_bytes.safetensors":          {"data section is longer than the tensors"},
	"offset_past_end.safetensors":         {"bias", "outside the file"},
	"reversed_offsets.safetensors":        {"end offset 0 before begin offset 24"},
	"negative_offsets.safetensors":        {"negative offset"},
	"size_mismatch.safetensors":           {"byte length 20 does not match shape"},
	"shape_overflow.safetensors":          {"size overflow"},
	"negative_shape.safetensors":          {"negative dimension"},
	"unknown_dtype.safetensors":           {"unknown dtype F13"},
	"duplicate_key.safetensors":           {"duplicate", "tensor name", "weight"},
	"missing_offsets.safetensors":         {"missing data_offsets"},
	"bundle_traversal":                    {"shards must be plain file names in the bundle folder"},
	"bundle_missing_shard":                {"shard model-00001-of-00006.safetensors not found"},
	"bundle_duplicate_tensor":             {"weight", "duplicate tensor name across shards"},
	"bundle_wrong_names":                  {"missing", "unexpected", "weight", "ss_generator.*"},
	"bundle_moge1_flag":                   {"depth_model must be a MoGe-3 configuration"},
	"bundle_bad_index":                    {"invalid", "model.safetensors.index.json"},
}

// TestReference reads every file of the manifest: those called ok_ must hold what it says, the others must be refused
// for the reason that it says.
func TestReference(t *testing.T) {
	dir := filepath.Join(fixture.Dir(), "checkpoint_bad")
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	require.NoError(t, err)
	var cases []badCase
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		t.Run(c.File, func(t *testing.T) {
			tensors, err := readAll(t, filepath.Join(dir, c.File))
			switch {
			case strings.HasPrefix(c.File, "ok_"):
				require.NoError(t, err)
				checkTensors(t, c, tensors)
			case err == nil && strings.HasPrefix(c.Expect, "either loads"):
				checkTensors(t, c, tensors)
			default:
				checkRefusal(t, c, err)
			}
		})
	}
	require.NoFileExists(t, "/tmp/sam3d_pickle_run", "a pickle was run")
}

// readAll reads all tensors of a file or bundle, within the allocation bound.
func readAll(t *testing.T, path string) (map[string]weights.Tensor, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tensors, err := readTensors(path)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(maxAllocation), "allocated bytes")
	return tensors, err
}

func readTensors(path string) (map[string]weights.Tensor, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		checkpoint, err := weights.OpenCheckpoint(path)
		if err != nil {
			return nil, err
		}
		defer checkpoint.Close()
		for _, name := range componentNames {
			if checkpoint.Has(name) {
				if _, err := checkpoint.Component(name); err != nil {
					return nil, err
				}
			}
		}
		return nil, nil
	}
	set, err := weights.Open(path)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	if err := set.Verify(); err != nil {
		return nil, err
	}
	tensors := make(map[string]weights.Tensor)
	for _, name := range set.Names() {
		tensor, _ := set.Get(name)
		tensor.Data = append([]byte{}, tensor.Data...)
		tensors[name] = tensor
	}
	return tensors, nil
}

func checkRefusal(t *testing.T, c badCase, err error) {
	require.Error(t, err, "%s: %s", c.What, c.Expect)
	require.ErrorIs(t, err, weights.ErrFormat)
	var fault *weights.FormatError
	require.True(t, errors.As(err, &fault))
	require.Contains(t, fault.Path, c.File)
	t.Log(err)
	if words := keywords[c.File]; words != nil {
		for _, word := range words {
			require.Contains(t, err.Error(), word, "expected: %s", c.Expect)
		}
		return
	}
	// Unknown to this test: the error must speak of what the manifest speaks of.
	said := strings.ToLower(strings.TrimPrefix(err.Error(), "weights: "+fault.Path))
	shared := 0
	for _, word := range regexp.MustCompile(`[a-z0-9_.]{3,}`).FindAllString(strings.ToLower(c.Expect+" "+c.What), -1) {
		if strings.Contains(said, strings.Trim(word, ".")) {
			shared++
		}
	}
	require.Positive(t, shared, "%q has nothing of %q", said, c.Expect)
}

var (
	// "weight(2, 3)" in the columns that say what other readers find.
	foundShape = regexp.MustCompile(`(\w+)\(((?:\d+(?:, ?)?)*)\)`)
	// "weight (2,3) F32 = 0..5" in the columns that say what is there.
	statedValues = regexp.MustCompile(`(\w+) \(((?:\d+,?)*)\)(?: (\w+))?(?: = ([-\d.,]*\d))?`)
)

// checkTensors compares tensors with the shapes and values that the manifest mentions.
func checkTensors(t *testing.T, c badCase, tensors map[string]weights.Tensor) {
	checked := 0
	for _, text := range []string{c.MLX, c.Torch, c.Safetensors} {
		list, ok := strings.CutPrefix(text, "loads: ")
		if !ok {
			continue
		}
		found := foundShape.FindAllStringSubmatch(list, -1)
		require.Len(t, tensors, len(found))
		for _, m := range found {
			require.Equal(t, ints(t, m[2]), append([]int{}, tensors[m[1]].Shape...), m[1])
			checked++
		}
	}
	what := c.What + "; " + c.Expect
	if strings.Contains(what, "same two tensors as ok_valid.ckpt") || strings.Contains(what, "the valid state dict") ||
		strings.HasPrefix(c.File, "ok_unordered_offsets") {
		what += "; weight (2,3) F32 = 0..5, bias (3,) F32 = 0.5,-1,2"
	}
	for _, m := range statedValues.FindAllStringSubmatch(what, -1) {
		tensor, ok := tensors[m[1]]
		if !ok {
			continue // prose
		}
		require.Equal(t, ints(t, m[2]), append([]int{}, tensor.Shape...), m[1])
		if m[4] != "" {
			require.Equal(t, numbers(t, m[4]), float32s(t, tensor), m[1])
		}
		checked++
	}
	require.Positive(t, checked, "nothing was compared: %s", what)
}

func ints(t *testing.T, list string) []int {
	out := []int{}
	for _, text := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		out = append(out, n)
	}
	return out
}

// numbers reads "0..5" or "0.5,-1,2".
func numbers(t *testing.T, list string) []float32 {
	var out []float32
	if first, last, ok := strings.Cut(list, ".."); ok {
		from, err := strconv.Atoi(first)
		require.NoError(t, err)
		to, err := strconv.Atoi(last)
		require.NoError(t, err)
		for n := from; n <= to; n++ {
			out = append(out, float32(n))
		}
		return out
	}
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.ParseFloat(text, 32)
		require.NoError(t, err)
		out = append(out, float32(n))
	}
	return out
}
