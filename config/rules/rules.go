// Package rules finds forbidden terms and patterns in texts: those of an operator's rules file, compiled once. It
// knows neither HCL nor requests.
//
// A text is brought into one form before it is looked at, so that the same words in other clothes are the same words:
// Unicode's compatibility forms (NFKC), characters that nobody sees, control characters and damaged ones, case,
// hyphens, low lines and capitals for blanks, runs of white space, escapes of JSON, of programs (\u0062, \u{62},
// \x62) and of HTML, also of several layers, letters of other alphabets that look like Latin ones and the other way
// round, small capitals and letters in boxes, words full of marks, tag characters and flags, points of Hebrew and
// vowels of Arabic, words that are s p e l l e d, and terms of six letters and more that go on in the next message or
// value. What is given up is in config/README.md, "screening".
//
// decode.go takes escapes out, fold.go makes the one form, spell.go finds spelled words, chain.go looks across the
// ends of texts, finder.go finds many terms at once, and search.go puts them together, in windows: a text is never
// kept as a whole, but for patterns, and each of its bytes is read a bounded number of times.
package rules

import (
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Action is what a rule does where it is found.
type Action string

const (
	Block Action = "block" // the request is refused, where rules are enforced
	Flag  Action = "flag"  // it is noted
	// Allow: what other rules find inside of it does not count; terms inside of its terms, and patterns inside of its
	// patterns.
	Allow Action = "allow"
)

// Rule is one rule of a file. Terms are found as words of their own, unless Parts is set.
type Rule struct {
	Name     string
	Category string
	Action   Action
	Terms    []string
	Patterns []string
	// Parts: terms are found inside of words, too.
	Parts bool
}

// Set are rules that are compiled. It is safe for concurrent use. The zero value, and nil, find nothing.
type Set struct {
	rules    []Rule
	needles  []needle
	finder   *finder // of those that are in a text itself; nil for none
	spelled  *finder // of all, for what was put together of spelled words
	patterns []pattern
	allows   bool
	longest  int // of the needles, in bytes
}

// needle is a text that the finder looks for: a term of a rule, or a part that each match of a pattern has.
type needle struct {
	rule    int
	pattern int // -1: it is a term
	edges   edges
	// spelled: it is a term without its blanks, as it is when somebody has spelled all of it.
	spelled bool
	hyphens []int // where in a term a hyphen must be, or a low line
	weight  int   // of a term: its letters, those of scripts that write without blanks twice
}

// edges say at which ends of a term a word must end, too.
type edges struct{ before, after bool }

type pattern struct {
	rule   int
	re     *regexp.Regexp
	steps  int64 // what a character of a text costs at most
	always bool  // it has no part to be looked for first
}

// Hit is a rule that was found.
type Hit struct {
	Rule, Category string
	Action         Action // Block or Flag
}

// Rules are those that it was made of.
func (s *Set) Rules() []Rule {
	if s == nil {
		return nil
	}
	return s.rules
}

// Blocks reports whether one of the hits is of a rule that blocks.
func Blocks(hits []Hit) bool {
	return slices.ContainsFunc(hits, func(h Hit) bool { return h.Action == Block })
}

// fit reports whether a term that was found there is a word of its own.
func (e edges) fit(text []byte, start, end int) bool {
	if e.before {
		if r, _ := utf8.DecodeLastRune(text[:start]); inWord(r) {
			return false
		}
	}
	if e.after {
		if r, _ := utf8.DecodeRune(text[end:]); inWord(r) {
			return false
		}
	}
	return true
}

// inWord reports whether a word goes on with this: scripts that write without blanks have no words of their own.
func inWord(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	case r == utf8.RuneError:
		return false
	}
	return (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)) && !unicode.In(r, withoutBlanks...)
}

var withoutBlanks = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
	unicode.Khmer, unicode.Myanmar, unicode.Tibetan}
