package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// TestCommandRouteShow: what was learned is shown, and what people say is taken.
func TestCommandRouteShow(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, &config.Config{
		Gateway: config.Gateway{DefaultProfile: config.ProfileBalanced, MaxBodyMemory: 100},
		Routes: []config.Route{
			{Name: "small", Model: "small-1", Quality: 0.6, QualityBy: map[string]float64{config.KindCode: 0.5}},
			{Name: "deep", Model: "deep-1", Quality: 0.9},
			{Name: "fixed", Model: "fixed-1", Quality: 0.9, Learn: new(false)},
		},
	}, engine.Options{})
	serve(t, e)
	data, routes := e.DataDir(), e.Current().Config.Routes
	for range 50 {
		e.Outcomes().Note(&routes[0], "account", &outcome.Kinds{predict.Code: 1}, outcome.InvalidCall)
	}
	e.Outcomes().Remember(outcome.Request{ID: "req_1", Route: "deep", Model: "deep-1",
		Kinds: outcome.Kinds{predict.Math: 1}})
	e.Outcomes().Remember(outcome.Request{ID: "req_2", Route: "fixed", Model: "fixed-1"})
	e.Outcomes().Remember(outcome.Request{ID: "req_3", Route: "deep", Model: "deep-0"})

	out, err := run(t, "route", "feedback", "req_1", "bad", "--data", data)
	require.NoError(t, err)
	require.Equal(t, "The reply to req_1 was bad: that counts for route deep.\n", out)
	for id, why := range map[string]string{
		"req_2": `nothing can be learned of it: route "fixed" has learn = false`,
		"req_3": `the configuration has no route "deep" with the model "deep-0" any more`,
		"req_4": "not found",
	} {
		_, err = run(t, "route", "feedback", id, "good", "--data", data)
		require.ErrorContains(t, err, why)
	}
	_, err = run(t, "route", "feedback", "req_1", "fine", "--data", data)
	require.ErrorContains(t, err, `the verdict "fine": it is good or bad`)

	out, err = run(t, "route", "show", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `small +small-1 +code +0\.500 +0\.0 +50\.0 +0\.0 +0\.0 +0\.[0-9]+\n`, out)
	require.Regexp(t, `deep +deep-1 +math +0\.900 +0\.0 +0\.0 +0\.0 +1\.0 +0\.[0-9]+\n`, out)
	require.Contains(t, out, "Route fixed does not learn: learn = false in its quality block.\n")
	list := runJSON[shownRoutes](t, "route", "show", "deep", "--data", data).Routes
	require.Len(t, list, 1)
	require.Len(t, list[0].Kinds, int(predict.NumKinds))
	require.Equal(t, "math", list[0].Kinds[predict.Math].Kind)
	require.InDelta(t, 1, list[0].Kinds[predict.Math].Bad, 1e-3)
	_, err = run(t, "route", "show", "dep", "--data", data)
	require.ErrorContains(t, err, `there is no route "dep": did you mean "deep"?`)
	_, err = run(t, "route", "show", "cathedral", "--data", data)
	require.ErrorContains(t, err, "`fareway gateway route show` lists them")
	_, err = run(t, "route", "show", "deep", "small", "--data", data)
	require.ErrorContains(t, err, `"small" is too much`)

	acts := 0
	require.NoError(t, e.Store().Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
		if a.Action == "route.feedback" {
			acts++
			require.Equal(t, "req_1", a.Subject)
			require.JSONEq(t, `{"route":"deep","verdict":"told_bad"}`, a.After)
		}
		return nil
	}))
	require.Equal(t, 1, acts, "on the audit trail")
}

// TestCommandRouteFeedbackLater: of a request that only the ledger knows, all kinds of work count alike.
func TestCommandRouteFeedbackLater(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, &config.Config{
		Gateway: config.Gateway{DefaultProfile: config.ProfileBalanced, MaxBodyMemory: 100},
		Routes:  []config.Route{{Name: "deep", Model: "deep-1", Quality: 0.9}},
	}, engine.Options{})
	serve(t, e)
	ann := enginetest.NewCustomer(t, e, "ann")
	ann.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	ann.Settle(t, e, "req_2", ledger.Settlement{Status: 502, Reason: "upstream"}, ledger.Result{Outcome: ledger.Failed})
	for _, word := range []string{"good", "good", "bad", "good"} {
		_, err := run(t, "route", "feedback", "req_1", word, "--data", e.DataDir())
		require.NoError(t, err)
	}
	_, err := run(t, "route", "feedback", "req_2", "good", "--data", e.DataDir())
	require.ErrorContains(t, err, "no route answered request")
	rows := e.Outcomes().Rows()
	require.Len(t, rows, int(predict.NumKinds))
	for _, r := range rows {
		require.InDelta(t, 0.2, r.Good, 1e-3)
		require.Zero(t, r.Bad)
	}
}
