package endpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func TestErrorsOfTheService(t *testing.T) {
	t.Parallel()
	as200 := upstream.Overloaded()
	as200.Status = http.StatusOK
	page := upstream.BadGateway()
	page.Status = http.StatusOK
	for name, c := range map[string]struct {
		reply  upstream.Reply
		kind   llm.ErrorKind
		status int
	}{
		"bad request":         {upstream.Refuse(upstream.BadRequest("no", "messages")), llm.ErrRejected, 400},
		"too long":            {upstream.Refuse(upstream.ContextLength()), llm.ErrContext, 400},
		"policy":              {upstream.Refuse(upstream.ContentFilter()), llm.ErrPolicy, 400},
		"key":                 {upstream.Refuse(upstream.InvalidKey()), llm.ErrCredentials, 401},
		"forbidden":           {upstream.Refuse(upstream.Forbidden()), llm.ErrCredentials, 403},
		"no model":            {upstream.Refuse(upstream.ModelNotFound()), llm.ErrRejected, 404},
		"rate limit":          {upstream.Refuse(upstream.RateLimited("7")), llm.ErrCapacity, 429},
		"no quota":            {upstream.Refuse(upstream.QuotaExceeded()), llm.ErrQuota, 429},
		"internal":            {upstream.Refuse(upstream.ServerError()), llm.ErrUpstream, 500},
		"a proxy's page":      {upstream.Refuse(upstream.BadGateway()), llm.ErrUpstream, 502},
		"overloaded":          {upstream.Refuse(upstream.Overloaded()), llm.ErrCapacity, 503},
		"overloaded as a 200": {upstream.Refuse(as200), llm.ErrCapacity, 0},
		"a web page as a 200": {upstream.Refuse(page), llm.ErrUpstream, 200},
		"in mid-stream": {
			upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Fail(upstream.ServerError())}},
			llm.ErrUpstream,
			0,
		},
		"first in a stream": {
			upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Fail(upstream.RateLimited(""))}},
			llm.ErrCapacity,
			0,
		},
		"no chunk at all":   {upstream.Reply{Steps: []upstream.Step{upstream.Headers()}}, llm.ErrBroken, 0},
		"ends in mid-reply": {upstream.Reply{Steps: []upstream.Step{upstream.Text("half")}}, llm.ErrBroken, 0},
		"breaks in mid-reply": {
			upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Cut()}}, llm.ErrBroken, 0,
		},
		"breaks at the finish": {
			upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Finish("stop"), upstream.Cut()}},
			llm.ErrBroken,
			0,
		},
		"not a chunk": {
			upstream.Reply{Steps: []upstream.Step{upstream.Raw("data: hello\n\n"), upstream.Done()}}, llm.ErrProtocol, 0,
		},
		"an endless line": {
			upstream.Reply{Steps: []upstream.Step{upstream.Raw("data: " + string(make([]byte, 9<<20)))}}, llm.ErrProtocol, 0,
		},
		"one piece, too large": {
			upstream.Reply{
				Header: map[string]string{"Content-Type": "application/json"},
				Steps:  []upstream.Step{upstream.Raw(strings.Repeat(" ", 2<<20))},
			}, llm.ErrUpstream, 0,
		},
		"one piece, cut": {
			upstream.Reply{
				Header: map[string]string{"Content-Type": "application/json"},
				Steps:  []upstream.Step{upstream.Raw(notStreamed[:50]), upstream.Cut()},
			},
			llm.ErrBroken,
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := pair(t, upstream.Options{})
			s.Enqueue(c.reply)
			events, err := generate(t, p, ask("my secret prompt"))
			var failed *llm.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.kind, failed.Kind, failed.Message)
			require.Equal(t, c.status, failed.Status, failed.Message)
			require.NotContains(t, failed.Message, "secret")
			if c.status >= 400 {
				require.Empty(t, events, "what was refused was never accepted")
			}
			if name == "rate limit" {
				require.Equal(t, 7*time.Second, failed.RetryAfter)
			}
		})
	}
}

