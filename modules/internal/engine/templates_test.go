package engine

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/modules/internal/stores"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	wide := config.Route{Name: "wide", Model: "m", ContextWindow: 200_000}
	narrow := config.Route{Name: "narrow", Model: "m", ContextWindow: 4_000}
	for name, tc := range map[string]struct {
		route   config.Route
		reports []int64
		want    int64
	}{
		"nothing":                         {wide, []int64{0, -5}, 0},
		"the highest":                     {wide, []int64{96, 1_396, 500}, 1_396},
		"believed at once":                {wide, []int64{2_048}, 2_048},
		"one that nobody else agrees to":  {wide, []int64{2_049}, 0},
		"two that agree on the smaller":   {wide, []int64{9_000, 2_049}, 2_049},
		"in either order":                 {wide, []int64{2_049, 9_000}, 2_049},
		"the latest two":                  {wide, []int64{16_000, 3_000, 15_000}, 3_000},
		"a small one is no witness":       {wide, []int64{9_000, 100}, 100},
		"the largest there is":            {wide, []int64{16_384, 16_384}, 16_384},
		"no template":                     {wide, []int64{16_385, 16_385, 1 << 62, 1 << 62}, 0},
		"a quarter of the window":         {narrow, []int64{1_000}, 1_000},
		"more than a quarter":             {narrow, []int64{1_001, 1_001}, 0},
		"what is known is not taken back": {wide, []int64{9_000, 9_000, 50, 1 << 62}, 9_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			templates := newTemplates(time.Now)
			for _, n := range tc.reports {
				templates.Note(&tc.route, n)
			}
			require.Equal(t, tc.want, templates.Known().Of(&tc.route))
			other := tc.route
			other.Model = "another"
			require.Zero(t, templates.Known().Of(&other), "of no other model")
			tc.route.TemplateTokens = new(int64(7))
			require.EqualValues(t, 7, templates.Known().Of(&tc.route), "what the operator says holds")
		})
	}
	t.Run("what was known is never changed", func(t *testing.T) {
		t.Parallel()
		templates := newTemplates(time.Now)
		templates.Note(&wide, 10)
		before := templates.Known()
		templates.Note(&wide, 20)
		require.EqualValues(t, 10, before.Of(&wide))
	})
	t.Run("by many at once", func(t *testing.T) {
		t.Parallel()
		templates := newTemplates(time.Now)
		var all sync.WaitGroup
		for n := range int64(100) {
			all.Go(func() { templates.Note(&wide, n) })
		}
		all.Wait()
		require.EqualValues(t, 99, templates.Known().Of(&wide))
	})
}

// TestTemplatesAreKept: over a restart, beside what came of requests, which decays, and what another node has learned.
func TestTemplatesAreKept(t *testing.T) {
	t.Parallel()
	route := config.Route{Name: "small", Model: "m", ContextWindow: 200_000}
	other := config.Route{Name: "other", Model: "m", ContextWindow: 200_000}
	o := Options{DataDir: t.TempDir(), OpenStore: stores.Open, Logger: slog.New(slog.DiscardHandler)}
	e, err := Open(o, &config.Config{Store: sqliteStore})
	require.NoError(t, err)
	e.Templates().Note(&route, 1_396)
	e.Outcomes().Note(&route, "account", &outcome.Kinds{1}, outcome.Worked)
	require.NoError(t, e.saveCounts(t.Context()))
	require.NoError(t, e.store.Learn(t.Context(), func(kept []ledger.Learned) []ledger.Learned {
		require.Len(t, kept, 2)
		return append(kept, ledger.Learned{Route: "other", Model: "m", Kind: templateKind, Worked: 70, At: time.Now()},
			ledger.Learned{Route: "other", Model: "n", Kind: templateKind, Worked: 1e18, At: time.Now()})
	}))
	require.NoError(t, e.saveCounts(t.Context()))
	require.EqualValues(t, 70, e.Templates().Known().Of(&other))
	var before, after []ledger.Learned
	look := func(into *[]ledger.Learned) {
		require.NoError(t, e.store.Learn(t.Context(), func(kept []ledger.Learned) []ledger.Learned {
			*into = kept
			return kept
		}))
	}
	look(&before)
	require.NoError(t, e.saveCounts(t.Context()))
	look(&after)
	require.Equal(t, before, after)
	require.Equal(t, []float64{70, 1e18, 1_396}, []float64{after[0].Worked, after[1].Worked, after[3].Worked})
	e.Templates().Note(&route, 1_400)
	require.NoError(t, e.Close())

	e, err = Open(o, &config.Config{Store: sqliteStore})
	require.NoError(t, err)
	require.EqualValues(t, 1_400, e.Templates().Known().Of(&route))
	require.Len(t, e.Outcomes().Rows(), 1)
	other.Model = "n"
	require.EqualValues(t, 16_384, e.Templates().Known().Of(&other), "whatever the ledger has")
	require.NoError(t, e.Close())
}

// TestTemplatesThatAreKept: so many, the latest.
func TestTemplatesThatAreKept(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	templates := newTemplates(func() time.Time { return at })
	var kept []ledger.Learned
	for i := range maxTemplates {
		kept = append(kept, ledger.Learned{Route: string(rune('a' + i)), Kind: templateKind, Worked: 5,
			At: at.Add(time.Duration(i-maxTemplates) * time.Hour)})
	}
	require.ElementsMatch(t, kept, templates.fold(kept), "nothing is written anew")
	templates.Note(&config.Route{Name: "new", ContextWindow: 200_000}, 1)
	all := templates.fold(kept)
	require.Len(t, all, maxTemplates)
	require.Equal(t, ledger.Learned{Route: "new", Kind: templateKind, Worked: 1, At: at}, all[0])
	require.NotContains(t, all, kept[0])
}

// TestTemplatesStayUsable: whatever upstreams report, three quarters of each window stay.
func TestTemplatesStayUsable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := config.Route{Name: "r", ContextWindow: rapid.Int64Range(1, 1_000_000).Draw(t, "window")}
		templates := newTemplates(time.Now)
		last := int64(0)
		for _, n := range rapid.SliceOf(rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 20_000))).Draw(t, "reports") {
			templates.Note(&r, n)
			known := templates.Known().Of(&r)
			require.GreaterOrEqual(t, known, last)
			require.LessOrEqual(t, known, max(last, n))
			require.LessOrEqual(t, known, min(16_384, r.ContextWindow/4))
			last = known
		}
		r.ContextWindow = 100 // after a reload
		require.LessOrEqual(t, templates.Known().Of(&r), int64(25))
		require.Equal(t, routing.MostTemplate(&r), int64(25))
	})
}
