package portal

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/fareway/fareway/modules/internal/connect"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/modules/portal/texts"
	"github.com/fareway/fareway/modules/portal/views"
)

const requestOfAnn = "req_0190000000000000000000000000aaaa"

// TestJourney: somebody is invited, signs in, makes a key (AUTH-02), and understands a charge.
func TestJourney(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	ann.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	b := s.member("ann@example.com", ann.Account.ID, people.RoleOwner)

	home := b.get("/portal/")
	require.Equal(t, http.StatusOK, home.StatusCode)
	for _, want := range []string{"Balance", "Held", "Available", ">999.00<", ">998.00<", "0.335000 credits", "ann"} {
		require.Contains(t, home.body, want)
	}
	t.Run("AUTH-02 a key is made on the API keys page, is shown once, and opens the account", func(t *testing.T) {
		made := b.post("/portal/keys", "name", "laptop", "cap", "5")
		require.Equal(t, http.StatusOK, made.StatusCode, made.body)
		text := regexp.MustCompile(`<pre id="new-key"[^>]*>([^<]+)</pre>`).FindStringSubmatch(made.body)
		require.Len(t, text, 2)
		hash, ok := ledger.ParseKey(text[1])
		require.True(t, ok)
		p, err := s.engine.Lookup(t.Context(), hash)
		require.NoError(t, err)
		require.Equal(t, ann.Account.ID, p.Account.ID)
		require.Equal(t, int64(5*ledger.MicrocentsPerCredit), p.Key.SpendCap)
		require.NotContains(t, b.get("/portal/keys").body, text[1])

		rotated := b.post("/portal/keys/"+p.Key.ID, "act", "rotate", "overlap", "0")
		require.Contains(t, rotated.body, "new-key")
		_, err = s.engine.Lookup(t.Context(), hash)
		require.ErrorIs(t, err, engine.ErrKeyEnded)
	})
	t.Run("what is refused says why, and keeps what was typed", func(t *testing.T) {
		again := b.post("/portal/keys", "name", "laptop")
		require.Equal(t, http.StatusBadRequest, again.StatusCode)
		require.Contains(t, again.body, "has a key")
		require.Contains(t, again.body, `value="laptop"`)
	})
	t.Run("the charge of a request, step by step", func(t *testing.T) {
		list := b.get("/portal/requests")
		require.Contains(t, list.body, "/portal/requests/"+requestOfAnn)
		require.Contains(t, list.body, "1.33")
		one := b.get("/portal/requests/" + requestOfAnn)
		require.Equal(t, http.StatusOK, one.StatusCode)
		for _, want := range []string{"1,335,000", "1.335000 credits", "1,335,000,000,000", "950", "700", "rounded down"} {
			require.Contains(t, one.body, want)
		}
		require.Equal(t, http.StatusOK, b.get("/portal/requests/find?id=%20"+requestOfAnn).StatusCode)
	})
	t.Run("sums are the ledger's", func(t *testing.T) {
		usage := b.get("/portal/usage?by=key&days=7")
		require.Contains(t, usage.body, "1.335000 credits")
		csv := b.get("/portal/usage.csv?by=key&days=7")
		require.Equal(t, "text/csv; charset=utf-8", csv.Header.Get("Content-Type"))
		require.Contains(t, csv.body, "first,1,950,,,700,1335000,0,0")
		month := s.engine.Now().UTC().Format("2006-01")
		require.Contains(t, b.get("/portal/statements").body, `href="/portal/statements/`+month+`"`)
		statement := b.get("/portal/statements/" + month)
		require.Equal(t, http.StatusOK, statement.StatusCode, statement.body)
		for _, want := range []string{"1,000.000000", "-1.335000", "998.665000", "The month still runs", "first", "deep"} {
			require.Contains(t, statement.body, want)
		}
		lines := b.get("/portal/statements/" + month + "/csv")
		require.Equal(t, `attachment; filename="statement-`+month+`.csv"`, lines.Header.Get("Content-Disposition"))
		require.Contains(t, lines.body, "charges,,,1,-1335000,998665000\n")
		for _, none := range []string{"2020-01", "2999-01", "x", "2026-1"} {
			require.Equal(t, http.StatusNotFound, b.get("/portal/statements/"+none).StatusCode, none)
		}
		t.Run("operators see the account's statement, and only of an account", func(t *testing.T) {
			op := s.operator("op@example.com", people.ReadOnly)
			list := "/portal/operator/accounts/" + ann.Account.ID + "/statements"
			require.Contains(t, op.get("/portal/operator/accounts/"+ann.Account.ID).body, `href="`+list+`"`)
			require.Contains(t, op.get(list).body, "Statements of ann")
			require.Contains(t, op.get(list).body, `href="`+list+"/"+month+`"`)
			same := op.get(list + "/" + month)
			main := func(body string) string {
				_, main, _ := strings.Cut(body, "<h1>")
				return strings.ReplaceAll(main, list, "/portal/statements")
			}
			require.Equal(t, main(statement.body), main(same.body))
			require.Equal(t, lines.body, op.get(list+"/"+month+"/csv").body)
			require.Equal(t, b.get("/portal/statements/"+month+"/focus").body, op.get(list+"/"+month+"/focus").body)
			require.Equal(t, http.StatusNotFound, op.get("/portal/operator/accounts/nobody/statements").StatusCode)
			require.Equal(t, http.StatusNotFound, op.get("/portal/operator/accounts/nobody/statements/"+month).StatusCode)
			require.Equal(t, http.StatusNotFound, op.get(list+"/2020-01").StatusCode)
		})
		credits := b.get("/portal/credits")
		require.Contains(t, credits.body, "top-up")
		require.Contains(t, credits.body, requestOfAnn)
	})
	require.Contains(t, b.get("/portal/connect").body, s.url+"/v1")
	out := b.post("/portal/sign-out")
	require.Contains(t, out.body, "You are signed out.")
	require.Contains(t, b.get("/portal/keys").Request.URL.Path, "/portal/sign-in")
}

