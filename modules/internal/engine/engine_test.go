package engine

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/modules/internal/telemetry"
)

var sqliteStore = config.Store{Kind: "sqlite", Path: "fareway.db"}

func open(t *testing.T) *Engine {
	t.Helper()
	e, err := Open(Options{OpenStore: stores.Open, DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: sqliteStore})
	require.NoError(t, err)
	return e
}

// generation prepares a configuration without providers.
func generation(t *testing.T, e *Engine, window int64) *Generation {
	t.Helper()
	g, err := e.Prepare(context.Background(), &config.Config{
		Store:   sqliteStore,
		Gateway: config.Gateway{DrainTimeout: time.Hour, MaxBodyMemory: 100},
		Routes:  []config.Route{{Name: "r", ContextWindow: window}},
	})
	require.NoError(t, err)
	return g
}

func TestGenerations(t *testing.T) {
	t.Parallel()
	e := open(t)
	require.Nil(t, e.Begin(), "nothing serves before the first configuration")
	require.Error(t, e.Ready())

	first := generation(t, e, 1000)
	e.Activate(first)
	old := e.Begin()
	require.Same(t, first, old.Generation())

	second := generation(t, e, 2000)
	e.Activate(second)
	e.Retire(first)
	require.Same(t, first, old.Generation(), "a request stays on its configuration")
	require.Same(t, second, e.Current())
	require.Equal(t, int64(2000), e.Current().ContextLength(), "MODEL-03")

	failed := generation(t, e, 3000)
	failed.Config.Gateway.MaxBodyMemory = 7
	failed.Config.Hash = "another"
	e.Activate(failed)
	require.InDelta(t, 2, e.metrics.values(t)["fareway_config_number{}"], 0)
	require.EqualValues(t, 7, e.bodies.max.Load())
	e.Retire(failed)
	require.Same(t, second, e.Current(), "a reload that fails after its start leaves the old one serving")
	require.InDelta(t, 3, e.metrics.values(t)["fareway_config_number{}"], 0, "what comes back is in force once more")
	require.EqualValues(t, 100, e.bodies.max.Load(), "with its bounds")

	released := func(g *Generation) func() bool {
		return func() bool { // the work that goes on in the background may have it for a moment
			e.life.mu.Lock()
			defer e.life.mu.Unlock()
			return g.refs == 0
		}
	}
	require.Eventually(t, released(failed), time.Minute, time.Millisecond, "its providers go at once")
	old.Done()
	require.Eventually(t, released(first), time.Minute, time.Millisecond, "and these with the last request")
	e.Retire(second)
	require.Nil(t, e.Current())
	require.NoError(t, e.Close())
}

// TestDataFolderIsPrivate: what has the keys' hashes and everybody's balance is nobody else's on this machine.
func TestDataFolderIsPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	e, err := Open(Options{OpenStore: stores.Open, DataDir: dir, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: sqliteStore})
	require.NoError(t, err)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, e.Close())
}

func TestStoreCannotChange(t *testing.T) {
	t.Parallel()
	e := open(t)
	_, err := e.Prepare(context.Background(), &config.Config{Store: config.Store{Kind: "sqlite", Path: "other.db"}})
	require.ErrorContains(t, err, "the store block has changed")
	require.ErrorContains(t, err, "restart")
	require.NoError(t, e.Close())
}

func TestDrain(t *testing.T) {
	t.Parallel()
	t.Run("waits for the last request", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			e, drained := withoutStore(t)
			w := e.Begin()
			go e.drainInto(drained)
			synctest.Wait()
			require.Error(t, e.Ready(), "no new work is asked for")
			require.NoError(t, w.Stopping().Err())
			w.Done()
			<-drained
			require.NoError(t, e.life.ctx.Err())
		})
	})
	t.Run("ends what is left when the time is over", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			e, drained := withoutStore(t)
			log := new(safe)
			e.SetLogger(slog.New(slog.NewTextHandler(log, nil)))
			w := e.Begin()
			go e.drainInto(drained)
			<-w.Stopping().Done()
			synctest.Wait()
			require.Equal(t, 1, log.count("drain timeout is over"))
			require.ErrorIs(t, context.Cause(w.Stopping()), ErrShutdown)
			w.Done()
			<-drained
		})
	})
}

