package gemini_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families/gemini"
	"github.com/fareway/fareway/plugins/families/internal/familytest"
	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/llm"
)

var text = familytest.Text

func call(id, name, arguments string) llm.Part {
	return llm.Part{Call: &llm.ToolCall{ID: id, Name: name, Arguments: llm.Plain(arguments)}}
}

func result(id, text string, failed bool) llm.Message {
	return llm.Message{Role: llm.RoleTool, CallID: id, IsError: failed, Parts: []llm.Part{llm.Text(text)}}
}

// user is a request that says so, with what encode adds to it.
const user = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`

func TestEncodeRequest(t *testing.T) {
	t.Parallel()
	hi := []llm.Message{text(llm.RoleUser, "hi")}
	f := llm.Tool{Name: "f", Description: "does", Schema: json.RawMessage(`{"type":"object"}`)}
	declared := `,"tools":[{"functionDeclarations":[{"name":"f","description":"does",` +
		`"parametersJsonSchema":{"type":"object"}}]}]`
	config := `,"generationConfig":{"maxOutputTokens":8192}`
	for name, c := range map[string]struct {
		req     llm.Request
		options gemini.Options
		want    string
	}{
		"a question": {llm.Request{Messages: hi}, gemini.Options{}, user + config},
		"no allowance": {llm.Request{Messages: hi, MaxTokens: -1}, gemini.Options{},
			user + `,"generationConfig":{}`},
		"everything": {llm.Request{Messages: hi, Temperature: new(0.5), Stop: []string{"a", "b\n"}}, gemini.Options{},
			user + `,"generationConfig":{"maxOutputTokens":8192,"temperature":0.5,"stopSequences":["a","b\n"]}`},
		"five stops at most": {llm.Request{Messages: hi, Stop: strings.Split("abcdefg", "")}, gemini.Options{},
			user + `,"generationConfig":{"maxOutputTokens":8192,"stopSequences":["a","b","c","d","e"]}`},
		"what is refused": {llm.Request{Messages: hi, Temperature: new(0.5), Stop: []string{"a"},
			Unsupported: []string{"stop", "temperature"}}, gemini.Options{}, user + config},
		"instructions, wherever they stand": {llm.Request{Messages: []llm.Message{text(llm.RoleSystem, "a", ""),
			text(llm.RoleUser, "hi"), text(llm.RoleSystem, "b")}}, gemini.Options{},
			`"systemInstruction":{"parts":[{"text":"a"},{"text":"b"}]},` + user + config},
		"nothing but instructions": {llm.Request{Messages: []llm.Message{text(llm.RoleSystem, "hi")}}, gemini.Options{},
			user + config},
		"turns in a row are one": {llm.Request{Messages: []llm.Message{text(llm.RoleUser, "a"), text(llm.RoleUser, "b", ""),
			text(llm.RoleAssistant, ""), text(llm.RoleUser, "c"), text(llm.RoleAssistant, "d"), text(llm.RoleAssistant, "e")}},
			gemini.Options{}, `"contents":[{"role":"user","parts":[{"text":"a"},{"text":"b"},{"text":"c"}]},` +
				`{"role":"model","parts":[{"text":"d"},{"text":"e"}]}]` + config},
		"a tool": {llm.Request{Messages: hi, Tools: []llm.Tool{f}}, gemini.Options{}, user + declared + config},
		"no call": {llm.Request{Messages: hi, Tools: []llm.Tool{f}, ToolChoice: llm.ToolChoice{Mode: llm.ToolNone}},
			gemini.Options{}, user + declared + `,"toolConfig":{"functionCallingConfig":{"mode":"NONE"}}` + config},
		"any call": {llm.Request{Messages: hi, Tools: []llm.Tool{f}, ToolChoice: llm.ToolChoice{Mode: llm.ToolRequired}},
			gemini.Options{}, user + declared + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}` + config},
		"that call": {llm.Request{Messages: hi, Tools: []llm.Tool{f},
			ToolChoice: llm.ToolChoice{Mode: llm.ToolNamed, Name: "f"}}, gemini.Options{}, user + declared +
			`,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}` + config},
		"JSON": {llm.Request{Messages: hi, Format: &llm.Format{Kind: llm.FormatJSONObject}}, gemini.Options{},
			user + `,"generationConfig":{"maxOutputTokens":8192,"responseMimeType":"application/json"}`},
		"JSON of a schema": {llm.Request{Messages: hi, Format: &llm.Format{Kind: llm.FormatJSONSchema, Name: "x",
			Schema: json.RawMessage(`{"type":"string"}`)}}, gemini.Options{},
			user + `,"generationConfig":{"maxOutputTokens":8192,"responseMimeType":"application/json",` +
				`"responseJsonSchema":{"type":"string"}}`},
		"no thoughts": {llm.Request{Messages: hi}, gemini.Options{ThinkingBudget: llm.Count(0)},
			user + `,"generationConfig":{"maxOutputTokens":8192,"thinkingConfig":{"thinkingBudget":0}}`},
		"few thoughts": {llm.Request{Messages: hi}, gemini.Options{ThinkingLevel: "low"},
			user + `,"generationConfig":{"maxOutputTokens":8192,"thinkingConfig":{"thinkingLevel":"LOW"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.req.MaxTokens == 0 {
				c.req.MaxTokens = 8192
			}
			b, err := encodeRequest([]byte("x"), &c.req, c.options)
			require.NoError(t, err)
			require.Equal(t, "x{"+c.want+"}", strings.TrimSuffix(string(b), "}")+"}")
			require.True(t, json.Valid(b[1:]))
		})
	}
}

// TestEncodeCalls: results come with the names of their calls, and together; ids go back to the service that gave
// them, and a call of a model that signs its calls is not without a signature (GAP-117).
func TestEncodeCalls(t *testing.T) {
	t.Parallel()
	messages := []llm.Message{text(llm.RoleUser, "hi"),
		{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("so"), call("a", "f", ` {"q": 1} `), call("b", "g", "")}},
		result("b", "no", true), result("a", "yes", false), text(llm.RoleUser, "go on"),
		{Role: llm.RoleAssistant, Parts: []llm.Part{call("call_made_X", "f", "[1]")}}, result("call_made_X", "", false)}
	for model, signature := range map[string]string{
		"gemini-2.5-pro": "", "models/gemini-2.0-flash": "", "gemma-3": "",
		"gemini-3-pro-preview": `,"thoughtSignature":"skip_thought_signature_validator"`,
		"gemini-flash-latest":  `,"thoughtSignature":"skip_thought_signature_validator"`,
	} {
		b, err := encodeRequest(nil, &llm.Request{Model: model, Messages: messages}, gemini.Options{})
		require.NoError(t, err)
		require.Equal(t, `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"so"},`+
			`{"functionCall":{"id":"a","name":"f","args":{"q": 1}}`+signature+`},`+
			`{"functionCall":{"id":"b","name":"g","args":{}}}]},`+
			`{"role":"user","parts":[{"functionResponse":{"id":"b","name":"g","response":{"error":"no"}}},`+
			`{"functionResponse":{"id":"a","name":"f","response":{"output":"yes"}}},{"text":"go on"}]},`+
			`{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}`+signature+`}]},`+
			`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":""}}}]}],"generationConfig":{}}`,
			string(b), model)
	}
}