// TestUsageByProfile: the sums of a page, and of its CSV, by the profile that requests ran with.
func TestUsageByProfile(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	ann.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	b := s.member("ann@example.com", ann.Account.ID, people.RoleViewer)
	require.Contains(t, b.get("/portal/usage?by=profile&days=7").body, `<th scope="row">max</th>`)
	require.Regexp(t, `^profile,requests,.*\nmax,1,950,,,700,1335000,0,0\n$`,
		b.get("/portal/usage.csv?by=profile&days=7").body)
}

// TestFocus: members have their account's usage as FOCUS has it, and nobody else's in it.
func TestFocus(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, bob := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "bob")
	ann.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	bob.Settle(t, s.engine, "req_bob", enginetest.OK(), enginetest.Proven())
	b := s.member("ann@example.com", ann.Account.ID, people.RoleViewer)
	month := s.engine.Now().UTC().Format("2006-01")
	for page, path := range map[string]string{"/portal/usage?days=7": "/portal/usage/focus?days=7",
		"/portal/statements/" + month: "/portal/statements/" + month + "/focus"} {
		require.Contains(t, b.get(page).body, `href="`+path+`" download>FOCUS (CSV)</a>`)
		a := b.get(path)
		require.Equal(t, "text/csv; charset=utf-8", a.Header.Get("Content-Type"))
		require.Contains(t, a.Header.Get("Content-Disposition"), `attachment; filename="usage-focus-`)
		require.Regexp(t, `^BilledCost,.*\n0\.01335,`+ann.Account.ID+`,ann,USD,.*,Usage,.*\n$`, a.body)
		require.Contains(t, a.body, strings.TrimPrefix(s.url, "https://"), "who sells it")
	}
	none := b.get("/portal/statements/2020-01/focus")
	require.Equal(t, http.StatusNotFound, none.StatusCode)
	require.Empty(t, none.Header.Get("Content-Disposition"))
}

