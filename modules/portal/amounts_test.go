package portal

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
)

// TestExactAmounts: who wants amounts to the microcent has them on each page, without a script, until they want them
// short again; and stays on the page.
func TestExactAmounts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	ann.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	b := s.person(people.Invitation{Email: "ann@example.com", Account: ann.Account.ID, Role: people.RoleOwner,
		Operator: people.Admin})
	amount := regexp.MustCompile(`<data class="amount"[^>]*>([^<]*)</data>`)
	pages := []string{"/portal/", "/portal/requests", "/portal/usage?by=key&days=7", "/portal/credits", "/portal/keys",
		"/portal/operator/overview", "/portal/operator/accounts", "/portal/operator/accounts/" + ann.Account.ID}
	short := b.get(pages[0])
	require.Contains(t, short.body, ">999.00<")
	require.Contains(t, short.body, "US$9.99<")
	require.Contains(t, short.body, "Exact amounts")

	a := b.post("/portal/amounts", "amounts", "exact", "next", "/portal/usage?by=key&days=7")
	require.Equal(t, "/portal/usage?by=key&days=7", a.Request.URL.RequestURI(), "one stays where one is")
	require.Contains(t, a.body, `name="next" value="/portal/usage?by=key&amp;days=7"`)
	found := 0
	for _, page := range pages {
		body := b.get(page).body
		for _, m := range amount.FindAllStringSubmatch(body, -1) {
			found++
			require.Regexp(t, `^-?[\d,]+\.\d{6}$`, m[1], page)
		}
		require.Contains(t, body, "Short amounts", page)
	}
	require.Greater(t, found, 20)
	home := b.get("/portal/").body
	require.Contains(t, home, ">999.000000<")
	require.Contains(t, home, "US$9.99000000<")
	require.Contains(t, b.get("/portal/requests").body, ">1.335000<")

	a = b.post("/portal/amounts", "amounts", "short", "next", "https://evil.example/")
	require.Equal(t, "/portal/", a.Request.URL.Path, "nobody is led elsewhere")
	require.Contains(t, a.body, ">999.00<")
	require.Equal(t, http.StatusBadRequest, b.post("/portal/amounts", "amounts", "rounded").StatusCode)
	saved := b.post("/portal/security", "act", "profile", "name", "Ann").body
	require.Contains(t, saved, "Saved.")
	require.False(t, strings.Contains(saved, "done=saved"), "what was done is not said again")
}
