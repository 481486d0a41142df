package portal

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/modules/portal/texts"
	"github.com/fareway/fareway/modules/portal/views"
)

// TestRefused: a 402 or 429 is shown with its arithmetic, on its page and in the list, to its account only.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann, bob := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "bob")
	b := s.member("ann@example.com", ann.Account.ID, people.RoleViewer)
	resets := time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC)
	id := func(n string) string { return "req_" + strings.Repeat(n, 32) }
	add := func(n string, status int, r *requestlog.Refused) {
		s.engine.NoteEnded(&engine.Ended{ID: id(n), AccountID: ann.Account.ID, Account: "ann", Status: status,
			At: time.Now(), Refused: r})
		s.engine.LogRequest(requestlog.Record{ID: id(n), Time: time.Now(), Endpoint: "chat", Status: status,
			Account: ann.Account.ID, Key: ann.Key.ID, Refused: r})
	}
	add("a", 402, &requestlog.Refused{By: "spend_cap", Unit: "microcents", Needed: 3_000_001, Limit: 9_000_000,
		Used: 6_500_000, Left: 2_500_000, Allowance: 1234, Resets: &resets})
	add("b", 429, &requestlog.Refused{By: "tenant_concurrent_requests", Unit: "requests", Needed: 1, Limit: 8, Used: 8})
	add("c", 402, &requestlog.Refused{By: "balance", Unit: "microcents", Limit: 1_000_000, Used: 1, Held: 500_000})
	add("e", 402, &requestlog.Refused{By: "key_spend_cap", Unit: "microcents", Limit: 9_000_000, Held: 8_000_000,
		Left: 1_000_000})
	add("d", 404, nil)
	list := b.get("/portal/requests").body
	require.Contains(t, list, "spend cap: 2.500000 left, up to 3.000001 needed")
	require.Contains(t, list, "requests at a time: 8, all used")
	require.Contains(t, list, "balance: 0.000000 left")
	require.Equal(t, http.StatusOK, b.get("/portal/requests/"+id("d")).StatusCode)
	require.NotContains(t, b.get("/portal/requests/"+id("d")).body, "Why it was refused")
	for n, want := range map[string][]string{
		"a": {"spend cap</th><td class=\"n\">9.000000", "less what was used</th><td class=\"n\">6.500000", ">2.500000<",
			">3.000001<", "at most 1,234 tokens", "2026-12-01T09:30:00Z"},
		"b": {"requests at a time</th><td class=\"n\">8<", "Amounts are requests."},
		"c": {"balance</th><td class=\"n\">1.000000", ">0.000001<", ">0.500000<", "was available, in whole credits",
			"once credits are added"},
		"e": {"spend cap of the key</th>", "There is more once running requests have ended."},
	} {
		a := b.get("/portal/requests/" + id(n))
		require.Equal(t, http.StatusOK, a.StatusCode)
		requireSafe(t, a)
		for _, text := range want {
			require.Contains(t, a.body, text)
		}
	}
	other := s.member("bob@example.com", bob.Account.ID, people.RoleOwner)
	require.Equal(t, http.StatusNotFound, other.get("/portal/requests/"+id("a")).StatusCode)
	require.NotContains(t, other.get("/portal/requests").body, "up to 3.000001 needed")

	var row bytes.Buffer // what a newer node may say is shown as it can be
	page := &views.Page{Language: texts.English}
	require.NoError(t, views.RecentRow(page, admin.EndedRequest{Refused: &requestlog.Refused{By: "<new>", Unit: "requests",
		Limit: 2}}).Render(t.Context(), &row))
	require.Contains(t, row.String(), "limit: 2, all used")
}
