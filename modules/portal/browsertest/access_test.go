//go:build browser

package browsertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/portal"
	"github.com/fareway/fareway/modules/verify/testbed"
)

// cache is the folder of the checkout with what is fetched and made.
func cache(t testing.TB, path ...string) string {
	dir, err := filepath.Abs("../../../.cache")
	require.NoError(t, err)
	return filepath.Join(append([]string{dir}, path...)...)
}

var axe = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("../../../.cache/clients/node/node_modules/axe-core/axe.min.js")
	return string(b), err
})

// violation is what axe finds.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML string `json:"html"`
		Why  string `json:"failureSummary"`
	} `json:"nodes"`
}

func (v violation) String() string {
	text := v.ID + ": " + v.Help
	for _, n := range v.Nodes[:min(3, len(v.Nodes))] {
		text += "\n  " + n.HTML + "\n  " + strings.ReplaceAll(n.Why, "\n", "\n  ")
	}
	return text
}

// look is how a page is looked at.
type look struct {
	name, scheme string
	width        int64
}

var looks = []look{{"light", "light", 1280}, {"dark", "dark", 1280}, {"narrow", "light", 360},
	{"narrow-dark", "dark", 360}}

func (b *tab) look(l look) {
	b.Helper()
	b.run(emulation.SetDeviceMetricsOverride(l.width, 900, 1, l.width < 800),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// requireAccessible looks at the page that is shown in each way, and keeps a picture of each.
func (b *tab) requireAccessible(t *testing.T, name string) {
	t.Helper()
	source, err := axe()
	require.NoError(t, err, "axe is not there: make browser installs it")
	b.run(chromedp.Evaluate(source, nil))
	for _, l := range looks {
		b.look(l)
		// Landmarks and all else that is best, too; not the experimental ones.
		found := eval[string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations))`)
		var list []violation
		require.NoError(t, json.Unmarshal([]byte(found), &list))
		require.Empty(t, list, "%s, %s", name, l.name)
		require.LessOrEqual(t, eval[int64](b, `document.documentElement.scrollWidth`), l.width,
			"%s, %s: it has to be scrolled sideways: %s", name, l.name, eval[string](b, `[...document.querySelectorAll("main *")]
			.filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".wide, pre, svg"))
			.map(e => e.outerHTML.slice(0, 120)).slice(0, 5).join("\n")`))
		b.picture(t, name+"-"+l.name)
	}
	b.look(looks[0])
}

// picture keeps one of the whole page, for people to look at.
func (b *tab) picture(t *testing.T, name string) {
	t.Helper()
	var shot []byte
	b.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		shot, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithFromSurface(true).Do(ctx)
		return err
	}))
	require.NoError(t, os.MkdirAll(cache(t, "browser"), 0o755))
	require.NoError(t, os.WriteFile(cache(t, "browser", name+".png"), shot, 0o600))
}

// requests answers n requests of a key, some of which go wrong, and is the id of one that is charged.
func (s *site) requests(t testing.TB, key string, n int) (id string) {
	t.Helper()
	for i := range n {
		model := []string{"service/auto", "service/auto", "nosuch"}[i%3]
		status, answered := s.chat(t, key, model, "")
		if status == http.StatusOK {
			id = answered
		}
	}
	return id
}

// account is a new one with credits and a key.
func (s *site) account(t testing.TB, name string, credits int64) testbed.Account {
	t.Helper()
	a, err := s.NewAccount(t.Context(), name, credits)
	require.NoError(t, err)
	return a
}

// chat sends one request, and is its status and its id.
func (s *site) chat(t testing.TB, key, model, agent string) (status int, id string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": model, "user": agent,
		"messages": []any{map[string]string{"role": "user", "content": "Hello"}}})
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/chat/completions", bytes.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	if agent != "" {
		r.Header.Set("User-Agent", agent)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("X-Request-Id")
}

// everywhere is every page of the portal's table, with what stands in the place of what it names.
func everywhere(t testing.TB, names map[string]string) (paths []string) {
	t.Helper()
	names["/portal/operator/routes/"] = "standard"
	month := time.Now().UTC().Format("2006-01")
	names["/portal/statements/"] = month
	names["/portal/operator/accounts/"+names["/portal/operator/accounts/"]+"/statements/"] = month
	for _, pattern := range portal.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		if method != http.MethodGet || slices.Contains(noPages, path) {
			continue
		}
		path = strings.TrimSuffix(path, "{$}")
		for {
			before, after, ok := strings.Cut(path, "{")
			name, known := names[before]
			if !ok || !known {
				break
			}
			_, after, _ = strings.Cut(after, "}")
			path = before + name + after
		}
		require.NotContains(t, path, "{", "say in the test what stands there")
		paths = append(paths, path)
	}
	return paths
}

// noPages are what browsers ask for that shows no page: a stream, files, and what leads on at once.
var noPages = []string{"/portal/live", "/portal/usage.csv", "/portal/usage/focus", "/portal/statements/{month}/csv",
	"/portal/statements/{month}/focus", "/portal/operator/accounts/{id}/statements/{month}/csv",
	"/portal/operator/accounts/{id}/statements/{month}/focus", "/portal/requests/find",
	"/portal/oidc/{name}/callback", "/portal/sign-in", "/portal/operator/checkpoints/{number}"}

// TestEveryPageIsAccessible looks at every page as somebody who may see all of them: with axe, in light and dark, wide
// and at 360 pixels, where nothing has to be scrolled sideways; and adds up what all of them weigh.
func TestEveryPageIsAccessible(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	acme := s.account(t, "pages", 1000)
	id := s.requests(t, acme.Key, 9)
	b := s.person(t, "all@example.com", "--account", "pages", "--role", "owner", "--operator", "admin")
	other := s.link(t, "invite", "other@example.com", "--account", "pages", "--role", "viewer")
	_, token, _ := strings.Cut(other, "/invitation/")
	paths := everywhere(t, map[string]string{"/portal/invitation/": token, "/portal/requests/": id,
		"/portal/keys/": acme.KeyID, "/portal/operator/accounts/": acme.ID})
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			b.visit(path)
			name := strings.NewReplacer("/", "_", id, "id", acme.ID, "id", acme.KeyID, "id", token, "token").Replace(
				strings.TrimPrefix(path, "/portal/"))
			b.requireAccessible(t, cmp.Or(name, "home"))
		})
	}
	t.Run("signing in", func(t *testing.T) {
		out := s.newTab(t)
		out.visit("/portal/sign-in")
		out.requireAccessible(t, "sign-in")
		out.visit("/portal/sign-in?language=de")
		require.Equal(t, "de", eval[string](out, `document.documentElement.lang`))
		out.shows("Anmelden")
	})
	t.Run("amounts to the microcent", func(t *testing.T) {
		for _, path := range []string{"/portal/credits", "/portal/"} {
			b.visit(path)
			b.press(`form[action="/portal/amounts"] button`)
			b.shows("Short amounts")
			b.requireAccessible(t, cmp.Or(strings.TrimPrefix(path, "/portal/"), "home")+"-exact")
			b.press(`form[action="/portal/amounts"] button`)
			b.shows("Exact amounts")
		}
	})
	t.Run("what is shown once", func(t *testing.T) {
		b.visit("/portal/keys")
		b.fill("#name", "second")
		b.press(`form[action="/portal/keys"] button`)
		b.requireAccessible(t, "keys-made")
		b.visit("/portal/security")
		b.press(`form:has([value=begin-totp]) button`)
		b.requireAccessible(t, "security-codes")
		b.visit("/portal/members")
		b.fill("#email", "third@example.com")
		b.press(`form:has([value=invite]) button`)
		b.requireAccessible(t, "members-made")
	})
	t.Run("what is not there", func(t *testing.T) {
		require.Equal(t, http.StatusNotFound, b.open("/portal/nowhere"))
		b.requireAccessible(t, "not-found")
	})
	t.Run("in print only what is to be read", func(t *testing.T) {
		b.visit("/portal/usage")
		b.run(emulation.SetEmulatedMedia().WithMedia("print"))
		require.Empty(t, eval[string](b, `[...document.querySelectorAll("nav, .who, button")].filter(e =>
			e.checkVisibility()).map(e => e.outerHTML).join()`))
		b.run(emulation.SetEmulatedMedia())
	})
}

// TestAllPagesWeighLittle: all pages together, with what they load, are under 150 KB compressed.
func TestAllPagesWeighLittle(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	acme := s.account(t, "weight", 1000)
	id := s.requests(t, acme.Key, 3)
	b := s.person(t, "weight@example.com", "--account", "weight", "--role", "owner", "--operator", "admin")
	_, token, _ := strings.Cut(s.link(t, "invite", "weight2@example.com", "--account", "weight"), "/invitation/")
	type loaded struct {
		url  string
		size int64
	}
	var mu sync.Mutex
	asked, kept := map[network.RequestID]string{}, map[network.RequestID]bool{}
	var all []loaded
	chromedp.ListenTarget(b.ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *network.EventResponseReceived:
			if !e.Response.FromDiskCache && !kept[e.RequestID] {
				asked[e.RequestID] = e.Response.URL
			}
		case *network.EventRequestServedFromCache:
			kept[e.RequestID] = true
		case *network.EventLoadingFinished:
			if asked[e.RequestID] != "" {
				all = append(all, loaded{asked[e.RequestID], int64(e.EncodedDataLength)})
			}
		}
	})
	b.run(network.Enable(), network.ClearBrowserCache())
	paths := everywhere(t, map[string]string{"/portal/invitation/": token, "/portal/requests/": id,
		"/portal/keys/": acme.KeyID, "/portal/operator/accounts/": acme.ID})
	for _, path := range paths {
		b.visit(path)
	}
	mu.Lock()
	defer mu.Unlock()
	var sum, assets int64
	seen := map[string]bool{}
	for _, l := range all {
		require.True(t, strings.HasPrefix(l.url, s.url+"/portal/") || strings.HasPrefix(l.url, "data:"),
			"%s is from elsewhere", l.url)
		sum += l.size
		if strings.Contains(l.url, "/assets/") {
			require.False(t, seen[l.url], "%s is loaded once, and kept", l.url)
			seen[l.url], assets = true, assets+l.size
		}
	}
	require.GreaterOrEqual(t, len(all), len(paths)+2)
	t.Logf("%d pages: %d bytes, of which style, script and icon are %d", len(paths), sum, assets)
	require.Less(t, sum, int64(150_000))
}
