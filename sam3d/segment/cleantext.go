// Copyright 2026 The image3d Authors. SPDX-License-Identifier: Apache-2.0

package segment

import (
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/language"
	unicodenorm "golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// cleanText brings a text into the form that the vocabulary is made for: what programs did to it on its way is undone
// (as far as the ftfy library of the original does so), entities become characters, white space becomes single blanks,
// letters become small.
func cleanText(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if !strings.Contains(text, "<") { // no markup, in which an entity would mean itself
		text = html.UnescapeString(text)
	}
	text = escapes.ReplaceAllString(text, "")
	text = repaired(text)
	text = uncurled.Replace(strings.Map(usual, text))
	text = unicodenorm.NFC.String(strings.Map(withoutControls, text))
	text = html.UnescapeString(html.UnescapeString(text))
	text = strings.Join(strings.Fields(text), " ")
	return cases.Lower(language.Und).String(text)
}

// escapes are what terminals take for changes of colour.
var escapes = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// uncurled replaces typographic quotes, ligatures and two letters in one by what keyboards have.
var uncurled = strings.NewReplacer(
	"\u2018", "'", "\u2019", "'", "\u201a", "'", "\u201b", "'", "\u02bc", "'",
	"\u201c", `"`, "\u201d", `"`, "\u201e", `"`, "\u201f", `"`,
	"\ufb00", "ff", "\ufb01", "fi", "\ufb02", "fl", "\ufb03", "ffi", "\ufb04", "ffl", "\ufb05", "\u017ft", "\ufb06", "st",
	"\u0132", "IJ", "\u0133", "ij", "\u0149", "'n", "\u01c4", "D\u017d", "\u01c5", "D\u017e", "\u01c6", "d\u017e",
	"\u01c7", "LJ", "\u01c8", "Lj", "\u01c9", "lj", "\u01ca", "NJ", "\u01cb", "Nj", "\u01cc", "nj",
	"\u01f1", "DZ", "\u01f2", "Dz", "\u01f3", "dz",
	"\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n",
)

// usual gives the Latin letters of East Asian text, and its wide blanks, their usual width, and the narrow Katakana
// theirs. What Latin-1 has as controls are the characters that Windows-1252 has in their place.
func usual(r rune) rune {
	switch {
	case r >= 0x80 && r <= 0x9f:
		if shown := charmap.Windows1252.DecodeByte(byte(r)); shown != utf8.RuneError {
			return shown
		}
	case r == '\u3000':
		return ' '
	case r >= 0xff01 && r <= 0xffef:
		if folded := width.LookupRune(r).Folded(); folded != 0 {
			return folded
		}
	}
	return r
}

// withoutControls drops characters that have no shape and steer what shows them.
func withoutControls(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\f' || r == '\r':
		return r
	case r < ' ' || r == 0x7f, r >= 0x206a && r <= 0x206f, r == 0xfeff, r >= 0xfff9 && r <= 0xfffc:
		return -1
	}
	return r
}

// repaired undoes a reading of UTF-8 as Windows-1252 or Latin-1, which makes "cafÃ©" of "café". It takes a text for read
// wrongly only if the whole of it makes sense in the other way.
func repaired(text string) string {
	for range 4 { // it may have happened more than once
		data := make([]byte, 0, len(text))
		wide := false
		for _, r := range text {
			b, ok := windowsByte(r)
			if !ok {
				return text
			}
			data, wide = append(data, b), wide || b >= utf8.RuneSelf
		}
		if !wide || !utf8.Valid(data) || strings.ContainsFunc(string(data), unicode.IsControl) {
			return text
		}
		text = string(data)
	}
	return text
}

// windowsByte returns the byte that was read as a character.
func windowsByte(r rune) (byte, bool) {
	if r <= 0xff {
		return byte(r), true
	}
	return charmap.Windows1252.EncodeRune(r)
}
