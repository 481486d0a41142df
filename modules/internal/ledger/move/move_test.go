package move_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/move"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

func TestMain(m *testing.M) {
	code := 0
	if !isHelper() {
		code = m.Run()
	} else {
		code = help()
	}
	if err := postgrestest.StopOwn(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var quiet = slog.New(slog.DiscardHandler)

// house is a ledger in a file, with the clock and the plans of whoever made it.
type house struct {
	path  string
	now   func() time.Time
	terms func(string) ledger.Terms
	boots int
}

func (h *house) open(t testing.TB) *sqlite.Store {
	h.boots++
	s, err := sqlite.Open(sqlite.Options{Path: h.path, BootID: fmt.Sprint("boot ", h.boots), Now: h.now, Terms: h.terms,
		Logger: quiet, WaitTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// openNode opens the ledger that was moved, as a gateway does.
func (h *house) openNode(t testing.TB, url string) ledger.Store {
	s, err := postgres.Open(context.Background(), postgres.Options{URL: url, BootID: "node " + t.Name(),
		Options: ledger.Options{Now: h.now, Terms: h.terms, Logger: quiet, WaitTimeout: time.Minute}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func openTarget(t testing.TB, url string) *postgres.Target {
	target, err := postgres.OpenTarget(context.Background(), postgres.Options{URL: url,
		Options: ledger.Options{Logger: quiet}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Close()) })
	return target
}

// walked is a ledger in which random things have happened, in an order that a seed decides, with what no walk does.
func walked(t testing.TB, rounds int) *house {
	h := &house{path: filepath.Join(t.TempDir(), "fareway.db")}
	s := ledgertest.Walk(t.(*testing.T), func(t testing.TB, o ledgertest.Options) ledger.Store {
		h.now, h.terms = o.Now, o.Terms
		return h.open(t)
	}, rounds)
	ctx := ledger.WithActor(context.Background(), "mary")
	require.NoError(t, s.Learn(ctx, func([]ledger.Learned) []ledger.Learned {
		return []ledger.Learned{{Route: "unit", Model: "m", Kind: "code", Worked: 1.25, Failed: 1e-9, Good: 3, At: h.now()}}
	}))
	require.NoError(t, s.RecordAct(ctx, "spool.discard", "", "item", map[string]any{"reason": "seen"}))
	var accounts []ledger.Account
	require.NoError(t, s.Accounts(ctx, "", func(a ledger.Account) error {
		accounts = append(accounts, a)
		return nil
	}))
	a := accounts[0].ID
	_, err := s.SetLimit(ctx, a, ledger.LimitTokenBudget, new(int64(1<<50)))
	require.NoError(t, err)
	_, err = s.SetRequires(ctx, a, ledger.RequiresChange{Regions: &[]string{"eu", "ch"}, Retention: new("none")})
	require.NoError(t, err)
	_, err = s.SetProfile(ctx, a, "max")
	require.NoError(t, err)
	_, err = s.SetMail(ctx, a, []string{"ann@example.com", "bob@example.net"})
	require.NoError(t, err)
	_, err = s.RenameAccount(ctx, a, `a "quoted" name, Zoë`)
	require.NoError(t, err)
	n, err := s.Prune(ctx, middle(t, s))
	require.NoError(t, err)
	require.Positive(t, n)
	path := filepath.Join(t.TempDir(), "fareway.db") // who walks verifies the other one in the end
	require.NoError(t, sqlite.Copy(ctx, h.path, path))
	h.path = path
	return h
}

// middle is when the middle one of the requests was settled.
func middle(t testing.TB, s ledger.Store) time.Time {
	var at []time.Time
	require.NoError(t, s.Entries(context.Background(), ledger.Query{}, func(e ledger.Entry) error {
		if e.Kind == ledger.Charged {
			at = append(at, e.Created)
		}
		return nil
	}))
	slices.SortFunc(at, time.Time.Compare)
	return at[len(at)/2].Add(1)
}

// old is a ledger that a fareway of before has written, of each schema.
func old(t testing.TB, name string) *house {
	f, err := os.Open(filepath.Join("..", "sqlite", "testdata", name))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	now := time.Now()
	h := &house{path: filepath.Join(t.TempDir(), "fareway.db"), now: func() time.Time { return now },
		terms: func(string) ledger.Terms { return ledger.Terms{} }}
	require.NoError(t, os.WriteFile(h.path, data, 0o600))
	s := h.open(t)
	_, err = s.Recover(context.Background())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return h
}

// reads are what a ledger answers to everything that can be read, as text.
func reads(t testing.TB, s ledger.Store, hashes [][]byte) map[string][]string {
	ctx := context.Background()
	all := map[string][]string{}
	add := func(name string, v any) {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		all[name] = append(all[name], string(text))
	}
	require.NoError(t, s.Accounts(ctx, "", func(a ledger.Account) error { add("accounts", a); return nil }))
	require.NoError(t, s.Keys(ctx, ledger.KeyQuery{}, func(k ledger.Key) error { add("keys", k); return nil }))
	plans, err := s.Plans(ctx)
	require.NoError(t, err)
	add("plans", plans)
	var checkpoints []ledger.Checkpoint
	require.NoError(t, s.Checkpoints(ctx, func(c ledger.Checkpoint) error {
		checkpoints = append(checkpoints, c)
		add("checkpoints", c)
		return nil
	}))
	requests := map[string]bool{}
	entries := func(name string, q ledger.Query, sorted bool) {
		require.NoError(t, s.Entries(ctx, q, func(e ledger.Entry) error {
			add(name, e)
			requests[e.Request] = true
			return nil
		}))
		if sorted { // what several accounts have is in an order of the store's own
			slices.Sort(all[name])
		}
	}
	entries("entries", ledger.Query{}, true)
	for _, c := range checkpoints {
		entries(fmt.Sprint("entries of checkpoint ", c.N), ledger.Query{Checkpoint: c.N}, true)
	}
	require.NoError(t, s.Audit(ctx, ledger.Query{}, func(a ledger.Act) error { add("audit", a); return nil }))
	for _, text := range all["accounts"] {
		var a ledger.Account
		require.NoError(t, json.Unmarshal([]byte(text), &a))
		entries("entries of "+a.ID, ledger.Query{Account: a.ID}, false)
		require.NoError(t, s.Audit(ctx, ledger.Query{Account: a.ID}, func(act ledger.Act) error {
			add("audit of "+a.ID, act)
			return nil
		}))
		require.NoError(t, s.Keys(ctx, ledger.KeyQuery{Account: a.ID}, func(k ledger.Key) error {
			add("keys of "+a.ID, k)
			return nil
		}))
		named, err := s.Account(ctx, a.Name)
		require.NoError(t, err)
		add("account "+a.ID, named)
	}
	for _, hash := range hashes {
		p, err := s.Lookup(ctx, [32]byte(hash))
		require.NoError(t, err)
		add("lookup", p)
	}
	for id := range requests {
		if id == "" {
			continue
		}
		r, err := s.Request(ctx, id)
		add("request "+id, r)
		if err != nil {
			require.ErrorIs(t, err, ledger.ErrNotFound)
			p, err := s.Pruned(ctx, id)
			require.NoError(t, err)
			add("pruned "+id, p)
		}
	}
	dimensions := []ledger.Dimension{ledger.ByAccount, ledger.ByKey, ledger.ByRoute, ledger.ByDay}
	for set := range 1 << len(dimensions) {
		var by []ledger.Dimension
		for i, d := range dimensions {
			if set&(1<<i) != 0 {
				by = append(by, d)
			}
		}
		name := fmt.Sprint("usage by ", by)
		require.NoError(t, s.Usage(ctx, ledger.UsageQuery{By: by}, func(r ledger.UsageRow) error {
			add(name, r)
			return nil
		}))
		slices.Sort(all[name])
	}
	before, err := s.PrunedBefore(ctx)
	require.NoError(t, err)
	add("pruned before", before)
	counts, err := s.CountWaiting(ctx)
	require.NoError(t, err)
	add("waiting", counts)
	for provider := range counts {
		waiting, err := s.Waiting(ctx, provider, "", 1<<20)
		require.NoError(t, err)
		add("waiting for "+provider, waiting)
	}
	require.NoError(t, s.Learn(ctx, func(kept []ledger.Learned) []ledger.Learned { add("learned", kept); return kept }))
	r, err := s.Verify(ctx, checkpoints...)
	require.NoError(t, err)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	r.Witnessed, r.PowerCut = false, nil // of a file alone
	for book, n := range r.Sums {
		if n == 0 {
			delete(r.Sums, book)
		}
	}
	add("verified", r)
	return all
}

// hashesOf are those of all keys, read where they lie.
func hashesOf(t testing.TB, s *sqlite.Store) (all [][]byte) {
	for _, table := range s.MovedTables() {
		if i := slices.Index(table.Columns, "hash"); table.Name == "hashes" {
			require.NoError(t, s.ReadMoved(context.Background(), table, nil, func(r move.Row) error {
				all = append(all, r.Values[i].([]byte))
				return nil
			}))
		}
	}
	return all
}

// moveTo moves a ledger, and compares everything that can be read.
func (h *house) moveTo(t testing.TB, url string, o move.Options) move.Done {
	s := h.open(t)
	hashes := hashesOf(t, s)
	was := reads(t, s, hashes)
	done, err := move.Run(context.Background(), s, openTarget(t, url), o)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	h.compare(t, url, was, hashes)
	return done
}

func (h *house) compare(t testing.TB, url string, was map[string][]string, hashes [][]byte) ledger.Store {
	node := h.openNode(t, url)
	is := reads(t, node, hashes)
	for name, texts := range was {
		require.Equal(t, texts, is[name], name)
	}
	require.Len(t, is, len(was))
	return node
}

// A ledger in which random things have happened answers everything as it did.
func TestMoveOfWalks(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			h := walked(t, 300)
			url := postgrestest.Database(t)
			done := h.moveTo(t, url, move.Options{From: "here", To: "there", Batch: 1 + i*37})
			require.Positive(t, done.Rows["heads"])
			require.Positive(t, done.Rows["pruned"])
			require.Positive(t, done.Rows["waiting"])
			for table, rows := range done.Rows {
				require.Positive(t, rows, "nothing was moved of %s, which so is not tested", table)
			}
		})
	}
}

// A ledger that an older fareway began, whose entries, acts and checkpoints have the formats of their time, too.
func TestMoveOfOldLedgers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"schema1", "schema2", "schema3", "schema4", "schema6", "schema14"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old(t, name+".db.gz").moveTo(t, postgrestest.Database(t), move.Options{From: "here", To: "there", Batch: 3})
		})
	}
}

