package limits

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/plugins/families/chat"
)

const (
	maxBody = 200 << 10
	memory  = 1 << 20
)

func settings() config.Gateway {
	return config.Gateway{RequestTimeout: time.Hour, MaxBody: maxBody, MaxBodyMemory: memory, MaxStreams: 1}
}

// counted is a limiter that counts what it is asked, and has room or not.
type counted struct {
	*ratelimit.Memory
	asked, taken int
	refusal      *ratelimit.Refusal
}

func (c *counted) Check(ctx context.Context, asks []ratelimit.Ask) (*ratelimit.Refusal, error) {
	c.asked++
	if c.refusal != nil {
		return c.refusal, nil
	}
	return c.Memory.Check(ctx, asks)
}

func (c *counted) Acquire(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	c.asked++
	if c.refusal != nil {
		return 0, c.refusal, nil
	}
	p, r, err := c.Memory.Acquire(ctx, asks)
	if r == nil {
		c.taken++
	}
	return p, r, err
}

// started is an engine, and the limiter that it has.
func started(t *testing.T) (*engine.Engine, *counted) {
	t.Helper()
	limiter := &counted{Memory: ratelimit.NewMemory(ratelimit.Options{})}
	return enginetest.Start(t, &config.Config{Gateway: settings(),
		Plans: []config.Plan{{Name: "alone", Limits: config.Limits{ConcurrentRequests: 1}}}},
		engine.Options{Limiter: limiter}), limiter
}

// request is one on its way through the handler.
type request struct {
	kind   gateway.Kind
	body   io.Reader
	length int64 // 0: not known; -1: none
	header http.Header
	// then is what comes after the handler. nil: nothing
	then func(*gateway.Call)
}

// reply is what came of it.
type reply struct {
	*httptest.ResponseRecorder
	call      *gateway.Call
	passed    bool
	deadlines []time.Time
}

func (r *reply) SetReadDeadline(t time.Time) error {
	r.deadlines = append(r.deadlines, t)
	return nil
}

var begun = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

func (q request) send(t *testing.T, e *engine.Engine) *reply {
	t.Helper()
	call := &gateway.Call{ID: "req_x", Start: begun, Kind: q.kind, Family: chat.Server{}, Work: e.Begin(),
		Principal: ledger.Principal{Account: ledger.Account{ID: "acme", Plan: "alone"}, Key: ledger.Key{ID: "key"}}}
	defer call.Work.Done()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", q.body)
	r.ContentLength = -1
	if q.length != 0 {
		r.ContentLength = max(q.length, 0)
	}
	if q.header != nil {
		r.Header = q.header
	}
	call.From = gateway.ClientAddress(r)
	r, err := gateway.Entered(r, call)
	require.NoError(t, err)
	out := &reply{ResponseRecorder: httptest.NewRecorder(), call: call}
	require.NotNil(t, gateway.Take(out, r, gateway.LinkAuth))
	next := func(http.ResponseWriter, *http.Request) error {
		out.passed = true
		if q.then != nil {
			q.then(call)
		}
		return nil
	}
	require.NoError(t, new(Handler).ServeHTTP(out, r, caddyhttp.HandlerFunc(next)))
	return out
}

// used is how much memory is set aside for bodies.
func used(t *testing.T, e *engine.Engine) int64 {
	t.Helper()
	least, most := int64(0), int64(memory)
	for least < most { // how much may still be taken
		n := (least + most + 1) / 2
		if e.AcquireBody(n) {
			e.ReleaseBody(n)
			least = n
		} else {
			most = n - 1
		}
	}
	return memory - least
}

func TestModule(t *testing.T) {
	t.Parallel()
	info, err := caddy.GetModule("http.handlers.fareway_limits")
	require.NoError(t, err)
	require.IsType(t, new(Handler), info.New())
}

func TestBehindItsOwnOnly(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	require.NoError(t, new(Handler).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil),
		nil))
	require.Equal(t, http.StatusInternalServerError, w.Code)
}

