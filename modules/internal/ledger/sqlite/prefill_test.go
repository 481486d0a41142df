package sqlite

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

// prefill makes a ledger of so many accounts, each with a key and a top-up, and so many settled requests of theirs,
// the same each time and right in every column: what the store would have written, without waiting for a million
// commits. Every tenth request was tried on two routes. Accounts take turns in no order. The requests are ten a
// second, from the year 2026 on.
func prefill(t testing.TB, path string, accounts, charges int64) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	require.NoError(t, err)
	for _, pragma := range []string{`PRAGMA journal_mode = off`, `PRAGMA synchronous = off`,
		`PRAGMA cache_size = -65536`} {
		require.NoError(t, run(conn, pragma, nil))
	}
	require.NoError(t, migrate(conn, 0))
	require.NoError(t, run(conn, `BEGIN`, nil))
	f := filler{conn: conn, accounts: make([]account, accounts)}
	require.NoError(t, f.begin())
	for i := range charges {
		require.NoError(t, f.charge(i))
	}
	require.NoError(t, f.end())
	require.NoError(t, sumAll(conn))
	require.NoError(t, run(conn, `COMMIT`, nil))
	require.NoError(t, run(conn, `PRAGMA journal_mode = wal`, nil))
	require.NoError(t, conn.Close())
}

type filler struct {
	conn     *sqlite.Conn
	accounts []account // account n is at n-1, and its key has the same number
	entries  int64
}

var (
	fillStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fillPrice = config.Price{Input: 300_000_000, CacheRead: 30_000_000, CacheWrite: 375_000_000, Output: 1_500_000_000}
)

func (f *filler) begin() error {
	for _, route := range []string{"large", "small"} {
		err := run(f.conn, `INSERT INTO prices (route, version, input, cache_read, cache_write, output, since,
			cost_input, cost_cache_read, cost_cache_write, cost_output) VALUES (?1, 1, ?2, ?3, ?4, ?5, 0, ?2, ?3, ?4, ?5)`, nil,
			route, fillPrice.Input, fillPrice.CacheRead, fillPrice.CacheWrite, fillPrice.Output)
		if err != nil {
			return err
		}
	}
	for i := range f.accounts {
		id := fmt.Sprintf("acct_%024x", i+1)
		f.accounts[i] = account{n: int64(i) + 1, Account: book.Account{ID: id, Created: fillStart}}
		err := f.post(&f.accounts[i], ledger.Entry{
			Kind: ledger.TopUp, Microcents: ledger.MaxTopUp * ledger.MicrocentsPerCredit, Created: fillStart,
			Format: 1, // from before there was an audit trail
		})
		if err != nil {
			return err
		}
	}
	return run(f.conn, `INSERT INTO owners (boot_id, pid, started) VALUES ('boot', 1, 1)`, nil)
}

func (f *filler) post(a *account, e ledger.Entry) (err error) {
	before := a.last
	if a.Balance, err = a.Add(e.Microcents); err != nil {
		return err
	}
	f.entries++
	a.Entries++
	e.N, e.Account, e.Seq, e.Book, e.Format, e.Prev = f.entries, a.ID, a.Entries, e.Kind.Book(), cmp.Or(e.Format, 2),
		a.Head
	e.Credits, e.Accrued = a.Credits, a.Accrued
	a.Head, a.last = e.Hash(), e.N
	return run(f.conn, `INSERT INTO entries (n, account, seq, before, kind, book, request, reference, reason, prices,
		microcents, waived, over, tokens, credits, accrued, created, format, prev, hash)
		VALUES (?, ?, ?, NULLIF(?, 0), ?, ?, NULLIF(?, ''), NULL, ?, ?, ?, 0, 0, 0, ?, ?, ?, ?, ?, ?)`, nil,
		e.N, a.n, e.Seq, before, string(e.Kind), string(e.Book), e.Request, e.Reason, e.Prices,
		e.Microcents, e.Credits, e.Accrued, e.Created, e.Format, e.Prev, a.Head)
}

// filledID is the id of the i-th request.
func filledID(i int64) string {
	return fmt.Sprintf("req_%012x%012x", fillStart.UnixMilli()+100*i, i)
}

func (f *filler) charge(i int64) error {
	a := &f.accounts[i*7_919%int64(len(f.accounts))]
	created := fillStart.Add(time.Duration(i) * 100 * time.Millisecond)
	id := filledID(i)
	routes, prices := []string{"small"}, "small@1"
	if i%10 == 0 {
		routes, prices = []string{"large", "small"}, "large@1 small@1"
	}
	var tally ledger.Tally
	var used int64
	for seq, route := range routes {
		u := llm.Usage{Input: llm.Count(900 + i%100), CacheRead: llm.Count(i % 7), Output: llm.Count(700 + i%13)}
		if err := tally.Add(u, fillPrice); err != nil {
			return err
		}
		used += book.CountTokens(u)
		err := run(f.conn, `INSERT INTO attempts (request, seq, route, provider, model, price_version, outcome, input, `+
			`cache_read, output, estimated, created)
			VALUES (?, ?, ?, 'provider', 'model', 1, 'finished', ?, ?, ?, 0, ?)`, nil,
			id, seq+1, route, u.Input, u.CacheRead, u.Output, created)
		if err != nil {
			return err
		}
	}
	microcents, err := tally.Microcents()
	if err != nil {
		return err
	}
	settled := created.Add(time.Second)
	err = f.post(a, ledger.Entry{
		Kind: ledger.Charged, Request: id, Reason: "ok", Prices: prices, Microcents: -microcents, Created: settled,
	})
	if err != nil {
		return err
	}
	a.Requests++
	a.Ever.Spent += microcents
	a.Ever.Tokens += used
	return run(f.conn, `INSERT INTO requests (id, account, key, owner, endpoint, profile, hold, status, reason, free, `+
		`service_limit,
		surcharge, charge, waived, tokens, pending, created, settled, entry)
		VALUES (?, ?, ?, 'boot', 'chat', 'balanced', ?, 200, 'ok', 0, 0, 0, ?, 0, ?, 0, ?, ?, ?)`, nil,
		id, a.n, a.n, 2*microcents, microcents, used, created, settled, a.last)
}

func (f *filler) end() error {
	for i := range f.accounts {
		a := &f.accounts[i]
		err := run(f.conn, `INSERT INTO accounts (n, id, name, plan, state, created) VALUES (?, ?, ?, '', 'active', ?)`, nil,
			a.n, a.ID, fmt.Sprintf("account %d", a.n), a.Created)
		if err != nil {
			return err
		}
		err = run(f.conn,
			`INSERT INTO balances (n, credits, accrued, head, last, entries, requests, spent, tokens) VALUES (?, ?, ?, ?, ?, `+
				`?, ?, ?, ?)`, nil,
			a.n, a.Credits, a.Accrued, a.Head, a.last, a.Entries, a.Requests, a.Ever.Spent, a.Ever.Tokens)
		if err != nil {
			return err
		}
		var hash [32]byte
		copy(hash[:], a.ID)
		err = run(f.conn,
			`INSERT INTO keys (n, id, account, name, hash, last4, created, root, spent) VALUES (?1, ?2, ?1, 'key', ?3, '', ?4,`+
				` ?1, ?5)`, nil,
			a.n, fmt.Sprintf("key_%024x", a.n), hash, a.Created, a.Ever.Spent)
		if err != nil {
			return err
		}
	}
	return nil
}
