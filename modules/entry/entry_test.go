package entry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
)

var all = []families.Server{chat.Server{}, responses.Server{}, messages.Server{}}

// visit is one request through the handler, and what was said of it.
type visit struct {
	*httptest.ResponseRecorder
	line    map[string]any // the access line
	others  string         // all other lines
	call    *gateway.Call  // as the next handler saw it
	engine  *engine.Engine
	skipped bool // by Caddy's own access log
	aborted bool // the connection
}

// logTo makes a logger of JSON lines.
func logTo(w io.Writer) *zap.Logger {
	keys := zapcore.EncoderConfig{MessageKey: "msg", LevelKey: "level", EncodeLevel: zapcore.CapitalLevelEncoder}
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(keys), zapcore.AddSync(w), zap.DebugLevel))
}

// serve lets next answer a request, of a client where Caddy has found one. Without an engine the gateway is not open.
func serve(t *testing.T, e *engine.Engine, r *http.Request,
	next func(http.ResponseWriter, *gateway.Call) error, client ...string) (v visit) {
	t.Helper()
	var log bytes.Buffer
	h, err := New(e, all, logTo(&log))
	require.NoError(t, err)
	v.ResponseRecorder, v.engine = httptest.NewRecorder(), e
	vars := make(map[string]any)
	if len(client) > 0 && client[0] != "" {
		vars[caddyhttp.ClientIPVarKey] = client[0]
	}
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))
	func() {
		defer func() {
			if p := recover(); p != nil {
				require.Equal(t, http.ErrAbortHandler, p)
				v.aborted = true
			}
		}()
		require.NoError(t, h.ServeHTTP(v.ResponseRecorder, r,
			caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				v.call = gateway.Take(w, r, gateway.LinkAuth)
				return next(w, v.call)
			})))
	}()
	v.skipped, _ = vars[caddyhttp.LogSkipVar].(bool)
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		if fields["msg"] == "request" {
			require.Nil(t, v.line, "one access line")
			v.line = fields
			continue
		}
		v.others += line
	}
	require.NotNil(t, v.line)
	require.True(t, v.skipped, "Caddy's own access log would print x-api-key")
	require.Equal(t, v.line["request_id"], v.Header().Get("X-Request-Id"))
	return v
}

func request(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
}

func hello(w http.ResponseWriter, _ *gateway.Call) error {
	_, err := io.WriteString(w, "hello")
	return err
}

func TestModule(t *testing.T) {
	t.Parallel()
	info, err := caddy.GetModule("http.handlers.fareway")
	require.NoError(t, err)
	require.IsType(t, new(Handler), info.New())
}

func TestIDs(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	r := request(t, "POST", "/v1/messages", "{}")
	r.Header.Set("X-Request-Id", "made up")
	v := serve(t, e, r, hello)
	require.Regexp(t, regexp.MustCompile(`^req_[0-9a-f]{32}$`), v.Header().Get("X-Request-Id"), "GAP-91")
	require.Equal(t, v.Header().Get("X-Request-Id"), v.Header().Get("Request-Id"))
	require.Equal(t, v.call.ID, v.Header().Get("X-Request-Id"))
	require.NotContains(t, serve(t, e, request(t, "POST", "/v1/chat/completions", "{}"), hello).Header(), "Request-Id")

	at := time.UnixMilli(0x0123456789ab)
	require.Equal(t, "req_0123456789ab", gateway.NewID(at)[:16], "in the order of time")
	require.NotEqual(t, gateway.NewID(at), gateway.NewID(at))
	seen := make(map[byte]bool) // of the first and the last random byte
	for range 64 {
		id := gateway.NewID(at)
		seen[id[16]], seen[id[len(id)-1]] = true, true
	}
	require.Greater(t, len(seen), 8)
}

