//go:build browser

package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// elsewhere serves pages of another site. At 127.0.0.1 it is one to browsers; by sameSite it is of the same site as the
// portal, with another port, where cookies go along.
func elsewhere(t testing.TB, sameSite bool, html string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<!DOCTYPE html><title>elsewhere</title>%s", html)
	}))
	t.Cleanup(server.Close)
	if sameSite {
		return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	}
	return server.URL
}

// keysOf are the names of an account's keys.
func (s *site) keysOf(t testing.TB, account string) string {
	t.Helper()
	return s.fareway(t, "key", "list", "--account", account)
}

// TestPagesElsewhereDoNothing: a page of another site, or of the same site and another port, that has the browser of
// somebody who is signed in send forms, fetch and load pictures changes nothing and reads nothing.
func TestPagesElsewhereDoNothing(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	s.account(t, "forged", 10)
	b := s.person(t, "forged@example.com", "--account", "forged", "--role", "owner").another()
	for _, sameSite := range []bool{false, true} {
		t.Run(fmt.Sprintf("same site %v", sameSite), func(t *testing.T) {
			form := elsewhere(t, sameSite, `<form method=post action="`+s.url+`/portal/keys"><input name=name value=stolen>
				<button>Win a prize</button></form>`)
			b.open(form)
			b.load(chromedp.Click("button", chromedp.ByQuery))
			require.Equal(t, "/portal/keys", b.path())
			require.NotContains(t, b.text(), "fwk_")
			b.open(elsewhere(t, sameSite, ""))
			read := eval[string](b, `fetch("`+s.url+`/portal/keys", {credentials: "include"})
				.then(r => r.text(), e => "refused")`)
			require.Equal(t, "refused", read)
			for _, mode := range []string{"cors", "no-cors"} {
				eval[string](b, `fetch("`+s.url+`/portal/keys", {method: "POST", credentials: "include", mode: "`+mode+`",
					body: new URLSearchParams({name: "stolen"})}).then(r => r.type, e => "refused")`)
			}
			require.Equal(t, "error", eval[string](b, `new Promise(done => { const i = new Image();
				i.onload = () => done("load"); i.onerror = () => done("error"); i.src = "`+s.url+`/portal/keys"; })`))
			require.Equal(t, "error", eval[string](b, `new Promise(done => { const i = document.createElement("script");
				i.onload = () => done("load"); i.onerror = () => done("error"); i.src = "`+s.url+`/portal/usage.csv";
				document.head.append(i); })`))
		})
	}
	require.NotContains(t, s.keysOf(t, "forged"), "stolen")
	b.visit("/portal/keys")
	b.shows("Keys of this account")
	b.takeFaults() // of the pages elsewhere
}

// TestNoFrames: no page is shown in a frame of another one, where somebody would press what they do not see.
func TestNoFrames(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	s.account(t, "framed", 10)
	b := s.newLooseTab(t)
	b.accept(s.link(t, "invite", "framed@example.com", "--account", "framed", "--role", "owner"), "Framed")
	for _, sameSite := range []bool{false, true} {
		for _, path := range []string{"/portal/keys", "/portal/sign-in", "/portal/security"} {
			b.open(elsewhere(t, sameSite, `<iframe src="`+s.url+path+`" width=900 height=700></iframe>`))
			var frames int
			b.run(chromedp.ActionFunc(func(ctx context.Context) error {
				tree, err := page.GetFrameTree().Do(ctx)
				for _, f := range tree.ChildFrames {
					if strings.HasPrefix(f.Frame.URL, s.url) && f.Frame.UnreachableURL == "" {
						frames++
					}
				}
				return err
			}))
			require.Zero(t, frames, path)
			require.Contains(t, strings.Join(b.takeFaults(), "\n"), "frame-ancestors", path)
		}
	}
}

// TestSessionIsNotFixed: a session that somebody has planted is not the one of who signs in, and one that was there
// before ends with signing out, for the page that was seen as well.
func TestSessionIsNotFixed(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	s.account(t, "fixed", 10)
	s.person(t, "fixed@example.com", "--account", "fixed", "--role", "owner")
	b := s.newTab(t)
	const planted = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	b.visit("/portal/sign-in")
	b.run(network.SetCookie("__Host-fareway", planted).WithURL(s.url).WithSecure(true).WithPath("/"))
	b.visit("/portal/sign-in")
	b.fill("#email", "fixed@example.com", "#password", password)
	b.press("main form button")
	before := b.cookie()
	require.NotEqual(t, planted, before)
	require.Empty(t, eval[string](b, `document.cookie`), "no script reads it")
	b.visit("/portal/keys")
	b.press(`form[action="/portal/sign-out"] button`)
	require.Empty(t, b.cookie())
	b.load(chromedp.NavigateBack())
	require.Equal(t, "/portal/sign-in", b.path(), "what was seen is asked for anew")
	require.NotContains(t, b.text(), "Keys of this account")
	b.run(network.SetCookie("__Host-fareway", before).WithURL(s.url).WithSecure(true).WithPath("/"))
	b.visit("/portal/keys")
	require.Equal(t, "/portal/sign-in", b.path(), "a session goes on after its end")
}

// cookie is the session's, "" for none.
func (b *tab) cookie() (value string) {
	b.Helper()
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		list, err := network.GetCookies().WithURLs([]string{b.url}).Do(ctx)
		for _, c := range list {
			if c.Name == "__Host-fareway" {
				value = c.Value
			}
		}
		return err
	}))
	return value
}

