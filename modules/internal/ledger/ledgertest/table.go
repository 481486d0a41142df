package ledgertest

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Tables are the rows of a ledger, to be verified as they are, or after they were changed: audit.Rows over slices.
// What other rows make, such as sums, follows from them.
type Tables struct {
	Meta         audit.Head // without what it counts of rows
	OwnerRows    []string
	PriceRows    []audit.Price
	EntryRows    []audit.Entry
	RequestRows  []audit.Request
	HoldRows     []audit.Hold
	WaitingRows  []audit.Waiting
	AccountRows  []audit.Account
	KeyRows      []audit.Key
	PrunedRows   []audit.RequestSum
	DayRows      []audit.Day
	PrunedDayRow []audit.RequestSum
	ActRows      []audit.Act
	CheckRows    []ledger.Checkpoint

	// Fail is asked before each row that is given, nil for no faults: what it returns is given in the row's place.
	Fail func() error `json:"-"`

	index tableIndex
}

// fail is what Fail says.
func (t *Tables) fail() error {
	if t.Fail == nil {
		return nil
	}
	return t.Fail()
}

// tableIndex finds rows, as they were when Head was asked.
type tableIndex struct {
	entries  []audit.Entry // by their places
	acts     []audit.Act
	requests []audit.Request
	later    map[string][]audit.Entry // by request
}

func rowsIn[T any](t *Tables, rows []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			err := t.fail()
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func selected[T any](rows []T, is func(*T) bool) (all []T) {
	for i := range rows {
		if is(&rows[i]) {
			all = append(all, rows[i])
		}
	}
	return all
}

func sorted[T any](rows []T, compare func(a, b T) int) []T {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, compare)
	return rows
}

// Head implements audit.Rows.
func (t *Tables) Head() (audit.Head, error) {
	if err := t.fail(); err != nil {
		return audit.Head{}, err
	}
	h := t.Meta
	t.index = tableIndex{sorted(t.EntryRows, func(a, b audit.Entry) int { return cmp.Compare(a.N, b.N) }),
		sorted(t.ActRows, func(a, b audit.Act) int { return cmp.Compare(a.Place, b.Place) }),
		sorted(t.RequestRows, func(a, b audit.Request) int { return strings.Compare(a.ID, b.ID) }),
		map[string][]audit.Entry{}}
	accounts, keys := map[int64]*audit.Account{0: {}}, map[int64]string{}
	for i := range t.AccountRows {
		accounts[t.AccountRows[i].Number] = &t.AccountRows[i]
	}
	for i := range t.KeyRows {
		keys[t.KeyRows[i].Number] = t.KeyRows[i].ID
	}
	account := func(n int64) *audit.Account {
		if a := accounts[n]; a != nil {
			return a
		}
		return accounts[0]
	}
	for i := range t.index.acts {
		t.index.acts[i].Account = account(t.index.acts[i].Number).ID
	}
	for i := range t.index.requests {
		r := &t.index.requests[i]
		r.Account, r.Key = account(r.AccountNumber).ID, keys[r.KeyNumber]
	}
	for i := range t.index.entries {
		e := &t.index.entries[i]
		e.Account, e.Since = account(e.Number).ID, account(e.Number).Created
	}
	for _, e := range t.index.entries {
		h.LastEntry = e.N
		if e.Kind == ledger.Receipt || e.Kind == ledger.Closing || e.Kind == ledger.Refund {
			t.index.later[e.Request] = append(t.index.later[e.Request], e)
		}
	}
	h.Requests = int64(len(t.RequestRows))
	return h, nil
}

// Owners implements audit.Rows.
func (t *Tables) Owners() iter.Seq2[string, error] { return rowsIn(t, t.OwnerRows) }

// Prices implements audit.Rows.
func (t *Tables) Prices() iter.Seq2[audit.Price, error] {
	return rowsIn(t, sorted(t.PriceRows, func(a, b audit.Price) int {
		return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Version, b.Version))
	}))
}

// between are the rows from a place to another, of rows that are in the order of their places.
func between[T any](rows []T, first, last int64, place func(*T) int64) []T {
	from := sort.Search(len(rows), func(i int) bool { return place(&rows[i]) >= first })
	to := sort.Search(len(rows), func(i int) bool { return place(&rows[i]) > last })
	return rows[from:max(from, to)]
}

func (t *Tables) entriesBetween(first, last int64) []audit.Entry {
	return between(t.index.entries, first, last, func(e *audit.Entry) int64 { return e.N })
}

// Entries implements audit.Rows.
func (t *Tables) Entries(first, last int64, moved bool) iter.Seq2[audit.Entry, error] {
	return rowsIn(t, selected(t.entriesBetween(first, last), func(e *audit.Entry) bool {
		return !moved || e.Kind == ledger.TopUp || e.Kind == ledger.Refund || e.Kind == ledger.Adjustment
	}))
}

// Entry implements audit.Rows.
func (t *Tables) Entry(_ string, place int64) (e audit.Entry, found bool, err error) {
	for _, e := range t.entriesBetween(place, place) {
		return e, true, t.fail()
	}
	return e, false, t.fail()
}

