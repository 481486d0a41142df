package conform_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

// TestWhatIsAddedIsHeldFor: no upstream is sent more than a hold covers (GAP-127, GAP-49), whatever it refuses.
func TestWhatIsAddedIsHeldFor(t *testing.T) {
	t.Parallel()
	schemas := rapid.SampledFrom(
		[]string{`{}`, `{"type":"object"}`, `{"anyOf":[{"properties":{"a":{}}},{"type":"object"}]}`,
			`{"type":"object","properties":{"a":{"type":"array"},"b":true,"c":{"$ref":"#/gone"}}}`,
			`{"$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#/$defs/a"}}}},` +
				`"properties":{"a":{"$ref":"#/$defs/a"},"b":{"items":true,"type":"array"}}}`,
			`{"properties":{"a":{"type":["string","number","null"]},"b":{"enum":[1]},"c":{"const":"x"},"d":{},` +
				`"e":{"allOf":[{}]},"f":{"type":["array","object"],"description":"` + strings.Repeat("words ", 50) +
				`","anyOf":[{},{}]}}}`,
			`{"properties":{"a":1,"b":"x","c":[],"d":null,"e":2,"f":3},"required":["a","b"],"anyOf":[1,2,3]}`,
			`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"x":{"type":["array","null"]}}}}}`},
	)
	ids := rapid.SampledFrom(
		[]string{"a", "b", "call_1", "functions.f:0", "chatcmpl-tool-0123456789abcdef0123456789abcdef"},
	)
	names := rapid.SampledFrom(
		[]string{"f", "a.b", "a_b", "3d", "mcp.server.read.a.very.long.name.that.no.upstream.takes.any.more"},
	)
	texts := rapid.SampledFrom([]string{"", " ", "hi"})
	rapid.Check(t, func(t *rapid.T) {
		req := &llm.Request{}
		mapped, silent := int64(0), int64(1)
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			m := llm.Message{Role: rapid.SampledFrom([]llm.Role{llm.RoleSystem, llm.RoleUser, llm.RoleAssistant,
				llm.RoleAssistant, llm.RoleTool, llm.RoleTool}).Draw(t, "role")}
			for range rapid.IntRange(0, 2).Draw(t, "texts") {
				m.Parts = append(m.Parts, llm.Text(texts.Draw(t, "text")))
			}
			switch m.Role {
			case llm.RoleTool:
				m.CallID, m.IsError = ids.Draw(t, "answers"), rapid.Bool().Draw(t, "failed")
				mapped++
			case llm.RoleAssistant:
				for range rapid.IntRange(0, 3).Draw(t, "calls") {
					m.Parts = append(m.Parts, llm.Part{Call: &llm.ToolCall{ID: ids.Draw(t, "id"), Name: names.Draw(t, "called"),
						Arguments: llm.Plain(rapid.SampledFrom([]string{"", `{"a":1}`, "[1]", `"{\"a\":1}"`}).Draw(t, "arguments"))}})
					mapped += 2 // the result may be one that was not there
				}
			}
			req.Messages = append(req.Messages, m)
		}
		for _, name := range rapid.SliceOfDistinct(names, rapid.ID[string]).Draw(t, "tools") {
			req.Tools = append(req.Tools, llm.Tool{Name: name, Schema: []byte(schemas.Draw(t, "schema"))})
		}
		if rapid.Bool().Draw(t, "format") {
			req.Format = &llm.Format{Kind: llm.FormatJSONSchema, Schema: []byte(schemas.Draw(t, "of the format"))}
		}
		refused := rapid.SliceOfDistinct(rapid.SampledFrom(conform.Known()), rapid.ID[string]).Draw(t, "refused")
		fit, _, err := conform.Request(req, refused)
		if llm.KindOf(err) == llm.ErrUnfit {
			return
		}
		require.NoError(t, err)
		const room = 17 // of an id, in the framing of what it is for
		sent := framed(fit)
		require.LessOrEqual(t, sent, tokens.Bound(req)+mapped*room+silent)
		require.LessOrEqual(t, sent, tokens.Most(req)+mapped*room+silent)
	})
}

// framed is what a request comes to as package tokens bounds it, with nothing added to it.
func framed(req *llm.Request) (n int64) {
	const base, message, joint, call, result, tools, tool, format = 64, 16, 3, 48, 32, 640, 48, 96
	text := func(s string) int64 {
		return tokens.Bound(&llm.Request{Messages: []llm.Message{{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text(s)}}}}) -
			tokens.Bound(&llm.Request{Messages: []llm.Message{{Role: llm.RoleSystem}}})
	}
	n = base
	for _, m := range req.Messages {
		n += message + int64(len(m.Role)) + joint*int64(max(len(m.Parts)-1, 0))
		if m.Role == llm.RoleTool {
			n += result + text(m.CallID)
		}
		for _, p := range m.Parts {
			n += text(p.Text.String())
			if c := p.Call; c != nil {
				n += call + text(c.ID) + text(c.Name) + text(c.Arguments.String())
			}
		}
	}
	if len(req.Tools) > 0 {
		n += tools
	}
	if req.Format != nil {
		n += format + tokens.Text(string(req.Format.Schema))
	}
	for _, each := range req.Tools {
		n += tool + text(each.Name) + tokens.Text(string(each.Schema))
	}
	return n
}
