// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"fmt"
	"slices"
	"sync"

	"github.com/gomlx/gomlx/core/tensors"
)

// maxCachedTexts bounds the texts whose encodings a model keeps; each takes ContextLength x ModelDim numbers.
const maxCachedTexts = 256

// lexicon encodes texts for a model and remembers the results.
type lexicon struct {
	mu        sync.Mutex
	tokenizer *tokenizer // nil without a vocabulary
	missing   error      // why there is none
	known     map[string]encodedText
	order     []string // of the known texts, the oldest first
}

type encodedText struct {
	tokens []float32 // [L, D]
	valid  []bool    // [L]
}

// LoadVocabulary reads the vocabulary of the text encoder, which is CLIP's: bpe_simple_vocab_16e6.txt.gz as Meta has it,
// or merges.txt or tokenizer.json as transformers does. The path names one of these, or a folder that holds one. Open
// does this for the checkpoint's folder. Errors wrap ErrVocabulary.
func (m *Model) LoadVocabulary(path string) error {
	t, err := readTokenizer(path, m.cfg)
	if err != nil {
		return err
	}
	m.lexicon.mu.Lock()
	defer m.lexicon.mu.Unlock()
	m.lexicon.tokenizer, m.lexicon.known, m.lexicon.order = t, nil, nil
	return nil
}

// tokens returns the tokens of a text, without padding.
func (l *lexicon) tokens(text string) ([]int32, error) {
	l.mu.Lock()
	t, missing := l.tokenizer, l.missing
	l.mu.Unlock()
	if t == nil {
		if missing == nil {
			missing = fmt.Errorf("%w: none was loaded", ErrVocabulary)
		}
		return nil, missing
	}
	return t.encode(text)
}

// words encodes a text. Its tensors belong to the stage.
func (m *Model) words(s *stage, text string) (words, error) {
	l := &m.lexicon
	l.mu.Lock()
	found, ok := l.known[text]
	l.mu.Unlock()
	if !ok {
		ids, err := l.tokens(text)
		if err != nil {
			return words{}, err
		}
		padded := slices.Repeat([]int32{int32(m.cfg.PadToken)}, m.cfg.ContextLength)
		copy(padded, ids)
		found.valid = make([]bool, len(padded))
		for i := range ids {
			found.valid[i] = true
		}
		found.tokens = s.floats(m.grounding.encodeText(s, padded, 1))
		if s.err != nil {
			return words{}, s.err
		}
		l.keep(text, found)
	}
	tokens := tensors.FromFlatDataAndDimensions(found.tokens, 1, m.cfg.ContextLength, m.cfg.ModelDim)
	s.own(tokens)
	return words{tokens: tokens, valid: [][]bool{found.valid}}, nil
}

// keep remembers a text, and forgets the oldest one if there are too many.
func (l *lexicon) keep(text string, e encodedText) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[text]; ok {
		return
	}
	if l.known == nil {
		l.known = make(map[string]encodedText)
	}
	if len(l.order) == maxCachedTexts {
		delete(l.known, l.order[0])
		l.order = l.order[1:]
	}
	l.known[text], l.order = e, append(l.order, text)
}
