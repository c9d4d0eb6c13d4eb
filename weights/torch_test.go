// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"archive/zip"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"
)

func TestTorchRoots(t *testing.T) {
	state := dict(text("w"), vector("0"), text("__mixhavior__"), "}")
	config := dict(text("list"), list("K\x01", "G\x3f\xf8\x00\x00\x00\x00\x00\x00"), text("tuple"), tuple("N", "\x88"),
		text("negative"), "J\xff\xff\xff\xff", text("text"), text("é"))
	for name, root := range map[string]string{
		"bare": state,
		"ordered": call(global("collections", "OrderedDict")) + "(" + text("w") + vector("0") + "u" +
			dict(text("_metadata"), "N") + "b",
		"lightning": dict(text("epoch"), "K\x03", text("state_dict"), state, text("loops"), dict(text("x"), "N")),
		"moge":      dict(text("model_config"), config, text("model"), state),
		"model":     dict(text("model"), state),
		"parameter": dict(text("w"), call(global("torch._utils", "_rebuild_parameter"), vector("0"), "\x88", "}")),
		"first format": dict(text("w"), call(global("torch._utils", "_rebuild_tensor"), storage("0", 3), "K\x00",
			numbers([]int64{3}), numbers([]int64{1}))),
		"by memo": text("w") + "q\x00" + vector("0") + "r" + le(4, 70000) + "00}h\x00j" + le(4, 70000) + "s",
	} {
		t.Run(name, func(t *testing.T) {
			set, err := parseTorch(checkpointZip(t, pickled(root), "0"))
			require.NoError(t, err)
			require.NoError(t, set.Verify())
			require.Equal(t, []string{"w"}, set.Names())
			w, _ := set.Get("w")
			require.Equal(t, threeFloats, string(w.Data))
			require.Equal(t, []int{3}, w.Shape)
			require.Equal(t, dtypes.Float32, w.DType)
			if name == "moge" {
				require.Equal(t, map[string]any{"list": []any{int64(1), 1.5}, "tuple": []any{nil, true},
					"negative": int64(-1), "text": "é"}, set.ModelConfig)
			} else {
				require.Nil(t, set.ModelConfig)
			}
		})
	}
}

func TestTorchNewProtocol(t *testing.T) {
	short := func(s string) string { return "\x8c" + le(1, uint64(len(s))) + s + "\x94" }
	named := func(module, name string) string { return short(module) + short(name) + "\x93" }
	pid := "(" + short("storage") + named("torch", "FloatStorage") + short("0") + "\x8d" + le(8, 3) + "cpu" + "K\x03tQ"
	w := named("torch._utils", "_rebuild_tensor_v2") + "(" + pid + "K\x00K\x03\x85K\x01\x85\x89}tR"
	set, err := parseTorch(checkpointZip(t, "\x80\x04\x95"+le(8, 99)+"}"+short("w")+w+"s.", "0"))
	require.NoError(t, err)
	got, _ := set.Get("w")
	require.Equal(t, threeFloats, string(got.Data))
}

