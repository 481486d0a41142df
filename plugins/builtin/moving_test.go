package builtin_test

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/builtin"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// service is where a conversation can go on. What it takes the fake upstream checks, as its documents and what people
// report say: upstream.Refuses.
type service struct {
	name, plugin string
	model        string
	settings     map[string]any
	options      upstream.Options
}

func services() []service {
	var all []service
	for _, preset := range upstream.Services() {
		all = append(all, service{preset, "openai", map[string]string{"gemini": "gemini-3-pro"}[preset],
			map[string]any{"preset": preset, "api_key": "k"}, upstream.Options{Service: preset}})
	}
	at := func(base string) map[string]any { return map[string]any{"base_url": base, "api_key": "k"} }
	aws := map[string]any{"base_url": "", "region": "eu-central-1", "access_key_id": "k", "secret_access_key": "s"}
	return append(all,
		service{"gemini before 3", "openai", "gemini-2.5-flash",
			map[string]any{"preset": "gemini", "api_key": "k"},
			upstream.Options{Service: "gemini"}},
		service{"/responses", "responses", "", at("/v1"), upstream.Options{}},
		service{"/messages", "anthropic", "", at("/v1"), upstream.Options{}},
		service{"/gemini", "gemini", "gemini-3-pro", at("/v1beta"), upstream.Options{}},
		service{"/bedrock", "bedrock", "", aws, upstream.Options{}},
		service{"/bedrock nova", "bedrock", "amazon.nova-pro-v1:0", aws, upstream.Options{}},
		service{"/ollama", "ollama", "", map[string]any{"base_url": ""}, upstream.Options{}},
	)
}

// start starts the fake of a service, and the provider before it.
func (to *service) start(t *testing.T) (*upstream.Server, provider.Provider) {
	s := upstream.Start(t, to.options)
	p, _ := builtin.New(to.plugin)
	values := maps.Clone(to.settings)
	if path, elsewhere := values["base_url"].(string); elsewhere {
		values["base_url"] = s.URL() + path
	} else {
		values["base_url"] = s.BaseURL()
	}
	raw, err := json.Marshal(values)
	require.NoError(t, err)
	require.NoError(t, provider.Configure(t.Context(), p, raw))
	return s, p
}

// TestConversationsMove takes conversations begun anywhere, with what other services and clients make of ids, names,
// order and schemas, through every service, streamed and not (GAP-127, GAP-128).
func TestConversationsMove(t *testing.T) {
	t.Parallel()
	for _, to := range services() {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Pointer[upstream.Request] // the last
			to.options.Script = func(req *upstream.Request) upstream.Reply {
				sent.Store(req)
				if len(req.Tools) == 0 {
					return upstream.Answer(req)
				}
				return upstream.Reply{Steps: []upstream.Step{upstream.ToolCall(0, "call_new", req.Tools[0].Name),
					upstream.Arguments(0, `{}`), upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}}
			}
			_, p := to.start(t)
			rapid.Check(t, func(t *rapid.T) {
				req := conversation(t)
				req.Attempt, req.Model = "moving", cmp.Or(to.model, "m")
				req.Whole = rapid.Bool().Draw(t, "whole")
				var called string
				err := p.Generate(context.Background(), req, func(ev llm.Event) error {
					if ev.Kind == llm.EventToolCall {
						called = ev.Name
					}
					return nil
				})
				if llm.KindOf(err) == llm.ErrUnfit && (req.ForcesCall() || req.FormatsWithTools()) {
					return
				}
				require.NoError(t, err)
				if len(req.Tools) > 0 && len(sent.Load().Tools) > 0 { // some demand tools where there were calls
					require.Equal(t, req.Tools[0].Name, called, "the client sees its own names")
				}
				judge(t, sent.Load())
				require.NoError(t, official(sent.Load()), "%s", sent.Load().Body)
			})
		})
	}
}

// judge checks what a service was sent, beside what the service itself does.
func judge(t *rapid.T, sent *upstream.Request) {
	require.NotContains(t, string(sent.Body), "notable", "parts are apart")
	seen := map[string]bool{}
	for _, tool := range sent.Tools {
		require.False(t, seen["tool "+tool.Name], "names are distinct")
		seen["tool "+tool.Name] = true
	}
	for _, m := range sent.Messages {
		for _, c := range m.Calls {
			require.False(t, c.ID != "" && seen["call "+c.ID], "ids are distinct")
			seen["call "+c.ID] = true
			var arguments map[string]any
			require.NoError(t, json.Unmarshal([]byte(c.Arguments), &arguments), c.Arguments)
		}
	}
}

