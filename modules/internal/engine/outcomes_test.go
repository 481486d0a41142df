package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/modules/internal/stores"
)

// TestLearnedOutlastsARestart: what was learned is in the store.
func TestLearnedOutlastsARestart(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	route := &config.Route{Name: "small", Model: "small-1"}
	again := func() *Engine {
		e, err := Open(Options{OpenStore: stores.Open, DataDir: data, Logger: slog.New(slog.DiscardHandler)},
			&config.Config{Store: sqliteStore})
		require.NoError(t, err)
		return e
	}
	e := again()
	require.Empty(t, e.Outcomes().Rows())
	for range 50 {
		e.Outcomes().Note(route, "account", &outcome.Kinds{predict.Code: 1}, outcome.InvalidCall)
	}
	require.NoError(t, e.Close())

	e = again()
	rows := e.Outcomes().Rows()
	require.Len(t, rows, 1)
	require.Equal(t, "code", rows[0].Kind)
	require.InDelta(t, 50, rows[0].Failed, 1)
	require.InDelta(t, 0.4, e.Outcomes().Learned().On(route, predict.Code, 0.8), 0.01, "at once")
	require.NoError(t, e.Close())
}

// TestSharesOutliveRestarts: whose outcomes they were, and which of them a client can bring about (GAP-130).
func TestSharesOutliveRestarts(t *testing.T) {
	t.Parallel()
	e := open(t)
	route := &config.Route{Name: "small", Model: "small-1"}
	for range 100 {
		e.Outcomes().Note(route, "hostile", &outcome.Kinds{predict.Code: 1}, outcome.Mismatch)
		e.Outcomes().Note(route, "hostile", &outcome.Kinds{predict.Code: 1}, outcome.Worked)
	}
	require.NoError(t, e.saveCounts(t.Context()))
	expected := func(book *outcome.Book) float64 { return book.Learned().On(route, predict.Code, 0.8) }
	require.InDelta(t, 0.8, expected(e.Outcomes()), 0)
	again := &learning{core: &e.core, outcomes: outcome.NewBook(time.Now), templates: newTemplates(time.Now)}
	require.NoError(t, again.saveCounts(t.Context()))
	require.InDelta(t, 0.8, expected(again.outcomes), 0)
	for range 10 {
		again.outcomes.Note(route, "other", &outcome.Kinds{predict.Code: 1}, outcome.Worked)
	}
	require.NoError(t, again.saveCounts(t.Context()))
	rows := again.outcomes.Rows()
	require.Len(t, rows, 1)
	require.InDelta(t, 15, rows[0].Worked, 0.1, "ten of each, and half of the hostile one's")
	require.InDelta(t, 5, rows[0].Failed, 0.1)
	require.NoError(t, e.Close())

	written := readRows(keptRows([]outcome.Row{{Route: "r", Model: "m", Kind: "code", Account: "a", Own: 2, Worked: 1},
		{Route: "r", Model: "m", Kind: "code", Good: 1}, {Route: "r", Model: "m", Kind: "math", Account: "a", Failed: 3}}))
	require.Equal(t, []outcome.Row{{Route: "r", Model: "m", Kind: "code", Account: "a", Own: 2, Worked: 1},
		{Route: "r", Model: "m", Kind: "code", Good: 1}, {Route: "r", Model: "m", Kind: "math", Account: "a", Failed: 3}},
		written)
}

// forgetful is a store that cannot keep what was learned.
type forgetful struct{ ledger.Store }

func (forgetful) Learn(context.Context, func([]ledger.Learned) []ledger.Learned) error {
	return errors.New("the disk is full")
}

// TestLearnedCannotBeKept: that is said, and costs nothing else.
func TestLearnedCannotBeKept(t *testing.T) {
	t.Parallel()
	e := open(t)
	e.Outcomes().Note(&config.Route{Name: "small"}, "account", &outcome.Kinds{1}, outcome.Worked)
	keeper := &learning{core: &core{store: forgetful{e.store}}, outcomes: e.outcomes, templates: e.templates}
	require.ErrorContains(t, keeper.saveCounts(t.Context()), "the disk is full")
	require.Len(t, e.Outcomes().Rows(), 1)
	require.NoError(t, e.saveCounts(t.Context()))
	require.Len(t, e.Outcomes().Rows(), 1)
	require.NoError(t, e.Close())
}