func TestTorchTensors(t *testing.T) {
	six := storage("0", 6)
	for _, c := range []struct {
		name          string
		tensor        string
		shape         []int
		begin, length int
		fault         string
	}{
		{"matrix", tensor(six, []int64{2, 3}, []int64{3, 1}), []int{2, 3}, 0, 24, ""},
		{"view", tensorAt(six, 4, []int64{2}, []int64{1}), []int{2}, 16, 8, ""},
		{"scalar", tensorAt(six, 5, nil, nil), nil, 20, 4, ""},
		{"strides of single axes", tensor(six, []int64{1, 6, 1}, []int64{0, 1, -9}), []int{1, 6, 1}, 0, 24, ""},
		{"empty at the end", tensorAt(six, 6, []int64{0, 4}, []int64{1, 1}), []int{0, 4}, 24, 0, ""},
		{"empty and huge", tensor(six, []int64{math.MaxInt64, 0}, []int64{1, 1}), []int{math.MaxInt64, 0}, 0, 0, ""},
		{"empty beyond", tensorAt(six, 7, []int64{0}, []int64{1}), nil, 0, 0, "outside its storage"},
		{"negative stride", tensor(six, []int64{6}, []int64{-1}), nil, 0, 0, "not contiguous"},
		{"offset wraps", tensorAt(six, math.MaxInt64, []int64{2}, []int64{1}), nil, 0, 0, "outside its storage"},
		{"too many axes", tensor(six, make([]int64, 17), make([]int64, 17)), nil, 0, 0, "malformed tensor shape"},
		{"offset is a string", call(global("torch._utils", "_rebuild_tensor"), six, text("0"), "))"), nil, 0, 0, "offset"},
		{"offset is huge", call(global("torch._utils", "_rebuild_tensor"), six, "\x8a\x09"+le(8, 1)+"\x01", "))"),
			nil, 0, 0, "offset"},
		{"stride is missing", call(global("torch._utils", "_rebuild_tensor"), six, "K\x00", ")N"), nil, 0, 0, "stride"},
		{"no storage", call(global("torch._utils", "_rebuild_tensor"), "N", "K\x00", "))"), nil, 0, 0, "no storage"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := threeFloats + threeFloats
			set, err := parseTorch(zipped(t, zipEntry{name: "a/b/data.pkl", content: pickled(dict(text("w"), c.tensor))},
				zipEntry{name: "a/b/data/0", content: data}))
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				require.ErrorIs(t, err, ErrFormat)
				return
			}
			require.NoError(t, err)
			w, _ := set.Get("w")
			require.Equal(t, c.shape, append([]int(nil), w.Shape...))
			require.Equal(t, data[c.begin:c.begin+c.length], string(w.Data))
		})
	}
}

func TestTorchFaults(t *testing.T) {
	state := dict(text("w"), vector("0"))
	lots := func(s string, n int) string { return strings.Repeat(s, n) }
	for name, c := range map[string]struct{ root, fault string }{
		"duplicate name":          {dict(text("w"), vector("0"), text("w"), vector("0")), "duplicate tensor name"},
		"unknown instruction":     {"i", "unsupported instruction 0x69"},
		"inherited class":         {"\x81", "unsupported instruction"},
		"extension":               {"\x82\x01", "unsupported instruction"},
		"protocol 9":              {"\x80\x09", "protocol 9"},
		"builtin":                 {global("builtins", "eval"), "unsupported pickle global builtins.eval"},
		"terminal escapes":        {global("a\x1b[2J", "b"), `a\x1b[2J.b`},
		"unended name":            {"c" + lots("x", 500), "unterminated name"},
		"global from numbers":     {"K\x01K\x01\x93", "not a string"},
		"call of a class":         {call(global("torch", "FloatStorage")), "call of"},
		"call of a number":        {"K\x01)R", "not a function"},
		"call with a list":        {global("collections", "OrderedDict") + "]R", "not a function"},
		"dictionary of arguments": {call(global("collections", "OrderedDict"), "]"), "OrderedDict with arguments"},
		"parameter of nothing":    {call(global("torch._utils", "_rebuild_parameter"), "N", "\x88", "}"), "parameter record"},
		"append to a number":      {"K\x01K\x01a", "not a list"},
		"items of a list":         {"](K\x01K\x01u", "not a dictionary"},
		"odd items":               {"}(K\x01u", "not a dictionary"},
		"attributes of a list":    {"]}b", "attributes"},
		"pop below a mark":        {"K\x01(0", "stack underflow"},
		"no mark":                 {"t", "no mark"},
		"marks only":              {lots("(", maxPickleStack+1), "too deep"},
		"many instructions":       {lots("N0", maxPickleSteps), "more than"},
		"long string":             {text(lots("x", maxPickleText+1)), "too long"},
		"string is not text":      {text("\xff"), "not UTF-8"},
		"string of 2^63":          {"\x8d" + le(8, 1<<63), "truncated pickle"},
		"long integer":            {"\x8a\xff" + lots("x", 255) + "\x8b" + le(4, 300) + lots("x", 300), "of 300 bytes"},
		"integer of 2^32":         {"\x8b" + le(4, 1<<32-1), "truncated pickle"},
		"nothing on the stack":    {"", "stack underflow"},
		"id of another kind":      {tuple(tuple(), "N", "N", "N", "N") + "Q", "persistent id"},
		"id without class":        {tuple(text("storage"), "N", text("0"), text("cpu"), "K\x01") + "Q", "malformed storage"},
		"view of a storage":       {dict(text("w"), tensor(storage("0", 3, tuple("K\x01")), nil, nil)), "view of another"},
		"negative storage":        {storage("0", -1), "impossible size"},
		"storage wraps":           {storage("0", math.MaxInt64/3), "impossible size"},
		"empty key":               {storage("", 1), "plain name"},
		"long key":                {storage(lots("1", 65), 1), "plain name"},
		"state_dict is a list":    {dict(text("state_dict"), "]"), "state_dict is a list"},
		"config is a list":        {dict(text("model"), state, text("model_config"), "]"), "model_config is not"},
		"config holds a tensor": {dict(text("model"), state, text("model_config"),
			dict(text("a"), vector("0"))), "a tensor"},
		"config has number keys": {dict(text("model"), state, text("model_config"),
			dict("K\x01", "N")), "not a string"},
		"config holds itself": {dict(text("model"), state, text("model_config"),
			"}q\x00("+text("a")+"h\x00u"), "too deep"},
		"config doubles itself": {dict(text("model"), state, text("model_config"),
			dict(text("a"), "]q\x00"+lots("0](h\x00h\x00eq\x00", 20))), "too large"},
		"record is too long": {dict(text("w"),
			tensor(storage("0", 2), []int64{2}, []int64{1})), "12 bytes, 8 expected: longer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTorch(checkpointZip(t, pickled(c.root), "0"))
			require.ErrorContains(t, err, c.fault)
			require.ErrorIs(t, err, ErrFormat)
		})
	}
}