// TestEncodeStates proves GAP-117: a signature goes back with the call that it came with, whatever the model.
func TestEncodeStates(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"gemini-2.5-pro", "gemini-3-pro"} {
		b, err := encodeRequest(nil, &llm.Request{Model: model, States: map[string][]byte{"b": []byte("c2ln+/=")},
			Messages: []llm.Message{{Role: llm.RoleAssistant, Parts: []llm.Part{call("a", "f", ""), call("b", "g", "")}},
				result("a", "x", false), result("b", "y", false)}}, gemini.Options{})
		require.NoError(t, err)
		require.Contains(t, string(b), `{"functionCall":{"id":"b","name":"g","args":{}},"thoughtSignature":"c2ln+/="}`)
		require.Equal(t, model == "gemini-3-pro", strings.Contains(string(b), "skip_thought_signature_validator"))
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	hi := text(llm.RoleUser, "hi")
	for want, req := range map[string]llm.Request{
		"no text in them":   {Messages: []llm.Message{text(llm.RoleAssistant, "")}},
		"encoding messages": {},
		"unknown role":      {Messages: []llm.Message{text("judge", "x")}},
		"encoding tool choice": {Messages: []llm.Message{hi}, Tools: []llm.Tool{{Name: "f", Schema: []byte(`{}`)}},
			ToolChoice: llm.ToolChoice{Mode: "x"}},
		"encoding temperature: NaN is": {Messages: []llm.Message{hi}, Temperature: new(math.NaN())},
	} {
		_, err := encodeRequest(nil, &req, gemini.Options{})
		require.ErrorContains(t, err, want)
	}
}

