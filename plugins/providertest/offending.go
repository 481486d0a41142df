package providertest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/llm"
)

func spoken(role llm.Role, texts ...string) llm.Message {
	m := llm.Message{Role: role}
	for _, text := range texts {
		m.Parts = append(m.Parts, llm.Text(text))
	}
	return m
}

func answered(id, name string) []llm.Message {
	result := spoken(llm.RoleTool, "r")
	result.CallID = id
	return []llm.Message{spoken(llm.RoleUser, "u"), {Role: llm.RoleAssistant, Parts: []llm.Part{
		{Call: &llm.ToolCall{ID: id, Name: name, Arguments: llm.Plain("{}")}}}}, result}
}

// Offending has for each of llm.Restrictions requests that run into it and, as far as can be, into nothing else.
func Offending() map[string][]llm.Request {
	const plain = `{"type":"object","properties":{"a":{"type":"string"}}}`
	hi := []llm.Message{spoken(llm.RoleUser, "u")}
	offered := func(name, schema string) llm.Request {
		return llm.Request{Messages: hi, Tools: []llm.Tool{{Name: name, Schema: json.RawMessage(schema)}}}
	}
	called := func(id, name string) llm.Request {
		r := offered("f", plain)
		r.Messages = answered(id, name)
		return r
	}
	chosen := func(choice llm.ToolChoice) llm.Request {
		r := offered("f", plain)
		r.ToolChoice = choice
		return r
	}
	conversation := func(messages ...llm.Message) []llm.Request { return []llm.Request{{Messages: messages}} }
	user, system, reply := hi[0], spoken(llm.RoleSystem, "s"), spoken(llm.RoleAssistant, "a")
	formatted := offered("f", plain)
	formatted.Format = &llm.Format{Kind: llm.FormatJSONObject}
	behind := called("call12345", "f")
	behind.Messages = append(behind.Messages, user)
	forced := []llm.Request{chosen(llm.ToolChoice{Mode: llm.ToolRequired}),
		chosen(llm.ToolChoice{Mode: llm.ToolNamed, Name: "f"})}
	schemas := func(list ...string) (all []llm.Request) {
		for _, schema := range list {
			all = append(all, offered("f", schema))
		}
		return all
	}
	in := func(list ...string) (all []llm.Request) {
		for _, schema := range list {
			all = append(all, offered("f", `{"type":"object","properties":{"a":`+schema+`}}`))
		}
		return all
	}
	long := strings.Repeat("x", 65)
	return map[string][]llm.Request{
		"max_tokens":     conversation(user),
		"stream_options": conversation(user),
		"call_ids_over_40": {called("chatcmpl-tool-0123456789abcdef0123456789abcdef", "f"),
			called(long+long+long, "f")},
		"call_ids_over_64": {called(long, "f"), called("toolu_"+long+long, "f")},
		"call_id_symbols":  {called("functions.f:0", "f"), called("天", "f")},
		"call_ids_unlike_9": {called("call_1", "f"), called("toolu_01A09q90qw90lq917835lq9", "f"),
			called("天天天天天天天天天", "f")},
		"tool_name_symbols":   {offered("a.b", plain), offered("天气", plain), called("call12345", "ns/tool")},
		"tool_names_over_64":  {offered(long, plain), called("call12345", long)},
		"tool_name_digits":    {offered("3d", plain), called("call12345", "-x")},
		"schema_without_type": schemas(`{"properties":{}}`, `{"type":null,"properties":{"type":{"type":"string"}}}`),
		"schema_without_properties": schemas(`{"type":"object"}`,
			`{"type":"object","additionalProperties":true}`),
		"schema_without_items": in(`{"type":"array"}`, `{"type":"object","properties":{"b":{"type":"array"}}}`),
		"schema_root_unions": schemas(`{"type":"object","properties":{},"anyOf":[{"required":[]}]}`,
			`{"type":"object","properties":{},"not":{}}`),
		"schema_grammar_limits": in(`{"type":"string","maxLength":2000}`, `{"type":"string","pattern":"\\d"}`, `true`,
			`{"$ref":"#/x"}`),
		"schema_beyond_openapi": in(`{"type":["string","null"]}`, `{"const":"x"}`, `{}`, `{"oneOf":[{"type":"string"}]}`,
			`{"$ref":"#/properties"}`, `{"type":"integer","enum":[1]}`, `{"type":"string","format":"uri"}`,
			`{"type":"object","required":["z"]}`, `{"type":"number","exclusiveMinimum":0}`),
		"later_system":      conversation(user, system, user),
		"system_alone":      conversation(system),
		"assistant_first":   conversation(reply, user),
		"assistant_last":    conversation(user, reply),
		"user_after_result": {behind},
		"repeated_roles":    append(conversation(user, user), conversation(user, reply, reply)...),
		"empty_assistant": append(conversation(user, spoken(llm.RoleAssistant), user),
			conversation(user, spoken(llm.RoleAssistant, ""), user)...),
		"blank_text": append(conversation(user, spoken(llm.RoleAssistant, ""), user),
			conversation(spoken(llm.RoleUser, "", "\n"))...),
		"text_parts":                  conversation(spoken(llm.RoleUser, "a", "b")),
		"null_content":                {called("call12345", "f")},
		"forced_tool_choice":          forced,
		"forced_tool_choice_thinking": forced,
		"json_with_tools":             {formatted},
	}
}

// RequireRestrictions proves what a provider that writes its own requests says that its service refuses (GAP-127):
// with all of that each offending request is taken, or known not to fit; and without one that the service is known to
// refuse, it is refused. generate makes an attempt of a service that refuses that.
func RequireRestrictions(t *testing.T, refuses []string, known func(restriction string) bool,
	generate func(req *llm.Request, refuses []string) error) {
	t.Helper()
	cases := Offending()
	for _, r := range llm.Restrictions() {
		if !slices.Contains(refuses, r.Name) {
			require.False(t, known(r.Name), "GAP-127 %s is refused by the service", r.Name)
			continue
		}
		without := slices.DeleteFunc(slices.Clone(refuses), func(name string) bool { return name == r.Name })
		refused, decides := false, false
		for _, req := range cases[r.Name] {
			req.Attempt, req.MaxTokens = "a", 100
			if err := generate(&req, refuses); llm.KindOf(err) != llm.ErrUnfit {
				require.NoError(t, err, "GAP-127 %s", r.Name)
			}
			with, _, unfit := conform.Request(&req, refuses)
			bare, _, _ := conform.Request(&req, without)
			decides = decides || unfit != nil || !reflect.DeepEqual(with, bare)
			refused = llm.KindOf(generate(&req, without)) == llm.ErrRejected || refused
		}
		require.Equal(t, known(r.Name) && decides, refused, // otherwise another restriction says it as well
			"GAP-127 %s: without it, the service refuses what runs into it", r.Name)
	}
}
