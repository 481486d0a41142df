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
	for who, path := range map[*browser]string{b: "/portal/keys", op: "/portal/operator/accounts/" + ann.Account.ID} {
		seen := map[string]bool{}
		first := who.get(path)
		next := link.FindStringSubmatch(first.body)
		require.NotNil(t, next, first.body)
		second := who.get(strings.TrimSuffix(html.UnescapeString(next[1]), "#keys"))
		require.Equal(t, http.StatusOK, second.StatusCode)
		require.Nil(t, link.FindStringSubmatch(second.body), "there is no third page")
		for i, page := range []answer{first, second} {
			before := len(seen)
			for _, name := range names.FindAllString(page.body[strings.Index(page.body, `id="keys"`):], -1) {
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
	require.NotContains(t, b.get("/portal/requests?key="+ben.Key.ID).body, ben.Key.Last4+"<")
}
