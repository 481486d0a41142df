package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/llm"
)

// folder is a data folder whose gateway died while its ledger was away.
type folder struct {
	t       *testing.T
	dir     string
	account ledger.Account
	key     ledger.Key
	older   []byte // the database before any of its requests
}

const (
	credits = 1000
	// each is what one of the folder's requests comes to, in microcents.
	each = 100 * 3
)

// readSpool reads the spool without a gateway.
func (f *folder) readSpool() (SpoolState, []spool.Item, error) {
	books, err := sqlite.OpenBooks(f.t.Context(), f.db())
	require.NoError(f.t, err)
	state, items, err := ReadSpool(f.t.Context(), f.db(), books)
	require.NoError(f.t, books.Close())
	return state, items, err
}

// leave makes a folder with so many requests that run, and their settlements in the spool.
func leave(t *testing.T, requests int) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir()}
	store, err := sqlite.Open(sqlite.Options{Path: f.db(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	price := config.Price{Input: 3_000_000, CacheRead: 3_000_000, CacheWrite: 3_000_000, Output: 3_000_000}
	version, err := store.PriceVersion(t.Context(), "small", price, config.Price{})
	require.NoError(t, err)
	f.account, err = store.CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	f.key, err = store.CreateKey(t.Context(), f.account.ID, "laptop", [32]byte{1}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	_, _, err = store.AddCredit(t.Context(), ledger.Credit{Account: f.account.ID, Credits: credits})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	f.older, err = os.ReadFile(f.db())
	require.NoError(t, err)

	store, err = sqlite.Open(sqlite.Options{Path: f.db(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s, err := spool.Open(spool.Path(f.db()), 0)
	require.NoError(t, err)
	for n := range requests {
		at := ledger.Attempt{ID: ledger.AttemptID(request(n), 1), Route: "small", Provider: "echo", Model: "echo-1",
			PriceVersion: version, Worst: 10_000}
		_, err = store.Hold(t.Context(), ledger.Hold{Request: request(n), Account: f.account.ID, Key: f.key.ID,
			Endpoint: "chat", Profile: "balanced", Microcents: 10_000, Tokens: 500, Attempt: at})
		require.NoError(t, err)
		_, err = s.Append(&spool.Record{
			Settlement: ledger.Settlement{Request: request(n), Status: 200, Reason: "ok", Results: []ledger.Result{{
				Attempt: at.ID, Outcome: ledger.Finished,
				Usage: &llm.Usage{Input: llm.Count(60), Output: llm.Count(40)}}}},
			Account: f.account.ID, Key: f.key.ID, Charge: new(int64(each)), Time: time.Unix(1, 0),
			Attempts: []spool.Attempt{{ID: at.ID, Route: at.Route, Provider: at.Provider, Model: at.Model,
				PriceVersion: at.PriceVersion, Price: price}},
		})
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	require.NoError(t, store.Close())
	return f
}

func request(n int) string { return fmt.Sprintf("req_%032x", n) }

func (f *folder) db() string { return filepath.Join(f.dir, "fareway.db") }

// restore puts another copy of the database in place, and returns what was there.
func (f *folder) restore(content []byte) (was []byte) {
	f.t.Helper()
	was, err := os.ReadFile(f.db())
	require.NoError(f.t, err)
	for _, beside := range []string{"-wal", "-shm"} {
		_ = os.Remove(f.db() + beside)
	}
	require.NoError(f.t, os.WriteFile(f.db(), content, 0o600))
	return was
}

// remove takes the database away, and what knows of it.
func (f *folder) remove() {
	f.t.Helper()
	require.NoError(f.t, os.Remove(f.db()))
	require.NoError(f.t, os.Remove(f.db()+".witness"))
}

// damage turns a bit of the spool.
func (f *folder) damage(at int64) {
	f.t.Helper()
	b, err := os.ReadFile(spool.Path(f.db()))
	require.NoError(f.t, err)
	b[at] ^= 1
	require.NoError(f.t, os.WriteFile(spool.Path(f.db()), b, 0o600))
}

// start opens the folder's engine.
func (f *folder) start() (*Engine, *safe) {
	f.t.Helper()
	log := new(safe)
	e, err := Open(Options{OpenStore: stores.Open, DataDir: f.dir, Logger: slog.New(slog.NewTextHandler(log, nil))},
		&config.Config{Store: sqliteStore})
	require.NoError(f.t, err)
	return e, log
}

// requireOwed checks what the account was charged, and that the ledger is clean.
func (f *folder) requireOwed(e *Engine, microcents int64) {
	f.t.Helper()
	a, err := e.Store().Account(f.t.Context(), f.account.ID)
	require.NoError(f.t, err)
	require.EqualValues(f.t, credits*ledger.MicrocentsPerCredit-microcents, a.Balance.Net())
	require.Zero(f.t, a.Balance.Held)
	r, err := e.Store().Verify(f.t.Context())
	require.NoError(f.t, err)
	require.True(f.t, r.OK, r.Problem)
}

func undecided(t *testing.T, e *Engine) int {
	t.Helper()
	n := e.Spool().Undecided
	require.InDelta(t, n, e.metrics.values(t)["fareway_spool_undecided{}"], 0)
	return int(n)
}

// acts are the actions in the audit trail.
func acts(t *testing.T, b ledger.Books) (list []string) {
	t.Helper()
	require.NoError(t, b.Audit(t.Context(), ledger.Query{}, func(a ledger.Act) error {
		list = append(list, a.Action+" by "+a.Actor+" of "+a.AccountName)
		return nil
	}))
	return list
}

// TestManyItemsAside: many of a kind that a start finds have few lines.
func TestManyItemsAside(t *testing.T) {
	t.Parallel()
	f := leave(t, asideLines+4)
	newer := f.restore(f.older)
	e, log := f.start()
	require.Equal(t, asideLines+4, undecided(t, e))
	require.Equal(t, asideLines, log.count("cannot be applied and is kept aside"))
	require.Equal(t, 1, log.count("there were more of these items"))
	require.Equal(t, 1, log.count("more=4"))
	require.NoError(t, e.Close())
	f.restore(newer)
	e, log = f.start()
	require.Equal(t, asideLines, log.count("is applied: the ledger knows its request now"))
	require.Equal(t, 1, log.count("more=4"))
	f.requireOwed(e, each*(asideLines+4))
	for i := range asideLines + 1 {
		require.NoError(t, e.settler.refuse(courseOf(fmt.Sprint("late ", i)), book.TakenUp{Err: ledger.ErrNotFound}))
	}
	require.Equal(t, asideLines+1, log.count("cannot be applied and is kept aside"),
		"each of a running gateway's has its own")
	require.NoError(t, e.Close())
}

// TestOlderDatabase (GAP-133): acknowledged charges whose requests the ledger does not know are charged when an
// operator says so, once.
func TestOlderDatabase(t *testing.T) {
	t.Parallel()
	f := leave(t, 4)
	newer := f.restore(f.older)
	e, log := f.start()
	require.Equal(t, 4, undecided(t, e))
	require.Zero(t, e.Spool().Settlements)
	require.Equal(t, f.db()+".spool.aside", e.Spool().Aside)
	require.Equal(t, 4, log.count("cannot be applied and is kept aside"))
	require.Equal(t, 4, log.count(e.Spool().Aside))
	f.requireOwed(e, 0)

	require.Zero(t, log.count("there were more of these items"))

	items := e.Aside().Items()
	for n, item := range items {
		require.Equal(t, spool.UnknownRequest, item.Kind)
		require.Contains(t, item.Why, "the ledger does not know the request")
		r := item.Record
		require.Equal(t, request(n), r.Settlement.Request)
		require.Equal(t, []any{f.account.ID, f.key.ID, int64(each)}, []any{r.Account, r.Key, *r.Charge})
		require.Equal(t, []spool.Attempt{{ID: request(n) + ".1", Route: "small", Provider: "echo", Model: "echo-1",
			PriceVersion: 1, Price: config.Price{Input: 3_000_000, CacheRead: 3_000_000, CacheWrite: 3_000_000,
				Output: 3_000_000}}}, r.Attempts)
	}
	mary := ledger.WithActor(t.Context(), "mary")
	done, err := e.Aside().Apply(mary, items[0].ID, "restored on Monday")
	require.NoError(t, err)
	require.EqualValues(t, each, done.Decision.Microcents)
	require.Equal(t, "mary", done.Decision.Actor)
	require.Equal(t, 3, undecided(t, e))
	f.requireOwed(e, each)
	var last ledger.Entry
	require.NoError(t, e.Store().Entries(t.Context(), ledger.Query{}, func(x ledger.Entry) error { last = x; return nil }))
	require.Equal(t, []any{ledger.Adjustment, "spool " + request(0), "restored on Monday", int64(-each)},
		[]any{last.Kind, last.Reference, last.Reason, last.Microcents})

	type decide = func(ctx context.Context, id, reason string) (spool.Item, error)
	for _, again := range []decide{e.Aside().Apply, e.Aside().Discard} {
		_, err = again(mary, items[0].ID, "once more")
		require.ErrorIs(t, err, spool.ErrDecided)
		_, err = again(mary, "aside_0", "")
		require.ErrorIs(t, err, spool.ErrUnknown)
	}
	_, err = e.Aside().Discard(mary, items[1].ID, "a goodwill")
	require.NoError(t, err)
	require.Equal(t, 2, undecided(t, e))
	f.requireOwed(e, each)
	trail := acts(t, e.Store())
	require.Equal(t, []string{"credit.adjust by mary of ann", "spool.apply by mary of ann",
		"spool.discard by mary of ann"},
		trail[len(trail)-3:])

	// A crash between the correction and the decision.
	broken := &unrecorded{asideLedger: e.aside.ledger, err: errors.New("the power is gone")}
	e.aside.ledger = broken
	_, err = e.Aside().Apply(mary, items[2].ID, "restored")
	require.ErrorIs(t, err, broken.err)
	require.Equal(t, 2, undecided(t, e))
	e.aside.ledger = broken.asideLedger
	_, err = e.Aside().Apply(mary, items[2].ID, "restored")
	require.NoError(t, err)
	f.requireOwed(e, 2*each)
	require.NoError(t, e.Close())

	e, log = f.start()
	require.Equal(t, 1, undecided(t, e), "what is decided stays so")
	require.Equal(t, 1, log.count("an operator has to decide"))
	require.NoError(t, e.Close())

	// The newer copy is back, which has nothing of what was decided in the older one: nothing is done until somebody has
	// said that this one holds, and then everything is applied, as it would have been.
	f.restore(newer)
	_, items, err = f.readSpool()
	require.NoError(t, err)
	require.Contains(t, items[1].Why, "it was discarded by mary")
	e, log = f.start()
	require.Equal(t, 4, undecided(t, e))
	require.Equal(t, 1, log.count("a part of the ledger is missing"))
	require.NotNil(t, e.Store().Loss())
	_, err = e.Aside().Apply(mary, items[0].ID, "right")
	require.ErrorIs(t, err, ledger.ErrLost)
	report, err := e.Store().Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{false, "witness"}, []any{report.OK, report.Entry})
	_, err = e.AcceptLoss(mary, "the newer copy is back")
	require.NoError(t, err)
	require.Zero(t, undecided(t, e))
	require.Equal(t, 4, log.count("the ledger knows its request now"))
	f.requireOwed(e, 4*each)
	require.NoError(t, e.Close())
	e, _ = f.start()
	require.Zero(t, undecided(t, e))
	require.Nil(t, e.Store().Loss())
	require.NoError(t, e.Close())
}

// unrecorded is a ledger whose audit trail cannot be written.
type unrecorded struct {
	asideLedger
	err error
}

func (u *unrecorded) RecordAct(context.Context, string, string, string, map[string]any) error {
	return u.err
}

// TestAccountIsGone: nobody can be charged then, and the item stays for a decision.
func TestAccountIsGone(t *testing.T) {
	t.Parallel()
	f := leave(t, 1)
	f.remove()
	e, _ := f.start()
	item := e.Aside().Items()[0]
	_, err := e.Aside().Apply(t.Context(), item.ID, "right")
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.ErrorContains(t, err, "the ledger has no account "+f.account.ID)
	require.Equal(t, 1, undecided(t, e))
	_, err = e.Aside().Discard(t.Context(), item.ID, "it is gone")
	require.NoError(t, err)
	require.Zero(t, undecided(t, e))
	require.NoError(t, e.Close())
}

// balky is a ledger that does not do everything.
type balky struct {
	asideLedger
	settle, receipt, correct error
}

func (b *balky) Settle(ctx context.Context, s ledger.Settlement) (ledger.Charge, error) {
	if b.settle != nil {
		return ledger.Charge{}, b.settle
	}
	return b.asideLedger.Settle(ctx, s)
}

func (b *balky) AddReceipt(ctx context.Context, at string, u llm.Usage) (ledger.Charge, bool, error) {
	if b.receipt != nil {
		return ledger.Charge{}, false, b.receipt
	}
	return b.asideLedger.AddReceipt(ctx, at, u)
}

func (b *balky) Correct(ctx context.Context, c ledger.Correction) (ledger.Balance, bool, error) {
	if b.correct != nil {
		return ledger.Balance{}, false, b.correct
	}
	return b.asideLedger.Correct(ctx, c)
}

// TestApplyWhileTheLedgerIsAway: an item is decided when its account is charged, not before, and then once.
func TestApplyWhileTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	f := leave(t, 1)
	newer := f.restore(f.older)
	e, _ := f.start()
	item := e.Aside().Items()[0]
	store := e.aside.ledger
	refused := func(b *balky) {
		t.Helper()
		b.asideLedger = store
		e.aside.ledger = b
		_, err := e.Aside().Apply(t.Context(), item.ID, "right")
		require.ErrorIs(t, err, ledger.ErrUnavailable)
		require.Equal(t, 1, undecided(t, e))
	}
	refused(&balky{settle: ledger.ErrUnavailable})
	refused(&balky{correct: ledger.ErrUnavailable})
	f.requireOwed(e, 0)
	require.NoError(t, e.Close())

	// Its request was settled at nothing in the meantime: the receipt charges it.
	f.restore(newer)
	require.NoError(t, os.Rename(spool.AsidePath(spool.Path(f.db())), f.db()+".kept"))
	e, _ = f.start()
	require.NoError(t, e.Close())
	require.NoError(t, os.Rename(f.db()+".kept", spool.AsidePath(spool.Path(f.db()))))
	store2, err := sqlite.Open(sqlite.Options{Path: f.db(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	file, err := spool.Open(spool.Path(f.db()), 0)
	require.NoError(t, err)
	a := &Aside{file: file.Aside(), ledger: &balky{asideLedger: store2, receipt: ledger.ErrUnavailable}, now: timing.Now,
		changed: func() {}}
	_, err = a.Apply(t.Context(), item.ID, "right")
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	_, err = a.file.Find(item.ID)
	require.NoError(t, err, "it waits as before")
	a.ledger = store2
	done, err := a.Apply(t.Context(), item.ID, "right")
	require.NoError(t, err)
	require.Zero(t, done.Decision.Microcents, "its request is charged, not its balance corrected")
	require.NoError(t, file.Close())
	require.NoError(t, store2.Close())
	e, _ = f.start()
	f.requireOwed(e, each)
	require.NoError(t, e.Close())
}

// TestOpenWithoutItsSpool: an engine that cannot take up its spool does not start, for recovery would settle what is
// in it at nothing.
func TestOpenWithoutItsSpool(t *testing.T) {
	t.Parallel()
	f := leave(t, 2)
	s, err := spool.Open(spool.Path(f.db()), 0)
	require.NoError(t, err)
	unknown := s.Oldest(1).Records[0]
	unknown.Settlement.Request = request(9)
	_, err = s.Append(&unknown)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	blocked := spool.AsidePath(spool.Path(f.db())) + ".new"
	require.NoError(t, os.Mkdir(blocked, 0o700))
	_, err = Open(Options{OpenStore: stores.Open, DataDir: f.dir, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: sqliteStore})
	require.ErrorContains(t, err, "applying the settlements of the spool")
	require.NoError(t, os.Remove(blocked))
	e, _ := f.start()
	f.requireOwed(e, 2*each)
	require.Equal(t, 1, undecided(t, e))
	require.NoError(t, e.Close())

	require.NoError(t, os.WriteFile(spool.Path(f.db()), []byte("something else"), 0o600))
	_, err = Open(Options{OpenStore: stores.Open, DataDir: f.dir, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: sqliteStore})
	require.ErrorIs(t, err, spool.ErrForeign)
	_, _, _, err = OpenAside(f.db(), stores.File(f.db()).Open, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, spool.ErrForeign)
	_, _, err = f.readSpool()
	require.ErrorIs(t, err, spool.ErrForeign)
	require.NoError(t, os.Remove(spool.Path(f.db())))
	_, _, closeAll, err := OpenAside(f.db(), stores.File(f.db()).Open, slog.New(slog.DiscardHandler))
	require.NoError(t, err, "what failed before left nothing locked")
	require.NoError(t, closeAll())
}

// TestDamagedSpool: one turned bit takes one settlement, and every other is charged.
func TestDamagedSpool(t *testing.T) {
	t.Parallel()
	f := leave(t, 5)
	f.damage(4096 + 512 + 12)
	state, items, err := f.readSpool()
	require.NoError(t, err)
	require.EqualValues(t, 4, state.Settlements)
	require.Len(t, state.Damaged, 1)
	require.Empty(t, items)

	e, log := f.start()
	require.Equal(t, 1, log.count("an operator has to decide"))
	require.Equal(t, 1, undecided(t, e))
	f.requireOwed(e, 4*each)
	item := e.Aside().Items()[0]
	require.Equal(t, state.Damaged[0].ID, item.ID)
	require.Equal(t, []string{request(1)}, item.Damage.Requests)
	_, err = e.Aside().Apply(t.Context(), item.ID, "right")
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.ErrorContains(t, err, "credit adjust")
	require.NoError(t, e.Close())

	state, items, err = f.readSpool()
	require.NoError(t, err)
	require.Equal(t, []any{int64(0), int64(1), 0}, []any{state.Settlements, state.Undecided, len(state.Damaged)})
	require.Len(t, items, 1)

	// The same without a gateway.
	a, _, closeAside, err := OpenAside(f.db(), stores.File(f.db()).Open, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, _, _, err = OpenAside(f.db(), stores.File(f.db()).Open, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, ledger.ErrLocked)
	_, err = a.Discard(ledger.WithActor(t.Context(), "mary"), item.ID, "seen")
	require.NoError(t, err)
	require.Len(t, a.Items(), 1)
	require.NoError(t, closeAside())
	state, _, err = f.readSpool()
	require.NoError(t, err)
	require.Zero(t, state.Undecided)

	e, _ = f.start()
	require.Zero(t, undecided(t, e))
	trail := acts(t, e.Store())
	require.Equal(t, "spool.discard by mary of ", trail[len(trail)-1])
	require.NoError(t, e.Close())
}

// TestSpoolThatWasAway: somebody moved the spool away, the gateway recovered its requests at nothing, and it comes
// back.
func TestSpoolThatWasAway(t *testing.T) {
	t.Parallel()
	f := leave(t, 2)
	away := filepath.Join(f.dir, "kept")
	require.NoError(t, os.Rename(spool.Path(f.db()), away))
	e, _ := f.start()
	f.requireOwed(e, 0)
	// One of the two is closed at zero before it does.
	_, _, err := e.Store().AddReceipt(t.Context(), request(1)+".1", llm.Usage{Input: llm.Count(0), Output: llm.Count(10)})
	require.NoError(t, err)
	f.requireOwed(e, 30)
	require.NoError(t, e.Close())
	require.NoError(t, os.Rename(away, spool.Path(f.db())))

	e, _ = f.start()
	f.requireOwed(e, each+30)
	require.Equal(t, 1, undecided(t, e))
	item := e.Aside().Items()[0]
	require.Equal(t, spool.Differs, item.Kind)
	require.Contains(t, item.Why, "was settled before, at 30 microcents")
	done, err := e.Aside().Apply(t.Context(), item.ID, "what it used")
	require.NoError(t, err)
	require.EqualValues(t, each-30, done.Decision.Microcents)
	f.requireOwed(e, 2*each)
	require.NoError(t, e.Close())
}

// fixture writes a committed file.
func fixture(t *testing.T, name, to string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".gz"))
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	content, err := io.ReadAll(z)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o600))
}

// TestOldSpoolWithRunningRequests: what the fareway before left, with four requests running and the settlements of
// three in its spool, is applied by this one.
func TestOldSpoolWithRunningRequests(t *testing.T) {
	t.Parallel()
	f := &folder{t: t, dir: t.TempDir()}
	fixture(t, "spool1-running.db", f.db())
	fixture(t, "spool1-running.spool", spool.Path(f.db()))
	e, _ := f.start()
	require.Zero(t, undecided(t, e))
	var err error
	f.account, err = e.Store().Account(t.Context(), "ann")
	require.NoError(t, err)
	f.requireOwed(e, 3*100+(10+20+30)*5)
	require.NoError(t, e.Close())

	// Without what it came to, nobody can be charged for a request that is not known.
	f.remove()
	fixture(t, "spool1-running.spool", spool.Path(f.db()))
	e, _ = f.start()
	require.Equal(t, 3, undecided(t, e))
	_, err = e.Aside().Apply(t.Context(), e.Aside().Items()[0].ID, "right")
	require.ErrorContains(t, err, "an older fareway kept it")
	require.NoError(t, e.Close())
}

// TestRefusedOfTheSpool: what the ledger refuses is free until an operator decides, and then charged.
func TestRefusedOfTheSpool(t *testing.T) {
	t.Parallel()
	f := leave(t, 1)
	s, err := spool.Open(spool.Path(f.db()), 0)
	require.NoError(t, err)
	bad := s.Oldest(1).Records[0]
	require.NoError(t, s.ReleaseBatch(s.Oldest(1)))
	bad.Settlement.Results[0].Outcome = "of a newer fareway"
	_, err = s.Append(&bad)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	e, _ := f.start()
	require.Equal(t, 1, undecided(t, e))
	item := e.Aside().Items()[0]
	require.Equal(t, spool.Refused, item.Kind)
	r, err := e.Store().Request(t.Context(), request(0))
	require.NoError(t, err)
	require.True(t, r.Free, "its hold does not stay")
	f.requireOwed(e, 0)
	_, err = e.Aside().Apply(t.Context(), item.ID, "right")
	require.NoError(t, err)
	f.requireOwed(e, each)
	require.NoError(t, e.Close())
}

// TestAsideCannotBeWritten: a settlement stays in the spool until it is applied or kept aside.
func TestAsideCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir, l := t.TempDir(), newTill()
	spoolIn(t, dir, courseOf("a"))
	l.unknown["a"] = true
	blocked := spool.AsidePath(filepath.Join(dir, "spool")) + ".new"
	require.NoError(t, os.Mkdir(blocked, 0o700))
	s, err := openSettler(filepath.Join(dir, "spool"), l, newMetrics(""), slog.New(slog.DiscardHandler), timing)
	require.NoError(t, err)
	require.ErrorContains(t, s.takeUp(t.Context()), "keeping the settlement of request")
	require.EqualValues(t, 1, s.spool.Len())
	require.NoError(t, os.Remove(blocked))
	require.NoError(t, s.takeUp(t.Context()))
	require.Zero(t, s.spool.Len())
	require.EqualValues(t, 1, s.spool.Aside().Undecided())
	require.NoError(t, s.spool.Close())
}

// TestRepeat is what comes of a settlement of the spool, by what the ledger says.
func TestRepeat(t *testing.T) {
	t.Parallel()
	usage := &llm.Usage{Input: llm.Count(1), Output: llm.Count(1)}
	charged := func(c ledger.Charge) func(*till, *spool.Record) {
		return func(l *till, _ *spool.Record) { l.charges["a"] = c }
	}
	refused := func(what string, err error) func(*till, *spool.Record) {
		return func(l *till, _ *spool.Record) { l.charges["a"], l.refuses[what] = ledger.Charge{Pending: true}, err }
	}
	for name, c := range map[string]struct {
		change func(*till, *spool.Record)
		kind   spool.Kind
		taken  int // receipts
	}{
		"it takes it":                 {func(*till, *spool.Record) {}, "", 0},
		"it took it before":           {charged(ledger.Charge{Microcents: 5}), "", 0},
		"and waived it":               {charged(ledger.Charge{Microcents: 1, Waived: 4}), "", 0},
		"and it is over its hold":     {charged(ledger.Charge{Microcents: 3, Over: 2}), "", 0},
		"and more came later":         {charged(ledger.Charge{Microcents: 9, Pending: true}), "", 0},
		"it settled it at less":       {charged(ledger.Charge{Microcents: 4}), spool.Differs, 0},
		"it recovered it":             {charged(ledger.Charge{Pending: true}), "", 1},
		"and refuses the receipt":     {refused("a.1", ledger.ErrUsage), spool.Differs, 0},
		"it does not know an attempt": {refused("a", ledger.ErrNotFound), spool.Refused, 0},
		"it refuses it":               {refused("a", ledger.ErrInvalid), spool.Refused, 0},
		"it does not know it":         {func(l *till, _ *spool.Record) { l.unknown["a"] = true }, spool.UnknownRequest, 0},
		"and nothing is proven": {func(l *till, r *spool.Record) {
			l.charges["a"], r.Settlement.Results[0].Usage = ledger.Charge{Pending: true}, nil
		}, spool.Differs, 0},
		"and fair use may be over it": {func(l *till, r *spool.Record) {
			l.charges["a"], r.Settlement.ServiceLimit = ledger.Charge{Pending: true}, true
		}, spool.Differs, 0},
		"nobody knows what it was": {func(l *till, r *spool.Record) {
			l.charges["a"], r.Charge = ledger.Charge{}, nil
		}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, charge := newTill(), int64(5)
			r := &spool.Record{Settlement: courseOf("a").End.Settlement, Charge: &charge}
			r.Settlement.Results[0].Usage = usage
			c.change(l, r)
			v := settleOrFree(t.Context(), l, r)
			require.NoError(t, v.away)
			require.Equal(t, c.kind, v.kind)
			require.Equal(t, v.kind == "", v.why == nil)
			require.Len(t, l.used, c.taken)
			if v.kind != spool.Refused {
				require.Equal(t, v, settleOrFree(t.Context(), l, r), "once more is the same")
			}
			require.Len(t, l.used, c.taken)
			l.away = true
			require.ErrorIs(t, settleOrFree(t.Context(), l, r).away, ledger.ErrUnavailable)
		})
	}
}

// TestRefusedOfARunningEngine: what the store does not take up of a request that has ended is kept aside at once, and
// the request stays in the spool while it cannot be.
func TestRefusedOfARunningEngine(t *testing.T) {
	t.Parallel()
	e := open(t)
	refused := book.TakenUp{Err: ledger.ErrNotFound}
	require.NoError(t, e.settler.refuse(courseOf("a"), refused))
	require.Equal(t, 1, undecided(t, e))
	require.Equal(t, spool.UnknownRequest, e.Aside().Items()[0].Kind)
	require.NoError(t, e.settler.refuse(courseOf("a"), refused), "once")
	require.Equal(t, 1, undecided(t, e))
	require.NoError(t, e.settler.refuse(courseOf("b"), book.TakenUp{Before: true,
		Charge: ledger.Charge{Microcents: computed}}), "an answer was lost")
	require.Equal(t, 1, undecided(t, e))
	require.NoError(t, e.settler.refuse(courseOf("b"), book.TakenUp{Before: true,
		Charge: ledger.Charge{Microcents: computed - 1}}))
	require.Equal(t, spool.Differs, e.Aside().Items()[1].Kind)
	require.NoError(t, e.Close())
}

// lapsing is a ledger that does not know a request, and is away when it is asked again.
type lapsing struct{ *till }

func (lapsing) Settle(_ context.Context, s ledger.Settlement) (ledger.Charge, error) {
	if s.Free {
		return ledger.Charge{}, ledger.ErrUnavailable
	}
	return ledger.Charge{}, ledger.ErrNotFound
}

// TestRepeatInterrupted: nothing is kept aside on half an answer.
func TestRepeatInterrupted(t *testing.T) {
	t.Parallel()
	v := settleOrFree(t.Context(), lapsing{newTill()}, &spool.Record{Settlement: courseOf("a").End.Settlement})
	require.ErrorIs(t, v.away, ledger.ErrUnavailable)
	require.Empty(t, v.kind)
}