// TestPlacesAreForWhoMay goes to every place as everybody.
func TestPlacesAreForWhoMay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, bob := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "bob")
	ann.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	_, err := s.engine.Store().MakeCheckpoint(t.Context())
	require.NoError(t, err)
	who := map[string]*browser{
		"nobody":    s.browser(),
		"viewer":    s.member("viewer@example.com", ann.Account.ID, people.RoleViewer),
		"member":    s.member("member@example.com", ann.Account.ID, people.RoleMember),
		"owner":     s.member("owner@example.com", ann.Account.ID, people.RoleOwner),
		"stranger":  s.member("stranger@example.com", bob.Account.ID, people.RoleOwner),
		"read-only": s.operator("read@example.com", people.ReadOnly),
		"support":   s.operator("support@example.com", people.Support),
		"admin":     s.operator("admin@example.com", people.Admin),
	}
	fill := strings.NewReplacer("{$}", "", "{id}", ann.Key.ID, "{token}", "none", "{name}", "deep",
		"{month}", s.engine.Now().UTC().Format("2006-01"), "{number}", "1")
	for _, p := range places {
		if p.open || strings.Contains(p.pattern, "/live") {
			continue
		}
		method, path, _ := strings.Cut(p.pattern, " ")
		switch path = fill.Replace(path); {
		case strings.Contains(p.pattern, "operator/accounts/{id}"):
			path = strings.Replace(path, ann.Key.ID, ann.Account.ID, 1)
		case strings.Contains(p.pattern, "requests/{id}"):
			path = "/portal/requests/" + requestOfAnn
		}
		for name, b := range who {
			t.Run(p.pattern+" by "+name, func(t *testing.T) {
				var a answer
				if method == http.MethodGet {
					a = b.get(path)
				} else {
					a = b.post(path, "act", "none of these")
				}
				isRole, isOperator := slices.Index(roles, name), slices.Index(operators, name)
				if name == "stranger" {
					isRole = slices.Index(roles, "owner")
				}
				switch {
				case name == "nobody" && method == http.MethodGet:
					require.Equal(t, "/portal/sign-in", a.Request.URL.Path)
				case name == "nobody":
					require.Equal(t, http.StatusUnauthorized, a.StatusCode)
				case strings.Contains(p.pattern, "requests/{id}") && name == "stranger",
					strings.Contains(p.pattern, "keys/{id}") && name == "stranger":
					require.Equal(t, http.StatusNotFound, a.StatusCode, "of another account")
				case p.self:
					require.NotEqual(t, http.StatusForbidden, a.StatusCode)
					require.NotEqual(t, http.StatusInternalServerError, a.StatusCode)
				case p.operator != "" && isOperator < 0, p.operator == "" && isRole < 0:
					require.Equal(t, http.StatusNotFound, a.StatusCode)
				case p.operator != "" && isOperator < slices.Index(operators, p.operator),
					p.operator == "" && isRole < slices.Index(roles, p.role):
					require.Equal(t, http.StatusForbidden, a.StatusCode)
				case method == http.MethodGet:
					require.Equal(t, http.StatusOK, a.StatusCode, a.body)
				default:
					require.Equal(t, http.StatusBadRequest, a.StatusCode, "it gets as far as the form: %s", a.body)
				}
				requireSafe(t, a)
			})
		}
	}
}