// TestWhatToCheck: the next step that an operator reads behind a refusal, by its kind.
func TestWhatToCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		kind   llm.ErrorKind
		proxy  bool
		says   string
	}{
		{404, llm.ErrRejected, false, "no; check base_url and the route's model"},
		{400, llm.ErrRejected, false, "no"},
		{407, llm.ErrRejected, true, "no; check proxy and proxy_credentials"},
		{407, llm.ErrRejected, false, "no"},
		{429, llm.ErrQuota, false, "no; top up the account that api_key belongs to"},
		{404, llm.ErrQuota, false, "no; top up the account that api_key belongs to"},
		{402, llm.ErrAllowance, false, "no; this request alone is larger than what a limit or the credit there leaves: " +
			"raise it, or lower the route's context_window"},
	} {
		e := endpoint.Endpoint{}
		if c.proxy {
			e.Proxy = "http://127.0.0.1:1"
		}
		resp := &http.Response{StatusCode: c.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}
		failed := e.Refusal(resp, func(int, string, []byte) *llm.Error { return llm.Errorf(c.kind, "no") })
		require.Equal(t, c.says, failed.Message, "%d %s", c.status, c.kind)
		require.Equal(t, c.kind, failed.Kind)
	}
}

// recorded returns the bytes of a reply as the fake streams it.
func recorded(t *testing.T, reply upstream.Reply) string {
	t.Helper()
	s := upstream.Start(t, upstream.Options{})
	s.Enqueue(reply)
	resp, err := http.Post(s.BaseURL()+"/chat/completions", "application/json", strings.NewReader(
		`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`))
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// TestCutAtEveryByte: a stream that breaks off before its end marker never looks finished. One that ends
// cleanly does where the upstream had said why its reply ends, and had begun nothing more that is missing.
func TestCutAtEveryByte(t *testing.T) {
	t.Parallel()
	body := recorded(t, upstream.Reply{Steps: []upstream.Step{upstream.Text("a"), upstream.ToolCall(0, "c", "f"),
		upstream.Arguments(0, "{}"), upstream.Finish("tool_calls"), upstream.ReportUsage(), upstream.Done()}})
	start := strings.Index(body, `"finish_reason":"tool_calls"`)
	require.Positive(t, start)
	finished := start + strings.Index(body[start:], "\n")
	finishes := func(at int, how upstream.End) bool {
		if how == upstream.EndAbort {
			return at == len(body)
		}
		last := body[:at]
		last = strings.TrimSuffix(last[strings.LastIndex(last, "\n\n")+1:], "\n")
		data, begun := strings.CutPrefix(strings.TrimPrefix(last, "\n"), "data")
		data = strings.TrimPrefix(strings.TrimPrefix(data, ":"), " ")
		return at >= finished && (!begun || data == "" || data == "[DONE]" || json.Valid([]byte(data)))
	}
	s, p := pair(t, upstream.Options{})
	for _, how := range []upstream.End{upstream.EndAbort, upstream.EndClean} {
		outcomes := map[bool]int{}
		for at := range len(body) + 1 {
			s.Enqueue(upstream.Reply{Wire: upstream.Wire{Break: &upstream.Break{At: int64(at), How: how}},
				Steps: []upstream.Step{upstream.Headers(), upstream.Raw(body)}})
			events, err := generate(t, p, ask("x"))
			require.Equal(t, finishes(at, how), err == nil, "%q after %q: %v", how, body[:at], err)
			require.NotEmpty(t, events, "the headers had come")
			if err != nil {
				require.Equal(t, llm.ErrBroken, llm.KindOf(err), "%q after %q: %v", how, body[:at], err)
			}
			outcomes[err == nil]++
		}
		require.Positive(t, outcomes[true], how)
		require.Positive(t, outcomes[false], how)
	}
}

func TestServiceCannotBeReached(t *testing.T) {
	t.Parallel()
	plain := upstream.Start(t, upstream.Options{})
	secure := httptest.NewUnstartedServer(upstream.New(upstream.Options{}))
	secure.Config.ErrorLog = slog.NewLogLogger(
		slog.DiscardHandler,
		slog.LevelError,
	) // it says that a client refused its certificate
	secure.StartTLS()
	t.Cleanup(secure.Close)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and closes them
	require.NoError(t, err)
	t.Cleanup(func() { _ = mute.Close() })
	go func() {
		for conn, err := mute.Accept(); err == nil; conn, err = mute.Accept() {
			_, _ = conn.Read(make([]byte, 1<<10))
			_ = conn.Close()
		}
	}()
	for name, c := range map[string]struct{ base, want string }{
		"connection refused":    {"http://127.0.0.1:1", "check that it is running"}, // a port that no other test is given
		"unknown host":          {"http://fareway.invalid", "finding the upstream's host"},
		"unknown certificate":   {secure.URL, "verifying the upstream's certificate"},
		"https where http is":   {strings.Replace(plain.URL(), "http:", "https:", 1), "write base_url with http://"},
		"http where https is":   {strings.Replace(secure.URL, "https:", "http:", 1), "status 400"},
		"closed without a word": {"http://" + mute.Addr().String(), "closed the connection before it answered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := generate(t, start(t, endpoint.Endpoint{URL: c.base, Headers: bearer("sk-zq11")}), ask("x"))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "zq11")
			require.Empty(t, events)
			if name != "http where https is" {
				require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
			}
		})
	}
}