func TestTheAccessLine(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	began := time.Now()
	v := serve(t, e, request(t, "POST", "/v1/chat/completions", "{}"), func(w http.ResponseWriter, c *gateway.Call) error {
		require.WithinRange(t, c.Start, began, time.Now())
		c.Principal = ledger.Principal{Account: ledger.Account{ID: "a", Name: "acme"},
			Key: ledger.Key{ID: "k", Last4: "wxyz"}}
		c.Record = gateway.Record{Stream: true, Profile: "p", Route: "r", Attempts: 2, Input: 3, Output: 4, Microcents: 5,
			Pending: true, Reason: "x"}
		w.WriteHeader(http.StatusAccepted)
		return hello(w, c)
	})
	for name, want := range map[string]any{"level": "INFO", "endpoint": "chat", "status": 202.0, "bytes": 5.0,
		"account": "acme", "client_ip": "192.0.2.1",
		"key_last4": "wxyz", "stream": true, "profile": "p", "route": "r", "attempts": 2.0, "input_tokens": 3.0,
		"output_tokens": 4.0, "microcents": 5.0, "pending": true, "reason": "x"} {
		require.Equal(t, want, v.line[name], name)
	}
	require.Positive(t, v.line["first_byte"])
	require.GreaterOrEqual(t, v.line["duration"], v.line["first_byte"])
	require.NotContains(t, v.line, "aborted")
	found, err := e.FindRequest(t.Context(), v.call.ID)
	require.NoError(t, err, "what the ledger has nothing about is remembered")
	require.Equal(t, "a", found.Account)
	require.Equal(t, "k", found.Key)
	require.Equal(t, "chat", found.Endpoint)
	require.Equal(t, 202, found.Status)
	require.True(t, found.Time.Equal(v.call.Start.Truncate(time.Nanosecond)))

	v = serve(t, e, request(t, "GET", "/v1/models", ""), func(w http.ResponseWriter, c *gateway.Call) error {
		c.Record.Held = true
		return hello(w, c)
	})
	require.Equal(t, 200.0, v.line["status"])
	require.Equal(t, "hello", v.Body.String())
	for _, name := range []string{"account", "key_last4", "key_state", "stream", "reason", "aborted"} {
		require.NotContains(t, v.line, name)
	}
	_, err = e.FindRequest(t.Context(), v.call.ID)
	require.Error(t, err, "the ledger has this one")
}

// TestTheAccessLineIsOneLine, as JSON and as Caddy's `format console`, whatever is in its fields.
func TestTheAccessLineIsOneLine(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	keys := zapcore.EncoderConfig{MessageKey: "msg", LevelKey: "level", EncodeLevel: zapcore.CapitalLevelEncoder}
	for name, encoder := range map[string]zapcore.Encoder{
		"json": zapcore.NewJSONEncoder(keys), "console": zapcore.NewConsoleEncoder(keys),
	} {
		var log bytes.Buffer
		h, err := New(e, all, zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&log), zap.DebugLevel)))
		require.NoError(t, err)
		r := request(t, "POST", "/v1/chat/completions?%1b[31m", "{}")
		r.Header.Set("User-Agent", "\x1b[2J")
		const hostile = "a\n\x1b[31m\"level\":\"ERROR\"\r\x00"
		require.NoError(t, h.ServeHTTP(httptest.NewRecorder(), r,
			caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				c := gateway.Take(w, r, gateway.LinkAuth)
				c.Principal = ledger.Principal{Account: ledger.Account{ID: "a", Name: hostile}}
				c.Record = gateway.Record{Route: hostile, Upstream: hostile, Reason: hostile, Profile: hostile}
				return hello(w, c)
			})))
		text := log.String()
		require.Equal(t, 1, strings.Count(text, "\n"), name)
		require.Contains(t, text, `a\n\u001b[31m\"level\":\"ERROR\"\r\u0000`, name)
		require.NotContains(t, text, "[2J", "a header that the client chose: "+name)
		require.Equal(t, -1, strings.IndexFunc(strings.TrimSuffix(text, "\n"), func(r rune) bool {
			return r < ' ' && r != '\t' // which separates a console's columns
		}), name)
	}
}

