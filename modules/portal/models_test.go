package portal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/texts"
)

// TestStateOfModels: accounts are told in plain words how upstreams stand, whatever their state is, and never which.
func TestStateOfModels(t *testing.T) {
	t.Parallel()
	route := func(state string) admin.Route { return admin.Route{Name: "secret-route", State: state} }
	waiting := route("serves")
	waiting.Waiting = 2
	for name, c := range map[string]struct {
		routes   []admin.Route
		unready  bool
		says, by string
	}{
		"all":          {[]admin.Route{route("serves"), route("serves")}, false, "All models answer.", "good"},
		"open":         {[]admin.Route{route("serves"), route("open")}, false, "Some models do not answer", "warn"},
		"rate limited": {[]admin.Route{route("serves"), route("rate_limited")}, false, "Some models do not answer", "warn"},
		"out of quota": {[]admin.Route{route("serves"), route("out_of_quota")}, false, "Some models do not answer", "warn"},
		"refused":      {[]admin.Route{route("serves"), route("refused")}, false, "Some models do not answer", "warn"},
		"not ready":    {[]admin.Route{route("serves"), route("not_ready")}, false, "Some models do not answer", "warn"},
		"half open":    {[]admin.Route{route("serves"), route("half_open")}, false, "slower", "warn"},
		"ejected":      {[]admin.Route{route("serves"), route("ejected")}, false, "slower", "warn"},
		"waiting":      {[]admin.Route{waiting}, false, "slower", "warn"},
		"the last one": {[]admin.Route{route("half_open"), route("open")}, false, "Some models do not answer", "warn"},
		"none":         {[]admin.Route{route("open"), route("not_ready")}, false, "No model answers", "bad"},
		"no routes":    {nil, false, "No model answers", "bad"},
		"unready":      {[]admin.Route{route("serves")}, true, "takes no requests", "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stateOfModels(&admin.Status{Ready: !c.unready, Routes: c.routes})
			require.Contains(t, s.Text, c.says)
			require.Equal(t, c.by, s.Class)
			require.NotContains(t, s.Text, "secret")
			require.True(t, texts.German.Has(s.Text), s.Text)
		})
	}
}

// TestHomeTellsOfModels: the providers of the site do not run.
func TestHomeTellsOfModels(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	home := s.member("ann@example.com", ann.Account.ID, people.RoleViewer).get("/portal/")
	require.Contains(t, home.body, "This service takes no requests at the moment.")
	require.NotContains(t, home.body, "deep-1")
}
