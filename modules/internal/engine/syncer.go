package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/spool"
)

// syncEvery is how long what was acknowledged may not be on the disk, with durability "process" and a disk that works.
const syncEvery = time.Second

// syncer has the spool and the store synced behind what they acknowledge (durability "process").
type syncer struct {
	spool *spool.Spool
	store interface{ Sync() error }
	log   *slog.Logger
	stop  context.CancelFunc
	ended sync.WaitGroup

	failed bool // the last round did, which was said
}

func startSyncer(s *spool.Spool, store interface{ Sync() error }, after func(time.Duration) <-chan time.Time,
	log *slog.Logger) *syncer {
	ctx, stop := context.WithCancel(context.Background())
	y := &syncer{spool: s, store: store, log: log, stop: stop}
	y.ended.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-after(syncEvery):
				_ = y.sync() // it says so
			}
		}
	})
	return y
}

// sync is one round.
func (y *syncer) sync() error {
	err := y.spool.Sync(y.store.Sync)
	switch {
	case err != nil && !y.failed:
		y.log.Error("what was charged cannot be synced to the disk: a power cut now would take more than the last second's",
			"error", err)
	case err == nil && y.failed:
		y.log.Info("what was charged is synced to the disk again")
	}
	y.failed = err != nil
	return err
}

// close ends it with a last round.
func (y *syncer) close() error {
	y.stop()
	y.ended.Wait()
	return y.sync()
}