func TestTorchArchives(t *testing.T) {
	state := pickled(dict(text("w"), vector("0")))
	pkl := zipEntry{name: "m/data.pkl", content: state}
	record := zipEntry{name: "m/data/0", content: threeFloats}
	patched := func(entries []byte, old, new string) []byte {
		require.Contains(t, string(entries), old)
		return []byte(strings.ReplaceAll(string(entries), old, new))
	}
	many := []zipEntry{pkl, record}
	for range 4 {
		many = append(many, zipEntry{name: strings.Repeat("n", 60000) + string(rune('a'+len(many))), content: ""})
	}
	large := pickled(dict(text("w"), tensor(storage("0", maxInflated/4+1), nil, nil)))
	bomb := zipEntry{"m/data/0", strings.Repeat("\x00", maxInflated+4), zip.Deflate}
	for name, c := range map[string]struct {
		data  []byte
		fault string
	}{
		"stored": {zipped(t, pkl, record), ""},
		"compressed": {zipped(t, zipEntry{pkl.name, state, zip.Deflate},
			zipEntry{record.name, threeFloats, zip.Deflate}), ""},
		"data before":   {append([]byte("PK\x03\x04 something in front "), zipped(t, pkl, record)...), ""},
		"long names":    {zipped(t, many...), ""},
		"empty archive": {zipped(t), "no data.pkl"},
		"at the top":    {zipped(t, zipEntry{name: "data.pkl", content: state}), "no data.pkl"},
		"big-endian":    {zipped(t, pkl, record, zipEntry{name: "m/byteorder", content: "big"}), "big-endian"},
		"long byteorder": {zipped(t, pkl, record,
			zipEntry{name: "m/byteorder", content: strings.Repeat("l", 65)}), "too many"},
		"long pickle": {zipped(t, zipEntry{"m/data.pkl", strings.Repeat("N", maxPickle+1), zip.Deflate}), "too many"},
		"damaged pickle": {patched(zipped(t, pkl, record), "FloatStorage", "HalfStorage\n"),
			"checksum error in data.pkl"},
		"damaged compressed": {damageDeflated(t, pkl), "checksum error in data/0"},
		"compression bomb":   {zipped(t, zipEntry{name: pkl.name, content: large}, bomb), "repack"},
		"encrypted":          {patchDirectory(zipped(t, pkl, record), 8, 1), "data/0 is encrypted"},
		"other compression":  {patchDirectory(zipped(t, pkl, record), 10, 12), "compression method 12"},
		"offset outside":     {patchDirectory(zipped(t, pkl, record), 43, 1), "not a complete ZIP archive"},
		"cut directory":      {zipped(t, pkl, record)[:len(state)+100], "not a complete ZIP archive"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := parseTorch(c.data)
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				require.ErrorIs(t, err, ErrFormat)
				return
			}
			require.NoError(t, err)
			require.NoError(t, set.Verify())
			w, _ := set.Get("w")
			require.Equal(t, threeFloats, string(w.Data))
		})
	}
}