// LaterEntries implements audit.Rows.
func (t *Tables) LaterEntries(_, request string) iter.Seq2[audit.Entry, error] {
	return rowsIn(t, t.index.later[request])
}

// ChargeFrom implements audit.Rows.
func (t *Tables) ChargeFrom(place int64) (string, error) {
	for _, e := range t.entriesBetween(place, math.MaxInt64) {
		if e.Kind == ledger.Charged {
			return e.Request, nil
		}
	}
	return "", t.fail()
}

// HasAllotment implements audit.Rows.
func (t *Tables) HasAllotment(account *audit.Account, reference string) (bool, error) {
	return slices.ContainsFunc(t.EntryRows, func(e audit.Entry) bool {
		return e.Number == account.Number && e.Kind == ledger.Allotment && e.Reference == reference
	}), t.fail()
}

// Books implements audit.Rows.
func (t *Tables) Books(last int64) iter.Seq2[audit.BookSum, error] {
	var all []audit.BookSum
	for _, e := range t.entriesBetween(math.MinInt64, last) {
		all = append(all, audit.BookSum{Book: e.Book, Microcents: e.Microcents})
	}
	return rowsIn(t, all)
}

// Requests implements audit.Rows.
func (t *Tables) Requests(s audit.Span) iter.Seq2[*audit.Request, error] {
	since := map[string]bool{}
	for _, e := range t.entriesBetween(s.After+1, math.MaxInt64) {
		since[e.Request] = true
	}
	return func(yield func(*audit.Request, error) bool) {
		for _, r := range t.index.requests {
			if r.ID < s.First || s.End != "" && r.ID >= s.End || s.After > 0 && !since[r.ID] || s.Pending && !r.Pending {
				continue
			}
			r.Attempts = slices.Clone(r.Attempts)
			err := t.fail()
			if !yield(&r, err) || err != nil {
				return
			}
		}
	}
}

// FindRequest implements audit.Rows.
func (t *Tables) FindRequest(id string) (*audit.Request, error) {
	i, found := slices.BinarySearchFunc(t.index.requests, id,
		func(r audit.Request, id string) int { return strings.Compare(r.ID, id) })
	if !found {
		return nil, t.fail()
	}
	r := t.index.requests[i]
	r.Attempts = slices.Clone(r.Attempts)
	return &r, t.fail()
}

// Strays implements audit.Rows: attempts are kept with their requests.
func (t *Tables) Strays() iter.Seq2[string, error] { return rowsIn(t, []string{"stray"}) }

// Holds implements audit.Rows.
func (t *Tables) Holds() iter.Seq2[audit.Hold, error] {
	rows := sorted(t.HoldRows, func(a, b audit.Hold) int {
		return cmp.Or(cmp.Compare(a.Request, b.Request), cmp.Compare(a.Seq, b.Seq))
	})
	for i := range rows {
		h := &rows[i]
		h.KeyAccount = 0
		for _, k := range t.KeyRows {
			if k.Number == h.KeyNumber {
				h.KeyAccount = k.AccountNumber
			}
		}
		h.Settled = slices.ContainsFunc(t.index.requests, func(r audit.Request) bool { return r.ID == h.Request })
	}
	return rowsIn(t, rows)
}

// Waiting implements audit.Rows.
func (t *Tables) Waiting() iter.Seq2[audit.Waiting, error] { return rowsIn(t, t.WaitingRows) }

// Accounts implements audit.Rows.
func (t *Tables) Accounts() iter.Seq2[audit.Account, error] {
	return rowsIn(t, sorted(t.AccountRows, func(a, b audit.Account) int { return cmp.Compare(a.Number, b.Number) }))
}

// Keys implements audit.Rows.
func (t *Tables) Keys() iter.Seq2[audit.Key, error] {
	return rowsIn(t, sorted(t.KeyRows, func(a, b audit.Key) int {
		return cmp.Or(cmp.Compare(a.AccountNumber, b.AccountNumber), cmp.Compare(a.Number, b.Number))
	}))
}

// EntrySums implements audit.Rows.
func (t *Tables) EntrySums() iter.Seq2[audit.EntrySum, error] {
	sums := map[int64]*audit.EntrySum{}
	for _, e := range t.EntryRows {
		s := sums[e.Number]
		if s == nil {
			s = &audit.EntrySum{Account: e.Number}
			sums[e.Number] = s
		}
		s.Entries++
		switch e.Kind {
		case ledger.Charged, ledger.Receipt, ledger.Closing:
			s.Spent -= e.Microcents
		case ledger.Refund:
			s.Refunded += e.Microcents
		default:
		}
	}
	var all []audit.EntrySum
	for _, s := range sums {
		all = append(all, *s)
	}
	return rowsIn(t, sorted(all, func(a, b audit.EntrySum) int { return cmp.Compare(a.Account, b.Account) }))
}

func byKey(a, b audit.RequestSum) int {
	return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Key, b.Key))
}