// What a peer says that is no HTTP may repeat the prompt, and must not get into the log.
func TestAnswersThatAreNoHTTP(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no status line": "you said secret\r\n\r\n",
		"a wrong status": "HTTP/1.1 secret OK\r\n\r\n",
		"a wrong header": "HTTP/1.1 200 OK\r\nyou said secret\r\n\r\n",
		"a wrong length": "HTTP/1.1 200 OK\r\nContent-Length: secret\r\n\r\n",
		"a wrong chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nsecret\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = peer.Close() })
			go func() {
				if conn, err := peer.Accept(); err == nil {
					_, _ = conn.Read(make([]byte, 4<<10))
					_, _ = io.WriteString(conn, answer)
					_ = conn.Close()
				}
			}()
			_, err = generate(t, start(t, endpoint.Endpoint{URL: "http://" + peer.Addr().String()}), ask("x"))
			require.Error(t, err)
			require.Contains(t, []llm.ErrorKind{llm.ErrUpstream, llm.ErrBroken}, llm.KindOf(err))
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	elsewhere := upstream.Start(t, upstream.Options{})
	redirect := httptest.NewServer(
		http.RedirectHandler(elsewhere.BaseURL()+"/chat/completions", http.StatusTemporaryRedirect),
	)
	t.Cleanup(redirect.Close)
	_, err := generate(t, start(t, endpoint.Endpoint{URL: redirect.URL, Headers: bearer("k")}), ask("x"))
	require.ErrorContains(t, err, "set base_url to the final one")
	require.Empty(t, elsewhere.Records())
}

func TestReset(t *testing.T) {
	t.Parallel()
	s, p := pair(t, upstream.Options{})
	s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Wait("read"), upstream.Reset()}})
	var events []llm.Event
	err := p.Generate(withTimeout(t), ask("x"), func(ev llm.Event) error {
		if events = append(events, ev); ev.Kind == llm.EventText {
			s.Open("read")
		}
		return nil
	})
	require.Equal(t, llm.ErrBroken, llm.KindOf(err))
	require.ErrorContains(t, err, "reset")
	require.Equal(t, "half", fold(events).Text())
}

func TestAcceptedComesWithTheHeaders(t *testing.T) {
	t.Parallel()
	s, p := pair(t, upstream.Options{})
	s.Enqueue(
		upstream.Reply{
			Steps: append([]upstream.Step{upstream.Headers(), upstream.Wait("first token")}, upstream.Say("slow").Steps...),
		},
	)
	var events []llm.Event
	err := p.Generate(withTimeout(t), ask("x"), func(ev llm.Event) error {
		if events = append(events, ev); ev.Kind == llm.EventAccepted {
			require.NoError(t, s.AtGate(withTimeout(t), "first token", 1), "the reply has not begun yet")
			s.Open("first token")
		}
		return nil
	})
	require.NoError(t, err)
	checkOrder(t, events, err)
	require.Equal(t, "slow", fold(events).Text())
}