func conversation(t *rapid.T) *llm.Request {
	ids := rapid.SampledFrom([]string{
		"call_8fJ2nQ0dLk3m", "toolu_01A09q90qw90lq917835lq9", "chatcmpl-tool-0123456789abcdef0123456789abcdef", "D681PevKs",
		"call_made_X", "fc_" + strings.Repeat("0", 61), "functions.get_weather:0", "call_8fJ2nQ0dLk3m",
		strings.Repeat("i", 200), "id with blanks", "天气_1", "天气_2", "\"quoted\"", "0", "000000000",
	})
	offered := []string{
		"get_weather",
		"mcp.server.read",
		"mcp_server_read",
		strings.Repeat("long.", 25) + "abc",
		"3d-view",
		"天气",
		"氣象",
		strings.Repeat("長", 70),
		"get_weather_",
		"a b",
	}
	names := rapid.SampledFrom(append(offered, "ns/tool", "gone", "a_b", "__"))
	schema := rapid.SampledFrom([]string{`{}`, `{"type":"object"}`,
		`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"string","maxLength":2000,"pattern":"\\d+"}}}`,
		`{"anyOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}}}]}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":["string","null"]},` +
			`"b":{"oneOf":[{"const":1},{"$ref":"#/$defs/n"}]},"c":{"enum":["x",1,null]},"type":{"type":"string"}},` +
			`"required":["a","z"],"additionalProperties":false,"$defs":{"n":{"type":"object","properties":{"n":` +
			`{"$ref":"#/$defs/n"},"m":{"allOf":[{"$ref":"#/$defs/n"}]}}}}}`,
		`{"type":"object","properties":{"a":true,"b":{"type":"array","items":[{"type":"string"}]},"c":{"type":"array",` +
			`"prefixItems":[{}]}},"not":{"required":["a"]}}`})
	texts := rapid.SampledFrom([][]string{{"hi"}, {""}, {" "}, {"Translate: not", "able"}, nil})
	req := &llm.Request{Model: "m", MaxTokens: 100}
	say := func(role llm.Role) llm.Message {
		m := llm.Message{Role: role}
		for _, text := range texts.Draw(t, "texts") {
			m.Parts = append(m.Parts, llm.Text(text))
		}
		return m
	}
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("begin")}})
	if rapid.Bool().Draw(t, "assistant first") {
		req.Messages[0].Role = llm.RoleAssistant
	}
	if rapid.Bool().Draw(t, "tools") {
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(offered), 1, 3, rapid.ID[string]).Draw(t, "names") {
			req.Tools = append(req.Tools, llm.Tool{Name: name, Schema: json.RawMessage(schema.Draw(t, "schema"))})
		}
	}
	if len(req.Tools) > 0 {
		req.ToolChoice = rapid.SampledFrom([]llm.ToolChoice{{}, {}, {Mode: llm.ToolNone}, {Mode: llm.ToolRequired},
			{Mode: llm.ToolNamed, Name: req.Tools[0].Name}}).Draw(t, "choice")
	}
	req.Format = rapid.SampledFrom([]*llm.Format{nil, nil, nil, {Kind: llm.FormatJSONObject}, {Kind: llm.FormatJSONSchema,
		Name: "answer", Schema: json.RawMessage(schema.Draw(t, "of the format"))}}).Draw(t, "format")
	for range rapid.IntRange(0, 5).Draw(t, "turns") {
		switch rapid.IntRange(0, 3).Draw(t, "turn") {
		case 0:
			req.Messages = append(req.Messages, say(llm.RoleUser))
		case 1:
			req.Messages = append(req.Messages, say(llm.RoleAssistant))
		case 2:
			req.Messages = append(req.Messages, say(llm.RoleSystem))
		default:
			m, results := say(llm.RoleAssistant), []llm.Message{}
			for range rapid.IntRange(1, 3).Draw(t, "calls") {
				c := &llm.ToolCall{ID: ids.Draw(t, "id"), Name: names.Draw(t, "called"), Arguments: llm.Plain(
					rapid.SampledFrom([]string{"", `{"a":1}`, `{"path":"x","content":"cut`, "[1]"}).Draw(t, "arguments"))}
				m.Parts = append(m.Parts, llm.Part{Call: c})
				r := say(llm.RoleTool)
				r.CallID, r.IsError = c.ID, rapid.Bool().Draw(t, "failed")
				results = append(results, r)
			}
			req.Messages = append(req.Messages, m)
			switch rapid.IntRange(0, 3).Draw(t, "between") {
			case 0:
				req.Messages = append(req.Messages, say(llm.RoleUser))
			case 1:
				results = results[1:] // the first has no result
			}
			req.Messages = append(req.Messages, results...)
		}
	}
	return req
}