// TestNobodyIsLedElsewhere: an address that a link asks for is followed within the portal only, as the browser reads
// it.
func TestNobodyIsLedElsewhere(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	s.account(t, "led", 10)
	b := s.person(t, "led@example.com", "--account", "led", "--role", "owner")
	evil := elsewhere(t, false, "evil")
	host := strings.TrimPrefix(evil, "https://")
	for _, next := range []string{evil, "//" + host, `/\` + host, `\\` + host, "/portal/..//" + host, "/portal//" + host,
		"https:" + host, "javascript:document.title='evil'", "/portal/\t//" + host, "/portal/%2e%2e//" + host} {
		for _, path := range []string{"/portal/sign-in", "/portal/confirm"} {
			b.open(path + "?next=" + url.QueryEscape(next))
			if path == "/portal/confirm" {
				b.fill("#password", password)
				b.submit(`form[action="/portal/confirm"] button`)
			}
			require.Equal(t, s.url, eval[string](b, `location.origin`), "%s %q", path, next)
			require.NotEqual(t, "evil", eval[string](b, `document.title`), "%s %q", path, next)
		}
	}
}

// TestNothingThatIsNamedRuns: whatever clients, operators and upstreams call things, and whatever an upstream answers,
// stands on the pages as text: no script of it runs, and no policy had to keep one back.
func TestNothingThatIsNamedRuns(t *testing.T) {
	t.Parallel()
	const evil = `"'><img src=x onerror="window.ran=1"><script>window.ran=2</script>{{7*7}}<svg/onload=window.ran=3>`
	address, err := freeAddress()
	require.NoError(t, err)
	s := ownSite(t, address, "", upstream.Options{Script: func(r *upstream.Request) upstream.Reply {
		if strings.Contains(string(r.Body), "fail") {
			return upstream.Refuse(upstream.Error{Status: http.StatusBadRequest, Message: evil})
		}
		reply := upstream.Say(evil)
		reply.Model = evil
		return reply
	}})
	acme := s.account(t, "named", 1000)
	b := s.newTab(t)
	b.accept(s.link(t, "invite", "named@example.com", "--account", "named", "--role", "owner", "--operator", "admin"),
		evil[:90])
	var ids []string
	for _, model := range []string{"service/auto", "service/" + evil, evil} {
		_, id := s.chat(t, acme.Key, model, evil)
		ids = append(ids, id)
	}
	// What a form takes in no field, it is given all the same, and refuses as text.
	b.visit("/portal/keys")
	eval[any](b, `document.querySelector("#name").removeAttribute("pattern")`)
	b.fill("#name", evil)
	require.Equal(t, http.StatusBadRequest, b.submit(`form[action="/portal/keys"] button`))
	require.Contains(t, b.text(), "img src=x")
	b.visit("/portal/operator/accounts/" + acme.ID)
	b.fill("#credits", "5", "#reference", evil, "#reason", evil)
	b.press(`form:has([value=credit]) button`)
	b.visit("/portal/security")
	require.Contains(t, eval[string](b, `document.querySelector("#name").value`), "img src=x")
	eval[any](b, `document.querySelector("#zone").value = "`+strings.ReplaceAll(evil[:30], `"`, `\"`)+`"`)
	b.submit(`form:has([value=profile]) button`)
	var planted []string
	for _, path := range everywhere(t, map[string]string{"/portal/invitation/": "none", "/portal/requests/": ids[0],
		"/portal/keys/": acme.KeyID, "/portal/operator/accounts/": acme.ID}) {
		b.open(path + "?q=" + url.QueryEscape(evil) + "&route=" + url.QueryEscape(evil) + "&done=" + url.QueryEscape(evil))
		require.Nil(t, eval[any](b, `window.ran ?? null`), path)
		require.Zero(t, eval[int](b, `document.querySelectorAll("img[src=x], svg[onload], script:not([src])").length`), path)
		if strings.Contains(b.text(), "img src=x") {
			planted = append(planted, path)
		}
	}
	require.NotEmpty(t, planted, "it is shown nowhere at all")
	for _, id := range ids {
		b.open("/portal/requests/" + id)
		require.Nil(t, eval[any](b, `window.ran ?? null`))
	}
	// A row of the live tail is markup that a script puts in.
	b.visit("/portal/requests")
	b.await(`document.querySelector("[data-live-state=open]") !== null`)
	had := eval[int](b, `document.querySelectorAll("[data-live-rows] tr").length`)
	s.chat(t, acme.Key, "service/auto", evil)
	b.await(fmt.Sprintf(`document.querySelectorAll("[data-live-rows] tr").length > %d`, had))
	require.Nil(t, eval[any](b, `window.ran ?? null`))
}

// TestGuessesAreThrottled: who tries passwords is kept waiting before long, whatever they try, and who has the right
// one elsewhere is not kept out.
func TestGuessesAreThrottled(t *testing.T) {
	t.Parallel()
	address, err := freeAddress()
	require.NoError(t, err)
	s := ownSite(t, address, "", upstream.Options{})
	_, err = s.NewAccount(t.Context(), "guessed", 10)
	require.NoError(t, err)
	owner := s.person(t, "guessed@example.com", "--account", "guessed", "--role", "owner")
	b := s.newTab(t)
	tries := 0
	for ; tries < 20; tries++ {
		b.visit("/portal/sign-in")
		b.fill("#email", "guessed@example.com", "#password", fmt.Sprintf("wrong password %d", tries))
		if status := b.submit("main form button"); status == http.StatusTooManyRequests {
			break
		} else {
			require.Equal(t, http.StatusUnauthorized, status)
		}
	}
	require.LessOrEqual(t, tries, 10)
	require.GreaterOrEqual(t, tries, 5)
	b.shows("Too many attempts", "Wait a few minutes.")
	owner.visit("/portal/keys")
}