// patchDirectory changes a byte of the directory's last entry.
func patchDirectory(data []byte, at int, value byte) []byte {
	data[strings.LastIndex(string(data), "PK\x01\x02")+at] = value
	return data
}

// damageDeflated is an archive whose compressed record has a wrong checksum.
func damageDeflated(t *testing.T, pkl zipEntry) []byte {
	data := string(zipped(t, pkl, zipEntry{"m/data/0", threeFloats, zip.Deflate}))
	i := strings.LastIndex(data, "PK\x01\x02")
	return []byte(data[:i+16] + "\x00\x00\x00\x00" + data[i+20:]) // the checksum in the directory
}

func TestTorchLegacy(t *testing.T) {
	state := dict(text("w"), tensor(storage("0", 3, "N"), []int64{3}, []int64{1}), text("v"), vector("0"))
	keys := list(text("0"))
	good := legacyFile(state, keys, legacyVector)
	set, err := parseTorch(good)
	require.NoError(t, err)
	require.Equal(t, []string{"v", "w"}, set.Names())
	w, _ := set.Get("w")
	require.Equal(t, threeFloats, string(w.Data))

	big := strings.Replace(string(good), "little_endian\x88", "little_endian\x89", 1)
	newer := strings.Replace(string(good), "M"+le(2, legacyProtocol), "M"+le(2, 1002), 1)
	for name, c := range map[string]struct {
		data  []byte
		fault string
	}{
		"no magic":          {[]byte(pickled(state)), "magic number"},
		"magic elsewhere":   {[]byte(pickled(text(" \x8a\x0a") + "U\x0a" + legacyMagic)), "UTF-8"},
		"big-endian":        {[]byte(big), "big-endian"},
		"newer protocol":    {[]byte(newer), "1002"},
		"keys not a list":   {legacyFile(state, "N", legacyVector), "not a list"},
		"key not a string":  {legacyFile(state, list("K\x01"), legacyVector), "the integer 1"},
		"key unknown":       {legacyFile(state, list(text("1")), legacyVector), "unknown"},
		"key twice":         {legacyFile(state, list(text("0"), text("0")), legacyVector, legacyVector), "twice"},
		"key left out":      {legacyFile(state, "]"), "is missing"},
		"other size":        {legacyFile(state, keys, le(8, 4)+threeFloats), "4 elements, 3 expected"},
		"huge size":         {legacyFile(state, keys, le(8, 1<<63)+threeFloats), "elements, 3 expected"},
		"trailing bytes":    {legacyFile(state, keys, legacyVector, "x"), "1 trailing bytes"},
		"no storage at all": {legacyFile(state, keys), "truncated storage"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTorch(c.data)
			require.ErrorContains(t, err, c.fault)
			require.ErrorIs(t, err, ErrFormat)
		})
	}
	for n := range good { // every prefix is refused
		_, err := parseTorch(good[:n])
		require.ErrorIs(t, err, ErrFormat, "%d bytes", n)
	}
}

// TestTorchPrefixes refuses every prefix of an archive.
func TestTorchPrefixes(t *testing.T) {
	data := checkpointZip(t, pickled(dict(text("w"), vector("0"))), "0")
	for n := range data {
		_, err := parseTorch(data[:n])
		require.ErrorIs(t, err, ErrFormat, "%d bytes", n)
	}
}

