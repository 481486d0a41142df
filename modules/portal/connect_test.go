package portal

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/connect"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
)

// TestConnect: each client has what points it at the site, with the key in its place where somebody has entered it.
func TestConnect(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	b := s.member("ann@example.com", ann.Account.ID, people.RoleViewer)
	page := b.get("/portal/connect")
	requireSafe(t, page)
	for _, c := range connect.Clients {
		require.Contains(t, page.body, `id="c-`+c.Name+`"`)
	}
	require.Contains(t, page.body, "export OPENAI_API_KEY=KEY\n")
	require.Contains(t, page.body, "In ~/.codex/fareway.config.toml:")
	require.Contains(t, page.body, "export ANTHROPIC_BASE_URL="+s.url+"\n")
	require.Contains(t, page.body, "128000", "the window of the largest route")

	filled := b.post("/portal/connect", "act", "fill", "key", " "+ann.Text+"\n")
	require.Equal(t, http.StatusOK, filled.StatusCode)
	require.Contains(t, filled.body, "export OPENAI_API_KEY="+ann.Text+"\n")
	require.NotContains(t, filled.body, "API_KEY=KEY")
	require.NotContains(t, s.log.String(), ann.Text)

	for _, wrong := range []string{"", "KEY", "sk-proj-abc", ann.Text + "x", `"><script>alert(1)</script>`} {
		a := b.post("/portal/connect", "act", "try", "family", "chat", "key", wrong)
		require.Equal(t, http.StatusBadRequest, a.StatusCode, wrong)
		require.Contains(t, a.body, "That is no key of this service")
		require.NotContains(t, a.body, "<script>alert")
	}
	require.Equal(t, http.StatusBadRequest,
		b.post("/portal/connect", "act", "try", "family", "other", "key", ann.Text).StatusCode)
}

// TestConnectSendsARequest: the site gets it as a client's, from the address of who asks, and the page shows what came
// of it.
func TestConnectSendsARequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, bob := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "bob")
	b := s.member("ann@example.com", ann.Account.ID, people.RoleViewer)
	ann.Settle(t, s.engine, "req_ofann", enginetest.OK(), enginetest.Proven())
	bob.Settle(t, s.engine, "req_ofbob", enginetest.OK(), enginetest.Proven())
	ask := func(family, id string, status int, body string) answer {
		t.Helper()
		s.api = func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "Bearer "+ann.Text, r.Header.Get("Authorization"))
			require.Equal(t, s.url, "https://"+r.Host)
			require.True(t, strings.HasPrefix(r.RemoteAddr, "127.0.0.1:"))
			require.NotNil(t, r.TLS)
			require.Empty(t, r.Header.Get("Cookie"))
			require.Equal(t, connect.ShapeOf(family).Path, r.RequestURI)
			sent, err := io.ReadAll(r.Body)
			require.NoError(t, err)
			require.True(t, json.Valid(sent))
			w.Header().Set("X-Request-Id", id)
			w.WriteHeader(status)
			_, err = io.WriteString(w, body)
			require.NoError(t, err)
		}
		return b.post("/portal/connect", "act", "try", "family", family, "key", ann.Text)
	}
	for family, body := range map[string]string{
		"chat":      `{"choices":[{"message":{"content":"Hello <you>"}}],"usage":{"billed_microcents":1234567}}`,
		"responses": `{"output":[{"content":[{"text":"Hello <you>"}]}],"usage":{"billed_microcents":1234567}}`,
		"messages":  `{"content":[{"text":"Hello <you>"}],"usage":{"billed_microcents":1234567}}`,
	} {
		a := ask(family, "req_ofann", http.StatusOK, body)
		require.Equal(t, http.StatusOK, a.StatusCode, a.body)
		require.Contains(t, a.body, "Hello &lt;you&gt;")
		require.Contains(t, a.body, "1.234567")
		require.Contains(t, a.body, `href="/portal/requests/req_ofann"`)
	}
	a := ask("chat", "req_ofbob", http.StatusOK,
		`{"choices":[{"message":{"content":"Hello"}}],"usage":{"billed_microcents":1}}`)
	require.NotContains(t, a.body, "req_ofbob", "of another account: it has no page for ann")
	for status, body := range map[int]string{
		http.StatusUnauthorized:    `{"error":{"message":"<b>no such key</b>"}}`,
		http.StatusPaymentRequired: `{"error":{"message":"<b>no credits</b>"}}`,
	} {
		a = ask("chat", "req_none", status, body)
		require.Equal(t, http.StatusOK, a.StatusCode)
		require.Contains(t, a.body, http.StatusText(status))
		require.Contains(t, a.body, "&lt;b&gt;no ")
		require.NotContains(t, a.body, "/portal/requests/req_none")
	}
	s.api = http.NotFound
	require.Contains(t, b.post("/portal/connect", "act", "try", "family", "chat", "key", ann.Text).body, "404 Not Found")
	ended := make(chan error, 1)
	s.api = func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 2<<20))
		ended <- err
	}
	require.Contains(t, b.post("/portal/connect", "act", "try", "family", "chat", "key", ann.Text).body, "did not succeed")
	require.Error(t, <-ended, "nobody reads more than a megabyte")
	s.api = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	require.Contains(t, b.post("/portal/connect", "act", "try", "family", "chat", "key", ann.Text).body, "did not succeed")
	s.api = func(http.ResponseWriter, *http.Request) { panic("of a test") }
	require.Contains(t, b.post("/portal/connect", "act", "try", "family", "chat", "key", ann.Text).body, "did not succeed")
	require.Contains(t, s.log.String(), "recovered from a panic")
	require.NotContains(t, s.log.String(), ann.Text)
}
