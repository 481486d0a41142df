package responses_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
)

// callArguments draws what a call may be made with.
func callArguments() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "{}", `{"q":1}`, `{"text":"a \"b\" é"}`})
}

// canonical draws a request in the form that this family can express: turns of the assistant that do not follow
// each other, one text for instructions and for results, no stop sequences, and none of what a client does not
// decide.
func canonical() *rapid.Generator[*llm.Request] {
	return rapid.Custom(func(t *rapid.T) *llm.Request {
		req := &llm.Request{MaxTokens: rapid.Int64Range(0, 1<<40).Draw(t, "allowance")}
		familytest.DrawTools(t, req, `{}`, `{"type":"object","properties":{"a":{"enum":["x y",1]}}}`)
		req.Temperature = familytest.DrawTemperature(t, 2)
		if rapid.Bool().Draw(t, "has instructions") {
			req.Messages = append(req.Messages, text(llm.RoleSystem, familytest.Texts().Draw(t, "instructions")))
		}
		req.Messages = append(req.Messages, someTexts(t, llm.RoleUser))
		ids := 0
		for range rapid.IntRange(0, 3).Draw(t, "turns") {
			req.Messages = append(req.Messages, exchange(t, &ids)...)
		}
		return req
	})
}

func someTexts(t *rapid.T, role llm.Role) llm.Message {
	return text(role, rapid.SliceOfN(familytest.Texts(), 1, 3).Draw(t, "texts")...)
}

// exchange draws a turn of the assistant and what the other side answers.
func exchange(t *rapid.T, ids *int) []llm.Message {
	reply := llm.Message{Role: llm.RoleAssistant}
	var answers []llm.Message
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		if rapid.Bool().Draw(t, "is text") {
			reply.Parts = append(reply.Parts, llm.Text(familytest.Texts().Draw(t, "text")))
			continue
		}
		id := "c" + strconv.Itoa(*ids)
		*ids++
		reply.Parts = append(reply.Parts, llm.Part{Call: &llm.ToolCall{ID: id, Name: familytest.Texts().Draw(t, "name"),
			Arguments: llm.Plain(rapid.SampledFrom([]string{"{}", `{"q":"é\n"}`, "not json"}).Draw(t, "arguments"))}})
		result := text(llm.RoleTool, rapid.String().Draw(t, "result"))
		result.CallID = id
		answers = append(answers, result)
	}
	if len(answers) == 0 || rapid.Bool().Draw(t, "says more") {
		answers = append(answers, someTexts(t, rapid.SampledFrom([]llm.Role{llm.RoleUser, llm.RoleSystem}).Draw(t, "role")))
	}
	return append([]llm.Message{reply}, answers...)
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	familytest.RoundTrips(t, family, familytest.Draws{
		Requests:  canonical(),
		Formats:   familytest.Formats(),
		Arguments: callArguments(),
		Usage: rapid.Custom(func(t *rapid.T) *llm.Usage {
			return &llm.Usage{Input: familytest.DrawCount(t, "input"), CacheRead: familytest.DrawCount(t, "read"),
				CacheWrite: familytest.DrawCount(t, "write"), Output: familytest.DrawCount(t, "output"),
				Reasoning: familytest.DrawCount(t, "reasoning")}
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
	sent, err := responses.EncodeRequest(nil, req)
	require.NoError(t, err)
	again := accepted(t, string(sent)).LLM
	require.Len(t, again.Messages, len(req.Messages))
	for i, m := range again.Messages {
		require.Equal(t, req.Messages[i].Role, m.Role)
		require.Equal(t, req.Messages[i].Text(), m.Text())
		require.Equal(t, req.Messages[i].CallID, m.CallID)
	}
	require.Len(t, again.Tools, len(req.Tools))
	require.Equal(t, req.ToolChoice, again.ToolChoice)
	require.Equal(t, req.MaxTokens, again.MaxTokens)
	require.Equal(t, req.Temperature, again.Temperature)
	return sent
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte(stream(append(say("a"), begin(0, "c", "f"), begin(1, "d", "g"), arguments(1, "{}"), end(1)),
		families.End{Usage: used(10, 2)})))
	familytest.FuzzDecoder(f, family, "testdata/e17.txt",
		[]string{created, added("0", `{"type":"function_call","name":"f"}`), delta("output_text", "1", `\ud83d`),
			delta("function_call_arguments", "0", "{"), argumentsDone("0", "{}")},
		[]string{created, itemDone("0", `{"type":"function_call","name":"f","arguments":"{}"}`),
			last("incomplete", `"incomplete_details":{"reason":"content_filter"}`)},
		[]string{`{"type":"error","code":"server_error"}`},
		[]string{delta("reasoning_summary_text", "0", "h"),
			last("completed", `"output":[{"type":"message","content":[{"text":"a"}]}]`)})
}

func FuzzEncoder(f *testing.F) { familytest.FuzzEncoder(f, family) }

func FuzzEncodeRequest(f *testing.F) { familytest.FuzzEncodeRequest(f, family) }
