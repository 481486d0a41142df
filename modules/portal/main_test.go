package portal

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/stores"
)

// site is a portal over TLS, with an engine and its stores behind it.
type site struct {
	t       *testing.T
	engine  *engine.Engine
	url     string
	server  *httptest.Server
	log     *logBuffer
	api     http.HandlerFunc // what the site serves beside the portal
	letters chan struct{}
}

// logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// password is everybody's.
const password = "seven quiet otters sleep"

// newSite serves the portal of a new engine.
func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteOf(t, new(config.Portal), engine.Options{OpenPeople: stores.OpenPeople})
}

// newSiteOf is newSite with a portal block and an engine's options of one's own.
func newSiteOf(t *testing.T, block *config.Portal, o engine.Options) *site {
	t.Helper()
	cfg := &config.Config{Gateway: config.Gateway{DefaultProfile: config.ProfileBalanced}, Portal: block,
		Plans: []config.Plan{{Name: "starter"}}, Profiles: config.DefaultProfiles(), Routes: []config.Route{
			{Name: "small", Provider: "up", Model: "small-1", Quality: 0.6, ContextWindow: 128_000, MaxOutput: 4096,
				Price: enginetest.ExampleCost, Cost: enginetest.ExampleCost},
			{Name: "deep", Provider: "up", Model: "deep-1", Quality: 0.9, ContextWindow: 128_000, MaxOutput: 4096,
				Price: enginetest.ExamplePrice, Cost: enginetest.ExampleCost},
		}}
	text := "# the file of a test\n"
	cfg.Path = filepath.Join(t.TempDir(), "gateway.hcl")
	cfg.Files = []config.File{{Path: cfg.Path, SHA256: config.DigestOf(text), Text: &text}}
	require.NoError(t, os.WriteFile(cfg.Path, []byte(text), 0o600))
	return siteOf(t, enginetest.Start(t, cfg, o))
}

// siteOf serves the portal of an engine.
func siteOf(t *testing.T, e *engine.Engine) *site {
	t.Helper()
	h := new(Handler)
	log := new(logBuffer)
	h.prepare(func() *engine.Engine { return e }, slog.New(slog.NewTextHandler(log, nil)))
	served := new(site)
	h.site = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served.api(w, r) })
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusTeapot)
		return nil
	})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, h.ServeHTTP(w, r, next))
	}))
	t.Cleanup(func() {
		h.live.end()
		server.Close()
	})
	*served = site{t: t, engine: e, url: server.URL, server: server, log: log, api: http.NotFound,
		letters: h.letters}
	return served
}

// browser is one with its cookies, which follows redirects.
type browser struct {
	*site
	client *http.Client
	header http.Header
}

func (s *site) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	client := *s.server.Client()
	client.Jar = jar
	return &browser{s, &client, http.Header{"Sec-Fetch-Site": {"same-origin"}}}
}

// answer is what a browser got.
type answer struct {
	*http.Response
	body string
}

func (b *browser) do(method, path string, form url.Values) answer {
	b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, body)
	require.NoError(b.t, err)
	for name, values := range b.header {
		r.Header[name] = values
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return answer{resp, string(text)}
}

func (b *browser) get(path string) answer {
	b.t.Helper()
	return b.do(http.MethodGet, path, nil)
}

func (b *browser) post(path string, pairs ...string) answer {
	b.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return b.do(http.MethodPost, path, form)
}

// person signs somebody in who was invited as i says.
func (s *site) person(i people.Invitation) *browser {
	s.t.Helper()
	i.By = "the test"
	token, _, err := s.engine.People().Invite(s.t.Context(), i)
	require.NoError(s.t, err)
	b := s.browser()
	a := b.post("/portal/invitation/"+token, "name", "Somebody", "password", password)
	require.Equal(s.t, http.StatusOK, a.StatusCode, a.body)
	return b
}

// member signs somebody in who is a member of an account.
func (s *site) member(email, account string, role people.Role) *browser {
	s.t.Helper()
	return s.person(people.Invitation{Email: email, Account: account, Role: role})
}

// operator signs an operator in.
func (s *site) operator(email string, as people.Operator) *browser {
	s.t.Helper()
	return s.person(people.Invitation{Email: email, Operator: as})
}