// requireSafe looks at what every answer has.
func requireSafe(t *testing.T, a answer) {
	t.Helper()
	policy := a.Header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.Contains(t, policy, "frame-ancestors 'none'")
	require.NotContains(t, policy, "unsafe-inline")
	require.Equal(t, "no-store", a.Header.Get("Cache-Control"))
	require.Equal(t, "nosniff", a.Header.Get("X-Content-Type-Options"))
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		return
	}
	for z := html.NewTokenizer(strings.NewReader(a.body)); z.Next() != html.ErrorToken; {
		token := z.Token()
		if token.Type == html.StartTagToken && token.Data == "script" {
			require.Equal(t, html.EndTagToken, z.Next(), "no script stands in a page")
		}
		require.NotContains(t, []string{"iframe", "object", "embed", "base", "style"}, token.Data)
		for _, attribute := range token.Attr {
			require.False(t, strings.HasPrefix(attribute.Key, "on"), "%s of <%s>", attribute.Key, token.Data)
			require.NotEqual(t, "style", attribute.Key)
			if slices.Contains([]string{"src", "href", "action", "formaction"}, attribute.Key) {
				require.Regexp(t, `^(/portal/|#|\?|data:image/png;base64,|$)`, attribute.Val, "nothing is from elsewhere")
			}
		}
	}
}

// TestFormsOfOthers: what a page elsewhere has a browser send is refused, and so is what says nothing of where it is
// from.
func TestFormsOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	b := s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	for name, header := range map[string]http.Header{
		"cross-site":       {"Sec-Fetch-Site": {"cross-site"}},
		"same-site":        {"Sec-Fetch-Site": {"same-site"}},
		"another's origin": {"Origin": {"https://evil.example"}},
		"no origin":        {},
		"origin null":      {"Origin": {"null"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := *b
			other.header = header
			a := other.post("/portal/keys", "name", "stolen")
			require.Equal(t, http.StatusForbidden, a.StatusCode)
		})
	}
	other := *b
	other.header = http.Header{"Origin": {s.url}}
	require.Equal(t, http.StatusOK, other.post("/portal/keys", "name", "mine").StatusCode)
	var names []string
	all := ledger.KeyQuery{Account: ann.Account.ID}
	require.NoError(t, s.engine.Store().Keys(t.Context(), all, func(k ledger.Key) error {
		names = append(names, k.Name)
		return nil
	}))
	require.Equal(t, []string{"first", "mine"}, names)
}

// TestCookies: a session's cookie is of this host over TLS, and no script reads it; a new one comes with signing in.
func TestCookies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	b := s.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	planted := &http.Cookie{Name: secureCookie, Value: "0123456789abcdef", Path: "/", Secure: true}
	u := b.get("/portal/sign-in").Request.URL
	b.client.Jar.SetCookies(u, []*http.Cookie{planted})
	a := b.post("/portal/sign-in", "email", "Ann@Example.com", "password", password, "next", "/portal/keys")
	require.Equal(t, http.StatusSeeOther, a.StatusCode)
	require.Equal(t, "/portal/keys", a.Header.Get("Location"))
	cookies := a.Cookies()
	require.Len(t, cookies, 1)
	c := cookies[0]
	require.Equal(t, "__Host-fareway", c.Name)
	require.True(t, c.Secure)
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, c.SameSite)
	require.Equal(t, "/", c.Path)
	require.Empty(t, c.Domain)
	require.NotEqual(t, planted.Value, c.Value)
}

// TestSignInSaysNothing: whether somebody is known cannot be told from what is answered.
func TestSignInSaysNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	nonce := regexp.MustCompile(`nonce="[^"]*"`)
	page := func(email string) string {
		a := s.browser().post("/portal/sign-in", "email", email, "password", "wrong password here")
		require.Equal(t, http.StatusUnauthorized, a.StatusCode)
		return strings.ReplaceAll(nonce.ReplaceAllString(a.body, ""), email, "")
	}
	require.Equal(t, page("ann@example.com"), page("nobody@example.com"))
}

// TestNext: after signing in nobody is led elsewhere.
func TestNext(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{
		"/portal/keys": "/portal/keys", "/portal/usage?by=day": "/portal/usage?by=day", "": "/portal/",
		"https://evil.example/": "/portal/", "//evil.example/portal/": "/portal/", "/v1/models": "/portal/",
		"/portal/../v1": "/portal/", `/portal/\evil`: "/portal/", "/\\evil.example": "/portal/",
		"javascript:alert(1)":         "/portal/",
		"/portal/\r\nSet-Cookie: a=b": "/portal/", "portal/": "/portal/", "/portal": "/portal/",
	} {
		require.Equal(t, want, safeNext(next), next)
	}
}

