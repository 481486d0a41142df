package ledgertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// What the store in memory has to show.

// entriesOf are the entries of a request, its charge first.
func (m *memory) entriesOf(s *settledRow) (all []ledger.Entry) {
	for _, i := range m.about[s.ID] {
		all = append(all, m.entries[i])
	}
	return all
}

func (m *memory) recordOf(s *settledRow) ledger.RequestRecord {
	r := s.record
	s.fill(&r)
	r.Entries = m.entriesOf(s)
	return r
}

// fill fills in what changed since the settlement.
func (s *settledRow) fill(r *ledger.RequestRecord) {
	r.Microcents, r.Waived, r.Over, r.Refunded, r.Pending = s.Charge, s.Waived, s.Over, s.Refunded, s.Pending
	r.Attempts = recordsOf(s.attempts)
}

func recordsOf(attempts []book.Attempt) (all []ledger.AttemptRecord) {
	for i := range attempts {
		all = append(all, attempts[i].AttemptRecord)
	}
	return all
}

// Request implements ledger.Books.
func (m *memory) Request(_ context.Context, id string) (ledger.RequestRecord, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.RequestRecord{}, err
	}
	if s := m.settled[id]; s != nil {
		return m.recordOf(s), nil
	}
	r := m.running[id]
	if r == nil {
		return ledger.RequestRecord{}, ledger.ErrNotFound
	}
	return ledger.RequestRecord{ID: id, Account: r.Account, Key: r.Key, Endpoint: r.Endpoint, Profile: r.Profile,
		Owner: r.Owner, Running: true, Held: r.Held, Created: r.Created, Attempts: recordsOf(r.Attempts)}, nil
}

func (m *memory) prunedRequest(id string) (p ledger.PrunedRequest, found bool) {
	p.ID = id
	for _, r := range m.pruned {
		if r.ID == id {
			found = true
			for _, e := range m.entries {
				if e.Request == id {
					p.Add(e)
				}
			}
		}
	}
	return p, found
}

// Pruned implements ledger.Books.
func (m *memory) Pruned(_ context.Context, id string) (ledger.PrunedRequest, error) {
	leave, err := m.enter()
	defer leave()
	p, found := m.prunedRequest(id)
	if err == nil && !found {
		err = ledger.ErrNotFound
	}
	return p, err
}

// PrunedBefore implements ledger.Books.
func (m *memory) PrunedBefore(context.Context) (time.Time, error) {
	leave, err := m.enter()
	defer leave()
	return m.prunedUntil, err
}

// Account implements ledger.Books.
func (m *memory) Account(_ context.Context, idOrName string) (ledger.Account, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Account{}, err
	}
	for id, a := range m.accounts {
		if id == idOrName || a.Name == idOrName {
			a, err = m.look(id)
			return a.Show(), err
		}
	}
	return ledger.Account{}, book.NoAccount(idOrName)
}