func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	reason := errors.New("the client left")
	for name, reply := range map[string]upstream.Reply{
		"before the headers":     {Steps: []upstream.Step{upstream.Wait("")}},
		"before the first token": {Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}},
		"in mid-reply":           {Steps: []upstream.Step{upstream.Text("half"), upstream.Silence()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := pair(t, upstream.Options{})
			s.Enqueue(reply)
			ctx, leave := context.WithCancelCause(withTimeout(t))
			go func() {
				_ = s.Arrived(ctx, 1) // the test fails below when it never does
				leave(reason)
			}()
			err := p.Generate(ctx, ask("x"), func(llm.Event) error { return nil })
			require.ErrorIs(t, err, reason)
			rec, err := s.Ended(withTimeout(t), 1)
			require.NoError(t, err, "the upstream call ends at once")
			require.Equal(t, upstream.OutcomeLeft, rec.Outcome)
		})
	}
	t.Run("send says so", func(t *testing.T) {
		t.Parallel()
		s, p := pair(t, upstream.Options{})
		s.Enqueue(upstream.Reply{Steps: []upstream.Step{upstream.Text("half"), upstream.Silence()}})
		n := 0
		err := p.Generate(withTimeout(t), ask("x"), func(ev llm.Event) error {
			if n++; ev.Kind == llm.EventText {
				return reason
			}
			return nil
		})
		require.ErrorIs(t, err, reason)
		require.Equal(t, 2, n, "nothing is sent after an error of send")
		rec, err := s.Ended(withTimeout(t), 1)
		require.NoError(t, err)
		require.Equal(t, upstream.OutcomeLeft, rec.Outcome)
	})
}

// TestTheWrongScheme: plain HTTP to a port with TLS, and TLS to one without, are told apart from an upstream that
// fails, by calls of all ways.
func TestTheWrongScheme(t *testing.T) {
	t.Parallel()
	page := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, text)
		})
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	serve := func(start func(*httptest.Server), h http.Handler) string {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = quiet
		start(s)
		t.Cleanup(s.Close)
		return s.URL
	}
	plain, secured := (*httptest.Server).Start, (*httptest.Server).StartTLS
	const speaksTLS, speaksNone = "the upstream speaks TLS; write base_url with https://",
		"the upstream does not speak TLS; write base_url with http://"
	for name, c := range map[string]struct{ url, want string }{
		"Go's, and Caddy": {strings.Replace(serve(secured, http.NotFoundHandler()), "https:", "http:", 1), speaksTLS},
		"nginx": {serve(plain, page("<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>"+
			"\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>")), speaksTLS},
		"Apache": {serve(plain, page("<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>400 Bad "+
			"Request</title>\n</head><body>\n<h1>Bad Request</h1>\n<p>Your browser sent a request that this server could not "+
			"understand.<br />\nReason: You're speaking plain HTTP to an SSL-enabled server port.<br />\n")), speaksTLS},
		"an alert": {alerting(t), speaksTLS},
		"no TLS":   {strings.Replace(serve(plain, http.NotFoundHandler()), "http:", "https:", 1), speaksNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := endpoint.Endpoint{URL: c.url + "/v1"}
			caller := start(t, e)
			_, fetched := caller.client.Fetch(withTimeout(t), &e, c.url+"/v1/models")
			for how, err := range map[string]error{
				"a call": caller.Generate(withTimeout(t), ask("x"), ignore), "a list": fetched,
			} {
				var failed *llm.Error
				require.ErrorAs(t, err, &failed, how)
				require.Equal(t, llm.ErrUpstream, failed.Kind, how)
				require.Equal(t, c.want, failed.Message, how)
				require.True(t, failed.Unreached, how)
			}
		})
	}
	t.Run("what a client says is no sign", func(t *testing.T) {
		t.Parallel()
		const said = "messages[0]: Client sent an HTTP request to an HTTPS server."
		err := start(t, endpoint.Endpoint{URL: serve(plain, page(said))}).Generate(withTimeout(t), ask("x"), ignore)
		require.Equal(t, llm.ErrRejected, llm.KindOf(err))
	})
}

// alerting is the address of a server that answers what is no TLS as OpenSSL does, and closes the connection.
func alerting(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 16<<10))
			_, _ = c.Write([]byte("\x15\x03\x01\x00\x02\x02\x46"))
			_ = c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestNoAPI: a list of models that is a page for people, or elsewhere, is none.
func TestNoAPI(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "\n<!DOCTYPE html><title>Sign in</title>")
	}))
	t.Cleanup(s.Close)
	for path, want := range map[string]string{
		"/models": "the upstream answered with a web page; check that base_url is the address of an API",
		"/moved":  "the upstream redirects to another address, which is not followed; set base_url to the final one",
	} {
		var client endpoint.Client
		_, err := client.Fetch(withTimeout(t), &endpoint.Endpoint{Dialect: endpoint.Chat, URL: s.URL}, s.URL+path)
		client.CloseIdle()
		var failed *llm.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, want, failed.Message)
		require.True(t, failed.Unreached)
	}
}
