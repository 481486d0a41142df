package gemini

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// signer is the key of all service accounts here: making one takes a while.
var signer = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// server is one of tokens: it gives token-1, token-2, ... and checks what it is shown.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	given  int
	answer func(w http.ResponseWriter) // in place of a token, nil for none
	wrong  error                       // what was wrong with a request
}

func startServer(t *testing.T) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.check(r); err != nil {
			s.wrong = err
		}
		if s.answer != nil {
			s.answer(w)
			return
		}
		s.given++
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token": "ya29.token-%d", "token_type": "Bearer", "expires_in": 3599}`, s.given)
	}))
	t.Cleanup(s.Close)
	return s
}

// check reads a grant as RFC 7523 has it.
func (s *server) check(r *http.Request) error {
	if grant := r.FormValue("grant_type"); grant != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		return fmt.Errorf("the grant is %q", grant)
	}
	parts := strings.Split(r.FormValue("assertion"), ".")
	if len(parts) != 3 {
		return fmt.Errorf("the assertion has %d parts", len(parts))
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&signer().PublicKey, crypto.SHA256, sum[:], signature); err != nil {
		return err
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	var claims struct{ Iss, Scope, Aud string }
	if err := json.Unmarshal(raw, &claims); err != nil {
		return err
	}
	if claims.Iss != "me@p.iam" || claims.Scope != scope || claims.Aud != s.URL {
		return fmt.Errorf("the claims are %+v", claims)
	}
	return nil
}

func (s *server) tokens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given
}

// file is the key file of a service account.
func (s *server) file(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(signer())
	require.NoError(t, err)
	raw, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "my-project",
		"client_email": "me@p.iam", "private_key_id": "k1", "token_uri": s.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
	require.NoError(t, err)
	return string(raw)
}

// vertex starts a provider with a service account and a clock.
func vertex(t *testing.T, s *server, more map[string]any, now func() time.Time) *Gemini {
	t.Helper()
	values := map[string]any{"service_account": s.file(t)}
	for name, value := range more {
		values[name] = value
	}
	raw, err := json.Marshal(values)
	require.NoError(t, err)
	g := New().(*Gemini)
	g.now = now
	require.NoError(t, provider.Configure(t.Context(), g, raw))
	return g
}

// TestTokens: one is fetched for all models, again before it expires, and at once when the service refuses it.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	now := time.Now()
	g := vertex(t, s, nil, func() time.Time { return now })
	shown := func(model string, refused bool) (string, time.Duration) {
		e, err := g.Endpoint(t.Context(), provider.Target{Model: model, Refused: refused})
		require.NoError(t, err)
		require.NoError(t, e.Check(now))
		require.Equal(t, "Authorization", e.Headers[0].Name)
		return e.Headers[0].Value, e.Expires.Sub(now)
	}
	begin := now
	token, left := shown("a", false)
	require.Equal(t, "Bearer ya29.token-1", token)
	require.Equal(t, 3539*time.Second, left, "a minute less than it lasts")
	token, _ = shown("b", false)
	require.Equal(t, "Bearer ya29.token-1", token)
	token, _ = shown("a", true)
	require.Equal(t, "Bearer ya29.token-2", token)
	now = begin.Add(3478 * time.Second)
	token, _ = shown("a", false)
	require.Equal(t, "Bearer ya29.token-2", token)
	now = begin.Add(3480 * time.Second)
	token, left = shown("a", false)
	require.Equal(t, "Bearer ya29.token-3", token, "the gateway asks before an endpoint expires")
	require.Equal(t, 3539*time.Second, left)
	require.NoError(t, s.wrong)
}

func TestVertexAddresses(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for want, more := range map[string]map[string]any{
		"https://aiplatform.googleapis.com/v1/projects/my-project/locations/global/": nil,
		"https://europe-west4-aiplatform.googleapis.com/v1/projects/other/locations/europe-west4/": {
			"project": "other", "location": "europe-west4"},
	} {
		g := vertex(t, s, more, time.Now)
		e, err := g.Endpoint(t.Context(), provider.Target{Model: "gemini-3-pro"})
		require.NoError(t, err)
		require.Equal(t, want+"publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse", e.URL)
		e, err = g.Endpoint(t.Context(), provider.Target{Model: "projects/p/locations/l/endpoints/7"})
		require.NoError(t, err)
		require.Contains(t, e.URL, "googleapis.com/v1/projects/p/locations/l/endpoints/7:streamGenerateContent?alt=sse")
	}
	for want, more := range map[string]map[string]any{
		"setting project must be": {"project": "a/b"}, "setting location must be": {"location": "evil.example/"},
	} {
		raw, err := json.Marshal(map[string]any{"service_account": s.file(t), "project": more["project"],
			"location": more["location"]})
		require.NoError(t, err)
		require.ErrorContains(t, provider.Configure(t.Context(), New(), raw), want)
	}
}

