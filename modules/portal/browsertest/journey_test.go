//go:build browser

package browsertest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestFromTheFirstLink: an operator comes in by the first link and makes an account; its owner comes in by a link,
// makes a key, connects a client, and sees its request arrive and what it was charged.
func TestFromTheFirstLink(t *testing.T) {
	t.Parallel()
	address, err := freeAddress()
	require.NoError(t, err)
	s := ownSite(t, address, "", upstream.Options{})
	operator := s.newTab(t)
	operator.visit(s.link(t, "first"))
	operator.shows("You are invited to run this gateway")
	operator.fill("#email", "Root@Example.com", "#name", "Root", "#password", "short")
	eval[any](operator, `document.querySelector("#password").minLength = 0`)
	require.Equal(t, 400, operator.submit("main form button"))
	operator.shows("The password is too short")
	operator.fill("#password", password)
	operator.press("main form button")
	require.Equal(t, "/portal/operator/overview", operator.path())
	operator.press(`nav a[href="/portal/operator/accounts"]`)
	require.Equal(t, "/portal/operator/accounts", operator.path())

	operator.fill("#name", "acme")
	operator.press("main form[method=post] button")
	operator.shows("acme")
	operator.fill("#credits", "500", "#reference", "invoice 1", "#reason", "paid")
	operator.press(`form:has([value=credit]) button`)
	operator.shows("The credits are added.", "500.00")
	operator.fill("#email", "ann@example.com")
	operator.press(`form:has([value=invite]) button`)
	link := operator.of("#link")
	require.True(t, strings.HasPrefix(link, s.url+"/portal/invitation/"), link)

	owner := s.newTab(t)
	owner.accept(link, "Ann")
	require.Equal(t, "/portal/", owner.path())
	owner.shows("Balance", "Held", "Available", "500.00")
	secret, used := owner.turnOnCodes()

	var key string
	t.Run("AUTH-02 a key is made on the API keys page, and is shown once", func(t *testing.T) {
		owner.visit("/portal/keys")
		owner.fill("#name", "laptop")
		owner.press(`form[action="/portal/keys"] button`)
		key = owner.of("#new-key")
		require.True(t, strings.HasPrefix(key, "fwk_"), key)
		owner.press(`form[action="/portal/connect"] button`)
		require.Contains(t, owner.of("#env-openai"), key, "what is made is put in its places")
		owner.visit("/portal/keys")
		owner.shows("laptop")
		require.NotContains(t, owner.text(), key)
	})

	live := owner.another()
	live.visit("/portal/requests")
	live.await(`document.querySelector("[data-live-state=open]") !== null`)
	owner.visit("/portal/connect")
	snippet := owner.of("#example-curl0")
	require.Contains(t, snippet, s.url+"/v1/chat/completions")
	out := s.runSnippet(t, snippet, key)
	require.Contains(t, out, `"choices"`)
	live.await(`document.querySelector("[data-live-rows] tr a") !== null`)
	row := live.of("[data-live-rows] tr")
	require.Contains(t, row, "standard")
	live.load(chromedp.Click("[data-live-rows] tr a", chromedp.ByQuery))
	live.shows("The charge, step by step", "Charged", "Attempt 1: standard")

	// The page sends one itself, which arrives like any other.
	owner.await(`document.querySelector("[data-live-state=open]") !== null`)
	owner.fill("#key", key)
	owner.press(`main form button[value=try]`)
	owner.shows("The request was answered", "It cost:")
	owner.press(`main .made a`)
	owner.shows("The charge, step by step", "Attempt 1: standard")

	owner.visit("/portal/usage?by=key&days=7")
	owner.shows("laptop")

	owner.press(`form[action="/portal/sign-out"] button`)
	owner.shows("You are signed out.")
	owner.fill("#email", "ann@example.com", "#password", password)
	owner.press("main form button")
	owner.shows("Code of your authenticator")
	require.Equal(t, 401, owner.code(used), "a code is good once")
	owner.shows("was used before")
	owner.awaitNextCode(secret, used)
	require.Equal(t, "/portal/", owner.path())
}

// turnOnCodes sets the second factor up, and is its secret and the code that was used for that.
func (b *tab) turnOnCodes() (secret, used string) {
	b.Helper()
	b.visit("/portal/security")
	b.press(`form:has([value=begin-totp]) button`)
	secret = b.of("#secret")
	used, err := totp.GenerateCode(secret, time.Now())
	require.NoError(b, err)
	b.fill("#totp", used)
	b.press(`form:has([value=confirm-totp]) button`)
	b.shows("The second factor is on.", "Recovery codes")
	return secret, used
}

// code enters a code.
func (b *tab) code(code string) (status int) {
	b.Helper()
	b.fill("#code", code)
	return b.submit("main form button")
}

// awaitNextCode enters the code of the next half minute, which the gateway takes already.
func (b *tab) awaitNextCode(secret, used string) {
	b.Helper()
	code, err := totp.GenerateCode(secret, time.Now().Add(30*time.Second))
	require.NoError(b, err)
	require.NotEqual(b, used, code)
	require.Equal(b, 200, b.code(code))
}

// runSnippet runs what the page Connect says, in a shell, as somebody does who has put their key into it.
func (s *site) runSnippet(t testing.TB, snippet, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", strings.ReplaceAll(snippet, "KEY", key))
	cmd.Env = append(os.Environ(), "CURL_CA_BUNDLE="+s.cert, "NODE_EXTRA_CA_CERTS="+s.cert)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}
