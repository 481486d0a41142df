package validate

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// shortText is how long a text is at most, in bytes, that is compared as a whole: two longer ones never say the same
// in the same words.
const shortText = 400

// Meaning is what a reply says, to be compared with what others say. It is made once for each.
type Meaning struct {
	nothing bool     // it says nothing that could be the same as anything
	calls   []string // each with its arguments, canonical
	json    string   // of a text that is JSON, canonical; "" of any other
	plain   string   // its text without what does not matter, "" where that is long
	final   string   // its final answer, "" where it gives none
}

// MeaningOf reads a reply.
func MeaningOf(r *Reply) *Meaning {
	m := &Meaning{nothing: r.Cut || r.Declined}
	if m.nothing {
		return m
	}
	for _, call := range r.Calls {
		arguments := call.Arguments.String()
		if strings.TrimSpace(arguments) == "" {
			arguments = "{}"
		}
		canonical, ok := compact(arguments)
		m.nothing = m.nothing || !ok
		m.calls = append(m.calls, call.Name+" "+canonical)
	}
	if len(m.calls) > 0 {
		return m
	}
	text := strings.TrimSpace(r.Text)
	if json, ok := compact(Unfenced(text)); ok {
		m.json = json
	} else {
		m.final = final(text)
	}
	if m.plain = plain(text); len(m.plain) > shortText {
		m.plain = ""
	}
	return m
}

// Same reports whether two replies say the same: the same tool calls with the same arguments, the same JSON, the same
// short text, or the same final answer.
func (m *Meaning) Same(o *Meaning) bool {
	switch {
	case m.nothing || o.nothing:
		return false
	case len(m.calls)+len(o.calls) > 0:
		return slices.Equal(m.calls, o.calls)
	case m.json != "" && o.json != "":
		return m.json == o.json
	}
	return m.plain != "" && m.plain == o.plain || m.final != "" && m.final == o.final
}

// plain is a text without what does not matter: case, blanks, and signs around words. A sign that belongs to a number
// stays.
func plain(text string) string {
	var words []string
	for _, word := range strings.Fields(strings.ToLower(norm.NFKC.String(text))) {
		word = strings.TrimFunc(word, func(r rune) bool {
			return unicode.IsPunct(r) && r != '-' && r != '%' || strings.ContainsRune("*_`\"'$", r)
		})
		if word != "" {
			words = append(words, word)
		}
	}
	joined := strings.Join(words, " ")
	return strings.TrimPrefix(strings.TrimPrefix(joined, "the answer is "), "answer: ")
}

// finals find the final answer in a text that reasons: the last one counts.
var finals = []*regexp.Regexp{
	regexp.MustCompile(`\\boxed\{([^{}]{1,200})\}`),
	regexp.MustCompile(`(?m)^#### *(.{1,200})$`),
	regexp.MustCompile(`(?im)\b(?:final answer|correct answer|the answer)(?: is)? *:? *(.{1,200})$`),
	regexp.MustCompile(`(?im)^\W*answer\W*: *(.{1,200})$`),
}

// final is the final answer of a text, "" where it gives none.
func final(text string) string {
	for _, re := range finals {
		if all := re.FindAllStringSubmatch(text, -1); len(all) > 0 {
			return plain(all[len(all)-1][1])
		}
	}
	return ""
}
