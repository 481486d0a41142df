//go:build browser

package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/people/issuertest"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestPasskey: somebody adds a passkey, of the authenticator that Chromium has for tests, signs in with it, and
// confirms with it that it is them.
func TestPasskey(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	s.account(t, "keyed", 10)
	b := s.person(t, "keyed@example.com", "--account", "keyed", "--role", "owner")
	b.run(webauthn.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := webauthn.AddVirtualAuthenticator(&webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Ctap2version: webauthn.Ctap2versionCtap21,
			Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true, HasUserVerification: true,
			IsUserVerified: true, AutomaticPresenceSimulation: true}).Do(ctx)
		return err
	}))
	b.visit("/portal/security")
	b.fill("#passkey-name", "the tests' one")
	b.load(chromedp.Click("[data-passkey-add]", chromedp.ByQuery))
	b.shows("the tests' one")
	b.press(`form[action="/portal/sign-out"] button`)
	b.visit("/portal/sign-in?next=/portal/keys")
	b.load(chromedp.Click("[data-passkey-sign-in]", chromedp.ByQuery))
	require.Equal(t, "/portal/keys", b.path())
	b.shows("Keys of this account")
	b.visit("/portal/confirm?next=/portal/security")
	b.load(chromedp.Click("[data-passkey-confirm]", chromedp.ByQuery))
	require.Equal(t, "/portal/security", b.path())
	b.press(`form:has([value=remove-passkey]) button`)
	require.NotContains(t, b.text(), "the tests' one")
}

// TestByIssuer: somebody who was invited signs in at zitadel's server of OpenID Connect, and comes to where they were
// going; a group there makes an operator.
func TestByIssuer(t *testing.T) {
	t.Parallel()
	address, err := freeAddress()
	require.NoError(t, err)
	i := issuertest.Start(t, address+"/portal/oidc/company/callback")
	at := i.Block()
	s := ownSite(t, address, fmt.Sprintf(`
  oidc %q {
    issuer        = %q
    client_id     = %q
    client_secret = file("issuer.secret")
    operators     = { "helpdesk" = "support" }
    ca            = %q
  }`, at.Name, at.Issuer, at.ClientID, at.CA), upstream.Options{})
	_, err = s.NewAccount(t.Context(), "issued", 10)
	require.NoError(t, err)
	s.link(t, "invite", "ann@example.com", "--account", "issued", "--role", "member")
	i.Add("u1", "ann@example.com", true)
	i.Add("u2", "stranger@example.com", true)
	i.Add("u3", "helper@example.com", true, "helpdesk")
	b := s.newTab(t)
	require.Equal(t, http.StatusOK, b.byIssuer("u1", "/portal/keys"))
	require.Equal(t, "/portal/keys", b.path())
	b.shows("issued", "Ann Smith")
	t.Run("somebody who has a password links it, and signs in by both", func(t *testing.T) {
		i.Add("u4", "bob@elsewhere.example", false)
		bob := s.person(t, "bob@example.com", "--account", "issued")
		bob.visit("/portal/security")
		bob.press(`form:has([value=link]) button`)
		require.Equal(t, http.StatusOK, bob.atIssuer("u4"))
		require.Equal(t, "/portal/security", bob.path())
		bob.shows("You can sign in by it from now on")
		require.Equal(t, 1, bob.count(`form:has([value=unlink])`))
		bob.requireAccessible(t, "security-linked")
		bob.press(`form[action="/portal/sign-out"] button`)
		require.Equal(t, http.StatusOK, bob.byIssuer("u4", "/portal/security"))
		bob.shows("Signed in as bob@example.com.")
		bob.press(`form:has([value=unlink]) button`)
		require.Zero(t, bob.count(`form:has([value=unlink])`))
		require.Equal(t, http.StatusForbidden, s.newTab(t).byIssuer("u4", "/portal/"))
	})
	stranger := s.newTab(t)
	require.Equal(t, http.StatusForbidden, stranger.byIssuer("u2", "/portal/"))
	stranger.shows("nobody has let you in here")
	helper := s.newTab(t)
	require.Equal(t, http.StatusOK, helper.byIssuer("u3", "/portal/operator/accounts"))
	helper.shows("issued")
	require.NotContains(t, helper.text(), "Make an account")
}

// byIssuer signs in at the issuer.
func (b *tab) byIssuer(user, next string) (status int) {
	b.Helper()
	b.visit("/portal/sign-in?next=" + next)
	b.press(`form[action="/portal/oidc"] button`)
	return b.atIssuer(user)
}

// atIssuer says there who it is.
func (b *tab) atIssuer(user string) (status int) {
	b.Helper()
	b.fill("input[name=username]", user, "input[name=password]", issuertest.Password)
	return b.submit("button[type=submit]")
}

// TestWithoutScripts: somebody comes in, makes a key and reads pages where no script runs.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	acme := s.account(t, "plain", 1000)
	id := s.requests(t, acme.Key, 1)
	b := s.newTab(t)
	b.run(emulation.SetScriptExecutionDisabled(true))
	b.accept(s.link(t, "invite", "plain@example.com", "--account", "plain", "--role", "owner"), "Plain")
	b.visit("/portal/keys")
	b.fill("#name", "unscripted")
	b.press(`form[action="/portal/keys"] button`)
	require.True(t, strings.HasPrefix(b.of("#new-key"), "fwk_"))
	for _, path := range everywhere(t, map[string]string{"/portal/invitation/": "", "/portal/requests/": id,
		"/portal/keys/": acme.KeyID, "/portal/operator/accounts/": acme.ID}) {
		if strings.Contains(path, "/operator/") || strings.Contains(path, "/invitation/") {
			continue
		}
		b.visit(path)
	}
	// What takes effect at once where scripts run has a button here.
	b.visit("/portal/usage")
	b.choose("#by", "route")
	b.press("main form button")
	b.shows("standard")
	require.Contains(t, eval[string](b, `location.search`), "by=route")
	b.visit("/portal/requests/find?id=" + id)
	b.shows("The charge, step by step")
	b.press(`form[action="/portal/sign-out"] button`)
	b.fill("#email", "plain@example.com", "#password", password)
	b.press("main form button")
	require.Equal(t, "/portal/", b.path())
}

