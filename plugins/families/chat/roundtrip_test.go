package chat_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/llm"
)

// canonical draws a request in the form that this family can express: one text to a message, before its
// calls, and none of what a client does not decide.
func canonical() *rapid.Generator[*llm.Request] {
	return rapid.Custom(func(t *rapid.T) *llm.Request {
		req := &llm.Request{Stop: familytest.DrawStop(t, familytest.Texts())}
		familytest.DrawTools(t, req, `{"type":"object"}`, `{}`, `{"type":"object","properties":{"a":{"enum":["x y",1]}}}`)
		var ids []string
		for range rapid.IntRange(1, 5).Draw(t, "messages") {
			req.Messages = append(req.Messages, message(t, &ids))
		}
		req.MaxTokens = rapid.Int64Range(0, 1<<40).Draw(t, "allowance")
		req.Temperature = familytest.DrawTemperature(t, 2)
		return req
	})
}

func message(t *rapid.T, ids *[]string) llm.Message {
	role := rapid.SampledFrom([]llm.Role{llm.RoleSystem, llm.RoleUser, llm.RoleAssistant, llm.RoleTool}).Draw(t, "role")
	if role == llm.RoleTool && len(*ids) == 0 {
		role = llm.RoleUser
	}
	m := llm.Message{Role: role, Parts: []llm.Part{llm.Text(familytest.Texts().Draw(t, "text"))}}
	switch role {
	case llm.RoleTool:
		m.CallID = rapid.SampledFrom(*ids).Draw(t, "answers")
	case llm.RoleAssistant:
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			id := "c" + strconv.Itoa(len(*ids))
			*ids = append(*ids, id)
			m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{ID: id, Name: familytest.Texts().Draw(t, "name"),
				Arguments: llm.Plain(rapid.SampledFrom([]string{"{}", `{"q":"é\n"}`, "not json"}).Draw(t, "arguments"))}})
		}
		if len(m.Parts) > 1 && rapid.Bool().Draw(t, "only calls") {
			m.Parts = m.Parts[1:]
		}
	}
	return m
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	familytest.RoundTrips(t, family, familytest.Draws{
		Requests:  canonical(),
		Formats:   familytest.Formats(),
		Arguments: rapid.OneOf(rapid.SampledFrom([]string{"", "{}", `{"q":1}`}), rapid.String()),
		Usage: rapid.Custom(func(t *rapid.T) *llm.Usage {
			return &llm.Usage{Input: familytest.DrawCount(t, "input"), CacheRead: familytest.DrawCount(t, "read"),
				Output: familytest.DrawCount(t, "output"), Reasoning: familytest.DrawCount(t, "reasoning")}
		}),
	})
}

func TestStreams(t *testing.T) {
	t.Parallel()
	familytest.Streams(t, family)
}

func TestCaptures(t *testing.T) {
	t.Parallel()
	familytest.Captures(t, family, map[string]families.Error{
		"sdk-vercel-20": {Code: families.UnsupportedField, Message: "response_format"},
	}, checkSent)
}

func FuzzDecode(f *testing.F) {
	familytest.FuzzDecode(f, family, checkSent,
		with(`"response_format":{"type":"json_schema","json_schema":{"schema":{},"name":"n","strict":true}}`),
		with(`"response_format":{"type":"json_object","json_schema":5}`),
		with(toolF+`,"tool_choice":{"type":"function","name":"f"},"stop":["a","",1],"n":1.0,"max_tokens":1e2`),
		messages(`{"role":"user","content":[{"type":"file","file":{"file_data":"data:image/png"}},{"type":"text"}]}`))
}

// checkSent fails if a request that was read cannot be sent on, or is then read as another one.
func checkSent(t *testing.T, req *families.Request) {
	t.Helper()
	sent, err := chat.EncodeRequest(nil, req.LLM)
	require.NoError(t, err)
	again, refusal := family.Decode(t, string(sent), families.Rules{StructuredOutput: true})
	require.Nil(t, refusal)
	require.Len(t, again.LLM.Messages, len(req.LLM.Messages))
	for i := range again.LLM.Messages {
		require.Equal(t, req.LLM.Messages[i].Text(), again.LLM.Messages[i].Text())
		require.Equal(t, req.LLM.Messages[i].Role, again.LLM.Messages[i].Role)
	}
	require.Equal(t, req.LLM.Stop, again.LLM.Stop)
	require.Equal(t, req.LLM.MaxTokens, again.LLM.MaxTokens)
	require.Equal(t, req.LLM.ToolChoice, again.LLM.ToolChoice)
	require.Equal(t, req.LLM.Tools, again.LLM.Tools)
	require.Equal(t, req.LLM.Format, again.LLM.Format)
}

func FuzzDecoder(f *testing.F) {
	familytest.FuzzDecoder(f, family, "testdata/e16.sse",
		[]string{tool(`{"index":0,"id":"a","function":{"name":"f","arguments":"\ud83d"}}`),
			tool(`{"index":0,"function":{"arguments":"\ude00"}}`), finish("tool_calls")},
		[]string{tool(`{"function":{"name":"f"}},{"id":"b","function":{"arguments":{}}}`),
			delta(`{"function_call":{"name":"g"}}`), "[DONE]"},
		[]string{`{"error":{"code":429,"message":"m"}}`},
		[]string{delta(`{"content":[{"text":"a"}],"reasoning":"r","refusal":"x"}`)})
}

func FuzzEncoder(f *testing.F) { familytest.FuzzEncoder(f, family) }

func FuzzEncodeRequest(f *testing.F) { familytest.FuzzEncodeRequest(f, family) }
