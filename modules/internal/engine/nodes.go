package engine

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/shared"
)

// lookAtNodesEvery is how often a node says what it is, and looks at the others.
const lookAtNodesEvery = 5 * time.Second

// driftFor is how long nodes may differ before the log says so: for less, one is being changed after the other.
const driftFor = 30 * time.Second

// nodes are those that share the ledger with this process.
type nodes struct {
	store  shared.Store
	about  func() ledger.About // this one
	now    func() time.Time
	logger func() *slog.Logger

	mu    sync.Mutex
	known []ledger.Node // when this process looked last
	drift []string      // how they differ
	since time.Time     // since when they do
	said  bool          // in the log
}

// look says what this node is, and looks at the others.
func (n *nodes) look(ctx context.Context) error {
	n.store.Describe(n.about())
	known, err := n.store.Nodes(ctx)
	if err != nil {
		return err
	}
	drift := compareNodes(known)
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = known
	if !slices.Equal(drift, n.drift) {
		if len(drift) == 0 && n.said {
			n.logger().Info("the nodes do not differ any more")
		}
		n.drift, n.since, n.said = drift, now, false
	}
	if len(drift) > 0 && !n.said && now.Sub(n.since) >= driftFor {
		n.said = true
		n.logger().Error("the nodes differ: " + strings.Join(drift, "; "))
	}
	return nil
}

// aboutNode is what this node says of itself.
func (e *Engine) aboutNode(version string) ledger.About {
	data, err := filepath.Abs(e.dataDir)
	if err != nil {
		data = e.dataDir // the working directory is gone
	}
	about := ledger.About{Version: version, Data: data, Spooled: e.spooled().Settlements}
	if g := e.Current(); g != nil {
		about.Config, about.Prices = g.Config.ContentHash(), g.tariffs.current.Load().versions
	}
	return about
}

// compareNodes says how nodes that live differ in what they should have in common.
func compareNodes(all []ledger.Node) (drift []string) {
	var living []ledger.Node
	routes := map[string]bool{}
	for _, n := range all {
		if n.Lives() && n.Config != "" { // else it has not said yet what it is
			living = append(living, n)
			for route := range n.Prices {
				routes[route] = true
			}
		}
	}
	add := func(what string, of func(ledger.Node) string) {
		groups := map[string][]string{}
		for _, n := range living {
			if value := of(n); value != "" {
				groups[value] = append(groups[value], n.Label())
			}
		}
		if len(groups) < 2 {
			return
		}
		var parts []string
		for _, value := range slices.Sorted(maps.Keys(groups)) {
			parts = append(parts, value+" on "+strings.Join(groups[value], ", "))
		}
		drift = append(drift, what+" "+strings.Join(parts, ", "))
	}
	add("they serve by different configurations:", func(n ledger.Node) string { return fmt.Sprintf("%.12s", n.Config) })
	for _, route := range slices.Sorted(maps.Keys(routes)) {
		add(fmt.Sprintf("route %q has different prices, and each node charges its own:", route),
			func(n ledger.Node) string {
				if version := n.Prices[route]; version > 0 {
					return fmt.Sprintf("version %d", version)
				}
				return ""
			})
	}
	add("they are of different versions:", func(n ledger.Node) string { return n.Version })
	return drift
}

// lastLook is what this process knows of the nodes.
func (n *nodes) lastLook() ([]ledger.Node, []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known, n.drift
}

// KnownNodes are those that share the ledger, and how they differ, as they were seen last; none where it is this
// process's own.
func (e *Engine) KnownNodes() ([]ledger.Node, []string) {
	if e.nodes == nil {
		return nil, nil
	}
	return e.nodes.lastLook()
}

// ErrOneNode: the ledger is this process's own.
var ErrOneNode = fmt.Errorf("this gateway has its ledger to itself, so there are no other nodes: several share one "+
	`with store "postgres": %w`, ledger.ErrNotFound)

// Nodes are those that share the ledger, as they are now, and how they differ. ErrOneNode where it is this process's
// own.
func (e *Engine) Nodes(ctx context.Context) ([]ledger.Node, []string, error) {
	if e.nodes == nil {
		return nil, nil, ErrOneNode
	}
	if err := e.nodes.look(ctx); err != nil {
		return nil, nil, err
	}
	known, drift := e.nodes.lastLook()
	return known, drift, nil
}

// NodeOf is the node that admitted a request, where that is another one; nil where it is this process, or nobody knows.
func (e *Engine) NodeOf(ctx context.Context, owner string) *ledger.Node {
	if e.nodes == nil || owner == e.nodes.store.BootID() {
		return nil
	}
	n, err := e.nodes.store.Node(ctx, owner)
	own, failed := e.nodes.store.Node(ctx, e.nodes.store.BootID())
	switch {
	case err != nil || failed != nil:
		return nil
	case n.Data == "": // of a ledger that was moved: that process is nobody to ask
		return nil
	case n.Name == own.Name && n.Data == own.Data:
		return nil // it is this one before a restart, which has the same folder
	}
	return &n
}

// LedgerServer is how the server does that keeps the ledger; nil where it is in a file.
func (e *Engine) LedgerServer() *ledger.Server {
	if e.nodes == nil {
		return nil
	}
	s := e.nodes.store.Server()
	return &s
}

var (
	nodesLiving = prometheus.NewDesc("fareway_nodes", "Nodes that share the ledger and whose leases hold, as this one "+
		"saw them last.", nil, nil)
	nodesDiffer = prometheus.NewDesc("fareway_nodes_differ", "Whether nodes serve by different configurations, prices or "+
		"versions: `fareway gateway nodes` says in what.", nil, nil)
	serverStandby = prometheus.NewDesc("fareway_ledger_standby", "Whether commits of the ledger's database wait for a "+
		"standby; 0: a failover may lose charges.", nil, nil)
)

// Describe implements prometheus.Collector.
func (n *nodes) Describe(to chan<- *prometheus.Desc) {
	to <- nodesLiving
	to <- nodesDiffer
	to <- serverStandby
}

// Collect implements prometheus.Collector.
func (n *nodes) Collect(to chan<- prometheus.Metric) {
	gauge := func(of *prometheus.Desc, value int) {
		to <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, float64(value))
	}
	known, drift := n.lastLook()
	living := 0
	for _, node := range known {
		if node.Lives() {
			living++
		}
	}
	gauge(nodesLiving, living)
	gauge(nodesDiffer, min(len(drift), 1))
	gauge(serverStandby, min(len(n.store.Server().Standbys), 1))
}
