package sqlite

import (
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger/book"
)

const (
	// maxAccounts and maxKeys bound what memory keeps of accounts and keys, about 600 and 150 bytes each.
	maxAccounts = 1 << 16
	maxKeys     = 1 << 17
)

// memory is what the writer knows of the database without reading it: as committed, with what the running
// transaction has changed since. It is the writer's alone. The writer is the only one that writes to the
// file, so that this is safe; when another program did all the same, or when a transaction was rolled back,
// everything is forgotten and read again.
//
// What requests change is unwritten until the commit. Whatever else is remembered is written to the database at once.
type memory struct {
	loaded   bool // live, lastHold, lastEntry and settled are as in the database
	accounts cache[string, *account]
	keys     cache[string, keyRef]
	prices   map[priceID]tariff
	live     map[string]*running // the running requests, by id
	held     map[int64]int64     // what an account holds, by its number; none that holds nothing
	heldBy   map[int64]int64     // what a line of keys holds, by its root, in the same way

	holds     holdSums
	saved     holdSums // holds, as meta has it
	lastHold  int64    // the largest number in holds
	lastEntry int64    // the largest number in the journal
	// prunedBefore: requests that were settled before this moment may be on record no more, in nanoseconds; 0: none was.
	prunedBefore int64
	settled      book.SettledIDs
	unsummed     unsummed
	scratch      []byte
}

// keyRef is the part of a key that never changes.
type keyRef struct {
	n       int64
	account int64
	root    int64 // the first key of its line
}

type priceID struct {
	route   string
	version int64
}

func newMemory() *memory {
	m := &memory{}
	m.forget()
	return m
}

func (m *memory) forget() {
	*m = memory{
		accounts: newCache[string, *account](maxAccounts),
		keys:     newCache[string, keyRef](maxKeys),
		prices:   make(map[priceID]tariff),
		live:     make(map[string]*running),
		held:     make(map[int64]int64),
		heldBy:   make(map[int64]int64),
	}
}

// evictUnused lets go of what was not used for long. It is called between transactions: a changed row has to be
// remembered until it is written.
func (m *memory) evictUnused() {
	m.accounts.evictUnused()
	m.keys.evictUnused()
}

// load reads what has to be known in whole before the first operation. None of it grows with the ledger.
func (m *memory) load(conn *sqlite.Conn) error {
	if m.loaded {
		return nil
	}
	if err := m.loadLive(conn); err != nil {
		return err
	}
	var highest string
	err := run(conn, `SELECT (SELECT coalesce(max(n), 0) FROM entries), (SELECT coalesce(max(id), '') FROM requests),
		holds, held, marks, pruned_before FROM meta`,
		to(&m.lastEntry, &highest, &m.saved.rows, &m.saved.microcents, &m.saved.marks, &m.prunedBefore))
	m.settled.Reset(highest)
	if err == nil {
		err = m.unsummed.load(conn, m.lastEntry)
	}
	m.holds = m.saved
	m.loaded = err == nil
	return err
}

// price finds a price version.
func (m *memory) price(conn *sqlite.Conn, route string, version int64) (tariff, error) {
	id := priceID{route, version}
	if p, ok := m.prices[id]; ok {
		return p, nil
	}
	p, err := readTariff(conn, route, version)
	switch {
	case err != nil:
		return tariff{}, err
	case !p.found:
		return tariff{}, book.NoPrice(route, version)
	}
	m.prices[id] = p
	return p, nil
}

// key finds a key of an account.
func (m *memory) key(conn *sqlite.Conn, a *account, id string) (keyRef, error) {
	k, ok := m.keys.get(id)
	if !ok {
		err := run(conn, `SELECT n, account, root FROM keys WHERE id = ?`, func(row *sqlite.Stmt) error {
			k, ok = keyRef{n: row.ColumnInt64(0), account: row.ColumnInt64(1), root: row.ColumnInt64(2)}, true
			return nil
		}, id)
		if err != nil {
			return keyRef{}, err
		}
		if ok {
			m.keys.put(id, k)
		}
	}
	if !ok || k.account != a.n {
		return keyRef{}, book.NoKey(id, a.ID)
	}
	return k, nil
}

// cache keeps at least the last max/2 entries that were used, and at most max and those of one transaction.
type cache[K comparable, V any] struct {
	max        int
	young, old map[K]V
}

func newCache[K comparable, V any](limit int) cache[K, V] {
	return cache[K, V]{max: limit, young: make(map[K]V)}
}

func (c *cache[K, V]) get(k K) (V, bool) {
	v, ok := c.young[k]
	if !ok {
		if v, ok = c.old[k]; ok {
			c.young[k] = v
		}
	}
	return v, ok
}

func (c *cache[K, V]) put(k K, v V) { c.young[k] = v }

func (c *cache[K, V]) evictUnused() {
	if len(c.young) >= c.max/2 {
		c.old, c.young = c.young, make(map[K]V, c.max/2)
	}
}