// TestNothingIsMarkup: whatever somebody has called something, a page shows it as text.
func TestNothingIsMarkup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	ann := enginetest.NewCustomer(t, s.engine, evil)
	ann.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	b := s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	admin := s.operator("admin@example.com", people.Admin)
	require.Equal(t, http.StatusOK, b.post("/portal/security", "act", "profile", "name", evil).StatusCode)
	refused := b.post("/portal/keys", "name", evil)
	require.Equal(t, http.StatusBadRequest, refused.StatusCode)
	requireSafe(t, refused)
	_, err := s.engine.Store().CreateKey(t.Context(), ann.Account.ID, evil, [32]byte{1}, `<b>"`, ledger.KeyChange{})
	require.NoError(t, err)
	for _, path := range []string{"/portal/", "/portal/keys", "/portal/requests", "/portal/usage?by=key",
		"/portal/credits", "/portal/members", "/portal/security", "/portal/requests/" + requestOfAnn,
		"/portal/keys?done=" + url.QueryEscape(evil),
		"/portal/requests?route=" + `%22%3E%3Cscript%3E`, "/portal/sign-in?next=%22%3E%3Cscript%3E"} {
		requireSafe(t, b.get(path))
	}
	for _, path := range []string{"/portal/operator/accounts", "/portal/operator/accounts/" + ann.Account.ID,
		"/portal/operator/people", "/portal/operator/audit", "/portal/operator/accounts?q=%22%3E%3Cscript%3E"} {
		a := admin.get(path)
		requireSafe(t, a)
	}
}

// TestOperatorsActsAreWrittenDown: what an operator does on a page is in the audit trail with who did it.
func TestOperatorsActsAreWrittenDown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	b := s.operator("admin@example.com", people.Admin)
	path := "/portal/operator/accounts/" + ann.Account.ID
	a := b.post(path, "act", "credit", "credits", "50", "reference", "invoice 7", "reason", "paid")
	require.Contains(t, a.body, "The credits are added.")
	a = b.post(path, "act", "credit", "credits", "50", "reference", "invoice 7", "reason", "paid")
	require.Contains(t, a.body, "nothing was changed")
	is, err := s.engine.Store().Account(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, int64(1050), is.Balance.Credits)
	require.Contains(t, b.post(path, "act", "state", "was", "active", "state", "suspended").body, "suspended")
	audit := b.get("/portal/operator/audit")
	require.Contains(t, audit.body, "admin@example.com via portal")
	require.Contains(t, audit.body, "credit.add")
	require.Contains(t, audit.body, "account.set_state")
}