func TestOpenTellsFormats(t *testing.T) {
	header := `{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}` + strings.Repeat(" ", 0x280-55) + "}"
	require.Len(t, header, 0x280) // its length begins like a pickle
	for name, data := range map[string][]byte{
		"a.bin":         checkpointZip(t, pickled(dict(text("w"), vector("0"))), "0"),
		"b.safetensors": checkpointZip(t, pickled(dict(text("w"), vector("0"))), "0"),
		"c.safetensors": legacyFile(dict(text("w"), vector("0")), list(text("0")), legacyVector),
		"d.ckpt":        safetensorsFile(header, threeFloats),
	} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, data, 0o644))
		open := Open
		if name == "a.bin" {
			open = OpenTorch
		}
		set, err := open(path)
		require.NoError(t, err, name)
		require.NoError(t, set.Verify())
		w, _ := set.Get("w")
		require.Equal(t, threeFloats, string(w.Data))
		require.NoError(t, set.Close())
		require.Zero(t, set.Len())
	}
	for name, c := range map[string]struct{ content, fault string }{
		"text.ckpt":        {"hello", `begins with the text "hello"`},
		"bytes.ckpt":       {"\xff\xfe\x00\x01", "unknown magic ff fe 00 01"},
		"tar.ckpt":         {strings.Repeat("\x00", 257) + "ustar\x00", "tar archive"},
		"html.safetensors": {"<!DOCTYPE html><html></html>", "HTML page"},
		"lfs.safetensors":  {"version https://git-lfs/spec/v1\n", "Git LFS pointer"},
		"null.safetensors": {le(8, 0), "header length 0"},
		"pickle.pt":        {pickled("N"), "magic number"},
	} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(c.content), 0o644))
		_, err := Open(path)
		require.ErrorContains(t, err, c.fault)
		require.ErrorIs(t, err, ErrFormat)
	}
	_, err := Open(t.TempDir())
	require.ErrorIs(t, err, ErrFormat)
	_, err = Open(filepath.Join(t.TempDir(), "absent.ckpt"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestTorchChecksum reports a damaged record when its tensor is verified or uploaded, and not before.
func TestTorchChecksum(t *testing.T) {
	data := checkpointZip(t, pickled(dict(text("good"), vector("0"), text("bad"), vector("1"))), "0", "1")
	i := strings.LastIndex(string(data), threeFloats)
	data[i] ^= 1
	path := filepath.Join(t.TempDir(), "m.ckpt")
	require.NoError(t, os.WriteFile(path, data, 0o644))
	set, err := Open(path)
	require.NoError(t, err)
	defer set.Close()
	for range 2 {
		require.ErrorContains(t, set.Verify(), path+": checksum error in data/1")
		_, err = set.Upload(nil)
		require.ErrorIs(t, err, ErrFormat)
	}
	require.NoError(t, set.Sub("good").Verify())
	device, err := set.Sub("good").Upload(nil)
	require.NoError(t, err)
	require.Len(t, device, 1)
}

func FuzzTorch(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkParsed(t, data, parseTorch) })
}

// FuzzPickle needs no archive around the pickle, whose checksum a fuzzer does not find.
func FuzzPickle(f *testing.F) {
	state := dict(text("w"), vector("0"))
	moge := dict(text("model"), state, text("model_config"), dict(text("a"), "]"))
	for _, body := range []string{state, dict(text("state_dict"), state), moge} {
		f.Add([]byte(pickled(body)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkParsed(t, data, func(data []byte) (*Set, error) {
			root, _, _, err := unpickle(data)
			if err != nil {
				return nil, err
			}
			return torchSet(root, func(_ string, s *pyStorage) ([]byte, *record, error) {
				if s.numel > 1<<10 {
					return nil, nil, faultf("large")
				}
				return make([]byte, int(s.numel)*s.dtype.Size()), nil, nil
			})
		})
	})
}

// checkParsed demands a typed error or tensors whose bytes fit their shapes.
func checkParsed(t *testing.T, data []byte, parse func([]byte) (*Set, error)) {
	set, err := parse(data)
	if err != nil {
		require.ErrorIs(t, err, ErrFormat)
		return
	}
	_ = set.Verify()
	for name, w := range set.tensors {
		size, err := byteSize(name, w.Shape, w.DType)
		require.NoError(t, err)
		require.Len(t, w.Data, size)
	}
}