func TestWhatIsCounted(t *testing.T) {
	t.Parallel()
	e, limiter := started(t)
	for _, kind := range []gateway.Kind{gateway.Generate, gateway.CountTokens, gateway.Models, gateway.Model,
		gateway.Account} {
		limiter.asked, limiter.taken = 0, 0
		hasBody := kind == gateway.Generate || kind == gateway.CountTokens
		got := request{kind: kind, body: strings.NewReader("{}"), then: func(call *gateway.Call) {
			requests, _ := e.InProgress()
			if kind == gateway.Generate {
				require.EqualValues(t, 1, requests)
				another := e.Begin()
				defer another.Done()
				limited, err := another.AdmitCharged(t.Context(), ledger.Principal{}, netip.Addr{})
				require.NoError(t, err)
				require.Equal(t, new(engine.Limited), limited, "max_streams of 1")
				require.Equal(t, 1, limiter.taken, "what the service itself refuses counts nowhere")
				limiter.asked-- // for another
			} else {
				require.Zero(t, requests)
			}
			if hasBody {
				require.Equal(t, "{}", string(call.Body))
			} else {
				require.Nil(t, call.Body, "GAP-33")
			}
		}}.send(t, e)
		require.True(t, got.passed, kind)
		require.Equal(t, [2]int{1, 1}, [2]int{limiter.asked, limiter.taken}, "one question for %s", kind)
		requests, _ := e.InProgress()
		require.Zero(t, requests, "however it ended")
	}
	// Another request of the account is refused, and so is one of another account: max_streams.
	got := request{kind: gateway.Generate, body: strings.NewReader("{}"), then: func(*gateway.Call) {
		again := request{kind: gateway.Generate, body: strings.NewReader("{}")}.send(t, e)
		require.False(t, again.passed)
		require.Equal(t, http.StatusTooManyRequests, again.Code)
		require.Equal(t, "tenant_concurrent_requests", again.Header().Get("X-RateLimit-Reason"))
		require.True(t, request{kind: gateway.CountTokens, body: strings.NewReader("{}")}.send(t, e).passed)
	}}.send(t, e)
	require.True(t, got.passed)
	w := e.Begin()
	defer w.Done()
	limited, err := w.AdmitCharged(t.Context(), ledger.Principal{}, netip.Addr{})
	require.NoError(t, err)
	require.Nil(t, limited)
	got = request{kind: gateway.Generate, body: strings.NewReader("{}")}.send(t, e)
	require.False(t, got.passed)
	require.Equal(t, http.StatusTooManyRequests, got.Code)
	require.Empty(t, got.Header().Get("Retry-After"), "429 without headers")
	require.Contains(t, got.Body.String(), "as many requests in progress as it takes")
	require.True(t, request{kind: gateway.CountTokens, body: strings.NewReader("{}")}.send(t, e).passed)
	w.Release()
	limiter.refusal = &ratelimit.Refusal{Wait: 3 * time.Second}
	for _, kind := range []gateway.Kind{gateway.Generate, gateway.Models} {
		got = request{kind: kind, body: strings.NewReader("{}")}.send(t, e)
		require.False(t, got.passed)
		require.Equal(t, "3", got.Header().Get("Retry-After"))
	}
}

func TestTheDeadlineOfABody(t *testing.T) {
	t.Parallel()
	e, _ := started(t)
	before := time.Now()
	got := request{kind: gateway.CountTokens, body: strings.NewReader("{}")}.send(t, e)
	require.Equal(t, []time.Time{begun.Add(time.Hour), {}}, got.deadlines, "left set it would end the reply")
	require.WithinRange(t, got.call.BodyRead, before, time.Now())
	for kind, want := range map[gateway.Kind]int{gateway.Generate: 1, gateway.Account: 0} {
		got = request{kind: kind, body: broken{os.ErrDeadlineExceeded}}.send(t, e)
		require.Len(t, got.deadlines, want)
	}
}

// broken is a body that cannot be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	e, _ := started(t)
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, test := range map[string]struct {
		request
		status int
		says   string
	}{
		"HTTP-03 declared too long": {request{body: broken{io.ErrUnexpectedEOF}, length: maxBody + 1}, 413, "larger than"},
		"HTTP-03 too long":          {request{body: strings.NewReader(text(maxBody + 1))}, 413, "larger than"},
		"too long for the site":     {request{body: broken{&http.MaxBytesError{Limit: 1}}}, 413, "larger than"},
		"too slow":                  {request{body: broken{os.ErrDeadlineExceeded}}, 400, "did not arrive in time"},
		"cut":                       {request{body: broken{io.ErrUnexpectedEOF}}, 400, "could not be read to its end"},
		"HTTP-01 encoded": {request{body: strings.NewReader("{}"), header: http.Header{"Content-Encoding": {"gzip"}}}, 400,
			"Content-Encoding is not supported"},
		"more objects than there is memory": {request{body: strings.NewReader(objects(memory / objectCost))}, 413,
			"larger than"},
	} {
		test.kind = gateway.CountTokens
		got := test.send(t, e)
		require.False(t, got.passed, name)
		require.Equal(t, test.status, got.Code, name)
		require.Contains(t, got.Body.String(), test.says, name)
		require.Equal(t, strings.Contains(got.Body.String(), "Trying again helps"),
			got.Header().Get("X-Should-Retry") == "", "GAP-119 the header says what the text says: %s", name)
		require.Nil(t, got.call.Body, name)
		require.Zero(t, used(t, e), name)
		require.True(t, got.call.BodyRead.IsZero(), "what is left is for entry to read: %s", name)
	}
	for name, ok := range map[string]request{
		"declared":       {body: strings.NewReader(text(maxBody)), length: maxBody},
		"of any length":  {body: strings.NewReader(text(maxBody))},
		"byte by byte":   {body: &slow{rest: text(70 << 10)}},
		"empty":          {body: strings.NewReader("")},
		"identity":       {body: strings.NewReader("{}"), header: http.Header{"Content-Encoding": {"identity"}}},
		"as many as fit": {body: strings.NewReader(objects(1980))},
	} {
		ok.kind = gateway.CountTokens
		require.True(t, ok.send(t, e).passed, name)
		require.Zero(t, used(t, e), name)
	}
}

