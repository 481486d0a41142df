package host_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// open begins an attempt and reads its first event.
func open(t *testing.T, ctx context.Context, p *host.Plugin, req *llm.Request) *host.Stream {
	t.Helper()
	s, err := p.Generate(ctx, req)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	events, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, llm.EventAccepted, events[0].Kind)
	return s
}

func kindOf(t *testing.T, err error) llm.ErrorKind {
	t.Helper()
	var typed *llm.Error
	require.ErrorAs(t, err, &typed)
	return typed.Kind
}

func TestSettingsReachTheProvider(t *testing.T) {
	t.Parallel()
	s := spec("script")
	s.Settings = settings.Values(`{"greeting": "good morning"}`)
	events, err := talk(t.Context(), acquire(t, newHost(t), s), "greeting")
	require.NoError(t, err)
	require.Equal(t, "good morning", text(events))
	require.Equal(t, "m", events[0].Model)
	require.Equal(t, llm.FinishStop, events[len(events)-1].Finish)
}

func TestHowAnAttemptCanEnd(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	t.Run("GAP-63 refused by the upstream before it accepted", func(t *testing.T) {
		t.Parallel()
		events, err := talk(t.Context(), p, "refused")
		require.Empty(t, events)
		require.Equal(t, &llm.Error{
			Kind: llm.ErrCapacity, Message: "slow down", Status: 429, RetryAfter: 1500 * time.Millisecond,
		}, err)
	})
	for script, want := range map[string]string{
		"too early":  "accepted must be the first",
		"silent end": "without a finish",
		// An attempt that ends so has proven what it used, and no other route is tried.
		"cancelled by nobody": "which it was not",
		"panic":               "index out of range",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			_, err := talk(t.Context(), p, script)
			require.Equal(t, llm.ErrProtocol, kindOf(t, err))
			require.ErrorContains(t, err, want)
		})
	}
	t.Run("the caller left", func(t *testing.T) {
		t.Parallel()
		ctx, leave := context.WithCancel(t.Context())
		s := open(t, ctx, p, ask("wait"))
		leave()
		_, err := rest(s)
		require.Equal(t, llm.ErrCanceled, kindOf(t, err))
	})
	t.Run("the attempt took too long", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := talk(ctx, p, "wait")
		require.Equal(t, llm.ErrUpstream, kindOf(t, err))
		require.ErrorContains(t, err, "time limit")
	})
	t.Run("closed while it is read", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), p, ask("wait"))
		go s.Close()
		_, err := rest(s)
		require.Equal(t, llm.ErrCanceled, kindOf(t, err))
	})
}

func TestADeadProcessIsNoUpstreamError(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	_, err := talk(t.Context(), p, "exit")
	require.Equal(t, llm.ErrDied, kindOf(t, err))
	require.ErrorContains(t, err, "exit status 7")
	require.ErrorContains(t, err, "out of paper")
}

func TestGAP47CancelProvesUsage(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	require.Equal(t, host.Capabilities{CancelUsage: true, CountTokens: true, Receipts: true}, p.Capabilities())
	t.Run("GAP-47 usage and then the end", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.Context(), p, ask("wait"))
		require.NoError(t, s.Cancel(t.Context()))
		events, err := rest(s)
		require.Equal(t, llm.ErrCanceled, kindOf(t, err))
		require.Equal(t, []llm.Event{{
			Kind: llm.EventUsage, Usage: &llm.Usage{Input: llm.Count(0), Output: llm.Count(9)},
		}}, events)
	})
	t.Run("GAP-47 usage that cannot be proven", func(t *testing.T) {
		t.Parallel()
		req := ask("wait")
		req.Attempt = "unprovable"
		s := open(t, t.Context(), p, req)
		require.NoError(t, s.Cancel(t.Context()))
		events, err := rest(s)
		require.Equal(t, llm.ErrCanceled, kindOf(t, err))
		require.ErrorContains(t, err, "the upstream forgot")
		require.Empty(t, events)
	})
	t.Run("too late", func(t *testing.T) {
		t.Parallel()
		s, err := p.Generate(t.Context(), ask("greeting"))
		require.NoError(t, err)
		defer s.Close()
		_, err = rest(s)
		require.NoError(t, err)
		require.NoError(t, s.Cancel(t.Context()))
		_, err = s.Recv()
		require.Equal(t, io.EOF, err)
	})
}

func TestASlowConsumerSlowsTheProvider(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	s := open(t, t.Context(), p, ask("flood"))
	// Nobody reads. The provider tells how much it sent when send came to a halt.
	sent, err := p.CountTokens(t.Context(), ask("flood"))
	require.NoError(t, err)
	require.Less(t, sent, int64(1<<20), "what is under way between the two processes is bounded")
	// Reading again sets the provider going again.
	for received := int64(0); received < 4*sent; {
		events, err := s.Recv()
		require.NoError(t, err)
		for _, ev := range events {
			received += int64(len(ev.Text))
		}
	}
}

func TestWhatWaitsTravelsTogether(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	s := open(t, t.Context(), p, ask("flood"))
	_, err := p.CountTokens(t.Context(), ask("flood"))
	require.NoError(t, err)
	for {
		events, err := s.Recv()
		require.NoError(t, err)
		if len(events) > 1 {
			return
		}
	}
}

func TestLargeMessagesPass(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	t.Run("a request of 32 MiB", func(t *testing.T) {
		t.Parallel()
		req := ask("hello")
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser,
			Parts: []llm.Part{llm.Text(strings.Repeat("x", 32<<20))}})
		s := open(t, t.Context(), p, req)
		_, err := rest(s)
		require.NoError(t, err)
	})
	t.Run("a request that is too large", func(t *testing.T) {
		t.Parallel()
		req := ask("large")
		req.Messages = append(req.Messages, llm.Message{Role: llm.RoleUser,
			Parts: []llm.Part{llm.Text(strings.Repeat("x", 65<<20))}})
		s, err := p.Generate(t.Context(), req)
		if err == nil {
			defer s.Close()
			_, err = s.Recv()
		}
		require.Equal(t, llm.ErrRejected, kindOf(t, err))
	})
	t.Run("a delta of 12 MiB", func(t *testing.T) {
		t.Parallel()
		events, err := talk(t.Context(), p, "huge")
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("é", 6<<20), text(events))
	})
}

func TestReceipts(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	receipts, err := p.Receipts(t.Context(), asked("a", "unknown"))
	require.NoError(t, err)
	require.Equal(t, []host.Receipt{{Attempt: "a", Usage: llm.Usage{Output: llm.Count(5)}}}, receipts)

	receipts, err = p.Receipts(t.Context(), asked("a", "broken"))
	require.Equal(t, llm.ErrUpstream, kindOf(t, err))
	require.Len(t, receipts, 1, "what came before the failure counts")

	_, err = p.Receipts(t.Context(), asked("negative"))
	require.Equal(t, llm.ErrProtocol, kindOf(t, err), "accounts are charged by receipts")
}
