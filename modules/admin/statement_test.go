package admin

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/stores"
)

// statementWalk moves an account's money at random through half a year.
type statementWalk struct {
	*testing.T
	store    ledger.Store
	now      time.Time
	random   *rand.Rand
	account  ledger.Account
	keys     []ledger.Key
	unproven []string // attempts
	settled  []string // requests
	n        int
}

func (w *statementWalk) clock() time.Time { return w.now }

func (w *statementWalk) step() {
	ctx := ledger.WithActor(w.Context(), "operator")
	w.n++
	switch kind := w.random.IntN(10); {
	case kind < 6:
		w.request()
	case kind == 6 && len(w.unproven) > 0:
		_, applied, err := w.store.AddReceipt(ctx, w.unproven[0], enginetest.ExampleUsage)
		require.NoError(w, err)
		require.True(w, applied)
		w.unproven = w.unproven[1:]
	case kind == 7 && len(w.settled) > 0:
		request := w.settled[w.random.IntN(len(w.settled))]
		_, _, err := w.store.Correct(ctx, ledger.Correction{Account: w.account.ID, Request: request,
			Microcents: 1 + w.random.Int64N(3), Reason: "given back", Reference: fmt.Sprint("r", w.n)})
		if err != nil {
			require.ErrorIs(w, err, ledger.ErrInvalid, "it is given back already")
		}
	case kind == 8:
		_, _, err := w.store.Correct(ctx, ledger.Correction{Account: w.account.ID, Microcents: w.random.Int64N(2_000_001) -
			1_000_000, Reason: "=corrected"})
		require.NoError(w, err)
	default:
		_, _, err := w.store.AddCredit(ctx, ledger.Credit{Account: w.account.ID, Credits: 1 + w.random.Int64N(50),
			Reference: fmt.Sprint("invoice-", w.n)})
		require.NoError(w, err)
	}
}

func (w *statementWalk) request() {
	ctx := w.Context()
	version, err := w.store.PriceVersion(ctx, "deep", enginetest.ExamplePrice, enginetest.ExampleCost)
	require.NoError(w, err)
	id := fmt.Sprintf("req_%032x", w.n)
	attempt := ledger.Attempt{ID: ledger.AttemptID(id, 1), Route: []string{"deep", "small"}[w.random.IntN(2)],
		Provider: "up", Model: "deep-1", PriceVersion: version, Worst: 5_000_000}
	if attempt.Route == "small" {
		attempt.PriceVersion, err = w.store.PriceVersion(ctx, "small", enginetest.ExampleCost, enginetest.ExampleCost)
		require.NoError(w, err)
	}
	_, err = w.store.Hold(ctx, ledger.Hold{Request: id, Account: w.account.ID, Key: w.keys[w.random.IntN(2)].ID,
		Endpoint: "chat", Profile: "max", Microcents: 5_000_000, Attempt: attempt})
	require.NoError(w, err)
	result := enginetest.Proven()
	if w.random.IntN(3) == 0 {
		result = ledger.Result{Outcome: ledger.Unproven}
		w.unproven = append(w.unproven, attempt.ID)
	}
	result.Attempt = attempt.ID
	settlement := enginetest.OK()
	settlement.Request, settlement.Results = id, []ledger.Result{result}
	_, err = w.store.Settle(ctx, settlement)
	require.NoError(w, err)
	w.settled = append(w.settled, id)
}

