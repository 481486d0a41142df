package predict

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// vocabulary has what people ask of models and what about, by concept, in the words of many languages; its head says
// how it is written.
//
//go:embed lexicon.txt
var vocabulary string

// concepts are the vocabulary's, ready for looking up.
var concepts = sync.OnceValue(func() *patterns {
	p, err := newPatterns(vocabulary)
	if err != nil {
		panic(err) // the file is part of the program, and its test reads it
	}
	return p
})

const (
	maxConcepts = 96
	mostPattern = 40      // bytes of a pattern, at most
	openBits    = 1 << 19 // of which one is set for each beginning of a pattern
	slots       = 1 << 15
)

// patterns are beginnings of words, and phrases, each of a concept.
type patterns struct {
	names []string
	sum   uint32
	units [maxConcepts]float64 // tokens of one "word", "page", ..., of which requests ask for a number; 0 for others

	open [openBits / 64]uint64 // hashes of what a pattern begins with
	hash [slots]uint32         // of whole patterns
	what [slots]pattern
}

// pattern is what is known of one. The zero value is none.
type pattern struct {
	concept uint8 // and 1
	whole   bool  // nothing of a word may stand behind it
}

// unitTokens is how many tokens one has.
var unitTokens = map[string]float64{"unitword": 1.4, "unitchar": 0.7, "unitsent": 24, "unitline": 12, "unitpara": 90,
	"unitpage": 600, "unititem": 25}

func newPatterns(text string) (*patterns, error) {
	p := &patterns{}
	sum := fnv.New32a()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, list, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, fmt.Errorf("the line %q has no concept", line)
		}
		at := slices.Index(p.names, name)
		if at < 0 {
			if at = len(p.names); at == maxConcepts {
				return nil, fmt.Errorf("%q is one concept too many", name)
			}
			p.names = append(p.names, name)
			p.units[at] = unitTokens[name]
		}
		for one := range strings.SplitSeq(list, ", ") {
			_, _ = sum.Write([]byte(name + ":" + one + "\n")) // a hash takes everything
			p.add(one, uint8(at+1))
		}
	}
	p.sum = sum.Sum32()
	return p, nil
}

func (p *patterns) add(text string, concept uint8) {
	b := appendFolded(nil, []byte(strings.TrimSpace(text)))
	for i, c := range b {
		b[i] = lower[c]
		if class[c]&isDigit != 0 {
			b[i] = '0'
		}
	}
	whole := len(b) < 4 && b[0] < 0x80
	if n := len(b); n > 1 && b[n-1] == '.' {
		b, whole = b[:n-1], true
	}
	if len(b) == 0 || len(b) > mostPattern {
		return
	}
	if class[b[len(b)-1]]&isLetter == 0 {
		whole = false
	}
	if anywhere(b) {
		whole = false
	}
	h := wordStart
	for _, c := range b {
		h = (h ^ uint32(c)) * wordPrime
		at := h * spread >> 13
		p.open[at>>6] |= 1 << (at & 63)
	}
	i := h * spread >> 17
	for p.hash[i] != 0 {
		if p.hash[i] == h {
			return // the first concept that has it
		}
		i = (i + 1) & (slots - 1)
	}
	p.hash[i], p.what[i] = h, pattern{concept, whole}
}

// anywhere reports whether a text's script has words that other words are written to, so that it is looked for within
// words: Chinese, Japanese, Korean, Thai, Arabic and Hebrew.
func anywhere(b []byte) bool {
	switch c := b[0]; {
	case c >= 0xe3 && c <= 0xed, c >= 0xd6 && c <= 0xdb:
		return true
	case c == 0xe0 && len(b) > 1:
		return b[1] == 0xb8 || b[1] == 0xb9
	}
	return false
}

// found counts what is in a text: words in small letters with one blank between them, without accents and with 0 for
// digits. numbers are the values of some, and where they end. It returns the length that is asked for.
func (p *patterns) found(text []byte, numbers []number, counts *[maxConcepts]uint8) Asked {
	var asker asker
	inside := false // a word
	for i := 0; i < len(text); {
		c := text[i]
		size := 1
		if c >= 0xc0 {
			for size = 2; size < 4 && i+size < len(text) && text[i+size]&0xc0 == 0x80; size++ {
			}
		}
		letter := class[c]&isLetter != 0
		if !letter && c != '<' || inside && !anywhere(text[i:min(i+2, len(text))]) {
			inside = letter && c != '\''
			i += size
			continue
		}
		h := wordStart
		for j := i; j < len(text) && j < i+mostPattern; j++ {
			h = (h ^ uint32(text[j])) * wordPrime
			at := h * spread >> 13
			if p.open[at>>6]>>(at&63)&1 == 0 {
				break
			}
			if n := h * spread >> 17; p.hash[n] != 0 {
				what := p.find(h, n)
				if what.concept == 0 || what.whole && j+1 < len(text) && class[text[j+1]]&isLetter != 0 {
					continue
				}
				k := what.concept - 1
				counts[k] = min(counts[k]+1, 250)
				if p.units[k] > 0 {
					asker.unit(p.units[k], text, numbers, i, j+1)
				}
			}
		}
		inside = letter && c != '\''
		i += size
	}
	return asker.asked
}

func (p *patterns) find(h, at uint32) pattern {
	for ; p.hash[at] != 0; at = (at + 1) & (slots - 1) {
		if p.hash[at] == h {
			return p.what[at]
		}
	}
	return pattern{}
}

// appendFolded appends a text without accents and, beyond Latin letters, without capitals. What is no UTF-8 stays.
func appendFolded(b, text []byte) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c < 0x80 {
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError || int(r) >= len(folded):
			b = append(b, text[i:i+n]...)
		case folded[r] == 0: // a mark that stands for itself
		case folded[r] < 0x80:
			b = append(b, byte(folded[r]))
		default:
			b = utf8.AppendRune(b, rune(folded[r]))
		}
		i += n
	}
	return b
}

func popcount(set *[64]uint64) int {
	n := 0
	for _, w := range set {
		n += bits.OnesCount64(w)
	}
	return n
}
