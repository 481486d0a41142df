package alerts

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

func message(t *testing.T, id string) *Message {
	t.Helper()
	m, err := newMessage(id, time.Now().UTC().Truncate(time.Second), Data{Event: "disk_full", State: Raised,
		Severity: "page", About: "operator", Gateway: "desk", Count: 1,
		Alerts: []Item{{Subject: "data", Text: "1 MB is left.", Next: "Make room."}}})
	require.NoError(t, err)
	return m
}

// TestWebhookIsStandard: a receiver verifies it with the specification's own library, with each of the secrets and no
// other one.
func TestWebhookIsStandard(t *testing.T) {
	t.Parallel()
	const before = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	const other = "whsec_HwAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg="
	type got struct {
		header http.Header
		body   []byte
	}
	requests := make(chan got, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- got{r.Header, body}
	}))
	defer server.Close()
	w := hook("ops", server.URL)
	w.Secrets = []string{secret, before}
	m := message(t, "msg_1")
	out := (&webhook{&w}).send(t.Context(), []*Message{m}, time.Now())
	require.True(t, out.Delivered, out.Error)
	require.Equal(t, 200, out.Status)
	r := <-requests
	for _, known := range w.Secrets {
		verifier, err := standardwebhooks.NewWebhook(known)
		require.NoError(t, err)
		require.NoError(t, verifier.Verify(r.body, r.header))
		require.Error(t, verifier.Verify(append(r.body, ' '), r.header))
	}
	verifier, err := standardwebhooks.NewWebhook(other)
	require.NoError(t, err)
	require.Error(t, verifier.Verify(r.body, r.header))
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	require.Equal(t, "msg_1", r.header.Get("webhook-id"))
	var body struct {
		Type      string
		Timestamp time.Time
		Data      Data
	}
	require.NoError(t, json.Unmarshal(r.body, &body))
	require.Equal(t, "disk_full.raised", body.Type)
	require.Equal(t, m.Time, body.Timestamp)
	require.Equal(t, "Make room.", body.Data.Alerts[0].Next)
}

// TestAnswers: what each answer of a receiver means.
func TestAnswers(t *testing.T) {
	t.Parallel()
	date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for name, tc := range map[string]struct {
		status     int
		retryAfter string
		want       func(o Outcome) bool
		text       string
	}{
		"taken":               {204, "", func(o Outcome) bool { return o.Delivered }, ""},
		"gone":                {410, "", func(o Outcome) bool { return o.Gone && !o.Delivered }, "it answered 410 Gone"},
		"too many":            {429, "7", func(o Outcome) bool { return o.After == 7*time.Second }, "429"},
		"away until":          {503, date, func(o Outcome) bool { return o.After > 58*time.Minute }, "503"},
		"away, in the past":   {503, "Thu, 01 Jan 1970 00:00:00 GMT", func(o Outcome) bool { return o.After == 0 }, "503"},
		"away, says nonsense": {500, "soon", func(o Outcome) bool { return o.After == 0 && !o.Refused }, "500"},
		"refused":             {400, "", func(o Outcome) bool { return o.Refused }, "400"},
		"unsigned":            {401, "", func(o Outcome) bool { return !o.Refused }, "does the receiver have this secret"},
		"moved":               {302, "", func(o Outcome) bool { return !o.Delivered }, "redirects are not followed"},
		"unknown":             {404, "", func(o Outcome) bool { return !o.Refused && !o.Gone }, "404 Not Found"},
		"no status":           {799, "", func(o Outcome) bool { return !o.Delivered }, "it answered 799"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var followed bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				followed = r.URL.Path == "/elsewhere"
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", tc.retryAfter)
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, "a text that nobody is to read")
			}))
			defer server.Close()
			w := hook("ops", server.URL)
			out := (&webhook{&w}).send(t.Context(), []*Message{message(t, "msg_1")}, time.Now())
			require.True(t, tc.want(out), "%+v", out)
			require.Contains(t, out.Error, tc.text)
			require.NotContains(t, out.Error, "nobody is to read")
			require.False(t, followed)
		})
	}
}

