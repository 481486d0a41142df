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
}