// TestRequestsInPages: the pages have each request once, the newest first.
func TestRequestsInPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, bob := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "bob")
	var want []string
	for i := range 2*shownRequests + 3 {
		id := "req_" + strings.Repeat("0", 28) + string(rune('a'+i/26)) + string(rune('a'+i%26))
		ann.Settle(t, s.engine, id, enginetest.OK(), enginetest.Proven())
		bob.Settle(t, s.engine, id+"b", enginetest.OK(), enginetest.Proven())
		want = append(want, id)
	}
	slices.Reverse(want)
	b := s.member("ann@example.com", ann.Account.ID, people.RoleViewer)
	row := regexp.MustCompile(`/portal/requests/(req_[^"]+)"`)
	older := regexp.MustCompile(`href="(/portal/requests\?[^"]*after=[^"]+)"`)
	var got []string
	for path := "/portal/requests?status=ok"; path != ""; {
		a := b.get(path)
		require.Equal(t, http.StatusOK, a.StatusCode)
		for _, m := range row.FindAllStringSubmatch(a.body, -1) {
			got = append(got, m[1])
		}
		path = ""
		if m := older.FindStringSubmatch(a.body); m != nil {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	require.Equal(t, want, got)
	require.NotRegexp(t, row, b.get("/portal/requests?status=failed").body)
	require.Equal(t, http.StatusBadRequest, b.get("/portal/requests?until=yesterday").StatusCode)
	require.Equal(t, http.StatusBadRequest, b.get("/portal/requests?after=x").StatusCode)
}

// TestLive: a request that ends appears without a new page, and of another account none does; the view ends with the
// server.
func TestLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	b := s.member("ann@example.com", ann.Account.ID, people.RoleViewer)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/portal/live", nil)
	require.NoError(t, err)
	resp, err := b.client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan())
	require.Equal(t, "event: ready", lines.Text())
	for _, e := range []engine.Ended{{ID: "req_other", AccountID: "acct_other", Account: "other", Status: 200},
		{ID: "req_mine<b>", AccountID: ann.Account.ID, Account: "ann", Status: 402, Reason: "insufficient_credits",
			At: time.Now()}} {
		s.engine.NoteEnded(&e)
	}
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "data: <tr>"); ok {
			require.Contains(t, text, "req_mine&lt;b&gt;")
			require.Contains(t, text, "insufficient credits")
			break
		}
	}
}

// TestPlainHTTP: over plain HTTP there is no portal but on this machine.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{"localhost": true, "localhost:8484": true, "127.0.0.1:80": true,
		"[::1]:80": true, "[::1]": true, "example.com": false, "10.0.0.1": false, "localhost.example.com": false,
		"127.0.0.1.example.com": false} {
		require.Equal(t, want, isLoopback(host), host)
	}
}

// TestNoPortal: where the configuration has none, what comes after the portal is asked.
func TestNoPortal(t *testing.T) {
	t.Parallel()
	require.True(t, IsHere("/portal"))
	require.True(t, IsHere("/portal/"))
	require.False(t, IsHere("/portals"))
	s := newSite(t)
	require.Equal(t, http.StatusTeapot, s.browser().get("/v1/models").StatusCode)
	require.Equal(t, http.StatusNotFound, s.member("a@example.com", enginetest.NewCustomer(t, s.engine, "a").Account.ID,
		people.RoleOwner).get("/portal/nothing").StatusCode)
}