// objects is a body that has so many.
func objects(n int) string { return `{"a":[` + strings.Repeat("{},", n-2) + "{}]}" }

// slow gives a byte at first, and later more.
type slow struct {
	rest string
	n    int
}

func (s *slow) Read(b []byte) (int, error) {
	if s.rest == "" {
		return 0, io.EOF
	}
	s.n = s.n*2 + 1
	n := copy(b, s.rest[:min(s.n, len(s.rest))])
	s.rest = s.rest[n:]
	return n, nil
}

// looking is a body that looks at the memory whenever it is read.
type looking struct {
	io.Reader
	look func()
}

func (l looking) Read(b []byte) (int, error) {
	l.look()
	return l.Reader.Read(b)
}

// TestTheMemoryOfABody: what a body takes grows with what has come of it, and not with what is claimed.
func TestTheMemoryOfABody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		length int64
		size   int
		want   []int64
	}{
		"declared, short": {10, 10, []int64{11}},
		"declared, long":  {100 << 10, 100 << 10, []int64{32 << 10, 100<<10 + 1}},
		"not declared":    {0, 200 << 10, []int64{32 << 10, 200<<10 + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := started(t)
			var seen []int64
			text := `{"a":{` + strings.Repeat(" ", test.size-8) + "}}"
			body := looking{strings.NewReader(text), func() {
				if n := used(t, e); len(seen) == 0 || seen[len(seen)-1] != n {
					seen = append(seen, n)
				}
			}}
			room := test.want[len(test.want)-1]
			got := request{kind: gateway.CountTokens, body: body, length: test.length, then: func(call *gateway.Call) {
				require.Equal(t, text, string(call.Body))
				require.Equal(t, room+2*objectCost, used(t, e), "with what decoding takes")
			}}.send(t, e)
			require.True(t, got.passed)
			require.Equal(t, test.want, seen)
			require.Zero(t, used(t, e))
		})
	}
	require.EqualValues(t, 512, objectCost, "what the smallest message takes while it is decoded")
}

func TestTheMemoryOfNoBody(t *testing.T) {
	t.Parallel()
	e, _ := started(t)
	body := looking{strings.NewReader(""), func() { require.EqualValues(t, 1, used(t, e)) }}
	require.True(t, request{kind: gateway.CountTokens, body: body, length: -1}.send(t, e).passed)
}

func TestTheMemoryOfAllBodies(t *testing.T) {
	t.Parallel()
	e, _ := started(t)
	refused := func(left int64, body string) {
		t.Helper()
		require.True(t, e.AcquireBody(memory-left))
		got := request{kind: gateway.CountTokens, body: strings.NewReader(body)}.send(t, e)
		require.False(t, got.passed)
		require.Equal(t, http.StatusTooManyRequests, got.Code)
		require.Contains(t, got.Body.String(), "Too many large requests")
		require.Equal(t, memory-left, used(t, e))
		e.ReleaseBody(memory - left)
	}
	refused(32<<10-1, "{}")
	refused(200<<10, strings.Repeat("x", 32<<10+1))
	refused(32<<10+objectCost-1, "{}")
	require.True(t, e.AcquireBody(memory-32<<10-objectCost))
	require.True(t, request{kind: gateway.CountTokens, body: strings.NewReader("{}")}.send(t, e).passed)
	e.ReleaseBody(memory - 32<<10 - objectCost)
}

// A body that is needed no more is forgotten before the reply ends, which may take minutes.
func TestABodyIsForgotten(t *testing.T) {
	t.Parallel()
	e, _ := started(t)
	body := bytes.Repeat([]byte("x"), 10<<10)
	require.True(t, request{kind: gateway.Generate, body: bytes.NewReader(body), then: func(call *gateway.Call) {
		bytes := weak.Make(&call.Body[0])
		call.Forget()
		require.Nil(t, call.Body)
		require.Zero(t, used(t, e))
		runtime.GC()
		require.Nil(t, bytes.Value(), "something still has it")
		call.Forget() // it gives nothing back twice: the engine looks at its end
	}}.send(t, e).passed)
}
