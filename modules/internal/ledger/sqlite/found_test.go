package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// found is a ledger that the workload has left behind, as whoever comes after finds it.
type found struct {
	entries     map[string]ledger.Entry // by kind and request or reference
	net         int64
	keys        map[string]bool         // by name
	acts        map[string]int          // how many, by action
	requests    map[string]*leftRequest // settled
	held        map[string]bool         // running
	references  map[string]string       // of attempts that run or wait, "" for none
	checkpoints map[int64]ledger.Checkpoint
	periodEnd   int64
}

type leftRequest struct {
	charged  int64 // and waived
	attempts int64
	receipts int64
	reason   string
}

// look reads all of the ledger, which has to be in order.
func look(ctx context.Context, s *Store) (*found, error) {
	f := &found{
		entries: map[string]ledger.Entry{}, keys: map[string]bool{}, acts: map[string]int{},
		requests: map[string]*leftRequest{}, held: map[string]bool{},
		checkpoints: map[int64]ledger.Checkpoint{}, references: map[string]string{},
	}
	r, err := s.Verify(ctx)
	if err != nil {
		return nil, err
	}
	if !r.OK {
		return nil, fmt.Errorf("verifying: %s: %s", r.Entry, r.Problem)
	}
	err = s.Entries(ctx, ledger.Query{}, func(e ledger.Entry) error {
		id := string(e.Kind) + " " + e.Request
		if e.Reference != "" {
			id = string(e.Kind) + " " + e.Reference
		}
		if _, twice := f.entries[id]; twice {
			return fmt.Errorf("the journal has %q twice", id)
		}
		f.entries[id] = e
		f.net += e.Microcents
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.books.Accounts(ctx, "", func(a ledger.Account) error {
		f.periodEnd = a.Period.End.UnixNano()
		if a.Balance.Net() != f.net {
			return fmt.Errorf("the account has %d microcents, its entries make %d", a.Balance.Net(), f.net)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.books.Keys(ctx, ledger.KeyQuery{}, func(k ledger.Key) error {
		f.keys[k.Name] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.Audit(ctx, ledger.Query{}, func(a ledger.Act) error {
		f.acts[a.Action]++
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = s.Checkpoints(ctx, func(c ledger.Checkpoint) error {
		f.checkpoints[c.N] = c
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, s.read(ctx, "look", f.lookAtRequests)
}

func (f *found) lookAtRequests(conn *sqlite.Conn) error {
	err := run(conn, `SELECT r.id, r.charge + r.waived, count(t.seq), count(t.receipt), r.reason
		FROM requests AS r LEFT JOIN attempts AS t ON t.request = r.id GROUP BY r.id`, func(row *sqlite.Stmt) error {
		f.requests[row.ColumnText(0)] = &leftRequest{
			charged: row.ColumnInt64(1), attempts: row.ColumnInt64(2), receipts: row.ColumnInt64(3), reason: row.ColumnText(4),
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = run(conn, `SELECT DISTINCT request FROM holds`, func(row *sqlite.Stmt) error {
		f.held[row.ColumnText(0)] = true
		return nil
	})
	if err != nil {
		return err
	}
	return run(conn, `SELECT request, seq, reference FROM holds WHERE seq > 0
		UNION ALL SELECT request, seq, reference FROM waiting`, func(row *sqlite.Stmt) error {
		id := ledger.AttemptID(row.ColumnText(0), row.ColumnInt64(1))
		f.references[id] = row.ColumnText(2)
		if f.references[id] != "" && f.references[id] != referenceOf(id) {
			return fmt.Errorf("attempt %s has the reference %q", id, f.references[id])
		}
		return nil
	})
}

// has checks that one fact is in the ledger.
func (f *found) has(told fact) error {
	missing := fmt.Errorf("%s is not in the ledger", told)
	entry := func(kind ledger.EntryKind, reference string, microcents int64) error {
		if e, ok := f.entries[string(kind)+" "+reference]; !ok || e.Microcents != microcents {
			return missing
		}
		return nil
	}
	r := f.requests[told.id]
	switch told.what {
	case "credit":
		return entry(ledger.TopUp, "credit-"+told.id, ledger.MicrocentsPerCredit)
	case "adjust":
		return entry(ledger.Adjustment, "adjust-"+told.id, told.number)
	case "refund":
		return entry(ledger.Refund, "refund-"+told.id, 1)
	case "hold", "begin":
		if !f.held[told.id] && (r == nil || r.attempts < told.number) {
			return missing
		}
	case "refer":
		id := ledger.AttemptID(told.id, told.number)
		if reference, open := f.references[id]; open && reference == "" {
			return missing
		}
	case "settle":
		if r == nil || r.reason != "ok" || r.charged < amount(told.id, 1) {
			return missing
		}
		if told.number > 0 {
			return entry(ledger.Charged, told.id, -told.number)
		}
	case "receipt":
		if r == nil || r.receipts != 1 || r.charged != amount(told.id, 1)+amount(told.id, 2) {
			return missing
		}
	case "key":
		if !f.keys[told.id] {
			return missing
		}
	case "period":
		if f.periodEnd < told.number {
			return missing
		}
	case "checkpoint":
		if f.checkpoints[told.number].Hash.String() != told.id {
			return missing
		}
	default:
		return fmt.Errorf("nobody knows what %s is", told)
	}
	return nil
}

// consistent checks that what is in the ledger is of the workload's making, whole and once.
func (f *found) consistent() error {
	kinds := map[ledger.EntryKind]int{}
	for id, e := range f.entries {
		kinds[e.Kind]++
		want := e.Microcents
		switch e.Kind {
		case ledger.Charged:
			if want = -amount(e.Request, 1) + e.Waived; e.Reason != "ok" {
				want = 0
			}
		case ledger.Receipt:
			want = -amount(e.Request, 2) + e.Waived
		case ledger.Refund:
			want = 1
		case ledger.Allotment:
			want = ledger.MicrocentsPerCredit
		case ledger.TopUp:
			if e.Reference != "start" {
				want = ledger.MicrocentsPerCredit
			}
		}
		if e.Microcents != want {
			return fmt.Errorf("%q moved %d microcents, and not %d", id, e.Microcents, want)
		}
	}
	for id, r := range f.requests {
		want := int64(0)
		if r.reason == "ok" {
			want = amount(id, 1)
		}
		if r.receipts > 0 {
			want += amount(id, 2)
		}
		if r.charged != want {
			return fmt.Errorf("%s was charged %d microcents, and not %d", id, r.charged, want)
		}
	}
	// What operators did is on the trail in the same transaction.
	for action, want := range map[string]int{
		"credit.add": kinds[ledger.TopUp], "credit.adjust": kinds[ledger.Adjustment], "credit.refund": kinds[ledger.Refund],
		"key.create": len(f.keys),
	} {
		if f.acts[action] != want {
			return fmt.Errorf("the audit trail has %d times %s, the ledger %d", f.acts[action], action, want)
		}
	}
	periods := int64(1) // the one that runs
	for end := ledger.PeriodEnd(workStart, 0); end.UnixNano() < f.periodEnd; end = ledger.PeriodEnd(workStart, periods-1) {
		periods++
	}
	if f.periodEnd > 0 && int64(kinds[ledger.Allotment]) != periods {
		return fmt.Errorf("%d periods began before %s, and %d allotments were made", periods, time.Unix(0, f.periodEnd).UTC(),
			kinds[ledger.Allotment])
	}
	return nil
}