// TestTheClientOfTheAccessLine: whose a refused request was is in the log, and nothing of a key that is not ours.
func TestTheClientOfTheAccessLine(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	ask := func(path, peer, client, auth string) visit {
		r := request(t, "POST", path, "{}")
		r.RemoteAddr = peer
		r.Header.Set("X-Forwarded-For", "203.0.113.99") // nobody's to believe but Caddy's
		r.Header.Set("Authorization", auth)
		return serve(t, e, r, func(w http.ResponseWriter, c *gateway.Call) error {
			c.Record.KeyState = gateway.KeyMalformed
			return c.Refuse(w, &families.Error{Status: http.StatusUnauthorized, Code: families.Authentication})
		}, client)
	}
	v := ask("/v1/chat/completions", "192.0.2.7:1", "", "Bearer sk-secret")
	require.Equal(t, "192.0.2.7", v.line["client_ip"])
	require.Equal(t, "malformed", v.line["key_state"])
	require.NotContains(t, v.line, "key_last4")
	v = ask("/v1/chat/completions", "10.0.0.1:1", "2001:db8::5", "")
	require.Equal(t, "2001:db8::5", v.line["client_ip"], "what Caddy takes for the client")
	require.Equal(t, "2001:db8::5", ask("/nothing", "10.0.0.1:1", "2001:db8::5", "").line["client_ip"],
		"refused before any other handler")
	require.NotContains(t, ask("/v1/chat/completions", "@", "", "").line, "client_ip", "of a socket")
}

// statuses are what a writer was told.
type statuses struct {
	http.ResponseWriter
	told []int
}

func (s *statuses) WriteHeader(status int) { s.told = append(s.told, status) }

func (s *statuses) Write(b []byte) (int, error) { return len(b) - 1, io.ErrShortWrite }

func TestRecorder(t *testing.T) {
	t.Parallel()
	inner := new(statuses)
	rec := newRecorder(inner, request(t, "GET", "/", ""), new(gateway.Call))
	rec.WriteHeader(http.StatusProcessing)
	require.Zero(t, rec.status, "it is no reply yet")
	require.Zero(t, rec.first)
	_, err := rec.Write([]byte("abc"))
	require.ErrorIs(t, err, io.ErrShortWrite)
	first := rec.first
	require.NotZero(t, first)
	rec.WriteHeader(http.StatusAccepted) // too late
	_, _ = rec.Write([]byte("abc"))
	require.Equal(t, http.StatusOK, rec.status)
	require.Equal(t, first, rec.first)
	require.EqualValues(t, 4, rec.bytes)
	require.Equal(t, []int{102, 200, 202}, inner.told)
	require.Same(t, inner, rec.Unwrap())
	rec = newRecorder(inner, request(t, "GET", "/", ""), new(gateway.Call))
	rec.WriteHeader(http.StatusOK)
	require.Equal(t, http.StatusOK, rec.status)
}

func TestRequestsThatWereGivenUp(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	left := request(t, "POST", "/v1/chat/completions", "").WithContext(ctx)
	var log bytes.Buffer
	h, err := New(e, all, logTo(&log))
	require.NoError(t, err)
	finish := func(call *gateway.Call) string {
		log.Reset()
		rec := newRecorder(httptest.NewRecorder(), left, call)
		h.finish(left, rec, call)
		return log.String()
	}
	require.Contains(t, finish(new(gateway.Call)), `"level":"INFO"`)
	require.Contains(t, finish(new(gateway.Call)), `"level":"DEBUG"`, "an attacker could fill the log")
	require.Contains(t, finish(&gateway.Call{BodyRead: time.Unix(1, 0)}), `"level":"INFO"`,
		"one that had come, and may be forgotten")
	h.resets.last = time.Time{}
	line := finish(new(gateway.Call))
	require.Contains(t, line, `"level":"INFO"`)
	require.Contains(t, line, `"given_up_before":1`)
}

