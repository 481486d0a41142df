package ledger

import "time"

// Node is a process that admits requests on a ledger which several processes share.
type Node struct {
	ID    string // its boot id
	Name  string // of its machine
	Since time.Time
	// Lease is how long it has until it has to have renewed its lease, by the store's clock: below zero, it has lapsed.
	Lease time.Duration
	Left  bool  // it has given its lease back, or lost it: others release what it holds
	Holds int64 // requests that it runs
	Self  bool  // it is the process that was asked
	About
}

// Label is what people know it by: its machine, and enough of its id to tell it from others there.
func (n Node) Label() string { return n.Name + "/" + n.ID[:min(len(n.ID), 8)] }

// Lives reports whether it has its lease.
func (n Node) Lives() bool { return !n.Left && n.Lease > 0 }

// About is what a node says of itself, each time when it renews its lease.
type About struct {
	Version string `json:"version"` // of the program
	Data    string `json:"data"`    // its data folder, which has its spool, its decisions and what it refused
	// Config is the hash of the configuration that it serves by, "" while it serves by none.
	Config string `json:"config"`
	// Prices are the versions of the prices of its routes, which say the same on all nodes.
	Prices  map[string]int64 `json:"prices,omitempty"`
	Spooled int64            `json:"spooled"` // settlements in its spool
}

// Server is the database server that several nodes share.
type Server struct {
	Address string // and the database's name
	Version string // of the server's program
	// Standbys are those that commits wait for, as the server has them (synchronous_standby_names); "": for none.
	Standbys string
	// Needed: without such a standby nothing is written.
	Needed bool
	Up     bool // the lease could be renewed when that was tried last
	Since  time.Time
	Reason string // why it is not up
}
