package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
)

// TestFrozenServer stops the server under load: whoever waits is told that it is unavailable while it is, and once it
// goes on, requests do, no hold is left and each is charged at most once.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	own, err := postgrestest.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, own.Stop()) })
	url := own.CreateDatabase(t, "ledger", "template1")
	store, err := postgres.Open(ctx, postgres.Options{
		Options: ledger.Options{Logger: quiet, WaitTimeout: time.Second}, URL: url, BootID: "node", Lease: time.Minute,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	c := newCustomer(t, store, 100)
	var running sync.WaitGroup
	var next, settled, unavailable, wrong atomic.Int64
	var unsettled sync.Map
	stop := make(chan struct{})
	for range 32 {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				request := fmt.Sprintf("req_%06d", next.Add(1))
				_, err := store.Hold(ctx, c.hold(request, 1_000))
				if err == nil {
					if _, err = store.Settle(ctx, settlement(request, 700)); err == nil {
						settled.Add(1)
					} else {
						unsettled.Store(request, true)
					}
				}
				switch {
				case err == nil:
				case errors.Is(err, ledger.ErrUnavailable):
					unavailable.Add(1)
				default:
					wrong.Add(1)
					t.Error(err)
					return
				}
			}
		})
	}
	isSoon(t, func() bool { return settled.Load() > 50 }, "it is under load")
	require.NoError(t, own.Freeze())
	isSoon(t, func() bool { return unavailable.Load() >= 64 }, "all are told, and those who come then")
	require.NoError(t, own.Thaw())
	now := settled.Load()
	isSoon(t, func() bool { return settled.Load() > now+50 }, "it goes on")
	close(stop)
	running.Wait()
	for request := range unsettled.Range { // the spool's work
		id, _ := request.(string)
		isSoon(t, func() bool {
			_, err := store.Settle(ctx, settlement(id, 700))
			require.True(t, err == nil || errors.Is(err, ledger.ErrUnavailable), "%v", err)
			return err == nil
		}, id)
		settled.Add(1)
	}
	conn := connect(ctx, t, url)
	isSoon(t, func() bool { return count(ctx, t, conn, `SELECT count(*) FROM holds`) == 0 }, "no hold is left")
	require.Equal(t, settled.Load(), count(ctx, t, conn, `SELECT count(*) FROM requests WHERE reason = 'ok'`))
	require.Equal(t, settled.Load()*700, count(ctx, t, conn, `SELECT sum(charge)::bigint FROM requests`))
	isSoon(t, func() bool {
		requests, unmade := store.Remembered()
		return requests+unmade == 0
	}, "nothing is remembered")
	verifyOK(ctx, t, store)
}