// keys presses keys.
func (b *tab) keys(keys ...string) {
	b.Helper()
	for _, k := range keys {
		b.run(chromedp.KeyEvent(k))
	}
}

// tabTo goes on by the tab key until what has the focus is what is looked for, and everything on the way shows that it
// has it.
func (b *tab) tabTo(selector string) {
	b.Helper()
	for range 60 {
		b.keys(kb.Tab)
		if eval[bool](b, `document.activeElement === document.body`) {
			continue
		}
		require.True(b, eval[bool](b, `(s => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2)(
			getComputedStyle(document.activeElement))`), "what has the focus does not show it: %s",
			eval[string](b, `document.activeElement.outerHTML`))
		if eval[bool](b, fmt.Sprintf(`document.activeElement.matches(%q)`, selector)) {
			return
		}
	}
	require.Fail(b, "the tab key does not come to "+selector)
}

// TestByKeyboard: somebody signs in and makes a key with a keyboard only, and sees where they are.
func TestByKeyboard(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	s.account(t, "typed", 10)
	s.person(t, "typed@example.com", "--account", "typed", "--role", "owner")
	b := s.newTab(t)
	b.visit("/portal/sign-in?next=/portal/keys")
	require.Equal(t, "email", eval[string](b, `document.activeElement.id`), "one can type at once")
	b.keys("typed@example.com")
	b.tabTo("#password")
	b.keys(password)
	b.load(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "/portal/keys", b.path())
	b.keys(kb.Tab)
	require.Equal(t, "#main", eval[string](b, `document.activeElement.getAttribute("href")`),
		"the first leads to the content")
	b.keys(kb.Enter)
	b.tabTo("#name")
	b.keys("typed-key")
	b.tabTo(`form[action="/portal/keys"] button`)
	b.load(chromedp.KeyEvent(kb.Enter))
	require.True(t, strings.HasPrefix(b.of("#new-key"), "fwk_"))
}

// TestInGerman: the pages are German where somebody has chosen that, all of them.
func TestInGerman(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	acme := s.account(t, "deutsch", 1000)
	id := s.requests(t, acme.Key, 2)
	b := s.person(t, "deutsch@example.com", "--account", "deutsch", "--role", "owner", "--operator", "admin")
	b.visit("/portal/security")
	b.choose("#language", "de")
	b.press(`form:has([value=profile]) button`)
	for path, want := range map[string]string{"/portal/": "Kontostand", "/portal/keys": "Schlüssel",
		"/portal/requests/" + id: "Anfrage", "/portal/operator/accounts": "Konten"} {
		b.visit(path)
		b.shows(want)
		require.Equal(t, "de", eval[string](b, `document.documentElement.lang`))
	}
}

// TestRolesSeeWhatIsTheirs: what each role finds on its pages, and does not.
func TestRolesSeeWhatIsTheirs(t *testing.T) {
	t.Parallel()
	s := sharedSite(t)
	acme := s.account(t, "roles", 1000)
	id := s.requests(t, acme.Key, 1)
	for _, one := range []struct {
		name       string
		flags      []string
		has, lacks map[string]string // by page, what is there, or not, as selectors
	}{
		{"viewer", []string{"--account", "roles", "--role", "viewer"},
			map[string]string{"/portal/requests/" + id: "#charge", "/portal/keys": "#keys"},
			map[string]string{"/portal/keys": "main form", "/portal/members": "main form", "/portal/": "#operator"}},
		{"member", []string{"--account", "roles", "--role", "member"},
			map[string]string{"/portal/keys": `form[action="/portal/keys"]`},
			map[string]string{"/portal/members": "main form", "/portal/": "#operator"}},
		{"read-only", []string{"--operator", "read-only"},
			map[string]string{"/portal/operator/accounts/" + acme.ID: "#acts", "/portal/operator/routes": "#routes"},
			map[string]string{"/portal/operator/accounts": "form[method=post]:not(.who *)",
				"/portal/operator/accounts/" + acme.ID: "main form"}},
		{"support", []string{"--operator", "support"},
			map[string]string{"/portal/operator/accounts/" + acme.ID: "form:has([value=refund])"},
			map[string]string{"/portal/operator/accounts/" + acme.ID: "form:has([value=credit])"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := s.person(t, one.name+"-roles@example.com", one.flags...)
			for path, selector := range one.has {
				b.visit(path)
				require.NotZero(t, b.count(selector), "%s %s", path, selector)
			}
			for path, selector := range one.lacks {
				b.visit(path)
				require.Zero(t, b.count(selector), "%s %s", path, selector)
			}
		})
	}
	t.Run("support gives a charge back, and the account sees it", func(t *testing.T) {
		b := s.person(t, "helper@example.com", "--operator", "support")
		b.visit("/portal/operator/accounts/" + acme.ID)
		b.fill("#request", id, "#why", "it was slow")
		b.press(`form:has([value=refund]) button`)
		b.shows("The charge is given back.")
		owner := s.person(t, "owner-roles@example.com", "--account", "roles", "--role", "owner")
		owner.visit("/portal/requests/" + id)
		owner.shows("Given back")
	})
}
