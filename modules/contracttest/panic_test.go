package contracttest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/entry"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// faulty is a family with a fault of its own, which the prompt asks for.
type faulty struct{ families.Server }

const (
	faultAtOnce = "fail at once"
	faultLater  = "fail in mid-reply"
	faultAtEnd  = "fail at the end"
)

func (f faulty) NewEncoder(req *families.Request, head families.Head) families.Encoder {
	prompt := req.LLM.Messages[len(req.LLM.Messages)-1].Parts[0].Text.String()
	switch {
	case strings.Contains(prompt, faultAtOnce):
		panic("a fault with " + prompt) // a hold is placed by now
	case strings.Contains(prompt, faultLater):
		return faultyEncoder{f.Server.NewEncoder(req, head)}
	case strings.Contains(prompt, faultAtEnd):
		return faultyEnd{f.Server.NewEncoder(req, head)}
	}
	return f.Server.NewEncoder(req, head)
}

type faultyEncoder struct{ families.Encoder }

func (f faultyEncoder) AppendEvent(b []byte, ev llm.Event) []byte {
	if ev.Text == "lo" {
		panic("a fault with " + ev.Text)
	}
	return f.Encoder.AppendEvent(b, ev)
}

// faultyEnd cannot write that a reply has ended.
type faultyEnd struct{ families.Encoder }

func (faultyEnd) AppendEnd([]byte, families.End) []byte { panic("a fault at the end") }

func (faultyEnd) AppendReply([]byte, *llm.Reply, families.End) []byte {
	panic("a fault with the reply")
}

// TestServiceFailure proves what a fault of the service itself does.
func TestServiceFailure(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Families: []families.Server{faulty{chat.Server{}}, faulty{responses.Server{}},
		faulty{messages.Server{}}}})
	for _, sh := range shapes {
		t.Run("ERR-24 BILL-25 before the reply "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			for _, mode := range modes {
				a := c.Post(sh.Path, sh.Body("PROMPT"+faultAtOnce, mode.Field))
				requireError(t, sh, a, 500, "internal_server_error")
				require.NotContains(t, string(a.Raw), "fault")
				require.Empty(t, a.Header.Get("X-Should-Retry"))
				line := c.Access(a.Header.Get("X-Request-Id"))
				require.InDelta(t, 500, line["status"], 0)
			}
			c.RequireUntouched(t)
		})
		t.Run("ERR-24 BILL-25 with the whole reply at hand "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			a := c.Post(sh.Path, sh.Body("PROMPT"+faultAtEnd))
			requireError(t, sh, a, 500, "internal_server_error")
			l := newLive(t, c.service.Send(within(t), "POST", sh.Path, sh.Body(c.Mark+faultAtEnd, streamField)))
			l.Start(sh)
			require.Equal(t, "Hel", l.Text(sh))
			require.Equal(t, "lo", l.Text(sh))
			_, err := l.next()
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			for _, request := range []string{a.Header.Get("X-Request-Id"), l.Header.Get("X-Request-Id")} {
				require.Equal(t, "panic", c.Access(request)["reason"])
				r, err := c.Engine.Store().Request(within(t), request)
				require.NoError(t, err)
				require.Equal(t, 500, r.Status)
				require.False(t, r.Pending, "it stays free, whatever is proven later")
			}
			require.Len(t, c.Seen(), 2)
			require.Zero(t, c.Balance().Held)
			require.Equal(t, c.Credits*1_000_000, c.Net(), "a reply that nobody got is not charged")
		})
		t.Run("SSE-37 BILL-25 in the middle of a stream "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(script(used(10, 2), "stop", upstream.Text("Hel"), upstream.Wait(c.Mark), upstream.Text("lo")))
			l := newLive(t, c.service.Send(within(t), "POST", sh.Path, sh.Body(c.Mark+faultLater, streamField)))
			l.Start(sh)
			require.Equal(t, "Hel", l.Text(sh))
			c.Upstream.Open(c.Mark)
			raw, err := io.ReadAll(l.in)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the connection breaks: it never closes as if the reply were complete")
			for _, end := range []string{"[DONE]", "message_stop", "response.completed"} {
				require.NotContains(t, string(raw), end)
			}
			line := c.Access(l.Header.Get("X-Request-Id"))
			require.Equal(t, true, line["aborted"])
			require.Zero(t, c.Balance().Held)
			require.Equal(t, c.Credits*1_000_000, c.Net())
		})
	}
	t.Run("ERR-24 BILL-25 on a route that is free", func(t *testing.T) {
		t.Parallel()
		free := startScripted(t, setup{Routes: []route{{Name: "free", Input: "0", Output: "0"}},
			Families: []families.Server{faulty{chat.Server{}}}})
		c := free.rich(t)
		requireError(t, shapes[0], c.Post(shapes[0].Path, shapes[0].Body("PROMPT"+faultAtOnce)), 500, "internal_server_error")
		free.checkLedger(t) // a hold of nothing has an end too
	})
	t.Run("ERR-24 the log has where, not what was said", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		a := c.Post("/v1/messages", shapeOf("messages").Body("PROMPT"+faultAtOnce))
		id := a.Header.Get("X-Request-Id")
		line := c.Log.Await(t, func(line map[string]any) bool {
			return line["msg"] == "recovered from a panic" && line["request_id"] == id
		})
		require.Contains(t, line["stack"], "NewEncoder")
		require.NotContains(t, c.Log.String(), faultAtOnce)
	})
}

// TestErrorOfAPanic: the outermost handler answers for what breaks inside.
func TestErrorOfAPanic(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	for _, sh := range shapes {
		t.Run("GEN-17 GEN-20 "+sh.Name, func(t *testing.T) {
			t.Parallel()
			a := panicking(t, g, sh)
			requireError(t, sh, a, 500, "internal_server_error")
			require.NotContains(t, string(a.Raw), "boom")
		})
	}
}

// panicking sends a request to the outermost handler before one that panics.
func panicking(t *testing.T, g *scripted, sh shape) answer {
	t.Helper()
	all := []families.Server{chat.Server{}, responses.Server{}, messages.Server{}}
	first, err := entry.New(g.Engine, all, g.Log.entry())
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, sh.Path, strings.NewReader("{}"))
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, make(map[string]any)))
	w := httptest.NewRecorder()
	boom := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { panic("boom") })
	require.NoError(t, first.ServeHTTP(w, r, boom))
	return answer{w.Result(), w.Body.Bytes()}
}