// TestBadReceivers: one that stalls, trickles, floods, breaks off or lies costs a bounded time, and no secret is in
// what is said of it.
func TestBadReceivers(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, handle func(c net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					handle(c)
				}()
			}
		}()
		return "http://" + l.Addr().String() + "/secret-path"
	}
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	answer := func(c net.Conn, text string) { // to a request that has come
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, text)
		}
	}
	trickle := func(c net.Conn, text string) {
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
			select {
			case <-release:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	for name, tc := range map[string]struct {
		handle    func(c net.Conn)
		delivered bool
	}{
		"stalls":           {func(net.Conn) { <-release }, false},
		"trickles headers": {func(c net.Conn) { trickle(c, "H") }, false},
		"endless headers": {func(c net.Conn) {
			answer(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X-A: "+strings.Repeat("a", 1000)+"\r\n"); err != nil {
					return
				}
			}
		}, false},
		// It has said that it has the message: what it says besides is nobody's business.
		"endless body": {func(c net.Conn) {
			answer(c, "HTTP/1.1 200 OK\r\n\r\n")
			for {
				if _, err := io.WriteString(c, strings.Repeat("a", 10_000)); err != nil {
					return
				}
			}
		}, true},
		"trickles a body": {func(c net.Conn) {
			answer(c, "HTTP/1.1 200 OK\r\n\r\n")
			trickle(c, "a")
		}, true},
		"breaks off":  {func(net.Conn) {}, false},
		"is no HTTP":  {func(c net.Conn) { answer(c, "SSH-2.0-\x1b[2J\r\n\r\n") }, false},
		"is nobody":   {nil, false},
		"wants proof": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "http://127.0.0.1:1/secret-path"
			if tc.handle != nil {
				url = serve(t, tc.handle)
			}
			w := hook("ops", url)
			w.Timeout = 500 * time.Millisecond
			b := newBench(t, t.TempDir(), config.Alerts{Webhooks: []config.Webhook{w}})
			start := time.Now()
			tested, err := b.Test(t.Context(), TestOf{Name: "ops"})
			require.NoError(t, err)
			require.Less(t, time.Since(start), 10*time.Second)
			require.Equal(t, tc.delivered, tested[0].Delivered, tested[0].Error)
			require.NotContains(t, fmt.Sprint(tested), "secret-path", "which is shown only where it is written out")
			require.NotContains(t, tested[0].Error, "\x1b")
			require.NotContains(t, fmt.Sprintf("%+v", tested), secret[6:])
		})
	}
}

// TestWebhookTLS: a certificate that nobody trusts is refused, and one that the block names is taken.
func TestWebhookTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	defer server.Close()
	w := hook("ops", server.URL)
	out := (&webhook{&w}).send(t.Context(), []*Message{message(t, "msg_1")}, time.Now())
	require.False(t, out.Delivered)
	require.Contains(t, out.Error, "certificate")
	w.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	out = (&webhook{&w}).send(t.Context(), []*Message{message(t, "msg_1")}, time.Now())
	require.True(t, out.Delivered, out.Error)
	require.Equal(t, tls.VersionName(tls.VersionTLS13), out.TLS)
}

// TestTheTestSays which destination it means, and that there is none.
func TestTheTestSays(t *testing.T) {
	t.Parallel()
	b := newBench(t, t.TempDir(), config.Alerts{})
	_, err := b.Test(t.Context(), TestOf{})
	require.ErrorIs(t, err, ErrUnknown)
	require.ErrorContains(t, err, "no block alerts")
	b.configure(config.Alerts{Webhooks: []config.Webhook{hook("ops", "http://127.0.0.1:1")}})
	_, err = b.Test(t.Context(), TestOf{Name: "opps"})
	require.ErrorContains(t, err, `no webhook and no mail "opps"`)
	for _, name := range []string{"", "ops", "webhook ops"} {
		tested, err := b.Test(t.Context(), TestOf{Name: name})
		require.NoError(t, err)
		require.Len(t, tested, 1)
		require.False(t, tested[0].Delivered)
		require.Equal(t, "webhook ops", tested[0].Destination)
		require.Contains(t, tested[0].Error, "connection refused")
	}
}
