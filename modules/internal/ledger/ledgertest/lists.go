package ledgertest

import (
	"context"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// all collects a list of the books.
func all[T any](f *fixture, list func(ctx context.Context, each func(T) error) error) []T {
	var rows []T
	require.NoError(f.t, list(context.Background(), func(row T) error {
		rows = append(rows, row)
		return nil
	}))
	return rows
}

func (f *fixture) accounts() []ledger.Account {
	return all(f, func(ctx context.Context, each func(ledger.Account) error) error {
		return f.store.Accounts(ctx, "", each)
	})
}

func (f *fixture) checkpoints() []ledger.Checkpoint { return all(f, f.store.Checkpoints) }

func (f *fixture) keys(account string) []ledger.Key {
	return f.keysOf(ledger.KeyQuery{Account: account})
}

func (f *fixture) keysOf(q ledger.KeyQuery) []ledger.Key {
	return all(f, func(ctx context.Context, each func(ledger.Key) error) error { return f.store.Keys(ctx, q, each) })
}

func (f *fixture) entries(q ledger.Query) []ledger.Entry {
	return all(f, func(ctx context.Context, each func(ledger.Entry) error) error { return f.store.Entries(ctx, q, each) })
}

func (f *fixture) usage(q ledger.UsageQuery) []ledger.UsageRow {
	return all(f, func(ctx context.Context, each func(ledger.UsageRow) error) error { return f.store.Usage(ctx, q, each) })
}

func (f *fixture) acts(q ledger.Query) []ledger.Act {
	return all(f, func(ctx context.Context, each func(ledger.Act) error) error { return f.store.Audit(ctx, q, each) })
}

func (f *fixture) record(request string) ledger.RequestRecord {
	r, err := f.store.Request(context.Background(), request)
	require.NoError(f.t, err)
	r.Owner, _, _ = strings.Cut(r.Owner, " ") // which of the stores it was, see Spread
	return r
}

func (f *fixture) latest(q ledger.LatestQuery) []ledger.Movement {
	return all(f, func(ctx context.Context, each func(ledger.Movement) error) error {
		return f.store.Latest(ctx, q, each)
	})
}

// kinds are the kinds of the account's entries, in their order.
func (f *fixture) kinds() []ledger.EntryKind {
	var kinds []ledger.EntryKind
	for _, e := range f.entries(ledger.Query{Account: f.account.ID}) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// lastEntry is the newest entry of the account.
func (f *fixture) lastEntry() ledger.Entry {
	entries := f.entries(ledger.Query{Account: f.account.ID})
	require.NotEmpty(f.t, entries)
	return entries[len(entries)-1]
}