// TestVertexCalls: a call shows the token, and one that the service does not take is fetched anew, once.
func TestVertexCalls(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for accepted, want := range map[string]error{"ya29.token-2": nil, "another": llm.Errorf(llm.ErrCredentials, "")} {
		fake := upstream.Start(t, upstream.Options{APIKey: accepted})
		s.mu.Lock()
		s.given = 0
		s.mu.Unlock()
		g := vertex(t, s, map[string]any{"base_url": fake.URL()}, time.Now)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		var reply llm.Reply
		err := g.Generate(ctx, &llm.Request{Model: "gemini-3-pro", MaxTokens: 9,
			Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}},
			func(ev llm.Event) error { reply.Add(ev); return nil })
		require.Equal(t, llm.KindOf(want), llm.KindOf(err))
		require.Equal(t, 2, s.tokens())
		if err != nil {
			require.ErrorContains(t, err, "check service_account")
			require.NotContains(t, err.Error(), "ya29")
			continue
		}
		reply.Close()
		require.Equal(t, "You said: hi", reply.Text())
	}
}

// TestTokensThatAreNotGiven: the error says what to do, and nothing of what was sent or came.
func TestTokensThatAreNotGiven(t *testing.T) {
	t.Parallel()
	status := func(n int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(n)
			_, _ = w.Write([]byte(`{"error": "invalid_grant", "error_description": "zq11"}`))
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		kind   llm.ErrorKind
		says   string
	}{
		"refused":    {status(400), llm.ErrCredentials, "check service_account, and this machine's clock (status 400)"},
		"busy":       {status(429), llm.ErrUpstream, "the server of tokens failed (status 429)"},
		"of its own": {status(500), llm.ErrUpstream, "the server of tokens failed (status 500)"},
		"down":       {status(503), llm.ErrUpstream, "the server of tokens failed (status 503)"},
		"a redirect": {status(302), llm.ErrUpstream, "the server of tokens failed (status 302)"},
		"nonsense":   {func(w http.ResponseWriter) { _, _ = w.Write([]byte("<zq11>")) }, llm.ErrUpstream, "fetching a token"},
		"nothing":    {func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) }, llm.ErrUpstream, "gave none that lasts"},
		"too short": {func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"access_token": "zq11", "expires_in": 60}`))
		}, llm.ErrUpstream, "gave none that lasts longer than 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			s.answer = c.answer
			_, err := vertex(t, s, nil, time.Now).Endpoint(t.Context(), provider.Target{Model: "m"})
			require.Equal(t, c.kind, llm.KindOf(err))
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "zq11")
			require.NotContains(t, err.Error(), "PRIVATE")
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		t.Parallel()
		s := startServer(t)
		g := vertex(t, s, nil, time.Now)
		s.Close()
		_, err := g.Endpoint(t.Context(), provider.Target{Model: "m"})
		require.ErrorContains(t, err, "check that the token_uri of service_account can be reached")
	})
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	pkcs1 := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
		Bytes: x509.MarshalPKCS1PrivateKey(signer())}))
	file := func(key, server string) string {
		raw, err := json.Marshal(account{Type: "service_account", Email: "e", Key: key, Server: server})
		require.NoError(t, err)
		return string(raw)
	}
	a, err := readAccount(file(pkcs1, ""))
	require.NoError(t, err)
	require.Equal(t, "https://oauth2.googleapis.com/token", a.Server)
	for _, server := range []string{"ftp://x", "https://", "://"} {
		_, err = readAccount(file(pkcs1, server))
		require.ErrorContains(t, err, "token_uri")
	}
	block := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}))
	_, err = readAccount(file(block, ""))
	require.ErrorContains(t, err, "private_key")
}

// What cannot be listed is said.
func TestVertexListsNoModels(t *testing.T) {
	t.Parallel()
	_, err := vertex(t, startServer(t), nil, time.Now).Models(t.Context())
	require.ErrorContains(t, err, "write the routes by hand")
}
