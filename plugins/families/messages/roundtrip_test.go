package messages_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

// aText draws text that is not blank and has no blanks at its end.
func aText() *rapid.Generator[string] {
	return rapid.Map(rapid.StringN(0, 12, -1), func(s string) string { return string([]rune(s)) + "." })
}

// callArguments draws objects, the only arguments that this family can express.
func callArguments() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "{}", `{"q":1}`, `{"text":"a \"b\" \u00e9 é","list":[1,2,{"x":null}]}`})
}

func someTexts(t *rapid.T, role llm.Role) llm.Message {
	return text(role, rapid.SliceOfN(aText(), 1, 3).Draw(t, "texts")...)
}

// canonical draws a request in the form that this family can express: one system message at the beginning, then
// turns of the user and the assistant, results before what the user says, and none of what a client does not
// decide.
func canonical() *rapid.Generator[*llm.Request] {
	return rapid.Custom(func(t *rapid.T) *llm.Request {
		req := &llm.Request{MaxTokens: rapid.Int64Range(1, 1<<40).Draw(t, "allowance"), Stop: familytest.DrawStop(t, aText())}
		familytest.DrawTools(t, req, `{"type":"object"}`, `{"type":"object","properties":{"a":{"enum":["x y",1]}}}`)
		req.Temperature = familytest.DrawTemperature(t, 1)
		if rapid.Bool().Draw(t, "has system") {
			req.Messages = append(req.Messages, someTexts(t, llm.RoleSystem))
		}
		req.Messages = append(req.Messages, someTexts(t, llm.RoleUser))
		ids := 0
		for range rapid.IntRange(0, 3).Draw(t, "turns") {
			req.Messages = append(req.Messages, exchange(t, &ids)...)
		}
		return req
	})
}

// exchange draws a turn of the assistant and what the user's side answers.
func exchange(t *rapid.T, ids *int) []llm.Message {
	reply := llm.Message{Role: llm.RoleAssistant}
	var answers []llm.Message
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		if rapid.Bool().Draw(t, "is text") {
			reply.Parts = append(reply.Parts, llm.Text(aText().Draw(t, "text")))
			continue
		}
		id := "c" + strconv.Itoa(*ids)
		*ids++
		reply.Parts = append(reply.Parts, llm.Part{Call: &llm.ToolCall{ID: id, Name: aText().Draw(t, "name"),
			Arguments: llm.Plain(rapid.SampledFrom([]string{"{}", `{"q":"é\n","list":[1,{"x":null}]}`}).Draw(t, "arguments"))}})
		result := text(llm.RoleTool, rapid.SliceOfN(aText(), 0, 2).Draw(t, "result")...)
		result.CallID, result.IsError = id, rapid.Bool().Draw(t, "failed")
		answers = append(answers, result)
	}
	if len(answers) == 0 || rapid.Bool().Draw(t, "says more") {
		answers = append(answers, someTexts(t, llm.RoleUser))
	}
	return append([]llm.Message{reply}, answers...)
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	familytest.RoundTrips(t, family, familytest.Draws{
		Requests:  canonical(),
		Arguments: callArguments(),
		// The family has a schema and nothing else.
		Formats: rapid.Custom(func(t *rapid.T) *llm.Format {
			return &llm.Format{Kind: llm.FormatJSONSchema, Name: "response", Schema: familytest.DrawSchema(t)}
		}),
		Usage: rapid.Custom(func(t *rapid.T) *llm.Usage {
			return &llm.Usage{Input: familytest.DrawCount(t, "input"), CacheRead: familytest.DrawCount(t, "read"),
				CacheWrite: familytest.DrawCount(t, "written"), Output: familytest.DrawCount(t, "output")}
		}),
	})
}

func TestStreams(t *testing.T) {
	t.Parallel()
	familytest.Streams(t, family)
}

// checkSent fails if a request that was read cannot be sent on, or is then read as another one, and returns what is
// sent.
func checkSent(t *testing.T, req *llm.Request) []byte {
	t.Helper()
	allowed := *req
	allowed.MaxTokens = max(req.MaxTokens, 1)
	sent, err := family.Conformed(nil, &allowed)
	if err != nil {
		require.ErrorContains(t, err, "there is no text in them")
		return nil
	}
	again := accepted(t, string(sent)).LLM
	// Instructions without a question are sent as the question.
	require.Equal(t, append(said(req, llm.RoleSystem), said(req, llm.RoleUser)...),
		append(said(again, llm.RoleSystem), said(again, llm.RoleUser)...))
	require.Equal(t, said(req, llm.RoleTool), said(again, llm.RoleTool))
	replies, repliesAgain := said(req, llm.RoleAssistant), said(again, llm.RoleAssistant)
	// the beginning of the reply
	if n := len(replies); n > 0 && req.Messages[len(req.Messages)-1].Role == llm.RoleAssistant {
		require.Equal(t, strings.TrimRight(replies[n-1], " \t\r\n"), strings.TrimRight(repliesAgain[n-1], " \t\r\n"))
		replies, repliesAgain = replies[:n-1], repliesAgain[:n-1]
	}
	require.Equal(t, replies, repliesAgain)
	require.Len(t, again.Tools, len(req.Tools))
	require.Equal(t, req.ToolChoice, again.ToolChoice)
	require.Equal(t, req.Temperature, again.Temperature)
	require.Equal(t, allowed.MaxTokens, again.MaxTokens)
	return sent
}

// said is all that one role says and calls, in order, without blank texts.
func said(req *llm.Request, role llm.Role) []string {
	var all []string
	for _, m := range req.Messages {
		if m.Role != role {
			continue
		}
		for _, p := range m.Parts {
			if p.Call != nil {
				arguments := p.Call.Arguments.String()
				if arguments == "" {
					arguments = "{}"
				}
				all = append(all, p.Call.Name+"("+arguments+")")
			} else if !p.Text.Blank() {
				all = append(all, p.Text.String())
			}
		}
	}
	return all
}

func FuzzDecoder(f *testing.F) {
	familytest.FuzzDecoder(f, family, "testdata/e18.txt",
		[]string{started, blockStart("0", `{"type":"tool_use","id":"t","name":"f","input":{"q":1}}`), blockStop("0"),
			ended("tool_use"), stopped},
		[]string{started, blockStart("0", `{"type":"tool_use","name":"f"}`), inputDelta("0", `{"q":`), textDelta(`\ud83d`),
			blockStart("1", `{"type":"tool_use","id":"t","name":"g"}`), inputDelta("1", "x"), blockStop("1"), stopped},
		[]string{started, `{"type":"error","error":{"type":"overloaded_error"}}`},
		[]string{started, blockStart("0", `{"type":"thinking","thinking":"h"}`), ended("refusal"), stopped},
		[]string{started, blockStart("0", `{"type":"thinking"}`), blockDelta("0", `{"type":"thinking_delta","thinking":"h"}`),
			blockDelta("0", `{"type":"signature_delta","signature":"s"}`), blockStop("0"),
			blockStart("1", `{"type":"redacted_thinking","data":"x"}`), textDelta("a"),
			blockStart("2", `{"type":"tool_use","id":"t","name":"f"}`), ended("tool_use"), stopped})
}

func FuzzEncoder(f *testing.F) { familytest.FuzzEncoder(f, family) }

func FuzzEncodeRequest(f *testing.F) { familytest.FuzzEncodeRequest(f, family) }
