// Package rules finds forbidden terms and patterns in texts: those of an operator's rules file, compiled once. It knows
// neither HCL nor requests.
//
// A Text is brought into one form before it is looked at, so that the same words in other clothes are the same words:
// Unicode's compatibility forms (NFKC), characters that nobody sees, case, dashes, runs of white space, escapes like
// \u0062, letters of other alphabets that look like Latin ones, and words that are s p e l l e d. What it does not see
// through are words in another spelling, encodings such as Base64, and pictures.
package rules

import (
	"bytes"
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
}

// needle is a text that the finder looks for: a term of a rule, or a part that each match of a pattern has.
type needle struct {
	rule    int
	pattern int // -1: it is a term
	edges   edges
	// spelled: it is a term without its blanks, as it is when somebody has spelled all of it.
	spelled bool
}

// edges say at which ends of a term a word must end, too.
type edges struct{ before, after bool }

type pattern struct {
	rule   int
	re     *regexp.Regexp
	always bool // it has no part to be looked for first
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

// span is where something was found.
type span struct{ start, end int }

// maxRetries bounds how often a pattern is looked for again where what it found is allowed: each time can cost as much
// as the whole text. Beyond it, it counts as found.
const maxRetries = 64

// Match finds the rules whose terms and patterns are in the text, each once, in their order.
func (s *Set) Match(t *Text) []Hit {
	if s == nil || len(s.rules) == 0 {
		return nil
	}
	t.finish()
	m := match{set: s, text: t, hit: make([]bool, len(s.rules)), run: make([]bool, len(s.patterns))}
	m.scan(s.finder, t.folded, true)
	m.scan(s.spelled, t.extra, false)
	if s.allows {
		m.allow()
	}
	for _, f := range m.terms {
		if !m.hit[f.rule] && !m.allowed(m.allowedTerms, f.span) {
			m.hit[f.rule] = true
		}
	}
	for i := range s.patterns {
		if p := &s.patterns[i]; (p.always || m.run[i]) && s.rules[p.rule].Action != Allow && !m.hit[p.rule] {
			m.hit[p.rule] = m.matches(p)
		}
	}
	var hits []Hit
	for i, hit := range m.hit {
		if r := &s.rules[i]; hit {
			hits = append(hits, Hit{r.Name, r.Category, r.Action})
		}
	}
	return hits
}

// match is one search.
type match struct {
	set  *Set
	text *Text
	hit  []bool // by rule
	run  []bool // by pattern: a part of it is there

	terms []foundTerm // of rules that allow something to be inside of
	// allowedTerms are places in the folded text, allowedPatterns those in the clean one.
	allowedTerms, allowedPatterns []span
}

type foundTerm struct {
	rule int
	span
}

// scan looks for terms. In what was put together of spelled words, nothing is allowed.
func (m *match) scan(f *finder, text []byte, main bool) {
	if f == nil {
		return
	}
	f.find(text, func(needle, start, end int) {
		n := &m.set.needles[needle]
		switch {
		case n.pattern >= 0:
			m.run[n.pattern] = true
			return
		case m.hit[n.rule] || !n.edges.fit(text, start, end):
			return
		}
		switch allow := m.set.rules[n.rule].Action == Allow; {
		case allow && main:
			m.allowedTerms = append(m.allowedTerms, span{start, end})
		case allow:
		case main && m.set.allows:
			m.terms = append(m.terms, foundTerm{n.rule, span{start, end}})
		default:
			m.hit[n.rule] = true
		}
	})
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

// allow finds what is allowed by patterns, and puts the places in order.
func (m *match) allow() {
	for i := range m.set.patterns {
		if p := &m.set.patterns[i]; m.set.rules[p.rule].Action == Allow && (p.always || m.run[i]) {
			for _, at := range p.re.FindAllIndex(m.text.clean, maxRetries) {
				m.allowedPatterns = append(m.allowedPatterns, span{at[0], at[1]})
			}
		}
	}
}

// allowed reports whether a place is inside one that is allowed.
func (m *match) allowed(places []span, at span) bool {
	return slices.ContainsFunc(places, func(a span) bool { return a.start <= at.start && at.end <= a.end })
}

// matches reports whether a pattern is found where it is not allowed.
func (m *match) matches(p *pattern) bool {
	text := m.text.clean
	if len(m.allowedPatterns) == 0 {
		return p.re.Match(text)
	}
	from := 0
	for range maxRetries {
		at := p.re.FindIndex(text[from:])
		if at == nil {
			return false
		}
		place := span{from + at[0], from + at[1]}
		if !m.allowed(m.allowedPatterns, place) {
			return true
		}
		if from = place.end; from >= len(text) {
			return false
		}
	}
	return true
}

// foldTerm folds a term as texts are folded.
func foldTerm(term string) []byte {
	var t Text
	t.Add(term)
	t.finish()
	return bytes.Trim(t.folded, " \n")
}
