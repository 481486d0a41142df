package shared_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/shared"
	"github.com/fareway/fareway/modules/internal/spool"
)

// store is one in memory that several processes could share.
type store struct {
	ledger.Store
	down atomic.Bool // for Ping
}

func (s *store) Ping(context.Context) error {
	if s.down.Load() {
		return ledger.ErrUnavailable
	}
	return nil
}

func (s *store) BootID() string { return "node" }

func (s *store) ReadPrice(context.Context, string, int64) (price, cost config.Price, err error) {
	return price, cost, nil
}

func (s *store) ClaimChore(context.Context, string, time.Duration) (bool, error) { return true, nil }

func (s *store) Describe(ledger.About) {}

func (s *store) Server() ledger.Server { return ledger.Server{} }

func (s *store) Node(context.Context, string) (ledger.Node, error) {
	return ledger.Node{}, ledger.ErrNotFound
}

func (s *store) Nodes(context.Context) ([]ledger.Node, error) { return nil, nil }

// TestOneAccountThatWaits is GAP-45: a settlement that the store does not take goes into the spool. That refuses the
// holds of others only where the store answers nobody: a single account may be locked.
func TestOneAccountThatWaits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, down := range map[string]bool{"GAP-45 the store is away": true, "GAP-45 an account is locked": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settles := func(_ int64, operation string) ledgertest.Fault {
				if operation == "settle" {
					return ledgertest.Away
				}
				return ledgertest.Fault{}
			}
			memory := ledgertest.OpenMemory(t, ledgertest.Options{Dir: t.TempDir(), BootID: "node", Now: time.Now,
				Terms: func(string) ledger.Terms { return ledger.Terms{} }})
			log, err := spool.Open(filepath.Join(t.TempDir(), "spool"), 1<<20)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, log.Close()) })
			under := &store{Store: ledgertest.WithFaults(memory, settles)}
			under.down.Store(down)
			l := shared.Open(under, log, shared.Options{Now: time.Now, Logger: slog.New(slog.DiscardHandler),
				After: func(time.Duration) <-chan time.Time { return nil },
				Apply: func(context.Context) (int64, error) { return 0, ledger.ErrUnavailable }})
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			a, err := l.CreateAccount(ctx, "acme", "")
			require.NoError(t, err)
			k, err := l.CreateKey(ctx, a.ID, "laptop", [32]byte{1}, "", ledger.KeyChange{})
			require.NoError(t, err)
			_, _, err = l.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 10})
			require.NoError(t, err)
			hold := func(request string) error {
				_, err := l.Hold(ctx, ledger.Hold{Request: request, Account: a.ID, Key: k.ID, Microcents: 1})
				return err
			}
			require.NoError(t, hold("req_1"))
			_, err = l.Settle(ctx, ledger.Settlement{Request: "req_1", Status: 200, Reason: "ok"})
			require.NoError(t, err, "the spool has it")
			require.EqualValues(t, 1, log.Len())
			if down {
				require.ErrorIs(t, hold("req_2"), ledger.ErrUnavailable)
			} else {
				require.NoError(t, hold("req_2"))
			}
		})
	}
}
