//go:build race

package sqlite

// powerLossStep is large under the race detector, which makes SQLite some twenty times slower: what is concurrent is
// the recording, not the failures.
const powerLossStep = 10
