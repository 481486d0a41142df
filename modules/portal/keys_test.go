package portal

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
)

// TestPagesOfKeys: keys are listed page by page, each of them once, and requests are found by one that the filter does
// not list. What is behind a key of another account, nobody is told.
func TestPagesOfKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, ben := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "ben")
	for i := range shownKeys + 9 {
		_, _, err := admin.CreateKey(t.Context(), s.engine, ann.Account, fmt.Sprintf("key-%02d", i), ledger.KeyChange{})
		require.NoError(t, err)
	}
	b, op := s.member("ann@example.com", ann.Account.ID, people.RoleOwner), s.operator("op@example.com", people.Admin)
	names, link := regexp.MustCompile(`key-\d\d`), regexp.MustCompile(`href="([^"]*after=[^"]*)"`)
	for path, who := range map[string]*browser{"/portal/keys": b, "/portal/usage?days=7&by=key": b,
		"/portal/operator/accounts/" + ann.Account.ID: op} {
		seen := map[string]bool{}
		first := who.get(path)
		next := link.FindStringSubmatch(first.body)
		require.NotNil(t, next, first.body)
		second := who.get(strings.TrimSuffix(html.UnescapeString(next[1]), "#keys"))
		require.Equal(t, http.StatusOK, second.StatusCode)
		require.Nil(t, link.FindStringSubmatch(second.body), "there is no third page")
		for i, page := range []answer{first, second} {
			before := len(seen)
			for _, name := range names.FindAllString(page.body[max(0, strings.Index(page.body, `id="keys"`)):], -1) {
				seen[name] = true
			}
			require.Equal(t, []int{shownKeys, 9}[i], len(seen)-before)
		}
	}
	oldest := b.get("/portal/requests?key=" + ann.Key.ID)
	require.Equal(t, http.StatusOK, oldest.StatusCode)
	require.Contains(t, oldest.body, `<option value="`+ann.Key.ID+`" selected`)
	require.Equal(t, http.StatusNotFound, b.get("/portal/keys?after="+ben.Key.ID).StatusCode)
	require.Equal(t, http.StatusNotFound, b.get("/portal/keys?after=key_none").StatusCode)
	require.Equal(t, http.StatusNotFound, b.get("/portal/usage?by=key&after="+ben.Key.ID).StatusCode)
	require.NotContains(t, b.get("/portal/requests?key="+ben.Key.ID).body, ben.Key.Last4+"<")
}

// Usage by key has a page of keys, each with what it came to, and the sum of the whole account.
func TestUsageByKeyHasPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c := enginetest.NewCustomer(t, s.engine, "ann")
	c.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	for i := range shownKeys {
		_, _, err := admin.CreateKey(t.Context(), s.engine, c.Account, fmt.Sprintf("key-%02d", i), ledger.KeyChange{})
		require.NoError(t, err)
	}
	b := s.member("ann@example.com", c.Account.ID, people.RoleOwner)
	page := b.get("/portal/usage?by=key")
	sum := regexp.MustCompile(`(?s)<tfoot>.*?value="([0-9.]+)"`).FindStringSubmatch(page.body)
	require.NotNil(t, sum, page.body)
	require.NotEqual(t, "0", sum[1])
	require.NotContains(t, page.body, ">"+c.Key.Name+"</th>", "it was made first")
	next := regexp.MustCompile(`href="([^"]*after=[^"]*)"`).FindStringSubmatch(page.body)
	require.NotNil(t, next)
	page = b.get(html.UnescapeString(next[1]))
	row := regexp.MustCompile(`(?s)>` + c.Key.Name + `</th>.*?value="([0-9.]+)"`).FindStringSubmatch(page.body)
	require.NotNil(t, row, page.body)
	require.Equal(t, sum[1], row[1])
	require.Equal(t, 2, strings.Count(page.body, `value="`+sum[1]+`"`), "it is the sum of the account on each page")
}
