package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/routing"
)

// threeRoutes are three ordinary ones at list prices.
const threeRoutes = `
provider "up" {
  plugin = "echo"
}
route "nano" {
  provider       = "up"
  model          = "nano"
  context_window = 400000
  max_output     = 128000
  quality        = 0.55
  offers         = ["tools"]
  price {
    input  = 0.05
    output = 0.40
  }
}
route "mini" {
  provider       = "up"
  model          = "mini"
  context_window = 400000
  max_output     = 128000
  quality        = 0.75
  offers         = ["tools"]
  price {
    input  = 0.25
    output = 2
  }
}
route "best" {
  provider       = "up"
  model          = "best"
  context_window = 200000
  max_output     = 64000
  quality        = 0.95
  offers         = ["tools"]
  price {
    input  = 5
    output = 25
  }
}
`

// TestEvalProfiles is GAP-131 as an operator sees it: with three ordinary routes each profile uses at least two, what
// it reaches and costs rises from budget to max, and no mix by lot is better.
func TestEvalProfiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hcl := filepath.Join(dir, "gateway.hcl")
	require.NoError(t, os.WriteFile(hcl, []byte(threeRoutes), 0o600))
	v := runJSON[judgedView](t, "route", "eval", "--hcl", hcl, "--report", filepath.Join(dir, "report"))
	require.Equal(t, "best", v.Unit)
	require.Len(t, v.Profiles, 3)
	require.Len(t, v.Routes, 3)
	require.Nil(t, v.Frontier[0].Rate, "at an infinite rate each request takes the cheapest")
	last := v.Frontier[len(v.Frontier)-1]
	quality, cost, rate := 0.0, 0.0, routing.MostRate
	for _, p := range v.Profiles {
		require.Greater(t, p.Quality, quality, p.Profile)
		require.Greater(t, p.Microcents, cost, p.Profile)
		require.LessOrEqual(t, *p.Rate, rate, p.Profile)
		quality, cost, rate = p.Quality, p.Microcents, *p.Rate
		require.Positive(t, p.Quality-p.Mix, "%s: as good as a mix by lot at least", p.Profile)
		require.LessOrEqual(t, p.Quality, last.Quality)
		used := 0
		for _, r := range p.Routes {
			if r.Share >= 0.1 {
				used++
			}
		}
		require.GreaterOrEqual(t, used, 2, p.Profile)
	}
	require.GreaterOrEqual(t, v.Profiles[1].ShareOf("best"), 0.03)
	require.GreaterOrEqual(t, v.Profiles[2].ShareOf("best"), 0.25)
	require.Less(t, v.Profiles[2].ShareOf("best"), 1.0)
	for _, file := range []string{"index.html", "profiles.svg"} {
		text, err := os.ReadFile(filepath.Join(dir, "report", file))
		require.NoError(t, err)
		require.Contains(t, string(text), "<svg")
		require.Contains(t, string(text), "balanced")
	}
	text, err := run(t, "route", "eval", "--hcl", hcl)
	require.NoError(t, err)
	for _, want := range []string{"MIX AT THAT COST", "ROUTE ALONE", "OF balanced",
		"balanced: the dearest route, best, must bring 0."} {
		require.Contains(t, text, want)
	}
	for flag, want := range map[string]string{"--recorded=x": "leave one out",
		"--folds=3": "leave it out, or --hcl", "--captures=x": "--captures is for --conversations"} {
		_, err := run(t, "route", "eval", "--hcl", hcl, flag)
		require.ErrorContains(t, err, want, flag)
	}
}

// TestPlanShowsProfiles: what a new file changes of the profiles is shown, and only that.
func TestPlanShowsProfiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	before := file("before.hcl", threeRoutes)
	after := file("after.hcl", strings.Replace(threeRoutes, "= 0.95", "= 0.80", 1))
	text, err := run(t, "plan", after, "--against", before)
	require.Error(t, err, "it exits with 2")
	require.Contains(t, text, "Of usual requests (the reference workload), as expected:")
	require.Regexp(t, `max +serves +0\.\d+ +0\.\d+ +\d+\.\d+ +.*best \d+\.\d%`, text)
	require.Regexp(t, `max +new +0\.\d+ `, text)
	text, err = run(t, "plan", before, "--against", before, "--json")
	require.NoError(t, err)
	require.Contains(t, text, `"profiles": []`)
	weights := file("weights.hcl", threeRoutes+"profile \"max\" {\n  cost    = 0\n  quality = 1\n}\n")
	text, err = run(t, "plan", weights, "--against", before)
	require.Error(t, err)
	require.Contains(t, text, "max: cost does not count (cost has no weight: the best route is taken)")
	require.NotContains(t, text, "balanced")
}

// TestExplainInWords: what a customer's question can be answered with.
func TestExplainInWords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hcl, body := filepath.Join(dir, "gateway.hcl"), filepath.Join(dir, "body.json")
	require.NoError(t, os.WriteFile(hcl, []byte(threeRoutes), 0o600))
	require.NoError(t, os.WriteFile(body, []byte(`{"model":"service/auto","messages":[{"role":"user","content":`+
		`"Write a python function that parses a date."}]}`), 0o600))
	v := runJSON[admin.Explanation](t, "explain", body, "--hcl", hcl)
	require.Equal(t, "best", v.Unit)
	require.Positive(t, *v.Rate)
	require.Positive(t, v.UnitCost)
	require.Nil(t, v.Candidates[0].Lost)
	for i, c := range v.Candidates {
		require.InDelta(t, c.Cost/v.UnitCost, c.Units, 1e-9)
		require.InDelta(t, c.Quality-*v.Rate*c.Units, c.Utility, 1e-9)
		if i > 0 {
			require.NotEmpty(t, c.Lost.Reason)
			require.GreaterOrEqual(t, v.Candidates[i-1].Utility, c.Utility)
		}
	}
	text, err := run(t, "explain", body, "--hcl", hcl)
	require.NoError(t, err)
	for _, want := range []string{"the dearest route, best, must bring 0.", "UTILITY",
		"What would have to change for this request, at this rate", "It would be first ", "If the request were 0."} {
		require.Contains(t, text, want)
	}
	rate := 0.12
	require.Equal(t, "the dearest route, best, must bring 0.120 more quality than a free one to be taken",
		rateWords(&rate, "best"))
	rate = 2.5
	require.Contains(t, rateWords(&rate, "best"), "a tenth of the price of the dearest route, best, must bring 0.250")
	require.Equal(t, "only cost counts", rateWords(nil, "best"))
	for share, want := range map[float64]string{0.5: "half its price", 0.34: "a third of its price",
		0.42: "42% of its price", 0.104: "a tenth of its price",
		0.001: "less than a hundredth of its price", 0.999: "99% of its price"} {
		require.Equal(t, want, priceWords(share))
	}
}
