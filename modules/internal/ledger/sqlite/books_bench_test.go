package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// reading is what operators and auditors ask of a ledger that prefill made; it returns how many rows it read.
type reading struct {
	name string
	read func(ctx context.Context, b ledger.Books) (rows int64, err error)
}

func usageBy(by ...ledger.Dimension) func(context.Context, ledger.Books) (int64, error) {
	return func(ctx context.Context, b ledger.Books) (requests int64, err error) {
		err = b.Usage(ctx, ledger.UsageQuery{By: by}, func(r ledger.UsageRow) error {
			requests += r.Requests
			return nil
		})
		return requests, err
	}
}

func readings(accounts, charges int64) []reading {
	one := fmt.Sprintf("acct_%024x", 1)
	return []reading{
		{"verify", func(ctx context.Context, b ledger.Books) (int64, error) {
			r, err := b.Verify(ctx)
			if err == nil && !r.OK {
				err = fmt.Errorf("%s: %s", r.Entry, r.Problem)
			}
			return r.Requests, err
		}},
		{"entries", func(ctx context.Context, b ledger.Books) (rows int64, err error) {
			err = b.Entries(ctx, ledger.Query{}, func(ledger.Entry) error { rows++; return nil })
			return rows, err
		}},
		{"entries of one account", func(ctx context.Context, b ledger.Books) (rows int64, err error) {
			err = b.Entries(ctx, ledger.Query{Account: one}, func(ledger.Entry) error { rows++; return nil })
			return rows, err
		}},
		{"usage by day", usageBy(ledger.ByDay)},
		{"usage by route", usageBy(ledger.ByRoute)},
		{"usage by account", usageBy(ledger.ByAccount)},
		{"usage by key and day", usageBy(ledger.ByKey, ledger.ByDay)},
		{"usage of one account", func(ctx context.Context, b ledger.Books) (rows int64, err error) {
			err = b.Usage(ctx, ledger.UsageQuery{Query: ledger.Query{Account: one}}, func(ledger.UsageRow) error { return nil })
			return charges, err // all of which are looked at
		}},
		{"accounts", func(ctx context.Context, b ledger.Books) (rows int64, err error) {
			err = b.Accounts(ctx, "", func(ledger.Account) error { rows++; return nil })
			return rows, err
		}},
		{"keys", func(ctx context.Context, b ledger.Books) (rows int64, err error) {
			err = b.Keys(ctx, ledger.KeyQuery{}, func(ledger.Key) error { rows++; return nil })
			return rows, err
		}},
		{"a request", func(ctx context.Context, b ledger.Books) (int64, error) {
			i := charges / 2
			_, err := b.Request(ctx, filledID(i))
			return 1, err
		}},
	}
}

// BenchmarkBooks reads a ledger of 100,000 requests from end to end. Beside the time it reports the rows a second
// and the CPU time of a row. `make soak SOAK=Books` does it with ten million.
func BenchmarkBooks(b *testing.B) {
	const accounts, charges = 1_000, 100_000
	path := filepath.Join(b.TempDir(), "fareway.db")
	prefill(b, path, accounts, charges)
	books, err := OpenBooks(context.Background(), path)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, books.Close()) })
	for _, r := range readings(accounts, charges) {
		b.Run(r.name, func(b *testing.B) {
			var rows int64
			before := cpu(b)
			for b.Loop() {
				n, err := r.read(context.Background(), books)
				require.NoError(b, err)
				rows += n
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric((cpu(b)-before)*1e6/float64(rows), "cpu-us/row")
		})
	}
	b.Run("checkpoint", func(b *testing.B) {
		s, err := Open(Options{Path: path})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, s.Close()) })
		for b.Loop() {
			conn, err := openReader(path, time.Second)
			require.NoError(b, err)
			all := ledger.Checkpoint{Entries: accounts + charges}
			_, err = book.SealCheckpoint(all, ledger.Checkpoint{}, auditRows{conn: conn})
			require.NoError(b, err)
			require.NoError(b, conn.Close())
		}
	})
}