// What came behind the move is verified with what came before it, and checkpoints that were kept still hold.
func TestMovedLedgerGoesOn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"schema3", "schema14"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, url, ctx := old(t, name+".db.gz"), postgrestest.Database(t), context.Background()
			s := h.open(t)
			kept, err := s.MakeCheckpoint(ctx)
			require.NoError(t, err)
			_, err = move.Run(ctx, s, openTarget(t, url), move.Options{From: "here", To: "there"})
			require.NoError(t, err)
			require.NoError(t, s.Close())
			node := h.openNode(t, url)
			var accounts []ledger.Account
			require.NoError(t, node.Accounts(ctx, "", func(a ledger.Account) error {
				accounts = append(accounts, a)
				return nil
			}))
			for i := range 3 {
				for _, a := range accounts {
					_, _, err := node.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: 5, Reference: fmt.Sprint(i)})
					require.NoError(t, err)
				}
				fresh, err := node.CreateAccount(ctx, fmt.Sprint("new ", i), "")
				require.NoError(t, err)
				accounts = append(accounts, fresh)
				next, err := node.MakeCheckpoint(ctx)
				require.NoError(t, err)
				r, err := node.Verify(ctx, kept, next)
				require.NoError(t, err)
				require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
				r, err = node.VerifyAs(ctx, ledger.Verification{From: &kept})
				require.NoError(t, err)
				require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
				require.Less(t, r.Entries, int64(20))
			}
			waiting, err := node.CountWaiting(ctx)
			require.NoError(t, err)
			closed, err := node.CloseUnproven(ctx, h.now().Add(time.Hour))
			require.NoError(t, err)
			sum := int64(0)
			for _, n := range waiting {
				sum += n
			}
			require.Equal(t, sum, closed.Attempts)
			r, err := node.Verify(ctx, kept)
			require.NoError(t, err)
			require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
			forged := kept
			forged.Hash[0] ^= 1
			r, err = node.Verify(ctx, forged)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("checkpoint/%d", kept.N), r.Entry)
		})
	}
}