// list gives rows that were collected to each.
func list[T any](rows []T, each func(T) error) error {
	for _, row := range rows {
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

// collect is what is to be listed, as of one moment.
func collect[T any](m *memory, account string, rows func() []T) ([]T, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	if account != "" && m.accounts[account] == nil {
		return nil, book.NoAccount(account)
	}
	return rows(), nil
}

// Accounts implements ledger.Books.
func (m *memory) Accounts(_ context.Context, after string, each func(ledger.Account) error) error {
	rows, err := collect(m, after, func() (all []ledger.Account) {
		for _, a := range slices.SortedFunc(maps.Values(m.accounts), func(a, b *accountRow) int { return a.made - b.made }) {
			a, _ := m.look(a.ID)
			all = append(all, a.Show())
		}
		return all[slices.IndexFunc(all, func(a ledger.Account) bool { return a.ID == after })+1:]
	})
	return cmp.Or(err, list(rows, each))
}

// Latest implements ledger.Books.
func (m *memory) Latest(_ context.Context, q ledger.LatestQuery, each func(ledger.Movement) error) error {
	rows, err := collect(m, q.Account, func() (all []ledger.Movement) {
		for n, e := range slices.Backward(m.entries) {
			switch {
			case e.Account != q.Account, q.Before != 0 && e.Seq >= q.Before,
				q.Before == 0 && !q.Until.IsZero() && !e.Created.Before(q.Until), q.Moved && e.Kind.ByUse():
				continue
			case e.Created.Before(q.Since):
				return all
			}
			v := ledger.Movement{Entry: e}
			if s := m.settled[e.Request]; s != nil && e.Kind == ledger.Charged {
				r := m.recordOf(s)
				r.Entries = nil
				v.Settled = &r
			}
			covers := func(c ledger.Checkpoint) bool { return c.Entries > int64(n) }
			if at := slices.IndexFunc(m.checkpoints, covers); q.Covered && at >= 0 {
				v.Checkpoint = &m.checkpoints[at]
			}
			all = append(all, v)
		}
		return all
	})
	return cmp.Or(err, list(rows, each))
}

// Keys implements ledger.Books.
func (m *memory) Keys(_ context.Context, q ledger.KeyQuery, each func(ledger.Key) error) error {
	m.mu.Lock()
	_, known := m.keys[q.After]
	m.mu.Unlock()
	if q.After != "" && !known {
		return book.NoKey(q.After, "")
	}
	rows, err := collect(m, q.Account, func() (all []ledger.Key) {
		for _, k := range slices.SortedFunc(maps.Values(m.keys), func(a, b *keyRow) int { return a.made - b.made }) {
			if q.Account == "" || k.Account == q.Account {
				_, _ = m.look(k.Account)
				all = append(all, m.show(k))
			}
		}
		if q.Newest {
			slices.Reverse(all)
		}
		all = all[slices.IndexFunc(all, func(k ledger.Key) bool { return k.ID == q.After })+1:]
		return slices.DeleteFunc(all, func(k ledger.Key) bool {
			return q.Named != "" && k.ID != q.Named && (q.Account == "" || k.Name != q.Named)
		})
	})
	return cmp.Or(err, list(rows, each))
}

// Plans implements ledger.Books.
func (m *memory) Plans(context.Context) ([]string, error) {
	return collect(m, "", func() []string {
		plans := map[string]bool{}
		for _, a := range m.accounts {
			if a.Plan != "" {
				plans[a.Plan] = true
			}
		}
		return sortedKeys(plans)
	})
}

func within(q ledger.Query, account string, at time.Time) bool {
	return (q.Account == "" || q.Account == account) && (q.Since.IsZero() || !at.Before(q.Since)) &&
		(q.Until.IsZero() || at.Before(q.Until))
}

// Entries implements ledger.Books.
func (m *memory) Entries(_ context.Context, q ledger.Query, each func(ledger.Entry) error) error {
	covered := true
	rows, err := collect(m, q.Account, func() (all []ledger.Entry) {
		until := int64(len(m.entries))
		if covered = q.Checkpoint <= int64(len(m.checkpoints)); covered && q.Checkpoint > 0 {
			until = m.checkpoints[q.Checkpoint-1].Entries
		}
		for _, e := range m.entries[:until] {
			if q.Recent && e.Account == q.Account && e.Created.Before(q.Since) {
				all = nil
			}
			if within(q, e.Account, e.Created) {
				all = append(all, e)
			}
		}
		return all
	})
	if !covered {
		err = ledger.ErrNotFound
	}
	return cmp.Or(err, list(rows, each))
}

// Audit implements ledger.Books.
func (m *memory) Audit(_ context.Context, q ledger.Query, each func(ledger.Act) error) error {
	rows, err := collect(m, q.Account, func() (all []ledger.Act) {
		for _, a := range m.acts {
			if !within(q, a.Account, a.Created) {
				continue
			}
			if a.Account != "" {
				a.AccountName = m.accounts[a.Account].Name
			}
			all = append(all, a)
		}
		return all
	})
	return cmp.Or(err, list(rows, each))
}

// Usage implements ledger.Books.
func (m *memory) Usage(_ context.Context, q ledger.UsageQuery, each func(ledger.UsageRow) error) error {
	for _, d := range q.By {
		if !slices.Contains([]ledger.Dimension{ledger.ByAccount, ledger.ByKey, ledger.ByRoute, ledger.ByDay,
			ledger.ByProfile}, d) {
			return ledger.ErrInvalid
		}
	}
	known := true
	rows, err := collect(m, q.Account, func() []ledger.UsageRow {
		known = !slices.ContainsFunc(q.Keys, func(id string) bool { return m.keys[id] == nil })
		records, names := slices.Clone(m.pruned), map[string]string{}
		for _, s := range m.settled {
			records = append(records, m.recordOf(s))
		}
		for id, a := range m.accounts {
			names[id] = a.Name
		}
		for id, k := range m.keys {
			names[id] = k.Name
		}
		all, gone := usageOf(records, names, q), usageOf(m.pruned, names, q)
		for i := range all {
			for _, p := range gone {
				if p.Account == all[i].Account && p.Key == all[i].Key && p.Route == all[i].Route &&
					p.Day == all[i].Day && p.Profile == all[i].Profile {
					all[i].Pruned = p.Requests
				}
			}
		}
		slices.SortFunc(all, func(a, b ledger.UsageRow) int {
			order := 0
			for _, d := range q.By {
				order = cmp.Or(order, map[ledger.Dimension]int{
					ledger.ByAccount: cmp.Compare(a.AccountName, b.AccountName), ledger.ByRoute: cmp.Compare(a.Route, b.Route),
					ledger.ByKey: cmp.Compare(a.AccountName+"/"+a.KeyName, b.AccountName+"/"+b.KeyName),
					ledger.ByDay: cmp.Compare(a.Day, b.Day), ledger.ByProfile: cmp.Compare(a.Profile, b.Profile),
				}[d])
			}
			return order
		})
		return all
	})
	if !known {
		err = ledger.ErrNotFound
	}
	return cmp.Or(err, list(rows, each))
}

// Checkpoints implements ledger.Books.
func (m *memory) Checkpoints(_ context.Context, each func(ledger.Checkpoint) error) error {
	rows, err := collect(m, "", func() []ledger.Checkpoint { return slices.Clone(m.checkpoints) })
	return cmp.Or(err, list(rows, each))
}

// LatestCheckpoints implements ledger.Books.
func (m *memory) LatestCheckpoints(_ context.Context, before int64, most int,
	each func(ledger.Checkpoint) error) error {
	rows, err := collect(m, "", func() (found []ledger.Checkpoint) {
		for _, c := range slices.Backward(m.checkpoints) {
			if (before == 0 || c.N < before) && len(found) < most {
				found = append(found, c)
			}
		}
		return found
	})
	return cmp.Or(err, list(rows, each))
}

// MakeCheckpoint implements ledger.Store.
func (m *memory) MakeCheckpoint(context.Context) (ledger.Checkpoint, error) {
	leave, err := m.enter()
	defer leave()
	var last ledger.Checkpoint
	if n := len(m.checkpoints); n > 0 {
		last = m.checkpoints[n-1]
	}
	next := ledger.Checkpoint{N: last.N + 1, Entries: int64(len(m.entries)), Acts: int64(len(m.acts)), Created: m.now(),
		Prev: last.Hash, Format: ledger.CheckpointFormat}
	if err != nil || next.Entries == last.Entries && next.Acts == last.Acts {
		return last, err
	}
	grown := &Tables{}
	m.addAccounts(grown)
	m.addChains(grown, last)
	_, _ = grown.Head()
	next, err = book.SealCheckpoint(next, last, grown)
	m.checkpoints = append(m.checkpoints, next)
	return next, err
}
