package familytest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// script reads the bytes that a fuzzer made as a reply or a request. A number is a byte, a text is a byte with its
// length and that many bytes, and each step of a reply is a number that says what happens. What is missing at the end
// is zero or empty, so every input means something.
type script struct {
	rest  string
	calls int
}

// endOfEvents is the step after which the bytes say how the reply ends.
const endOfEvents = 0xff

// hostile are texts that writers get wrong; a length above what a text can have picks one.
var hostile = []string{
	"\x00\x1f\x7f", "\u2028\u2029\u0085", "\r\n\ndata: [DONE]\n\n", "\"\\u0000\\ud83d", "\ud7ff\ue000\ufeff\ufffd",
	"😀\U0010ffff",
	"\xff", "\xed\xa0\xbd", "\xf0\x9f", "</script>", `{"q":1e999}`, `{"q":`, `{"a":{},"a":[]} `, " \t\n", "[DONE]",
	"event: message_stop", `"finish_reason":"stop"`,
}

func (s *script) number() int {
	if s.rest == "" {
		return 0
	}
	n := s.rest[0]
	s.rest = s.rest[1:]
	return int(n)
}

func (s *script) yes() bool { return s.number()%2 == 1 }

func (s *script) text() string {
	n := s.number()
	if n >= 128 {
		return hostile[n%len(hostile)]
	}
	n = min(n, len(s.rest))
	text := s.rest[:n]
	s.rest = s.rest[n:]
	return text
}

// name is a text of which there is at least something.
func (s *script) name() string {
	if name := s.text(); name != "" {
		return name
	}
	return "f"
}

// call is the index of a call that has begun, or of the next one.
func (s *script) call() int { return s.number() % (s.calls + 1) }

// events are the steps up to endOfEvents, without those that a provider must not send where they stand.
func (s *script) events(t require.TestingT) []llm.Event {
	var events []llm.Event
	order := accepted(t)
	for s.rest != "" {
		step := s.number()
		if step == endOfEvents {
			break
		}
		ev := s.event(step)
		judged := ev // by its place alone: writers have to stand bytes that are no text
		judged.Text = strings.ToValidUTF8(ev.Text, "?")
		if order.Check(judged) == nil {
			events = append(events, ev)
		}
	}
	return events
}

func (s *script) event(step int) llm.Event {
	switch step % 8 {
	case 0:
		s.calls++
		return Begin(s.calls-1, s.name(), s.name())
	case 1, 2:
		return Arguments(s.call(), s.text())
	case 3:
		return End(s.call())
	case 4:
		return Think(s.text())
	}
	return llm.Event{Kind: llm.EventText, Text: s.text()}
}

func (s *script) end() families.End {
	finishes := []llm.FinishReason{
		llm.FinishStop,
		llm.FinishLength,
		llm.FinishToolCalls,
		llm.FinishPolicy,
		llm.FinishUnknown,
	}
	end := families.End{Finish: finishes[s.number()%len(finishes)], Pending: s.yes()}
	if s.yes() {
		match := s.text()
		end.StopSequence = &match
	}
	if s.yes() {
		end.Usage = &llm.Usage{
			Input:      s.count(),
			CacheRead:  s.count(),
			CacheWrite: s.count(),
			Output:     s.count(),
			Reasoning:  s.count(),
		}
	}
	end.Billed = llm.Tokens(s.count())
	return end
}

// count is a count of tokens that may be missing, up to one of which four have a sum that is a count.
func (s *script) count() *int64 {
	n := s.number()
	if n == 0 {
		return nil
	}
	return llm.Count(int64(n-1) << (s.number() % 44))
}

// failure is an error as the gateway makes one for a stream.
func (s *script) failure() *families.Error {
	err := &families.Error{Status: 502, Code: families.UpstreamError, Message: s.text()}
	if s.yes() {
		err.Frame = families.StreamError
	}
	return err
}

// request is a conversation with tools, as one may reach a provider.
func (s *script) request() *llm.Request {
	req := &llm.Request{MaxTokens: min(max(1, llm.Tokens(s.count())), 1<<53), Whole: s.yes()}
	if s.yes() {
		temperature := float64(s.number()) / 128
		req.Temperature = &temperature
	}
	for range s.number() % 4 {
		if stop := strings.ToValidUTF8(s.name(), "?"); !slices.Contains(req.Stop, stop) {
			req.Stop = append(req.Stop, stop)
		}
	}
	schemas := []string{
		`{}`,
		`{"type":"object"}`,
		"{\n\"type\" : \"object\", \"properties\":{\"\\u2028\":{\"enum\":[1e999,\"\\ud83d\"]}} }",
	}
	for n := range s.number() % 4 {
		req.Tools = append(
			req.Tools,
			llm.Tool{
				Name:        "f" + strconv.Itoa(n),
				Description: s.text(),
				Schema:      []byte(schemas[s.number()%len(schemas)]),
			},
		)
	}
	if len(req.Tools) > 0 {
		req.ToolChoice = []llm.ToolChoice{{}, {Mode: llm.ToolNone}, {Mode: llm.ToolRequired},
			{Mode: llm.ToolNamed, Name: "f0"}}[s.number()%4]
	}
	for len(req.Messages) == 0 || s.rest != "" {
		req.Messages = append(req.Messages, s.message(req.Messages))
	}
	return req
}

// message is the next one of a conversation: from anyone but twice from the assistant, whose turns some families
// join, or the result of a call.
func (s *script) message(before []llm.Message) llm.Message {
	role := []llm.Role{llm.RoleUser, llm.RoleAssistant, llm.RoleTool, llm.RoleSystem}[s.number()%4]
	var ids []string
	for _, m := range before {
		for _, part := range m.Parts {
			if part.Call != nil {
				ids = append(ids, part.Call.ID)
			}
		}
	}
	after := len(before) > 0 && before[len(before)-1].Role == llm.RoleAssistant
	if role == llm.RoleTool && len(ids) == 0 || role == llm.RoleAssistant && after {
		role = llm.RoleUser
	}
	m := llm.Message{Role: role}
	if role == llm.RoleTool {
		m.CallID, m.IsError = ids[s.number()%len(ids)], s.yes()
	}
	for range s.number() % 4 {
		if role == llm.RoleAssistant && s.yes() {
			m.Parts = append(
				m.Parts,
				llm.Part{Call: &llm.ToolCall{ID: s.name(), Name: s.name(), Arguments: llm.Plain(s.text())}},
			)
			continue
		}
		m.Parts = append(m.Parts, llm.Text(s.text()))
	}
	return m
}
