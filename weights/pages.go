// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"os"
	"sync"
	"unsafe"
)

// mapped are the files that are mapped now, by their first byte. A tensor does not know its file, as its bytes may come
// from any number of them, or from none.
var mapped struct {
	sync.Mutex
	files map[*byte]int // length
}

func addMapped(data []byte) {
	mapped.Lock()
	defer mapped.Unlock()
	if mapped.files == nil {
		mapped.files = make(map[*byte]int)
	}
	mapped.files[unsafe.SliceData(data)] = len(data)
}

func removeMapped(data []byte) {
	mapped.Lock()
	defer mapped.Unlock()
	delete(mapped.files, unsafe.SliceData(data))
}

// forget gives the memory of a tensor's pages back if its bytes are a view of a mapped file: after its upload the
// process would hold it twice. Reading it again reads the file again.
func forget(data []byte) {
	page := uintptr(os.Getpagesize())
	if uintptr(len(data)) < 2*page {
		return
	}
	mapped.Lock()
	defer mapped.Unlock() // the file stays mapped meanwhile
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	for first, length := range mapped.files {
		if start := uintptr(unsafe.Pointer(first)); begin >= start && begin+uintptr(len(data)) <= start+uintptr(length) {
			skip := (page - begin%page) % page
			whole := (uintptr(len(data)) - skip) / page * page
			dropPages(data[skip : skip+whole])
			return
		}
	}
}
