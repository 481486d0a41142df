package ledgertest

import (
	"context"
	"slices"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// TablesOf are the rows of a store that OpenMemory opened.
func TablesOf(store ledger.Store) *Tables {
	m, _ := store.(*memory)
	leave, _ := m.enter()
	defer leave()
	return m.tables()
}

// Verify implements ledger.Books.
func (m *memory) Verify(ctx context.Context, kept ...ledger.Checkpoint) (ledger.Report, error) {
	return m.VerifyAs(ctx, ledger.Verification{Kept: kept})
}

// VerifyAs implements ledger.Books.
func (m *memory) VerifyAs(_ context.Context, how ledger.Verification) (ledger.Report, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Report{}, err
	}
	return audit.Verify(audit.Ledger{Rows: m.tables()}, how)
}

// tables are all rows, numbered as they were made.
func (m *memory) tables() *Tables {
	t := &Tables{OwnerRows: m.owners, CheckRows: slices.Clone(m.checkpoints)}
	t.Meta = audit.Head{Pruned: m.prunedUntil, Trail: m.trail, Checkpoints: int64(len(m.checkpoints))}
	if n := len(m.checkpoints); n > 0 {
		t.Meta.Checkpoint = m.checkpoints[n-1].Hash
	}
	for route, versions := range m.prices {
		for _, p := range versions {
			t.PriceRows = append(t.PriceRows, audit.Price{Route: route, Price: p})
		}
	}
	m.addChains(t, ledger.Checkpoint{})
	m.addAccounts(t)
	tokens := map[string]int64{}
	for i := range m.entries {
		tokens[m.entries[i].Request] += m.entries[i].Tokens
	}
	for _, s := range m.settled {
		m.addRequest(t, s, tokens[s.ID])
	}
	m.addRunning(t)
	t.sumDays(m)
	return t
}

func (m *memory) numberOf(account string) int64 { return int64(m.accounts[account].made) }

// addChains adds the entries and acts behind a checkpoint.
func (m *memory) addChains(t *Tables, after ledger.Checkpoint) {
	last := map[string]int64{}
	for i, e := range m.entries[after.Entries:] {
		a := m.accounts[e.Account]
		hash := e.Hash()
		e.N = after.Entries + int64(i) + 1
		t.EntryRows = append(t.EntryRows, audit.Entry{Entry: e, Hash: hash, Before: last[e.Account], Number: int64(a.made),
			Since: a.Created})
		last[e.Account] = e.N
		if e.Kind == ledger.Charged {
			t.Meta.Summed = e.N
		}
	}
	for i, a := range m.acts[after.Acts:] {
		row := audit.Act{Act: a, Place: after.Acts + int64(i) + 1, Hash: a.Hash()}
		if a.Account != "" {
			row.Number = m.numberOf(a.Account)
		}
		t.ActRows = append(t.ActRows, row)
	}
}

func (m *memory) addAccounts(t *Tables) {
	for _, a := range m.accounts {
		row := audit.Account{Account: a.Account, Number: int64(a.made), Required: book.RequiredTexts(a.Requires)}
		if n := len(a.entries); n > 0 {
			row.Last = new(int64(a.entries[n-1]) + 1)
		}
		if p := a.Period; p.Begun() {
			row.PeriodNumber, row.PeriodEnd, row.Allotted = new(p.Number), new(p.End), new(p.Allotted)
		}
		t.AccountRows = append(t.AccountRows, row)
	}
	roots := map[*lineRow]int64{}
	for _, k := range m.keys {
		if n := roots[k.line]; n == 0 || int64(k.made) < n {
			roots[k.line] = int64(k.made)
		}
	}
	for _, k := range m.keys {
		row := audit.Key{FreshKey: k.FreshKey, Number: int64(k.made), AccountNumber: m.numberOf(k.Account),
			Root: roots[k.line]}
		if row.Root == row.Number {
			row.Line = k.line.Line
		}
		t.KeyRows = append(t.KeyRows, row)
	}
}

func (m *memory) addRequest(t *Tables, s *settledRow, tokens int64) {
	r := audit.Request{RequestRecord: s.record, AccountNumber: m.numberOf(s.Account),
		KeyNumber: int64(m.keys[s.record.Key].made), Entry: int64(s.entry) + 1, Tokens: tokens}
	s.fill(&r.RequestRecord)
	for i, a := range r.Attempts {
		if s.Pending && s.attempts[i].Waits() {
			t.WaitingRows = append(t.WaitingRows, audit.Waiting{Request: s.ID, Seq: int64(i) + 1, Provider: a.Provider,
				Route: a.Route, Created: a.Created})
		}
	}
	t.RequestRows = append(t.RequestRows, r)
	t.Meta.Attempts += int64(len(r.Attempts))
}

func (m *memory) addRunning(t *Tables) {
	var scratch []byte
	for _, r := range m.running {
		h := audit.Hold{Hold: book.Hold{Request: r.ID, AccountNumber: m.numberOf(r.Account),
			KeyNumber: int64(m.keys[r.Key].made), Owner: r.Owner, Endpoint: r.Endpoint, Profile: r.Profile, Hold: r.Held,
			Created: r.Created}}
		for i := range max(1, len(r.Attempts)) {
			if i < len(r.Attempts) {
				a := &r.Attempts[i]
				h.Seq, h.Attempt, h.Created, h.Beside = int64(i)+1, a.Attempt, a.Created, a.Beside
			}
			t.Meta.Rows++
			t.Meta.Held += h.Hold.Hold
			t.Meta.Marks += h.Mark(&scratch)
			t.HoldRows = append(t.HoldRows, h)
			h.Hold.Hold = 0
		}
	}
}

// sumDays adds up the requests of days, and what was pruned.
func (t *Tables) sumDays(m *memory) {
	days := map[audit.Day]*book.Usage{}
	var divider book.Divider
	for i := range t.RequestRows {
		r := &t.RequestRows[i]
		_ = divider.Count(&r.RequestRecord, func(route string) (*book.Usage, error) {
			day := audit.Day{Day: book.DayOf(r.Settled), Key: r.KeyNumber, Route: route, Profile: r.Profile}
			if days[day] == nil {
				days[day] = &book.Usage{}
			}
			return days[day], nil
		})
	}
	for day, usage := range days {
		day.Usage = *usage
		t.DayRows = append(t.DayRows, day)
	}
	pruned := map[int64]audit.RequestSum{}
	for i := range m.pruned {
		r := &m.pruned[i]
		n := int64(m.keys[r.Key].made)
		s := pruned[n]
		for _, e := range r.Entries {
			s.Tokens += e.Tokens
		}
		pruned[n] = audit.RequestSum{Key: n, Requests: s.Requests + 1, Tokens: s.Tokens, Charge: s.Charge + r.Microcents,
			Waived: s.Waived + r.Waived, Refunded: s.Refunded + r.Refunded}
	}
	for _, s := range pruned {
		t.PrunedRows = append(t.PrunedRows, s)
		s.Tokens = 0
		t.PrunedDayRow = append(t.PrunedDayRow, s)
	}
}