// TestBeginDrain: while Caddy still listens, nobody is sent here any more, and the drain's time has not begun.
func TestBeginDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := withoutStore(t)
		w := e.Begin()
		e.BeginDrain(time.Minute)
		require.ErrorIs(t, e.Ready(), ErrShutdown)
		e.BeginDrain(0) // the first call counts
		<-time.After(time.Hour)
		synctest.Wait()
		require.NoError(t, w.Stopping().Err())
		<-time.After(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(w.Stopping()), ErrShutdown)
		w.Done()
	})
}

// TestBeginAfterADrain: the listeners close after the drain has begun, so requests still come.
func TestBeginAfterADrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, drained := withoutStore(t)
		e.Drain()
		w := e.Begin()
		require.NotNil(t, w, "it is served")
		require.False(t, e.life.tryStop())
		go e.drainInto(drained)
		synctest.Wait()
		second := e.Begin()
		w.Done()
		synctest.Wait()
		select {
		case <-drained:
			require.Fail(t, "it is waited for")
		default:
		}
		second.Done()
		<-drained
		require.NoError(t, e.life.ctx.Err())
		require.True(t, e.life.tryStop())
		require.Nil(t, e.Begin(), "nothing begins on what is closed")
	})
}

func TestBorrowedGenerationStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, drained := withoutStore(t)
		g, release := e.life.acquire()
		require.Same(t, e.Current(), g)
		e.Retire(g)
		require.Equal(t, 1, g.refs, "its providers stay for whoever has it")
		require.Nil(t, e.Current())

		go e.drainInto(drained)
		<-drained
		require.NoError(t, e.life.ctx.Err(), "a drain waits for requests only")
		release()
		require.Zero(t, g.refs)

		none, release := e.life.acquire()
		require.Nil(t, none)
		release()
	})
}

// withoutStore is an engine without store and providers, for tests of time.
func withoutStore(t *testing.T) (*Engine, chan struct{}) {
	t.Helper()
	e := (&Engine{core: core{log: newSwapLogger(slog.New(slog.DiscardHandler)), metrics: newMetrics(""),
		telemetry: new(telemetry.Recorder), now: time.Now}}).connect()
	e.plans, e.healths = newPlans(e.Logger()), newHealths(time.Now(), nil)
	e.replies = newReplies(&Options{})
	e.life = newLifecycle(e.Logger(), e.use)
	e.Activate(&Generation{refs: 1, Config: &config.Config{Gateway: config.Gateway{DrainTimeout: time.Hour}}})
	return e, make(chan struct{})
}

func (e *Engine) drainInto(done chan struct{}) {
	e.Drain()
	close(done)
}

func TestBodyBudget(t *testing.T) {
	t.Parallel()
	e := open(t)
	e.Activate(generation(t, e, 1))
	require.True(t, e.AcquireBody(60))
	require.False(t, e.AcquireBody(60), "all bodies together")
	require.True(t, e.AcquireBody(40), "what was refused took nothing")
	e.ReleaseBody(60)
	require.True(t, e.AcquireBody(60))
	require.NoError(t, e.Close())
}

func TestSwapLogger(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	s := newSwapLogger(slog.New(slog.NewTextHandler(&first, nil)))
	kept := slog.New(s).With("provider", "up").WithGroup("g")
	kept.Info("one", "k", 1)
	s.set(slog.New(slog.NewTextHandler(&second, nil)))
	kept.Info("two", "k", 2)
	require.Contains(t, first.String(), "msg=one provider=up g.k=1")
	require.NotContains(t, first.String(), "two", "what was made before a reload logs to the new logger")
	require.Contains(t, second.String(), "msg=two provider=up g.k=2")
}
