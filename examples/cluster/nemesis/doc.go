// Package nemesis breaks the cluster of examples/cluster in all ways that it knows, with requests going on, and
// compares what clients were told with what the model service has served and what the ledger says. `make nemesis` runs
// some cycles, `make soak` 200 of them.
package nemesis
