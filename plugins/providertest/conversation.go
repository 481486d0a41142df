package providertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// RunConversations checks that a conversation that goes on begins, upstream, with the same bytes, but for the marks
// of what is to be kept: otherwise the upstream's prompt cache never hits. fake has its cache on, and its usage must
// show that each turn reads what the turns before it brought. What a provider wants back with its calls' results it
// gets, as from the gateway.
func RunConversations(t *testing.T, fresh func() provider.Provider, values settings.Values, fake *upstream.Server) {
	t.Helper()
	p := fresh()
	require.NoError(t, provider.Configure(t.Context(), p, values))
	var requests int64
	conversations := 0
	rapid.Check(t, func(t *rapid.T) {
		conversations++
		req := &llm.Request{Model: fmt.Sprintf("m-%d", conversations), MaxTokens: 100, Tools: drawTools(t)}
		if rapid.Bool().Draw(t, "instructed") {
			req.Messages = append(req.Messages, said(llm.RoleSystem, drawText(t, "instructions")))
		}
		req.Messages = append(req.Messages, said(llm.RoleUser, drawText(t, "question")))
		var before body
		var cached int64
		for turn := range rapid.IntRange(2, 5).Draw(t, "turns") {
			req.Attempt = fmt.Sprintf("att-%d", requests)
			req.Whole = rapid.Bool().Draw(t, "whole")
			thinks := len(req.Tools) > 0 && rapid.Bool().Draw(t, "thinks")
			if thinks {
				fake.Enqueue(drawCalls(t, turn))
			}
			var reply llm.Reply
			require.NoError(t, p.Generate(context.Background(), req, func(ev llm.Event) error {
				if reply.Add(ev); ev.State != nil {
					if req.States == nil {
						req.States = make(map[string][]byte)
					}
					req.States[ev.ID] = ev.State
				}
				return nil
			}))
			requests++
			sent, err := fake.Request(context.Background(), requests)
			require.NoError(t, err)
			now := bodyOf(t, sent.Body)
			if turn > 0 {
				require.Equal(t, before.head, now.head, "tools and instructions stay")
				require.True(t, strings.HasPrefix(now.conversation, before.conversation),
					"the conversation\n%s\ndoes not begin with\n%s", now.conversation, before.conversation)
				require.Greater(t, llm.Tokens(reply.Usage.CacheRead), cached, "each turn reads what was new before it")
			}
			before, cached = now, llm.Tokens(reply.Usage.CacheRead)
			if !thinks {
				req.Messages = append(req.Messages, drawTurn(t, turn, len(req.Tools) > 0)...)
				continue
			}
			reply.Close()
			req.Messages = append(req.Messages, toldAgain(t, &reply)...)
		}
	})
}

// body is the part of a request that a cache goes by, without marks.
type body struct {
	head         string // tools and instructions
	conversation string // without the end of the array
}

// marks are how the providers here write them.
var marks = strings.NewReplacer(`,"cache_control":{"type":"ephemeral"}`, "",
	`,"cache_control":{"type":"ephemeral","ttl":"1h"}`, "",
	`,{"cachePoint":{"type":"default"}}`, "", `,{"cachePoint":{"ttl":"1h","type":"default"}}`, "",
	`,{"cachePoint":{"type":"default","ttl":"1h"}}`, "")

func bodyOf(t *rapid.T, raw json.RawMessage) body {
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &fields))
	conversation := fields["messages"]
	if conversation == nil {
		conversation = fields["input"]
	}
	if conversation == nil {
		conversation = fields["contents"]
	}
	require.NotEmpty(t, conversation)
	head := string(fields["tools"]) + string(fields["toolConfig"]) + string(fields["system"]) +
		string(fields["instructions"]) + string(fields["systemInstruction"])
	return body{marks.Replace(head), strings.TrimSuffix(marks.Replace(string(conversation)), "]")}
}

func said(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Parts: []llm.Part{llm.Text(text)}}
}

func drawText(t *rapid.T, what string) string {
	return rapid.StringMatching(`[ -~äß😀\n]{0,30}`).Draw(t, what) + " so"
}

func drawTools(t *rapid.T) []llm.Tool {
	var tools []llm.Tool
	for i := range rapid.IntRange(0, 3).Draw(t, "tools") {
		tools = append(tools, llm.Tool{Name: fmt.Sprintf("tool_%d", i), Description: drawText(t, "description"),
			Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)})
	}
	return tools
}

// drawCalls is a reply with calls, thoughts before them, and perhaps a text.
func drawCalls(t *rapid.T, turn int) upstream.Reply {
	r := upstream.Reply{Steps: []upstream.Step{upstream.Reasoning(drawText(t, "thought"))}}
	if rapid.Bool().Draw(t, "speaks") {
		r.Steps = append(r.Steps, upstream.Text(drawText(t, "text")))
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "calls") {
		r.Steps = append(r.Steps, upstream.ToolCall(i, fmt.Sprintf("called_%d_%d", turn, i), "tool_0"),
			upstream.Arguments(i, `{"a":"b"}`))
	}
	r.Steps = append(r.Steps, upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done())
	return r
}

// toldAgain is a reply as a client sends it back, with the results of its calls.
func toldAgain(t *rapid.T, reply *llm.Reply) []llm.Message {
	said := llm.Message{Role: llm.RoleAssistant}
	if text := reply.Text(); text != "" {
		said.Parts = append(said.Parts, llm.Text(text))
	}
	var results []llm.Message
	for _, call := range reply.Calls() {
		said.Parts = append(said.Parts, llm.Part{Call: call})
		results = append(results, llm.Message{Role: llm.RoleTool, CallID: call.ID,
			Parts: []llm.Part{llm.Text(drawText(t, "result"))}})
	}
	return append([]llm.Message{said}, results...)
}

// drawTurn is a reply and what follows it: the results of its calls, or what the user says next.
func drawTurn(t *rapid.T, turn int, tools bool) []llm.Message {
	reply := said(llm.RoleAssistant, drawText(t, "reply"))
	if !tools || rapid.Bool().Draw(t, "says") {
		return []llm.Message{reply, said(llm.RoleUser, drawText(t, "answer"))}
	}
	if rapid.Bool().Draw(t, "silent") {
		reply.Parts = nil
	}
	turns := []llm.Message{{}}
	for i := range rapid.IntRange(1, 3).Draw(t, "calls") {
		id := fmt.Sprintf("call_%d_%d", turn, i)
		reply.Parts = append(reply.Parts, llm.Part{Call: &llm.ToolCall{ID: id, Name: "tool_0",
			Arguments: llm.Plain(fmt.Sprintf(`{"a": %q}`, rapid.StringMatching(`[a-z ]{0,9}`).Draw(t, "argument")))}})
		result := said(llm.RoleTool, drawText(t, "result"))
		result.CallID, result.IsError = id, rapid.Bool().Draw(t, "failed")
		turns = append(turns, result)
	}
	turns[0] = reply
	return turns
}