// RequestSums implements audit.Rows.
func (t *Tables) RequestSums() iter.Seq2[audit.RequestSum, error] {
	sums := map[[2]int64]audit.RequestSum{}
	for i := range t.RequestRows {
		r := &t.RequestRows[i]
		key := [2]int64{r.AccountNumber, r.KeyNumber}
		s := sums[key]
		sums[key] = audit.RequestSum{Account: key[0], Key: key[1], Requests: s.Requests + 1, Tokens: s.Tokens + r.Tokens,
			Charge: s.Charge + r.Microcents, Waived: s.Waived + r.Waived, Refunded: s.Refunded + r.Refunded}
	}
	var all []audit.RequestSum
	for _, s := range sums {
		all = append(all, s)
	}
	return rowsIn(t, sorted(all, byKey))
}

// ofKeys are sums with the accounts of their keys.
func (t *Tables) ofKeys(sums []audit.RequestSum) iter.Seq2[audit.RequestSum, error] {
	sums = slices.Clone(sums)
	for i := range sums {
		sums[i].Account = 0
		for _, k := range t.KeyRows {
			if k.Number == sums[i].Key {
				sums[i].Account = k.AccountNumber
			}
		}
	}
	return rowsIn(t, sorted(sums, byKey))
}

// Pruned implements audit.Rows.
func (t *Tables) Pruned() iter.Seq2[audit.RequestSum, error] { return t.ofKeys(t.PrunedRows) }

// PrunedDays implements audit.Rows.
func (t *Tables) PrunedDays() iter.Seq2[audit.RequestSum, error] { return t.ofKeys(t.PrunedDayRow) }

// Days implements audit.Rows.
func (t *Tables) Days() iter.Seq2[audit.Day, error] {
	return rowsIn(t, sorted(t.DayRows, func(a, b audit.Day) int { return cmp.Compare(a.Day, b.Day) }))
}

// Acts implements audit.Rows.
func (t *Tables) Acts(byAccount, moved bool) iter.Seq2[audit.Act, error] {
	rows := selected(t.index.acts, func(a *audit.Act) bool { return !moved || strings.HasPrefix(a.Action, "credit.") })
	if byAccount {
		rows = sorted(rows, func(a, b audit.Act) int { return cmp.Compare(a.Number, b.Number) })
	}
	return rowsIn(t, rows)
}

// Checkpoints implements audit.Rows.
func (t *Tables) Checkpoints() iter.Seq2[ledger.Checkpoint, error] {
	return rowsIn(t, sorted(t.CheckRows, func(a, b ledger.Checkpoint) int { return cmp.Compare(a.N, b.N) }))
}

// Heads implements book.Chains.
func (t *Tables) Heads(after, last int64) iter.Seq2[book.Head, error] {
	heads := map[string]book.Head{}
	for _, e := range t.entriesBetween(after+1, last) {
		heads[e.Account] = book.Head{Account: e.Account, Seq: e.Seq, Hash: e.Hash}
	}
	return inOrder(t, heads)
}

// TrailHeads implements book.Chains.
func (t *Tables) TrailHeads(after, last int64) iter.Seq2[book.Head, error] {
	heads := map[string]book.Head{}
	for _, a := range between(t.index.acts, after+1, last, func(a *audit.Act) int64 { return a.Place }) {
		heads[a.Account] = book.Head{Account: a.Account, Seq: a.Seq, Hash: a.Hash}
	}
	return inOrder(t, heads)
}

func inOrder(t *Tables, heads map[string]book.Head) iter.Seq2[book.Head, error] {
	var all []book.Head
	for _, account := range sortedKeys(heads) {
		all = append(all, heads[account])
	}
	return rowsIn(t, all)
}

// CopyTables copies a ledger's rows.
func CopyTables(rows audit.Rows) (t *Tables, err error) {
	t = &Tables{}
	if t.Meta, err = rows.Head(); err != nil {
		return nil, err
	}
	for _, err := range []error{
		copyRows(&t.OwnerRows, rows.Owners()), copyRows(&t.PriceRows, rows.Prices()),
		copyRows(&t.EntryRows, rows.Entries(math.MinInt64, math.MaxInt64, false)), copyRows(&t.HoldRows, rows.Holds()),
		copyRows(&t.WaitingRows, rows.Waiting()), copyRows(&t.AccountRows, rows.Accounts()),
		copyRows(&t.KeyRows, rows.Keys()), copyRows(&t.PrunedRows, rows.Pruned()), copyRows(&t.DayRows, rows.Days()),
		copyRows(&t.PrunedDayRow, rows.PrunedDays()), copyRows(&t.ActRows, rows.Acts(false, false)),
		copyRows(&t.CheckRows, rows.Checkpoints()),
	} {
		if err != nil {
			return nil, err
		}
	}
	for r, err := range rows.Requests(audit.Span{}) {
		if err != nil {
			return nil, err
		}
		is := *r
		is.Attempts = slices.Clone(r.Attempts)
		t.RequestRows = append(t.RequestRows, is)
	}
	return t, nil
}

func copyRows[T any](to *[]T, rows iter.Seq2[T, error]) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		*to = append(*to, row)
	}
	return nil
}
