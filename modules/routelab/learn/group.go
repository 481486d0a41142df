package learn

import (
	"hash/fnv"
	"strings"
	"unicode"
)

// question is a key of what a prompt asks: the same for two prompts that ask the same thing with other options, other
// examples before it or other punctuation, so that one of them is never used to judge what was learned of the other.
func question(prompt string) uint64 {
	blocks := strings.Split(strings.TrimSpace(prompt), "\n\n")
	last := len(blocks) - 1
	key := bare(blocks[last])
	for last > 0 && len(key) < 40 {
		last--
		key = bare(blocks[last]) + key
	}
	h := fnv.New64a()
	h.Write([]byte(key))
	return h.Sum64()
}

// bare is a text's letters and digits without what frames a question: options, and lines of instruction.
func bare(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if optionLine(line) || strings.HasPrefix(line, "Print only") || strings.HasSuffix(line, ":") && len(line) < 24 {
			continue
		}
		line = strings.TrimSuffix(strings.TrimPrefix(line, "Question:"), "Answer:")
		for _, r := range strings.ToLower(line) {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// optionLine reports whether a line is an option of a question: "A. ...", "(b) ...".
func optionLine(line string) bool {
	line = strings.TrimPrefix(line, "(")
	return len(line) > 1 && (line[0] >= 'A' && line[0] <= 'J' || line[0] >= 'a' && line[0] <= 'j') &&
		(line[1] == '.' || line[1] == ')' || line[1] == ':')
}