func TestWhatGoesWrong(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	chatRequest := func() *http.Request { return request(t, "POST", "/v1/chat/completions", "{}") }
	t.Run("ERR-24 a panic", func(t *testing.T) {
		t.Parallel()
		v := serve(t, e, chatRequest(), func(http.ResponseWriter, *gateway.Call) error { panic("a prompt") })
		require.Equal(t, 500, v.Code)
		require.Contains(t, v.Body.String(), "internal_server_error")
		require.Contains(t, v.others, "recovered from a panic")
		require.Contains(t, v.others, "a string")
		require.NotContains(t, v.others, "a prompt")
		require.False(t, v.aborted)
		v = serve(t, e, chatRequest(), func(_ http.ResponseWriter, c *gateway.Call) error {
			return errors.New(string(c.Body[7:][0]))
		})
		require.Equal(t, 500, v.Code)
		require.Contains(t, v.others, "out of range")
	})
	t.Run("a panic within a reply", func(t *testing.T) {
		t.Parallel()
		v := serve(t, e, chatRequest(), func(w http.ResponseWriter, c *gateway.Call) error {
			require.NoError(t, hello(w, c))
			panic("x")
		})
		require.True(t, v.aborted, "it must not look complete")
		require.Equal(t, "hello", v.Body.String())
		require.Equal(t, true, v.line["aborted"])
	})
	t.Run("a reply that is given up", func(t *testing.T) {
		t.Parallel()
		v := serve(t, e, chatRequest(), func(http.ResponseWriter, *gateway.Call) error { panic(http.ErrAbortHandler) })
		require.True(t, v.aborted)
		require.Empty(t, v.others, "that is no fault")
		require.Empty(t, v.Body.String())
	})
	t.Run("an error", func(t *testing.T) {
		t.Parallel()
		v := serve(t, e, chatRequest(), func(http.ResponseWriter, *gateway.Call) error { return errors.New("of the test") })
		require.Equal(t, 500, v.Code)
		require.Contains(t, v.others, "of the test")
		v = serve(t, e, chatRequest(), func(w http.ResponseWriter, c *gateway.Call) error {
			_ = hello(w, c)
			return errors.New("of the test")
		})
		require.Equal(t, "hello", v.Body.String())
		require.Contains(t, v.others, "of the test")
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		v := serve(t, e, chatRequest(), func(http.ResponseWriter, *gateway.Call) error { return nil })
		require.Equal(t, 500, v.Code)
		require.Contains(t, v.others, "nothing answers behind")
	})
	t.Run("the gateway is not open", func(t *testing.T) {
		t.Parallel()
		v := serve(t, nil, chatRequest(), nil)
		require.Equal(t, 503, v.Code)
		require.Contains(t, v.Body.String(), "The service is starting.")
	})
}

// TestRefusedByItsPath: nothing behind the handler sees a request that no endpoint is for, so that it needs no key.
func TestRefusedByItsPath(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	for what, want := range map[string]int{"GET /v1/none": 404, "GET /v1/messages": 405} {
		method, path, _ := strings.Cut(what, " ")
		v := serve(t, e, request(t, method, path, ""), hello)
		require.Nil(t, v.call, what)
		require.Equal(t, want, v.Code, what)
		require.Contains(t, v.Body.String(), "Trying again does not help", what)
		require.InDelta(t, want, v.line["status"], 0, what)
	}
}

