package endpoint_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// llama makes a fake llama.cpp server, and a caller of it.
func llama(t *testing.T) (*upstream.Server, *caller) {
	t.Helper()
	s := upstream.Start(t, upstream.Options{Service: "llamacpp"})
	return s, start(t, endpoint.Endpoint{URL: s.BaseURL(), Timings: true})
}

// rest reads a call to its end.
func rest(call *endpoint.Call) (text string, usage *llm.Usage, end error) {
	for {
		events, err := call.Recv()
		for _, ev := range events {
			switch ev.Kind {
			case llm.EventText:
				text += ev.Text
			case llm.EventUsage:
				usage = ev.Usage
			}
		}
		if err != nil {
			return text, usage, err
		}
	}
}

// TestStop is GAP-47 by what a llama.cpp server says with each chunk.
func TestStop(t *testing.T) {
	t.Parallel()
	reports := upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 50, Cached: llm.Count(40)})
	so := func(done int64) *llm.Usage {
		return &llm.Usage{Input: llm.Count(60), CacheRead: llm.Count(40), Output: llm.Count(done)}
	}
	whole := func() *llm.Request {
		req := ask("x")
		req.Whole = true
		return req
	}
	call := func(t *testing.T, c *caller, req *llm.Request) *endpoint.Call {
		call, err := c.client.Call(withTimeout(t), &c.source, req)
		require.NoError(t, err)
		t.Cleanup(call.Close)
		return call
	}
	for how, request := range map[string]func() *llm.Request{"streamed": func() *llm.Request { return ask("x") },
		"in one piece": whole} {
		t.Run("while it is silent, "+how, func(t *testing.T) {
			t.Parallel()
			s, c := llama(t)
			s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("one "), upstream.Text("two"), upstream.Wait("never"),
				upstream.Finish("stop"), reports, upstream.Done()}})
			one := call(t, c, request())
			read := ""
			for read != "one two" {
				events, err := one.Recv()
				require.NoError(t, err)
				for _, ev := range events {
					read += ev.Text
				}
			}
			one.Stop()
			one.Stop()
			_, usage, err := rest(one)
			require.Equal(t, llm.ErrCanceled, llm.KindOf(err))
			require.Equal(t, so(2), usage)
			rec, err := s.Ended(withTimeout(t), 1)
			require.NoError(t, err)
			require.Equal(t, upstream.OutcomeLeft, rec.Outcome, "the server's slot is free")
		})
	}
	t.Run("not before it has said what it has done", func(t *testing.T) {
		t.Parallel()
		s, c := llama(t)
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Wait("prompt"), upstream.Text("one "),
			upstream.Text("two"), upstream.Wait("never"), reports, upstream.Done()}})
		one := call(t, c, ask("x"))
		_, err := one.Recv()
		require.NoError(t, err)
		one.Stop()
		s.Open("prompt")
		text, usage, err := rest(one)
		require.Equal(t, llm.ErrCanceled, llm.KindOf(err))
		require.NotEmpty(t, text)
		require.LessOrEqual(t, *usage.Output, int64(2))
		require.Positive(t, *usage.Output)
		require.EqualValues(t, 60, *usage.Input)
	})
	t.Run("a server that does not say it is read to its end", func(t *testing.T) {
		t.Parallel()
		for _, e := range []endpoint.Endpoint{{}, {Timings: true}} {
			s := upstream.Start(t, upstream.Options{Service: "llamacpp"})
			e.URL = s.BaseURL()
			s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Raw(
				`data: {"choices":[{"delta":{"content":"a"}}],"timings":{"prompt_n":3,"predicted_n":1}}` + "\n\n"),
				upstream.Wait("go"), upstream.Finish("stop"),
				upstream.ReportTokens(upstream.Usage{Prompt: 100, Completion: 50}), upstream.Raw("data: [DONE]\n\n"),
				upstream.Done()}})
			one := call(t, start(t, e), ask("x"))
			_, err := one.Recv()
			require.NoError(t, err)
			one.Stop()
			s.Open("go")
			_, usage, err := rest(one)
			require.ErrorIs(t, err, io.EOF)
			require.EqualValues(t, 100, *usage.Input, "old servers do not say what came from the cache")
		}
	})
	t.Run("of a reply that ended", func(t *testing.T) {
		t.Parallel()
		s, c := llama(t)
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("one"), upstream.Finish("stop"), reports,
			upstream.Done()}})
		one := call(t, c, ask("x"))
		_, usage, err := rest(one)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, so(50), usage, "what it reports at its end")
		one.Stop()
		_, err = one.Recv()
		require.ErrorIs(t, err, io.EOF)
	})
	t.Run("it crashes in the middle", func(t *testing.T) {
		t.Parallel()
		for _, last := range []upstream.Step{upstream.Cut(), upstream.Reset(), upstream.Fail(upstream.ServerError())} {
			s, c := llama(t)
			s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("one "), upstream.Text("two"), upstream.Wait("read"),
				last, reports}})
			one := call(t, c, ask("x"))
			go func() {
				if s.AtGate(context.Background(), "read", 1) == nil {
					s.Open("read")
				}
			}()
			_, usage, err := rest(one)
			require.Error(t, err)
			require.NotEqual(t, llm.ErrCanceled, llm.KindOf(err))
			require.Equal(t, so(2), usage, "what it has done is work")
		}
	})
}

// TestProves asks for an endpoint once, and does not wait again for one that cannot be had.
func TestProves(t *testing.T) {
	t.Parallel()
	asked := 0
	var fails error
	s := &endpoint.Source{Ask: func(_ context.Context, model string, _ bool) (*endpoint.Endpoint, error) {
		asked++
		return &endpoint.Endpoint{Dialect: endpoint.Chat, URL: "http://127.0.0.1/v1", Timings: model == "local"}, fails
	}}
	for range 2 {
		require.True(t, s.Proves(t.Context(), "local"))
		require.False(t, s.Proves(t.Context(), "other"))
	}
	require.Equal(t, 2, asked)
	fails = llm.Errorf(llm.ErrUpstream, "no")
	for range 2 {
		require.False(t, s.Proves(t.Context(), "third"))
	}
	require.Equal(t, 3, asked)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.True(t, s.Proves(gone, "local"))
}
