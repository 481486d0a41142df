package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/upstream"
	"github.com/fareway/fareway/plugins/responses"
	"github.com/fareway/fareway/plugins/tokens"
)

// TestSmallAllowance proves ALLOW-02 and RESP-07 for allowances that the service does not take: they are asked for as
// the smallest that it takes, and the reply is cut at them, however it comes.
func TestSmallAllowance(t *testing.T) {
	t.Parallel()
	s := fake(t)
	p := responses.New()
	require.NoError(t, provider.Configure(t.Context(), p, at(s)))
	n := int64(0)
	rapid.Check(t, func(t *rapid.T) {
		allowance := rapid.Int64Range(1, 20).Draw(t, "allowance")
		pieces := rapid.SliceOfN(rapid.StringMatching(`[a-z 😀ä]{1,12}`), 1, 12).Draw(t, "pieces")
		steps := []upstream.Step{}
		for _, piece := range pieces {
			steps = append(steps, upstream.Text(piece))
		}
		calls := rapid.Bool().Draw(t, "calls")
		if calls {
			steps = append(steps, upstream.ToolCall(0, "c", "f"), upstream.Arguments(0, `{"a":"some words of it"}`))
		}
		finish := map[bool]string{false: "stop", true: "tool_calls"}[calls]
		u := upstream.Usage{Prompt: 7, Completion: 15} // one less than a reply that was cut
		steps = append(steps, upstream.Finish(finish), upstream.ReportTokens(u), upstream.Done())
		s.Enqueue(upstream.Reply{Steps: steps})

		var reply llm.Reply
		err := p.Generate(t.Context(), &llm.Request{Attempt: fmt.Sprint(n), Model: "m", MaxTokens: allowance,
			Whole:    rapid.Bool().Draw(t, "whole"),
			Tools:    []llm.Tool{{Name: "f", Schema: []byte(`{"type":"object"}`)}},
			Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("x")}}}},
			func(ev llm.Event) error { reply.Add(ev); return nil })
		require.NoError(t, err)
		reply.Close()
		n++
		sent, err := s.Request(t.Context(), n)
		require.NoError(t, err)
		require.Equal(t, max(allowance, 16), sent.MaxTokens)

		all := strings.Join(pieces, "")
		said, used := reply.Text(), tokens.Text(reply.Text())
		require.True(t, strings.HasPrefix(all, said), "%q", said)
		require.EqualValues(t, 15, *reply.Usage.Output, "what the service charges stays what it says")
		if allowance >= 16 {
			require.Equal(t, all, said, "the service cuts it")
			return
		}
		for _, call := range reply.Calls() {
			used += tokens.Text(call.Name) + tokens.Text(call.Arguments.String())
		}
		require.LessOrEqual(t, used, allowance)
		whole := tokens.Text(all)
		if calls {
			whole += tokens.Text("f") + tokens.Text(`{"a":"some words of it"}`)
		}
		if whole <= allowance {
			require.Equal(t, all, said)
			require.Equal(t, finish, string(reply.Finish))
			require.Len(t, reply.Calls(), map[bool]int{true: 1}[calls])
			return
		}
		require.Equal(t, llm.FinishLength, reply.Finish)
		if next := strings.TrimPrefix(all, said); next != "" {
			require.Empty(t, reply.Calls(), "nothing comes behind the cut")
			require.Greater(t, tokens.Text(said+next), allowance)
		}
	})
}

// TestCutReplies: what had failed stays a failure, and a cut within a call leaves its beginning.
func TestCutReplies(t *testing.T) {
	t.Parallel()
	ask := func(allowance int64, steps ...upstream.Step) (*llm.Reply, error) {
		s := fake(t)
		s.Enqueue(upstream.Reply{Steps: append(steps, upstream.ReportUsage(), upstream.Done())})
		p := responses.New()
		require.NoError(t, provider.Configure(t.Context(), p, at(s)))
		var reply llm.Reply
		err := p.Generate(t.Context(), &llm.Request{Attempt: "a", Model: "m", MaxTokens: allowance,
			Tools:    []llm.Tool{{Name: "f", Schema: []byte(`{"type":"object"}`)}},
			Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("x")}}}},
			func(ev llm.Event) error { reply.Add(ev); return nil })
		reply.Close()
		return &reply, err
	}
	long := upstream.Text("one two three four five six seven")
	reply, err := ask(3, long, upstream.Finish("content_filter"))
	require.NoError(t, err)
	require.Equal(t, llm.FinishPolicy, reply.Finish)
	require.Equal(t, "one two three", reply.Text())

	reply, err = ask(4, upstream.ToolCall(0, "c0", "f"), upstream.Arguments(0, `{"a":"one two three"}`),
		upstream.ToolCall(1, "c1", "f"), upstream.Arguments(1, `{}`), upstream.Finish("tool_calls"))
	require.NoError(t, err)
	require.Equal(t, llm.FinishLength, reply.Finish)
	require.Len(t, reply.Calls(), 1)
	require.True(t, strings.HasPrefix(`{"a":"one two three"}`, reply.Calls()[0].Arguments.String()))

	reply, err = ask(2, upstream.Reasoning("one two three"), long, upstream.Finish("stop"))
	require.NoError(t, err)
	require.Empty(t, reply.Text(), "thoughts are paid from the same allowance (ALLOW-20)")
	require.Equal(t, llm.FinishLength, reply.Finish)
}