// Each table and each column of the old store is moved, or it is known why it is not: a change of it changes what is
// moved. And each column of the new one is filled, or has what it begins with.
func TestEveryColumnIsMoved(t *testing.T) {
	t.Parallel()
	h, ctx := walked(t, 200), context.Background()
	url := postgrestest.Database(t)
	target := openTarget(t, url)
	s := h.open(t)
	filled := map[string]bool{}
	for _, table := range s.MovedTables() {
		for _, column := range table.Columns {
			filled[table.Name+"."+column] = true
		}
	}
	require.NoError(t, s.Close())
	_, err := target.BeginMove(ctx, "move", "here", false)
	require.NoError(t, err)
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT c.relname || '.' || a.attname FROM pg_attribute AS a
		JOIN pg_class AS c ON c.oid = a.attrelid WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p')
		AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	begins := map[string]string{
		"ledger.one": "there is one row", "nodes.touched": "counts what a node was in doubt about",
		"nodes.about":          "what a node that lives says of itself",
		"nodes.learned":        "the same",
		"balances.payer":       "the line that has paid last, whose row is whole while there is none",
		"balances.payer_cap":   "the same",
		"balances.payer_spent": "the same", "balances.payer_before": "the same", "balances.payer_held": "the same",
	}
	for _, name := range names {
		table, _, _ := strings.Cut(name, ".")
		switch table {
		case "goose_db_version", "goose_lock", "moves", "moved": // of migrations and of moves
		case "holds", "chores": // of what runs, and nothing does
		case "days", "summed": // sums of what is moved, which the target makes itself
		default:
			require.True(t, filled[name] || begins[name] != "", "nothing fills %s", name)
		}
		delete(filled, name)
	}
	require.Empty(t, filled, "there is no such column")
}
