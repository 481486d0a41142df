package builtin_test

import (
	"context"
	"encoding/json"
	"regexp"
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

// service is where a conversation can go on, and what its documents ask for. The fake upstream checks the form of each
// dialect besides: orders of turns, results of calls, fields.
type service struct {
	name, plugin string
	settings     map[string]any
	options      upstream.Options
	// ids and names are what ids of calls and names of tools look like; nil for anything.
	ids, names *regexp.Regexp
	check      func(t require.TestingT, sent *upstream.Request) // nil for no more
}

var (
	// OpenAI's reference: functions have up to 64 letters, digits, _ and -; ids up to 40 characters (vllm #22966).
	name64, id40 = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`), regexp.MustCompile(`^.{1,40}$`)
	// Anthropic's and Amazon's: toolUseId.
	id64 = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	// Mistral's: nine letters or digits (openclaw #23740).
	id9 = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	// Google's: begins with a letter or an underscore.
	nameGoogle = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)
)

func services() []service {
	chat := func(preset string, ids *regexp.Regexp, check func(require.TestingT, *upstream.Request)) service {
		base := map[string]string{"azure": "", "openrouter": "/api/v1", "groq": "/openai/v1"}[preset]
		if base == "" {
			base = "/v1"
		}
		return service{preset, "openai", map[string]any{"preset": preset, "base_url": base, "api_key": "k"},
			upstream.Options{Service: preset}, ids, name64, check}
	}
	return []service{
		chat("openai", id40, schemas),
		chat("openrouter", id40, schemas),
		chat("groq", id40, nil),
		chat("mistral", id9, func(t require.TestingT, sent *upstream.Request) {
			for i, m := range sent.Messages[1:] {
				require.False(t, m.Role == "user" && sent.Messages[i].Role == "tool", "the user behind a result (hermes #20154)")
				require.False(t, m.Role == "assistant" && m.Text == "" && len(m.Calls) == 0)
			}
		}),
		chat("deepseek", id40, func(t require.TestingT, sent *upstream.Request) {
			require.NotRegexp(t, `"content":\[`, string(sent.Body))
		}),
		chat("moonshot", id40, func(t require.TestingT, sent *upstream.Request) {
			for _, m := range sent.Messages {
				require.False(t, m.Role == "assistant" && m.Text == "" && len(m.Calls) == 0, "kimi-code #1985")
			}
		}),
		chat("vllm", id40, templated),
		chat("llamacpp", id40, func(t require.TestingT, sent *upstream.Request) {
			templated(t, sent)
			require.NotRegexp(t, `"maxLength":(2\d{3}|[3-9]\d{3}|\d{5,})|"pattern":"[^^]`, string(sent.Body))
		}),
		{
			"responses",
			"responses",
			map[string]any{"base_url": "/v1", "api_key": "k"},
			upstream.Options{},
			id64ish,
			name64,
			nil,
		},
		{
			"anthropic",
			"anthropic",
			map[string]any{"base_url": "/v1", "api_key": "k"},
			upstream.Options{},
			id64,
			name64,
			schemas,
		},
		{"gemini", "gemini", map[string]any{"base_url": "/v1beta", "api_key": "k"}, upstream.Options{}, nil, nameGoogle, nil},
		{"bedrock", "bedrock", map[string]any{"base_url": "", "region": "eu-central-1", "access_key_id": "k",
			"secret_access_key": "s"}, upstream.Options{}, id64, name64, schemas},
		{"ollama", "ollama", map[string]any{"base_url": ""}, upstream.Options{}, nil, nil, nil},
	}
}

// id64ish: OpenAI's responses take up to 64 characters (AstrBot PR#7735).
var id64ish = regexp.MustCompile(`^.{1,64}$`)

// schemas: the root of a tool's schema is of an object, and has no unions.
func schemas(t require.TestingT, sent *upstream.Request) {
	require.NotRegexp(t, `"(parameters|input_schema|json)":\{[^{]*"(anyOf|oneOf|allOf)"`, string(sent.Body))
}

// templated: one system message, first; then the user and the assistant in turns.
func templated(t require.TestingT, sent *upstream.Request) {
	last := ""
	for i, m := range sent.Messages {
		require.False(t, m.Role == "system" && i > 0, "vllm #41114")
		require.False(t, m.Role == "assistant" && (last == "" || last == "system"), "the user begins")
		require.False(t, m.Role == last && m.Role != "tool", "roles in turns")
		last = m.Role
	}
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
			s := upstream.Start(t, to.options)
			p, _ := builtin.New(to.plugin)
			values := map[string]any{}
			for name, value := range to.settings {
				if name == "base_url" {
					value = s.URL() + value.(string)
				}
				values[name] = value
			}
			raw, err := json.Marshal(values)
			require.NoError(t, err)
			require.NoError(t, provider.Configure(t.Context(), p, raw))
			rapid.Check(t, func(t *rapid.T) {
				req := conversation(t)
				req.Attempt = "moving"
				req.Whole = rapid.Bool().Draw(t, "whole")
				var called string
				require.NoError(t, p.Generate(context.Background(), req, func(ev llm.Event) error {
					if ev.Kind == llm.EventToolCall {
						called = ev.Name
					}
					return nil
				}))
				if len(req.Tools) > 0 {
					require.Equal(t, req.Tools[0].Name, called, "the client sees its own names")
				}
				judge(t, &to, sent.Load())
			})
		})
	}
}

// judge checks what a service was sent.
func judge(t *rapid.T, to *service, sent *upstream.Request) {
	require.NotContains(t, string(sent.Body), "notable", "parts are apart")
	seen := map[string]bool{}
	for _, tool := range sent.Tools {
		require.False(t, seen["tool "+tool.Name], "names are distinct")
		seen["tool "+tool.Name] = true
		require.True(t, to.names == nil || to.names.MatchString(tool.Name), tool.Name)
	}
	for _, m := range sent.Messages {
		for _, c := range m.Calls {
			require.True(t, to.names == nil || to.names.MatchString(c.Name), c.Name)
			require.True(t, to.ids == nil || to.ids.MatchString(c.ID), c.ID)
			require.False(t, c.ID != "" && seen["call "+c.ID], "ids are distinct")
			seen["call "+c.ID] = true
			var arguments map[string]any
			require.NoError(t, json.Unmarshal([]byte(c.Arguments), &arguments), c.Arguments)
		}
	}
	if to.check != nil {
		to.check(t, sent)
	}
}

func conversation(t *rapid.T) *llm.Request {
	ids := rapid.SampledFrom([]string{
		"call_8fJ2nQ0dLk3m", "toolu_01A09q90qw90lq917835lq9", "chatcmpl-tool-0123456789abcdef0123456789abcdef", "D681PevKs",
		"call_made_X", "fc_" + strings.Repeat("0", 61), "functions.get_weather:0", "call_8fJ2nQ0dLk3m",
	})
	offered := []string{
		"get_weather",
		"mcp.server.read",
		"mcp_server_read",
		strings.Repeat("long.", 25) + "abc",
		"3d-view",
	}
	names := rapid.SampledFrom(append(offered, "ns/tool", "gone"))
	schema := rapid.SampledFrom([]string{`{}`, `{"type":"object"}`,
		`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"string","maxLength":2000,"pattern":"\\d+"}}}`,
		`{"anyOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}}}]}`})
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
