// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package weights

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"

	"github.com/gomlx/compute/dtypes"
)

var safetensorsDTypes = map[string]dtypes.DType{
	"F64": dtypes.Float64, "F32": dtypes.Float32, "F16": dtypes.Float16, "BF16": dtypes.BFloat16,
	"I64": dtypes.Int64, "I32": dtypes.Int32, "I16": dtypes.Int16, "I8": dtypes.Int8,
	"U64": dtypes.Uint64, "U32": dtypes.Uint32, "U16": dtypes.Uint16, "U8": dtypes.Uint8, "BOOL": dtypes.Bool,
}

// OpenSafetensors maps a safetensors file.
func OpenSafetensors(path string) (*Set, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	n := binary.LittleEndian.Uint64(data)
	var header map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		return nil, fmt.Errorf("weights: %s: header: %w", path, err)
	}
	body := data[8+n:]
	set := &Set{tensors: make(map[string]Tensor)}
	for name, raw := range header {
		if name == "__metadata__" {
			continue
		}
		var e struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("weights: %s: %q: %w", path, name, err)
		}
		set.tensors[name] = Tensor{DType: safetensorsDTypes[e.DType], Shape: e.Shape, Data: body[e.Offsets[0]:e.Offsets[1]]}
	}
	return set, nil
}
