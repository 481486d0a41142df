package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// Nodes are the gateways that share the ledger, and how they differ.
type Nodes struct {
	Nodes []Node   `json:"nodes"`
	Drift []string `json:"drift"` // a sentence for each thing that should be the same on all
}

// Node is one of them.
type Node struct {
	ID      string    `json:"id"`
	Machine string    `json:"machine"`
	Label   string    `json:"label"` // what lines name it by
	State   string    `json:"state"` // "lives", "lapsed" (its lease was not renewed in time) or "gone" (holds are left)
	Self    bool      `json:"self"`  // it is the one that was asked
	Since   time.Time `json:"since"`
	Lease   int64     `json:"lease_milliseconds"` // until it has to have been renewed; below 0, it has lapsed
	Version string    `json:"version"`
	Data    string    `json:"data"` // its data folder
	// ConfigHash is of the files' content, wherever they lie: another one than `status` has, which knows their paths.
	ConfigHash string           `json:"config_hash"`
	Prices     map[string]int64 `json:"price_versions,omitempty"` // by route
	Holds      int64            `json:"holds"`                    // requests that it runs
	Spooled    int64            `json:"spooled"`                  // settlements that wait there for the ledger
}

// stateOf says how a node does.
func stateOf(n *ledger.Node) string {
	switch {
	case n.Left:
		return "gone"
	case n.Lives():
		return "lives"
	}
	return "lapsed"
}

func viewNodes(nodes []ledger.Node, drift []string) Nodes {
	v := Nodes{Nodes: []Node{}, Drift: append([]string{}, drift...)}
	for i := range nodes {
		n := &nodes[i]
		v.Nodes = append(v.Nodes, Node{ID: n.ID, Machine: n.Name, Label: n.Label(), State: stateOf(n), Self: n.Self,
			Since: n.Since, Lease: n.Lease.Milliseconds(), Version: n.Version, Data: n.Data, ConfigHash: n.Config,
			Prices: n.Prices, Holds: n.Holds, Spooled: n.Spooled})
	}
	return v
}

func (a *API) nodes(r *http.Request) (any, error) {
	nodes, drift, err := a.engine.Nodes(r.Context())
	if err != nil {
		return nil, err
	}
	return viewNodes(nodes, drift), nil
}

// LedgerServer is the database server that nodes share.
type LedgerServer struct {
	Address string    `json:"address"` // and the database's name
	Version string    `json:"version"`
	Up      bool      `json:"up"`
	Since   time.Time `json:"since"` // when it came, or went away
	Reason  string    `json:"reason,omitempty"`
	// Standbys are those that commits wait for (synchronous_standby_names), "" for none. StandbyRequired: without one
	// nothing is charged.
	Standbys        string `json:"standbys"`
	StandbyRequired bool   `json:"standby_required"`
	// Nodes are how many live, and Drift is how they differ, as this one has seen them last.
	Nodes int      `json:"nodes"`
	Drift []string `json:"drift,omitempty"`
}

func (a *API) ledgerServer() *LedgerServer {
	s := a.engine.LedgerServer()
	if s == nil {
		return nil
	}
	v := &LedgerServer{Address: s.Address, Version: s.Version, Up: s.Up, Since: s.Since, Reason: s.Reason,
		Standbys: s.Standbys, StandbyRequired: s.Needed}
	known, drift := a.engine.KnownNodes()
	for i := range known {
		if known[i].Lives() {
			v.Nodes++
		}
	}
	v.Drift = drift
	return v
}

// elsewhere says which node a request ran on, where that was another one, which has what this one lacks; "" otherwise.
func (a *API) elsewhere(ctx context.Context, owner string) string {
	n := a.engine.NodeOf(ctx, owner)
	if n == nil {
		return ""
	}
	return "it ran on the node " + n.Label() + ", whose data folder is " + n.Data
}
