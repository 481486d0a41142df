package endpoint

import (
	"sort"
	"unicode/utf8"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

// shorter cuts a reply at an allowance that is smaller than any that the upstream takes, as the upstream would have:
// by an estimate of its tokens, for nobody says where they end. Usage stays what the upstream says.
type shorter struct {
	send func(llm.Event) error
	left int64 // tokens, without those of said

	kind  llm.EventKind // of the last piece
	index int
	said  []byte // since another kind of piece came
	cut   bool
}

// event takes an event of the reply.
func (s *shorter) event(ev llm.Event) error {
	switch ev.Kind {
	case llm.EventText, llm.EventReasoning, llm.EventToolArguments:
		return s.piece(ev, &ev.Text)
	case llm.EventToolCall:
		return s.piece(ev, &ev.Name)
	case llm.EventToolEnd:
		if s.cut {
			return nil
		}
	case llm.EventFinish:
		if s.cut && (ev.Finish == llm.FinishStop || ev.Finish == llm.FinishToolCalls) {
			ev.Finish = llm.FinishLength
		}
	}
	return s.send(ev)
}

// piece takes an event of a text, as much of it as there is room for; of a call's name all or nothing.
func (s *shorter) piece(ev llm.Event, text *string) error {
	if s.cut {
		return nil
	}
	if ev.Kind != s.kind || ev.Index != s.index {
		s.left -= tokens.Text(string(s.said))
		s.kind, s.index, s.said = ev.Kind, ev.Index, nil
	}
	fits := s.fits(*text)
	if s.cut = fits < len(*text); s.cut && (fits == 0 || ev.Kind == llm.EventToolCall) {
		return nil
	}
	s.said = append(s.said, (*text)[:fits]...)
	if ev.Kind != llm.EventToolCall {
		ev.Text = ev.Text[:fits]
	}
	return s.send(ev)
}

// fits is how many bytes of a text there is room for.
func (s *shorter) fits(text string) int {
	const most = 1 << 10 // of bytes, in a token; and there is room for a few
	over := func(n int) bool { return tokens.Text(string(s.said)+text[:n]) > s.left }
	if text = text[:min(len(text), int(max(s.left, 0))*most)]; !over(len(text)) {
		return len(text)
	}
	n := sort.Search(len(text), func(i int) bool { return over(i + 1) })
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}
