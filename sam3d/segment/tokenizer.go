// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gomlx/go-huggingface/tokenizers/api"
	"github.com/gomlx/go-huggingface/tokenizers/hftokenizer"
)

const (
	// maxText bounds what may count of a text, in bytes.
	maxText = 1 << 12
	// endOfWord marks the last symbol of a word.
	endOfWord = "</w>"
	// specialTokens is how many tokens stand for no text: the start and the end.
	specialTokens = 2
)

// wordPattern splits a text into words: contractions, letters, single digits, and what is left.
const wordPattern = `(?i)<start_of_text>|<end_of_text>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`

// tokenizer turns texts into the tokens of CLIP (Radford et al., 2021): byte pairs of lower-case words.
type tokenizer struct {
	words *hftokenizer.Tokenizer
	cfg   Config
}

// newTokenizer makes the tokenizer of the first of the given merges that the configuration's vocabulary has room for.
func newTokenizer(merges []string, cfg Config) (*tokenizer, error) {
	bytes := byteSymbols()
	n := cfg.VocabularySize - 2*len(bytes) - specialTokens
	if n < 0 || len(merges) < n {
		return nil, fmt.Errorf("%d merges for %d tokens", len(merges), cfg.VocabularySize)
	}
	merges = merges[:n]
	vocabulary := make(map[string]int, cfg.VocabularySize)
	put := func(symbol string) { vocabulary[symbol] = len(vocabulary) }
	for _, symbol := range bytes {
		put(symbol)
	}
	for _, symbol := range bytes {
		put(symbol + endOfWord)
	}
	for i, merge := range merges {
		first, second, ok := strings.Cut(merge, " ")
		if joined := first + second; !ok || strings.Contains(second, " ") || first == "" || second == "" {
			return nil, fmt.Errorf("merge %d is %q, no pair", i, merge)
		} else if _, twice := vocabulary[joined]; twice {
			return nil, fmt.Errorf("merge %d, %q, makes a symbol that is there already", i, merge)
		}
		put(first + second)
	}
	file, err := json.Marshal(tokenizerFile(vocabulary, merges, cfg))
	if err != nil {
		return nil, err
	}
	words, err := hftokenizer.NewFromContent(&api.Config{}, file)
	if err != nil {
		return nil, err
	}
	if err := words.With(api.EncodeOptions{}); err != nil {
		return nil, err
	}
	return &tokenizer{words: words, cfg: cfg}, nil
}

// tokenizerFile is the content of a tokenizer.json. The text is cleaned before.
func tokenizerFile(vocabulary map[string]int, merges []string, cfg Config) map[string]any {
	special := func(id int, content string) map[string]any {
		return map[string]any{"id": id, "content": content, "special": true}
	}
	return map[string]any{
		"added_tokens": []any{special(cfg.BeginToken, "<start_of_text>"), special(cfg.EndToken, "<end_of_text>")},
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": wordPattern}, "behavior": "Removed", "invert": true},
			map[string]any{"type": "ByteLevel"},
		}},
		"model": map[string]any{"type": "BPE", "vocab": vocabulary, "merges": merges, "end_of_word_suffix": endOfWord},
	}
}

// encode returns the tokens of a text between those of the start and the end. Longer texts are cut to the context length,
// the last token being that of the end.
func (t *tokenizer) encode(text string) ([]int32, error) {
	text = cleanText(text)
	if words := strings.Fields(text); len(words) > t.cfg.ContextLength { // each makes a token or more
		text = strings.Join(words[:t.cfg.ContextLength], " ")
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: %d words of %d bytes, at most %d", ErrInput, len(strings.Fields(text)), len(text), maxText)
	}
	ids := []int32{int32(t.cfg.BeginToken)}
	for _, id := range t.words.Encode(text) {
		ids = append(ids, int32(id))
	}
	ids = append(ids, int32(t.cfg.EndToken))
	if n := t.cfg.ContextLength; len(ids) > n {
		ids = ids[:n]
		ids[n-1] = int32(t.cfg.EndToken)
	}
	return ids, nil
}

// byteSymbols are the characters that stand for bytes: printable ones for themselves, others from U+0100 on. They come
// in the vocabulary's order, the printable ones first.
func byteSymbols() []string {
	var printable, others []string
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			printable = append(printable, string(rune(b)))
		} else {
			others = append(others, string(rune(256+len(others))))
		}
	}
	return append(printable, others...)
}