// TestStatementsAddUp: on both stores, whatever moves an account's money, each month's statement begins where the one
// before it ended, and lists what comes to the difference; its sums by day, key and route are one sum, and its lines
// as CSV end at the closing balance.
func TestStatementsAddUp(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(t *testing.T) config.Store{
		"sqlite": func(*testing.T) config.Store { return config.DefaultStore() },
		"postgres": func(t *testing.T) config.Store {
			return config.Store{Kind: config.Postgres, DSN: postgrestest.Database(t)}
		},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				t.Parallel()
				w := &statementWalk{T: t, random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // the same each time
					now: time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)}
				store, err := stores.Open(at(t), t.TempDir(), ledger.Options{Now: w.clock,
					Logger: slog.New(slog.DiscardHandler), Terms: func(string) ledger.Terms { return ledger.Terms{} }})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, store.Close()) })
				w.store = store
				ctx := ledger.WithActor(t.Context(), "operator")
				w.account, err = store.CreateAccount(ctx, "ann", "")
				require.NoError(t, err)
				for n := range 2 {
					key, err := store.CreateKey(ctx, w.account.ID, string(rune('a'+n)), [32]byte{byte(n)}, "abcd", ledger.KeyChange{})
					require.NoError(t, err)
					w.keys = append(w.keys, key)
				}
				_, _, err = store.AddCredit(ctx, ledger.Credit{Account: w.account.ID, Credits: 10_000})
				require.NoError(t, err)
				for range 150 {
					w.now = w.now.Add(time.Duration(w.random.Int64N(int64(60 * time.Hour))))
					if w.random.IntN(20) == 0 {
						w.now = w.now.Add(-time.Hour) // a clock that was put back
					}
					w.step()
					if w.random.IntN(10) == 0 {
						_, err := store.MakeCheckpoint(t.Context())
						require.NoError(t, err)
					}
				}
				w.checkStatements()
			})
		}
	}
}

func (w *statementWalk) checkStatements() {
	b := &booksAPI{books: w.store, now: w.clock, config: func() *config.Config { return nil }}
	balance, entries := int64(0), int64(0)
	months := StatementMonths(w.account.Created, w.now)
	require.Greater(w, len(months), 4)
	var receipts int
	for i := len(months) - 1; i >= 0; i-- {
		s := w.statement(b, months[i])
		require.Equal(w, i > 0, s.Over)
		require.Equal(w, balance, s.Opening, s.Month)
		moved := int64(0)
		for _, n := range s.Moved {
			moved += n
		}
		require.Equal(w, s.Closing, s.Opening+moved-s.Charges)
		if s.Last > 0 {
			require.Equal(w, entries+1, s.First)
			entries = s.Last
		}
		// By the journal itself, entry for entry.
		use := int64(0)
		require.NoError(w, w.store.Entries(w.Context(), ledger.Query{Account: w.account.ID}, func(e ledger.Entry) error {
			if e.Seq >= s.First && e.Seq <= s.Last && e.Kind.ByUse() {
				use -= e.Microcents
			}
			if e.Seq == s.Last {
				require.Equal(w, s.Head, e.Hash())
			}
			return nil
		}))
		require.Equal(w, use, s.Charges, s.Month)
		for _, rows := range [][]Usage{s.Days, s.Keys, s.Routes} {
			sum := int64(0)
			for _, u := range rows {
				sum += u.Microcents
			}
			require.Equal(w, s.Settled.Microcents, sum)
		}
		require.Equal(w, s.Charges, s.Settled.Microcents+s.Elsewhere)
		if s.Elsewhere != 0 {
			receipts++
		}
		balance = s.Closing
		w.checkCSV(s)
	}
	require.Positive(w, receipts, "no receipt came in another month: the walk proves less than it should")
	a, err := w.store.Account(w.Context(), w.account.ID)
	require.NoError(w, err)
	require.Equal(w, a.Balance.Net(), balance)
}

func (w *statementWalk) statement(b *booksAPI, month string) *Statement {
	r := httptest.NewRequestWithContext(w.Context(), http.MethodGet, "/fareway/accounts/ann/statement?month="+month, nil)
	r.SetPathValue("name", "ann")
	v, err := b.statement(r)
	require.NoError(w, err)
	s, ok := v.(Statement)
	require.True(w, ok)
	return &s
}

func (w *statementWalk) checkCSV(s *Statement) {
	var text bytes.Buffer
	require.NoError(w, s.WriteCSV(&text))
	rows, err := csv.NewReader(&text).ReadAll()
	require.NoError(w, err)
	require.Equal(w, []string{"date", "what", "reference", "reason", "requests", "microcents", "balance_microcents"},
		rows[0])
	sum := s.Opening
	for _, row := range rows[1:] {
		n, err := strconv.ParseInt(row[5], 10, 64)
		require.NoError(w, err)
		sum += n
		require.Equal(w, strconv.FormatInt(sum, 10), row[6])
		require.NotEqual(w, "=corrected", row[3], "a table program would take it for a formula")
	}
	require.Equal(w, s.Closing, sum)
	require.Equal(w, "opening", rows[1][1])
	require.Equal(w, "closing", rows[len(rows)-1][1])
}