// TestWeight: what pages load is small.
func TestWeight(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, a := range assets {
		_, err := z.Write(a.content)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.Less(t, b.Len(), 20<<10)
	s := newSite(t)
	for _, link := range []string{assetLinks.Style, assetLinks.Script, assetLinks.Icon} {
		a := s.browser().get(link)
		require.Equal(t, http.StatusOK, a.StatusCode)
		require.Contains(t, a.Header.Get("Cache-Control"), "immutable")
	}
	require.Equal(t, http.StatusNotFound, s.browser().get("/portal/assets/none.css").StatusCode)
}

// said finds the English texts in the sources: those that Text and Count are given, and titles of pages.
var said = []*regexp.Regexp{
	regexp.MustCompile(`\.Text\("((?:[^"\\]|\\.)*)"`),
	regexp.MustCompile(`\.Count\([^"]*"((?:[^"\\]|\\.)*)", "(?:[^"\\]|\\.)*"`),
	regexp.MustCompile(`\.Count\([^"]*"(?:[^"\\]|\\.)*", "((?:[^"\\]|\\.)*)"`),
	regexp.MustCompile(`\.page\("((?:[^"\\]|\\.)*)"`),
	regexp.MustCompile(`\bsay\([a-zA-Z.]+, "((?:[^"\\]|\\.)*)"`),
	regexp.MustCompile(`\bsay\([a-zA-Z.]+, "(?:[^"\\]|\\.)*", "((?:[^"\\]|\\.)*)"`),
}

// TestEveryTextIsTranslated: what pages say has a line in the catalogue.
func TestEveryTextIsTranslated(t *testing.T) {
	t.Parallel()
	joined := regexp.MustCompile(`"\s*\+\s*"`)
	found := 0
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_templ.go") ||
			!strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".templ") {
			return err
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		text := joined.ReplaceAllString(string(source), "")
		for _, pattern := range said {
			for _, m := range pattern.FindAllStringSubmatch(text, -1) {
				found++
				require.True(t, texts.German.Has(m[1]), "%s: %q is not in texts/de.txt", path, m[1])
			}
		}
		return nil
	}))
	require.Greater(t, found, 250)
	for _, text := range notices {
		require.True(t, texts.German.Has(text), text)
	}
	for _, kind := range []ledger.EntryKind{ledger.TopUp, ledger.Charged, ledger.Receipt, ledger.Closing, ledger.Refund,
		ledger.Adjustment, ledger.Allotment} {
		require.True(t, texts.German.Has(kind.Name()), kind)
	}
	for _, by := range []string{"balance", "spend_cap", "token_budget", "key_spend_cap", "key_requests_per_minute",
		"tenant_requests_per_minute", "ip_requests_per_minute", "tenant_concurrent_requests", "none of these"} {
		name := (&requestlog.Refused{By: by}).Name()
		require.Equal(t, by == "none of these", name == "limit", by)
		require.True(t, texts.German.Has(name), name)
	}
	for _, c := range connect.Clients {
		require.True(t, c.Note == "" || texts.German.Has(views.OneLine(c.Note)), c.Note)
		// Names of programs are the same in every language.
		require.True(t, !strings.Contains(c.Title, " lib") || texts.German.Has(c.Title), c.Title)
	}
	for _, text := range slices.Concat(roles, []string{"active", "suspended", "inactive", "revoked", "expired",
		"input", "cache read", "cache write", "output", "serves", "open", "half_open", "ejected", "rate_limited",
		"out_of_quota", "refused", "not_ready"}, views.UsageBy) {
		require.True(t, texts.German.Has(text), text)
	}
}

// TestGerman: a browser that asks for German gets it, and who has chosen a language keeps it.
func TestGerman(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser()
	b.header.Set("Accept-Language", "de-AT, en;q=0.5")
	a := b.get("/portal/sign-in")
	require.Contains(t, a.body, `<html lang="de">`)
	require.Contains(t, a.body, "Anmelden")
	require.Contains(t, b.get("/portal/sign-in?language=en").body, "Sign in")
	require.Contains(t, b.get("/portal/sign-in").body, `<html lang="en">`)
}

