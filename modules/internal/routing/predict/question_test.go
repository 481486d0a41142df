package predict

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func separated(text string) string {
	return string(NewFeatures().framer.separate([]byte(text)))
}

// TestSeparate is GAP-131: a question is what is left of what programs put around it.
func TestSeparate(t *testing.T) {
	t.Parallel()
	const q = "How many eggs do I need for a cake for twelve people?"
	for name, text := range map[string]string{
		"bare":                    q,
		"a reminder":              "<system-reminder>\nDo not mention it.\n</system-reminder>\n" + q,
		"an environment":          "<environment_context>\n<cwd>/x</cwd>\n<shell>zsh</shell>\n</environment_context>\n\n" + q,
		"attributes":              "<attachment id=\"a\">x = 1</attachment>\n" + q,
		"two blocks behind":       q + "\n<context>a</context>\n<date>2026-03-01</date>",
		"a tag around it":         "<user_query>\n" + q + "\n</user_query>",
		"a tag in another script": "<質問>\n" + q + "\n</質問>",
		"a template":              "<|im_start|>" + "\n" + q + "<|im_end|>",
		"a comment":               "<!-- bot: 12 -->\n" + q,
		"a label":                 "Question: " + q,
		"a label of two words":    "Your task: " + q,
		"a foreign label":         "Вопрос: " + q,
		"brackets":                "[INST] " + q,
		"working memory":          "Current date: 2026-03-01\nWorking directory: /home/me\n\n" + q,
	} {
		require.Equal(t, q, separated(text), name)
	}
	for name, text := range map[string]string{
		"no tag":          "is a < b and b > c?",
		"an unclosed tag": "what does <thing mean here",
		"code":            "what does this print\n\nx = [1, 2]\nprint(x[0])",
	} {
		require.Equal(t, text, separated(text), name)
	}
}

// TestUntag: tags of web pages are as likely what a question is about.
func TestUntag(t *testing.T) {
	t.Parallel()
	const page = "Why is this not centred?\n<div class=\"a\">\n  <p>x</p>\n</div>"
	require.Equal(t, page, string(untag([]byte(page))))
	require.Equal(t, "\nx\n", string(untag([]byte("<Query>x</Query>"))))
	require.Equal(t, "a  b", string(untag([]byte("a <x-y z=1>\nq</x-y> b"))))
}

// TestSeparate_whatever: GAP-131 nothing that is no UTF-8, empty or huge harms, or leaves more than there was.
func TestSeparate_whatever(t *testing.T) {
	t.Parallel()
	f := NewFeatures()
	for _, text := range []string{"", "\n", "<", "</", "<a", "<a>", "<|", "<|x|>", "<!--", "<!-- -->", "\xff\xfe<\x80>",
		":", "[",
		"[]", "[x]",
		strings.Repeat("<x", 50_000), strings.Repeat("<x>", 50_000), strings.Repeat("<!--", 50_000),
		strings.Repeat("\n", 100_000),
		strings.Repeat("a: b\n", 50_000), strings.Repeat("\x00", 1000)} {
		require.LessOrEqual(t, len(f.framer.separate([]byte(text))), len(text))
		read(f, ask(text))
		require.LessOrEqual(t, len(f.text), maxBytes+2)
	}
}

// TestFind: GAP-131 a message that is all dress is none of the user's.
func TestFind(t *testing.T) {
	t.Parallel()
	f := NewFeatures()
	req := ask("What is the capital of Peru?")
	req.Messages = append(req.Messages, ask("<system-reminder>\nx\n</system-reminder>").Messages...)
	require.Equal(t, "What is the capital of Peru?", string(f.find(req.Messages)))
	require.NotEmpty(t, f.find(ask("<system-reminder>\nThe list is empty.\n</system-reminder>").Messages))
	require.Empty(t, f.find(nil))
}
