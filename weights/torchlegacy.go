// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"bytes"
	"encoding/binary"
)

// A legacy file is a stream: five pickles (magic number, protocol, facts about the writing machine, the object, the
// storage keys), then for each key the number of elements in 8 bytes and the elements.

// legacyMagic is the magic number, as a pickle holds it.
const legacyMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"

const legacyProtocol = 1001

// isPickle reports whether data starts like a pickle.
func isPickle(data []byte) bool {
	return len(data) >= 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5
}

// isLegacy reports whether data starts like a legacy file.
func isLegacy(data []byte) bool {
	return isPickle(data) && bytes.Contains(data[:min(len(data), 32)], []byte(legacyMagic))
}

func parseTorchLegacy(data []byte) (*Set, error) {
	if !isLegacy(data) {
		return nil, faultf("not a checkpoint: a pickle without the magic number of PyTorch")
	}
	l := &legacy{rest: data}
	if err := l.readHead(); err != nil {
		return nil, err
	}
	root, storages, err := l.readPickle()
	if err != nil {
		return nil, err
	}
	keys, _, err := l.readPickle()
	if err != nil {
		return nil, err
	}
	content, err := l.readStorages(keys, storages)
	if err != nil {
		return nil, err
	}
	return torchSet(root, func(tensor string, s *pyStorage) ([]byte, *record, error) {
		data, ok := content[s.key]
		if !ok {
			return nil, nil, faultf("storage %s of tensor %q is missing", s.key, tensor)
		}
		return data, nil, nil
	})
}

// legacy reads a legacy file.
type legacy struct{ rest []byte }

func (l *legacy) readPickle() (any, map[string]*pyStorage, error) {
	value, storages, n, err := unpickle(l.rest)
	if err != nil {
		return nil, nil, err
	}
	l.rest = l.rest[n:]
	return value, storages, nil
}

// readHead reads the first three pickles.
func (l *legacy) readHead() error {
	magic, _, err := l.readPickle()
	if err != nil {
		return err
	}
	if magic != any(pyLong(legacyMagic)) {
		return faultf("not a checkpoint: wrong magic number")
	}
	protocol, _, err := l.readPickle()
	if err != nil {
		return err
	}
	if protocol != any(int64(legacyProtocol)) {
		return faultf("unsupported legacy protocol: %s", describe(protocol))
	}
	machine, _, err := l.readPickle()
	if err != nil {
		return err
	}
	if facts, ok := machine.(*pyDict); !ok || facts.get("little_endian") != any(true) {
		return faultf("big-endian checkpoints are not supported")
	}
	return nil
}

// readStorages reads the storages in the order of keys, up to the end of the file.
func (l *legacy) readStorages(keys any, storages map[string]*pyStorage) (map[string][]byte, error) {
	list, ok := keys.(*pyList)
	if !ok {
		return nil, faultf("malformed legacy file: storage keys are not a list")
	}
	content := make(map[string][]byte)
	for _, item := range list.items {
		key, _ := item.(string)
		s := storages[key]
		if s == nil || content[key] != nil {
			return nil, faultf("malformed legacy file: storage key is unknown or listed twice: %s", describe(item))
		}
		if len(l.rest) < 8 {
			return nil, faultf("truncated storage %s: the file ends before it", key)
		}
		numel := binary.LittleEndian.Uint64(l.rest)
		l.rest = l.rest[8:]
		if numel != uint64(s.numel) {
			return nil, faultf("storage %s has %d elements, %d expected", key, numel, s.numel)
		}
		size := numel * uint64(s.dtype.Size())
		if size > uint64(len(l.rest)) {
			return nil, faultf("truncated storage %s: %d bytes, %d expected", key, len(l.rest), size)
		}
		content[key] = l.rest[:size:size]
		l.rest = l.rest[size:]
	}
	if len(l.rest) > 0 {
		return nil, faultf("%d trailing bytes after the last storage", len(l.rest))
	}
	return content, nil
}