// busyBooks has something happen whenever usage is summed.
type busyBooks struct {
	ledger.Books
	happen func()
}

// Usage implements ledger.Books.
func (b busyBooks) Usage(ctx context.Context, q ledger.UsageQuery, each func(ledger.UsageRow) error) error {
	b.happen()
	return b.Books.Usage(ctx, q, each)
}

// TestStatementOfABusyMonth: where requests are settled while it is read it is read again, and says so where that does
// not help.
func TestStatementOfABusyMonth(t *testing.T) {
	t.Parallel()
	for left, rough := range map[int]bool{0: false, 3: false, 8: false, 9: true, 100: true} {
		t.Run(fmt.Sprint(left, " requests"), func(t *testing.T) {
			t.Parallel()
			_, e := running(t)
			ann, settled := enginetest.NewCustomer(t, e, "ann"), 0
			b := &booksAPI{now: e.Now, config: func() *config.Config { return nil }, books: busyBooks{e.Store(), func() {
				if settled < left {
					settled++
					ann.Settle(t, e, fmt.Sprint("req_", settled), enginetest.OK(), enginetest.Proven())
				}
			}}}
			w := &statementWalk{T: t}
			s := w.statement(b, e.Now().UTC().Format("2006-01"))
			require.Equal(t, rough, s.Rough)
			require.Equal(t, s.Charges, s.Settled.Microcents+s.Elsewhere)
			if !rough {
				require.Zero(t, s.Elsewhere)
				require.EqualValues(t, settled*enginetest.ExampleCharge, s.Charges)
			}
		})
	}
}

// TestStatement: the statement of a month over the admin API, and what it refuses.
func TestStatement(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	c, e := runningAt(t, func() time.Time { return now })
	ann := enginetest.NewCustomer(t, e, "ann")
	ann.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	show := func(month string) (s Statement, err error) {
		err = c.Call(t.Context(), http.MethodGet, "/fareway/accounts/ann/statement?month="+month, nil, &s)
		return s, err
	}
	s, err := show("2026-11")
	require.NoError(t, err)
	require.False(t, s.Over)
	require.Zero(t, s.Opening)
	require.EqualValues(t, 1000*ledger.MicrocentsPerCredit-enginetest.ExampleCharge, s.Closing)
	require.EqualValues(t, enginetest.ExampleCharge, s.Charges)
	require.Equal(t, map[string]int64{"top_up": 1000 * ledger.MicrocentsPerCredit}, s.Moved)
	require.Len(t, s.Movements, 1)
	require.Equal(t, "first", s.Keys[0].Key)
	require.Equal(t, "deep", s.Routes[0].Route)
	require.Equal(t, "2026-11-20", s.Days[0].Day)
	require.Nil(t, s.Checkpoint)
	require.EqualValues(t, 2, s.Last)
	made, err := e.Store().MakeCheckpoint(t.Context())
	require.NoError(t, err)
	now = now.AddDate(0, 1, 0)
	s, err = show("2026-11")
	require.NoError(t, err)
	require.True(t, s.Over)
	require.Equal(t, made, *s.Checkpoint)
	s, err = show("2026-12")
	require.NoError(t, err)
	require.Equal(t, s.Opening, s.Closing)
	require.Zero(t, s.Last)
	for month, want := range map[string]int{"": 400, "2026-13": 400, "2026-1": 400, "november": 400, "2027-01": 400,
		"2026-10": 404} {
		_, err := show(month)
		require.Equal(t, want, StatusOf(err), "%s: %v", month, err)
	}
	err = c.Call(t.Context(), http.MethodGet, "/fareway/accounts/nobody/statement?month=2026-11", nil, new(Statement))
	require.Equal(t, 404, StatusOf(err))
}
