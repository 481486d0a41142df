package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Specialty is a kind of requests that routes can be kept for (GAP-37).
type Specialty string

const (
	Graphics    Specialty = "graphics"     // asks for a drawing: see Special.Graphics
	LongContext Specialty = "long_context" // is long: see Special.LongContextAbove
)

var specialtyNames = []string{string(Graphics), string(LongContext)}

// Special says which requests are of a specialty. What routes do with it is in package routing.
type Special struct {
	// Graphics are the terms of which one makes a request one for graphics, in the last text of the user.
	Graphics Terms
	// LongContextAbove: a request is long when its input and the allowance that it gives are more tokens than
	// this. 0: only when it fits no ordinary route.
	LongContextAbove int64
}

// MarshalJSON prints the blocks as they would be written.
func (s Special) MarshalJSON() ([]byte, error) {
	type graphics struct {
		Terms []string `json:"terms"`
	}
	type longContext struct {
		Above int64 `json:"above"`
	}
	return json.Marshal(struct {
		Graphics    graphics    `json:"graphics"`
		LongContext longContext `json:"long_context"`
	}{graphics{append([]string{}, s.Graphics.list...)}, longContext{s.LongContextAbove}})
}

// defaultGraphicsTerms are what people say when they want something drawn in code.
var defaultGraphicsTerms = []string{
	"svg", "three.js", "threejs", "webgl", "webgpu", "glsl", "3d scene", "3d model", "3d graphics", "3d animation",
}

// Terms are words and phrases to find in a text. The zero value has none.
type Terms struct {
	list []string
	// byFirst has the terms by each byte that they can begin with, in either case.
	byFirst map[byte][]string
}

// NewTerms makes a list of terms, none of which may be empty.
func NewTerms(list []string) Terms {
	t := Terms{list: list, byFirst: make(map[byte][]string)}
	for _, term := range list {
		lower, upper := strings.ToLower(term)[0], strings.ToUpper(term)[0]
		t.byFirst[lower] = append(t.byFirst[lower], term)
		if upper != lower {
			t.byFirst[upper] = append(t.byFirst[upper], term)
		}
	}
	return t
}

// In reports whether one of the terms is in the text: in any case, as words of their own or in the plural with
// an s. It takes one pass over the text.
func (t Terms) In(text string) bool {
	if len(t.list) == 0 {
		return false
	}
	var first [256]bool
	for b := range t.byFirst {
		first[b] = true
	}
	for i := range len(text) {
		if !first[text[i]] {
			continue
		}
		for _, term := range t.byFirst[text[i]] {
			if startsWord(text, i) && beginsWith(text[i:], term) {
				return true
			}
		}
	}
	return false
}

// startsWord reports whether no word goes on from before i. Only Latin letters and digits make words: other
// scripts may have none between blanks.
func startsWord(text string, i int) bool {
	return i == 0 || !isWord(text[i-1]) || !isWord(text[i])
}

func beginsWith(text, term string) bool {
	if len(text) < len(term) || !strings.EqualFold(text[:len(term)], term) {
		return false
	}
	rest := text[len(term):]
	if isWord(term[len(term)-1]) && rest != "" && rest[0]|0x20 == 's' {
		rest = rest[1:]
	}
	return rest == "" || !isWord(rest[0]) || !isWord(term[len(term)-1])
}

func isWord(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' }

const (
	maxTerms = 200
	maxTerm  = 64 // bytes
)

// specials decodes what says which requests are of a specialty.
func (l *loader) specials(file *section) {
	l.config.Special.Graphics = NewTerms(defaultGraphicsTerms)
	taken := make(map[string]hcl.Range)
	for _, block := range file.blocks["special"] {
		name := block.Labels[0]
		if !slices.Contains(specialtyNames, name) {
			l.fail(block.LabelRanges[0], "Unknown specialty", suggestion(name, specialtyNames, "specialty"))
			continue
		}
		file.label(block, taken)
		switch Specialty(name) {
		case Graphics:
			l.open(block, &graphicsGrammar).terms(&l.config.Special.Graphics)
		case LongContext:
			l.open(block, &longContextGrammar).integer("above", &l.config.Special.LongContextAbove)
		}
	}
}

func (s *section) terms(target *Terms) {
	if s.attributes["terms"] == nil {
		return
	}
	var list []string
	s.list("terms", func(element value) {
		var term string
		switch {
		case !s.asText(element, maxTerm, &term):
		case strings.TrimSpace(term) != term:
			s.refuse(element, "must not begin or end with a blank")
		case len(list) == maxTerms:
			s.refuse(element, fmt.Sprintf("must have at most %d entries", maxTerms))
		default:
			list = append(list, term)
		}
	})
	*target = NewTerms(list)
}