func TestBodiesThatAreLeftUnread(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	for _, test := range []struct {
		length int64
		expect string
		major  int
		want   string
	}{
		{256 << 10, "", 1, ""}, {256<<10 + 1, "", 1, "close"}, {256<<10 + 1, "", 2, ""}, {-1, "", 1, "close"},
		{2, "100-Continue", 1, "close"}, {2, "100-Continue", 2, ""}, {2, "", 1, ""},
	} {
		r := request(t, "POST", "/v1/none", "{}")
		r.ContentLength, r.ProtoMajor = test.length, test.major
		r.Header.Set("Expect", test.expect)
		v := serve(t, e, r, nil)
		require.Equal(t, test.want, v.Header().Get("Connection"), test)
		require.Equal(t, strconv.Itoa(v.Body.Len()), v.Header().Get("Content-Length"), "GAP-138 the reply is whole at once")
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table, err := newTable(all)
	require.NoError(t, err)
	for what, want := range map[string]struct {
		status                 int // of the refusal; 0: none
		endpoint, family, more string
		kind                   gateway.Kind
	}{
		"POST /v1/chat/completions":       {0, "chat", "chat", "", gateway.Generate},
		"POST /v1/responses":              {0, "responses", "responses", "", gateway.Generate},
		"POST /v1/messages":               {0, "messages", "messages", "", gateway.Generate},
		"POST /v1/messages/count_tokens":  {0, "count_tokens", "messages", "", gateway.CountTokens},
		"GET /v1/models":                  {0, "models", "chat", "", gateway.Models},
		"HEAD /models":                    {0, "models", "chat", "", gateway.Models},
		"GET /v1/account":                 {0, "account", "chat", "", gateway.Account},
		"GET /v1/models/a/b":              {0, "model", "chat", "a/b", gateway.Model},
		"GET /models/x":                   {0, "model", "chat", "x", gateway.Model},
		"GET /v1/models/":                 {404, "unknown", "chat", "invalid_request_error", ""},
		"GET /v1/models/x/":               {404, "unknown", "chat", "invalid_request_error", ""},
		"GET /v1/models//x":               {404, "unknown", "chat", "invalid_request_error", ""},
		"GET /v1/models/x//y":             {404, "unknown", "chat", "invalid_request_error", ""},
		"GET /x/v1/models/x":              {404, "unknown", "chat", "invalid_request_error", ""},
		"GET /v1/none":                    {404, "unknown", "chat", "invalid_request_error", ""},
		"POST /v1/messages/batches":       {404, "unknown", "messages", "not_found_error", ""},
		"POST /v1/messagesx":              {404, "unknown", "chat", "invalid_request_error", ""},
		"GET /v1/messages":                {405, "messages", "messages", "POST", ""},
		"HEAD /v1/messages":               {405, "messages", "messages", "POST", ""},
		"POST /v1/models":                 {405, "models", "chat", "GET, HEAD", ""},
		"DELETE /v1/models/x":             {405, "model", "chat", "GET, HEAD", ""},
		"GET /v1/responses websocket":     {426, "responses", "responses", "", ""},
		"GET /v1/chat/completions socket": {405, "chat", "chat", "POST", ""},
		"GET /v1/messages WebSocket":      {405, "messages", "messages", "POST", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			parts := strings.Fields(what + " none")
			r := request(t, parts[0], parts[1], "")
			r.Header.Set("Upgrade", parts[2])
			call := new(gateway.Call)
			refusal := table.find(r, call)
			require.Equal(t, want.endpoint, call.Endpoint)
			require.Equal(t, want.family, call.Family.Name())
			require.Equal(t, want.kind, call.Kind)
			if want.status == 0 {
				require.Nil(t, refusal)
				require.Equal(t, want.more, call.ModelID)
				return
			}
			require.NotNil(t, refusal)
			require.Equal(t, want.status, refusal.Status)
			switch want.status {
			case 404:
				require.Equal(t, want.more, string(refusal.Code))
				require.Contains(t, refusal.Message, parts[0]+" "+parts[1])
			case 405:
				require.Equal(t, want.more, refusal.Allow)
			}
		})
	}
	_, err = newTable(all[1:])
	require.ErrorContains(t, err, "the chat family is not built in")
	_, err = newTable([]families.Server{chat.Server{}, chat.Server{}})
	require.ErrorContains(t, err, "two request families answer at")
}

// TestEveryEndpointHasItsMetrics: those of the path table, from the start.
func TestEveryEndpointHasItsMetrics(t *testing.T) {
	t.Parallel()
	made, err := newTable(all)
	require.NoError(t, err)
	require.Equal(t, []string{"account", "chat", "count_tokens", "messages", "model", "models", "responses", "unknown"},
		made.names())
}
