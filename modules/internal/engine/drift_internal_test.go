package engine

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/shared"
)

// TestDriftOfNodes: what should be the same on all nodes that live and is not.
func TestDriftOfNodes(t *testing.T) {
	t.Parallel()
	node := func(name, version, config string, prices map[string]int64) ledger.Node {
		return ledger.Node{ID: name + "-boot-id", Name: name, Lease: time.Second,
			About: ledger.About{Version: version, Config: config, Prices: prices}}
	}
	a := node("a", "1", "c1", map[string]int64{"fast": 1, "deep": 4})
	b := node("b", "1", "c1", map[string]int64{"fast": 1, "deep": 4})
	require.Empty(t, compareNodes(nil))
	require.Empty(t, compareNodes([]ledger.Node{a, b}))
	require.Empty(t, compareNodes([]ledger.Node{a, node("new", "2", "", nil)}), "it has not said yet what it is")
	gone := node("c", "2", "c2", map[string]int64{"fast": 2})
	lapsed := gone
	gone.Left, lapsed.Lease = true, -time.Second
	require.Empty(t, compareNodes([]ledger.Node{a, gone, lapsed}), "they serve nobody")
	other := node("d", "2", "c2", map[string]int64{"fast": 2, "extra": 1})
	require.Equal(t, []string{
		"they serve by different configurations: c1 on a/a-boot-i, b/b-boot-i, c2 on d/d-boot-i",
		`route "fast" has different prices, and each node charges its own: version 1 on a/a-boot-i, b/b-boot-i, ` +
			`version 2 on d/d-boot-i`,
		"they are of different versions: 1 on a/a-boot-i, b/b-boot-i, 2 on d/d-boot-i",
	}, compareNodes([]ledger.Node{a, b, other}))
}

// listing is a store that knows these nodes.
type listing struct {
	shared.Store
	nodes []ledger.Node
	err   error
}

func (l *listing) Describe(ledger.About) {}

func (l *listing) Nodes(context.Context) ([]ledger.Node, error) { return l.nodes, l.err }

// TestDriftIsSaid: in the log once it has lasted, once, and when it is over.
func TestDriftIsSaid(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	var clock time.Time
	a := ledger.Node{ID: "a", Lease: time.Second, About: ledger.About{Config: "c1"}}
	b := ledger.Node{ID: "b", Lease: time.Second, About: ledger.About{Config: "c2"}}
	store := &listing{nodes: []ledger.Node{a, b}}
	log := slog.New(slog.NewTextHandler(&logged, nil))
	n := &nodes{store: store, about: func() ledger.About { return ledger.About{} }, now: func() time.Time { return clock },
		logger: func() *slog.Logger { return log }}
	look := func(later time.Duration) {
		clock = clock.Add(later)
		require.NoError(t, n.look(t.Context()))
	}
	look(0)
	look(driftFor - 1)
	_, drift := n.lastLook()
	require.Len(t, drift, 1, "whoever asks hears of it at once")
	require.Empty(t, logged.String(), "one node is reloaded after the other")
	look(1)
	look(time.Hour)
	require.Equal(t, 1, strings.Count(logged.String(), "the nodes differ: they serve by different configurations"))
	store.nodes = []ledger.Node{a, a}
	look(0)
	look(time.Hour)
	require.Equal(t, 1, strings.Count(logged.String(), "the nodes do not differ any more"))
	store.err = ledger.ErrUnavailable
	require.ErrorIs(t, n.look(t.Context()), ledger.ErrUnavailable)
	known, _ := n.lastLook()
	require.Len(t, known, 2, "what was seen last")
}
