package portal

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/stores"
)

// TestPlans: operators see what plans give and who is on them, and move an account; its members see what they get.
func TestPlans(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Gateway: config.Gateway{DefaultProfile: config.ProfileBalanced}, Portal: new(config.Portal),
		Plans: []config.Plan{{Name: "pro", MonthlyCredits: 500, Periods: true, DefaultProfile: "max",
			Limits:   config.Limits{SpendCapCredits: 2000, FairUseMicrocents: 1_500_000, ConcurrentRequests: 8},
			Requires: config.Requires{Regions: []string{"eu"}}}, {Name: "small"}},
		Profiles: config.DefaultProfiles()}
	s := siteOf(t, enginetest.Start(t, cfg, engine.Options{OpenPeople: stores.OpenPeople}))
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	enginetest.NewCustomer(t, s.engine, "bob")
	old, err := s.engine.Store().CreateAccount(t.Context(), "old", "gone")
	require.NoError(t, err)
	admin := s.operator("admin@example.com", people.Admin)
	moved := admin.post("/portal/operator/accounts/"+ann.Account.ID, "act", "plan", "was", "", "plan", "pro")
	require.Contains(t, moved.body, `href="/portal/operator/plans#plan-pro"`)

	page := admin.get("/portal/operator/plans")
	require.Equal(t, http.StatusOK, page.StatusCode, page.body)
	for _, want := range []string{`<h2 id="plan-pro">pro</h2>`, `href="/portal/operator/accounts?plan=pro">one account<`,
		"a month, which begins with 500 credits", "2,000 credits", "1.50 credits", "Requests go only to regions",
		`<h2 id="plan-small">`, `?plan=small">0 accounts<`, "The configuration does not have it any more",
		`?plan=none">one account<`} {
		require.Contains(t, page.body, want)
	}
	on := admin.get("/portal/operator/accounts?plan=pro").body
	require.Contains(t, on, ann.Account.ID)
	require.NotContains(t, on, old.ID)
	require.Contains(t, on, "Only those on the plan: pro")
	require.Contains(t, admin.get("/portal/operator/accounts?plan=gone").body, old.ID)

	b := s.member("ann@example.com", ann.Account.ID, people.RoleViewer)
	require.Contains(t, b.get("/portal/").body, `href="/portal/credits#plan-of">pro</a>`)
	own := b.get("/portal/credits").body
	for _, want := range []string{"What you get, on the plan pro", "This period ends:", "a month, which begins with 500",
		"Requests at a time", "no limit", "max"} {
		require.Contains(t, own, want)
	}
	require.NotContains(t, own, "set for this account")
	limit := int64(3)
	_, err = s.engine.Store().SetLimit(t.Context(), ann.Account.ID, "concurrent_requests", &limit)
	require.NoError(t, err)
	require.Contains(t, b.get("/portal/credits").body, "set for this account")
}

// TestEveryLimitHasWords: pages call each limit of the configuration's table by words of their own.
func TestEveryLimitHasWords(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	page := s.operator("admin@example.com", people.ReadOnly).get("/portal/operator/plans")
	require.Equal(t, http.StatusOK, page.StatusCode)
	for i := range config.PlanLimits {
		require.NotContains(t, page.body, config.PlanLimits[i].Name)
	}
}