// TestEncodeSilence: a user who says nothing does not make the service refuse the conversation.
func TestEncodeSilence(t *testing.T) {
	t.Parallel()
	const silence = `"contents":[{"role":"user","parts":[{"text":"."}]}`
	for want, said := range map[string][]llm.Message{
		silence + `]`: {text(llm.RoleUser, "")},
		`"systemInstruction":{"parts":[{"text":"s"}]},` + silence + `]`: {text(llm.RoleSystem, "s"), text(llm.RoleUser, "")},
		silence + `,{"role":"model","parts":[{"text":"x"}]},{"role":"user","parts":[{"text":"y"}]}]`: {
			text(llm.RoleUser, ""), text(llm.RoleAssistant, ""), text(llm.RoleAssistant, "x"), text(llm.RoleUser, "y")},
		`"contents":[{"role":"user","parts":[{"text":"y"}]}]`: {text(llm.RoleUser, ""), text(llm.RoleUser, "y")},
	} {
		b, err := encodeRequest(nil, &llm.Request{Messages: said}, gemini.Options{})
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(b), "{"+want), "%s", b)
	}
}

// TestEncodedIsJSON: whatever a client says, and in whatever form it is kept, what is sent is JSON that says so.
func TestEncodedIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		said := rapid.String().Draw(t, "text") + "."
		quoted, err := json.Marshal(said)
		require.NoError(t, err)
		inside := string(quoted[1 : len(quoted)-1])
		form := rapid.SampledFrom([]llm.String{llm.Plain(said), llm.Quoted(inside)}).Draw(t, "form")
		req := &llm.Request{Model: "m", Stop: []string{said}, Messages: []llm.Message{
			{Role: llm.RoleSystem, Parts: []llm.Part{{Text: form}}}, {Role: llm.RoleUser, Parts: []llm.Part{{Text: form}}},
			{Role: llm.RoleAssistant, Parts: []llm.Part{{Call: &llm.ToolCall{ID: said, Name: "f", Arguments: form}}}},
			{Role: llm.RoleTool, CallID: said, Parts: []llm.Part{{Text: form}, {Text: form}}}},
			Tools: []llm.Tool{{Name: "f", Description: said, Schema: json.RawMessage(`{}`)}}}
		b, err := encodeRequest(nil, req, gemini.Options{})
		require.NoError(t, err)
		var sent struct {
			System   struct{ Parts []struct{ Text string } } `json:"systemInstruction"`
			Contents []struct {
				Parts []struct {
					Text     string
					Call     struct{ ID, Name string } `json:"functionCall"`
					Response struct {
						ID, Name string
						Response struct{ Output string }
					} `json:"functionResponse"`
				}
			}
			Config struct{ StopSequences []string } `json:"generationConfig"`
		}
		require.NoError(t, json.Unmarshal(b, &sent))
		want := strings.ToValidUTF8(said, "\uFFFD")
		require.Equal(t, want, sent.System.Parts[0].Text)
		require.Equal(t, want, sent.Contents[0].Parts[0].Text)
		require.Equal(t, want, sent.Contents[1].Parts[0].Call.ID)
		require.Equal(t, want, sent.Contents[2].Parts[0].Response.ID)
		require.Equal(t, want+"\n"+want, sent.Contents[2].Parts[0].Response.Response.Output)
		require.Equal(t, []string{want}, sent.Config.StopSequences)
	})
}

// encodeRequest writes a request as those who call the service do.
func encodeRequest(b []byte, req *llm.Request, o gemini.Options) ([]byte, error) {
	req, _, err := conform.Request(req, gemini.Refuses(req.Model))
	if err != nil {
		return nil, err
	}
	return gemini.EncodeRequest(b, req, o)
}
