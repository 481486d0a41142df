package policy

import (
	"slices"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/llm"
)

// Last is what a model would read last of a conversation, in its order: of the texts of messages, from the end, so
// many bytes. The first may have lost its beginning, between two characters.
func Last(req *llm.Request, most int) (texts []llm.ScreenText) {
	for _, m := range slices.Backward(req.Messages) {
		text := m.Text()
		if cut := len(text) - most; cut > 0 {
			for text = text[cut:]; text != "" && !utf8.RuneStart(text[0]); {
				text = text[1:]
			}
			most = 0
		}
		if text != "" {
			texts = append(texts, llm.ScreenText{Role: string(m.Role), Text: text})
		}
		if most -= len(text); most <= 0 {
			break
		}
	}
	slices.Reverse(texts)
	return texts
}