// TestFormsOfYesterday: a form acts on what its page showed, or not at all.
func TestFormsOfYesterday(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, bob := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "bob")
	b := s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	keys := func(c enginetest.Customer) (list []ledger.Key) {
		all := ledger.KeyQuery{Account: c.Account.ID}
		require.NoError(t, s.engine.Store().Keys(t.Context(), all, func(k ledger.Key) error {
			list = append(list, k)
			return nil
		}))
		return list
	}
	t.Run("another account", func(t *testing.T) {
		a := b.post("/portal/keys", "name", "stray", "account", bob.Account.ID)
		require.Equal(t, http.StatusConflict, a.StatusCode)
		require.Len(t, keys(ann), 1)
		require.Len(t, keys(bob), 1)
	})
	path := "/portal/keys/" + ann.Key.ID
	expires := time.Now().Add(40 * time.Hour).UTC()
	_, err := s.engine.Store().ChangeKey(t.Context(), ann.Key.ID, ledger.KeyChange{Expires: &expires})
	require.NoError(t, err)
	field := regexp.MustCompile(`name="([^"]+)"[^>]*? value="([^"]*)"`)
	form := func() (pairs []string) {
		_, main, _ := strings.Cut(b.get(path).body, "</h1>")
		first, _, _ := strings.Cut(main, "</form>")
		for _, m := range field.FindAllStringSubmatch(first, -1) {
			pairs = append(pairs, m[1], m[2])
		}
		require.Contains(t, pairs, "was-expires")
		return pairs
	}
	t.Run("a key's end stays to the nanosecond where only its name is changed", func(t *testing.T) {
		pairs := append(form(), "name", "renamed")
		require.Contains(t, b.post(path, pairs...).body, "Saved.")
		require.Equal(t, "renamed", keys(ann)[0].Name)
		require.WithinDuration(t, expires, keys(ann)[0].Expires, 0)
	})
	t.Run("what somebody has changed meanwhile is shown, and left", func(t *testing.T) {
		old := form()
		limit := int64(7 * ledger.MicrocentsPerCredit)
		_, err := s.engine.Store().ChangeKey(t.Context(), ann.Key.ID, ledger.KeyChange{SpendCap: &limit})
		require.NoError(t, err)
		a := b.post(path, append(old, "name", "again")...)
		require.Equal(t, http.StatusConflict, a.StatusCode)
		require.Contains(t, a.body, "Somebody has changed it meanwhile")
		require.Equal(t, limit, keys(ann)[0].SpendCap)
		require.Equal(t, "renamed", keys(ann)[0].Name)
	})
	t.Run("two operators", func(t *testing.T) {
		admin := s.operator("admin@example.com", people.Admin)
		a := admin.post("/portal/operator/accounts/"+ann.Account.ID, "act", "state", "was", "suspended", "state", "inactive")
		require.Equal(t, http.StatusConflict, a.StatusCode)
		is, err := s.engine.Store().Account(t.Context(), "ann")
		require.NoError(t, err)
		require.Equal(t, ledger.Active, is.State)
	})
}

// TestSupportHelps: support gives charges back and makes links for members, and makes nobody an owner or an operator,
// itself least of all.
func TestSupportHelps(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, bob := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "bob")
	ann.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	s.operator("admin@example.com", people.Admin)
	admin, err := s.engine.People().FindPerson(t.Context(), "admin@example.com")
	require.NoError(t, err)
	b := s.operator("support@example.com", people.Support)
	path := "/portal/operator/accounts/" + ann.Account.ID
	for act, fields := range map[string][]string{"invite": {"email", "support@example.com"}, "credit": {"credits", "5",
		"reference", "r"}, "plan": {"plan", "starter"}, "state": {"state", "suspended"}} {
		require.Equal(t, http.StatusForbidden, b.post(path, append(fields, "act", act)...).StatusCode, act)
	}
	for act, fields := range map[string][]string{"invite": {"email", "x@example.com", "operator", "admin"},
		"reset": {"person", admin.ID}, "disable": {"person", admin.ID}} {
		refused := b.post("/portal/operator/people", append(fields, "act", act)...)
		require.Equal(t, http.StatusForbidden, refused.StatusCode, act)
	}
	other := b.post("/portal/operator/accounts/"+bob.Account.ID, "act", "refund", "request", requestOfAnn, "reason", "r")
	require.Equal(t, http.StatusNotFound, other.StatusCode, "of another account")
	require.Contains(t, b.post(path, "act", "refund", "request", requestOfAnn, "reason", "slow").body,
		"The charge is given back.")
}

// TestLinksOfOthers: a link for somebody else opens nothing for who has signed in, and its token is in no log.
func TestLinksOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	b := s.member("ann@example.com", ann.Account.ID, people.RoleViewer)
	token, _, err := s.engine.People().Invite(t.Context(), people.Invitation{Email: "bob@example.com",
		Account: ann.Account.ID, Role: people.RoleOwner, By: "the test"})
	require.NoError(t, err)
	require.NotContains(t, b.get("/portal/invitation/"+token).body, "Accept as")
	require.Equal(t, http.StatusForbidden, b.post("/portal/invitation/"+token, "as", "self").StatusCode)
	require.NotContains(t, s.log.String(), token)
	require.Contains(t, s.log.String(), "GET /portal/invitation/{token}")
}
