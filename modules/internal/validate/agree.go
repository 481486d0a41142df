package validate

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// shortText is how long a text is at most, in bytes, that is compared as a whole: two longer ones never say the same in
// the same words.
const shortText = 400

// Same reports whether two replies say the same: the same tool calls with the same arguments, the same JSON, the same
// short text, or the same final answer.
func Same(a, b *Reply) bool {
	if len(a.Calls) != len(b.Calls) || a.Cut || b.Cut || a.Declined || b.Declined {
		return false
	}
	if len(a.Calls) > 0 {
		for i, call := range a.Calls {
			other := b.Calls[i]
			if call.Name != other.Name || !sameArguments(call.Arguments.String(), other.Arguments.String()) {
				return false
			}
		}
		return true
	}
	x, y := strings.TrimSpace(a.Text), strings.TrimSpace(b.Text)
	if x == "" || y == "" {
		return false
	}
	if j, ok := compact(Unfenced(x)); ok {
		k, ok := compact(Unfenced(y))
		return ok && j == k || !ok && plain(x) == plain(y)
	}
	if p, q := plain(x), plain(y); len(p) <= shortText && p != "" && p == q {
		return true
	}
	p, q := final(x), final(y)
	return p != "" && p == q
}

func sameArguments(a, b string) bool {
	if strings.TrimSpace(a) == "" {
		a = "{}"
	}
	if strings.TrimSpace(b) == "" {
		b = "{}"
	}
	x, ok := compact(a)
	y, also := compact(b)
	return ok && also && x == y
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
