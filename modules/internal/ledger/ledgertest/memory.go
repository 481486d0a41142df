package ledgertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/plugins/llm"
)

// OpenMemory opens a store that keeps its rows in maps: what a store has to do beside the rules of money (package
// book), and nothing else. It is for tests of the rules, which it lets run without a disk.
func OpenMemory(t testing.TB, o Options) ledger.Store {
	kept, known := memories.LoadOrStore(o.Dir, &rows{
		accounts: map[string]*accountRow{}, keys: map[string]*keyRow{}, running: map[string]*runningRow{},
		settled: map[string]*settledRow{}, prices: map[string][]book.Price{}, about: map[string][]int{},
	})
	if !known {
		t.Cleanup(func() { memories.Delete(o.Dir) })
	}
	r, _ := kept.(*rows)
	r.owners = append(r.owners, o.BootID)
	return &memory{rows: r, o: o}
}

// memories are the rows of stores by their Dir.
var memories sync.Map

type memory struct {
	mu sync.Mutex
	*rows
	o      Options
	closed bool
}

// rows are what a store keeps.
type rows struct {
	made        int // ids
	owners      []string
	accounts    map[string]*accountRow
	keys        map[string]*keyRow
	running     map[string]*runningRow
	settled     map[string]*settledRow
	pruned      []ledger.RequestRecord
	prunedUntil time.Time
	entries     []ledger.Entry
	about       map[string][]int // where entries about requests lie
	acts        []ledger.Act
	trail       book.Trail // of the acts about no account
	prices      map[string][]book.Price
	checkpoints []ledger.Checkpoint
	learned     []ledger.Learned
}

type accountRow struct {
	book.Account
	made    int
	entries []int // where they lie
}

type keyRow struct {
	book.FreshKey
	made int
	line *lineRow
}

type lineRow struct {
	book.Line
	account string
	held    int64
}

type runningRow struct {
	book.Running
	line *lineRow
	made int
}

func (r *runningRow) request() *book.Running {
	if r == nil {
		return nil
	}
	return &r.Running
}

type settledRow struct {
	book.Request
	record ledger.RequestRecord
	// attempts are as the request had them, with what came later.
	attempts []book.Attempt
	line     *lineRow
	entry    int // where its charge lies
}

// enter begins an operation, which leaves by what it returns.
func (m *memory) enter() (leave func(), err error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return func() {}, ledger.ErrUnavailable
	}
	return m.mu.Unlock, nil
}

func (m *memory) now() time.Time { return m.o.Now().UTC() }

func (m *memory) by(ctx context.Context) book.By {
	return book.By{Actor: ledger.ActorOf(ctx), Now: m.now()}
}

// newID makes an id that is not in the order of its making.
func (m *memory) newID(prefix string) string {
	m.made++
	return fmt.Sprintf("%s%024x", prefix, uint64(m.made)*0x9E3779B97F4A7C15)
}

func (m *memory) terms(a *accountRow) ledger.Terms { return a.Limits.Over(m.o.Terms(a.Plan)) }

// look finds an account and brings its periods up to date.
func (m *memory) look(id string) (*accountRow, error) {
	a := m.accounts[id]
	if a == nil {
		return nil, book.NoAccount(id)
	}
	terms := m.terms(a)
	if !a.Overdue(terms, m.now()) {
		return a, nil
	}
	c, err := book.EndPeriods(&a.Account, terms, m.now(), func(name string) (bool, error) {
		return m.refers(a, name, true) != nil, nil
	})
	if err != nil {
		return nil, err
	}
	a.Account = c.Account
	for _, e := range c.Entries {
		m.post(a, e)
	}
	if c.Began {
		for _, k := range m.keys {
			if k.Account == id {
				k.line.Line = k.line.BeginPeriod(a.Period)
			}
		}
	}
	return a, nil
}

func (m *memory) post(a *accountRow, e book.Entry) {
	a.entries = append(a.entries, len(m.entries))
	m.about[e.Request] = append(m.about[e.Request], len(m.entries))
	m.entries = append(m.entries, e.Entry)
}

func (m *memory) act(a *accountRow, acts ...book.Act) {
	for i := range acts {
		if acts[i].Seq == 0 {
			continue
		}
		m.acts = append(m.acts, acts[i].Act)
		if a == nil {
			m.trail = acts[i].Trail()
		} else {
			a.Trail = acts[i].Trail()
		}
	}
}

// refers finds an account's entry of a reference, one of allotments or of people's.
func (m *memory) refers(a *accountRow, reference string, allotment bool) *ledger.Entry {
	for _, i := range a.entries {
		e := &m.entries[i]
		if reference != "" && e.Reference == reference && (e.Kind == ledger.Allotment) == allotment {
			return e
		}
	}
	return nil
}

func (m *memory) seen(a *accountRow, reference string) *book.Seen {
	e := m.refers(a, reference, false)
	if e == nil {
		return nil
	}
	seen := &book.Seen{Entry: *e}
	if s := m.settled[e.Request]; s != nil {
		seen.Charge, seen.Later = s.Charge, m.entriesOf(s)[1:]
	}
	return seen
}

func (m *memory) payer(a *accountRow, l *lineRow) book.Payer {
	return book.Payer{Account: &a.Account, Line: &l.Line, Terms: m.terms(a), Held: l.held}
}

// Ping implements ledger.Store.
func (m *memory) Ping(context.Context) error {
	leave, err := m.enter()
	leave()
	return err
}

// Close implements ledger.Store.
func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// Recover implements ledger.Store.
func (m *memory) Recover(_ context.Context, living ...string) (requests int64, err error) {
	leave, err := m.enter()
	defer leave()
	for _, r := range slices.SortedFunc(maps.Values(m.running), func(a, b *runningRow) int { return a.made - b.made }) {
		if err != nil || r.Owner == m.o.BootID || slices.Contains(living, r.Owner) {
			continue
		}
		_, err = m.settle(book.SettleCrashed(&r.Running))
		requests++
	}
	return requests, err
}

// price is an attempt that begins now.
func (m *memory) begin(a ledger.Attempt) (*book.Attempt, error) {
	for _, p := range m.prices[a.Route] {
		if p.Version == a.PriceVersion {
			begun := book.BeginAttempt(a, p.Price, p.Cost, m.now())
			return &begun, nil
		}
	}
	return nil, book.NoPrice(a.Route, a.PriceVersion)
}

// line finds the line of an account's key.
func (m *memory) line(account, key string) (*lineRow, error) {
	k := m.keys[key]
	if k == nil || k.Account != account {
		return nil, book.NoKey(key, account)
	}
	return k.line, nil
}

// Check implements ledger.Store.
func (m *memory) Check(_ context.Context, account, key string, microcents, tokens int64) error {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return err
	}
	a, err := m.look(account)
	if err != nil {
		return err
	}
	l, err := m.line(account, key)
	if err != nil {
		return err
	}
	return book.CheckPayer(m.payer(a, l), microcents, tokens)
}

// Hold implements ledger.Store.
func (m *memory) Hold(_ context.Context, h ledger.Hold) (ledger.Balance, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Balance{}, err
	}
	if err := book.CheckHold(&h, nil); err != nil {
		return ledger.Balance{}, err
	}
	a, err := m.look(h.Account)
	if err != nil {
		return ledger.Balance{}, err
	}
	repeated, err := book.RepeatsHold(&h, m.running[h.Request].request(), m.settled[h.Request] != nil)
	if err != nil || repeated {
		return a.Balance, err
	}
	l, err := m.line(h.Account, h.Key)
	if err != nil {
		return ledger.Balance{}, err
	}
	var first *book.Attempt
	if h.Attempt.ID != "" {
		if first, err = m.begin(h.Attempt); err != nil {
			return ledger.Balance{}, err
		}
	}
	c, err := book.DecideHold(&h, m.payer(a, l), first, m.o.BootID, m.now())
	if err != nil {
		return ledger.Balance{}, err
	}
	m.made++
	m.running[h.Request] = &runningRow{c.Running, l, m.made}
	a.Balance = c.Balance
	l.held += c.Running.Held
	return a.Balance, nil
}

// Begin implements ledger.Store.
func (m *memory) Begin(_ context.Context, n ledger.Next) error {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return err
	}
	r := m.running[n.Request]
	if repeated, err := book.RepeatsAttempt(&n, r.request()); err != nil || repeated {
		return err
	}
	a, err := m.look(r.Account)
	if err != nil {
		return err
	}
	next, err := m.begin(n.Attempt)
	if err != nil {
		return err
	}
	c, err := book.DecideAttempt(&n, m.payer(a, r.line), &r.Running, next)
	if err != nil {
		return err
	}
	a.Balance, r.Running = c.Balance, c.Running
	r.line.held += c.Raised
	return nil
}

// Refer implements ledger.Store.
func (m *memory) Refer(attempt, reference string) {
	leave, err := m.enter()
	defer leave()
	request, _, _ := ledger.ParseAttemptID(attempt)
	if a := book.FindReferred(m.running[request].request(), attempt, reference); err == nil && a != nil {
		a.Reference = reference
	}
}

// Settle implements ledger.Store.
func (m *memory) Settle(_ context.Context, st ledger.Settlement) (ledger.Charge, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return ledger.Charge{}, err
	}
	return m.settle(&st)
}

func (m *memory) settle(st *ledger.Settlement) (ledger.Charge, error) {
	if err := book.CheckSettlement(st); err != nil {
		return ledger.Charge{}, err
	}
	r := m.running[st.Request]
	if r == nil {
		s := m.settled[st.Request]
		if s == nil {
			return ledger.Charge{}, book.NoRequest()
		}
		a, err := m.look(s.Account)
		if err != nil {
			return ledger.Charge{}, err
		}
		if book.IsCrashed(s.record.Reason) {
			for i := range st.Results {
				p, seq, err := book.DecideLate(m.payer(a, s.line), &s.Request, s.attempts, st, &st.Results[i], m.now())
				if err == nil && seq > 0 {
					m.prove(a, s, &p, seq)
				}
			}
		}
		return s.Answer(a.Balance), nil
	}
	a, err := m.look(r.Account)
	if err != nil {
		return ledger.Charge{}, err
	}
	c, err := book.DecideSettlement(st, m.payer(a, r.line), &r.Running, nil, m.now())
	if err != nil {
		return ledger.Charge{}, err
	}
	m.settled[r.ID] = &settledRow{
		Request: book.Request{
			ID: r.ID, Account: r.Account, Held: r.Held, ServiceLimit: st.ServiceLimit, Surcharge: st.Surcharge,
			Charge: c.Charge, Waived: c.Waived, Over: c.Over, Pending: c.Pending,
		},
		record: ledger.RequestRecord{
			ID: r.ID, Account: r.Account, Key: r.Key, Endpoint: r.Endpoint, Profile: r.Profile, Owner: r.Owner, Held: r.Held,
			Created: r.Created, Settled: c.At, Status: st.Status, Reason: st.Reason, Free: st.Free,
			ServiceLimit: st.ServiceLimit, Surcharge: st.Surcharge,
		},
		attempts: r.Attempts, line: r.line, entry: len(m.entries),
	}
	delete(m.running, r.ID)
	r.line.held -= r.Held
	m.charge(a, r.line, &c.Charged)
	return c.Answer(), nil
}

func (m *memory) charge(a *accountRow, l *lineRow, c *book.Charged) {
	a.Account, l.Line = c.Account, c.Line
	m.post(a, c.Entry)
}

// AddReceipt implements ledger.Store.
func (m *memory) AddReceipt(_ context.Context, id string, usage llm.Usage) (c ledger.Charge, applied bool, err error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return c, false, err
	}
	request, seq, _ := ledger.ParseAttemptID(id)
	if r := m.running[request]; r != nil && seq <= int64(len(r.Attempts)) {
		a, err := m.look(r.Account)
		if err != nil {
			return c, false, err
		}
		return ledger.Charge{Balance: a.Balance}, false, nil
	}
	s := m.settled[request]
	if s == nil {
		return c, false, book.NoAttempt()
	}
	a, err := m.look(s.Account)
	if err != nil {
		return c, false, err
	}
	p, taken, err := book.DecideReceipt(m.payer(a, s.line), &s.Request, s.attempts, seq, usage, m.now())
	switch {
	case err != nil:
		return c, false, err
	case !taken:
		return s.Answer(a.Balance), false, nil
	}
	m.prove(a, s, &p, seq)
	c = s.Answer(a.Balance)
	c.Added, c.OverAdded = p.Charge, p.Over
	return c, true, nil
}

func (m *memory) prove(a *accountRow, s *settledRow, p *book.Proven, seq int64) {
	s.Request, s.attempts[seq-1] = p.Request, p.Attempt
	m.charge(a, s.line, &p.Charged)
}

// waiting are the attempts that wait, those that began first before the others.
func (m *memory) waiting() (all []waitingRow) {
	for _, s := range m.settled {
		for i := range s.attempts {
			if s.Pending && s.attempts[i].Waits() {
				all = append(all, waitingRow{s, int64(i + 1), &s.attempts[i]})
			}
		}
	}
	slices.SortFunc(all, waitingRow.compare)
	return all
}

type waitingRow struct {
	s   *settledRow
	seq int64
	*book.Attempt
}

func (w waitingRow) compare(v waitingRow) int {
	return cmp.Or(w.Created.Compare(v.Created), cmp.Compare(w.s.ID, v.s.ID), cmp.Compare(w.seq, v.seq))
}

// Waiting implements ledger.Store.
func (m *memory) Waiting(_ context.Context, provider, after string, limit int) ([]ledger.Waiting, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	var last *waitingRow
	request, seq, _ := ledger.ParseAttemptID(after)
	if s := m.settled[request]; s != nil && seq <= int64(len(s.attempts)) {
		last = &waitingRow{s, seq, &s.attempts[seq-1]}
	}
	var all []ledger.Waiting
	for _, w := range m.waiting() {
		if w.Provider != provider || len(all) == limit || last != nil && w.compare(*last) <= 0 {
			continue
		}
		all = append(all, ledger.Waiting{Attempt: w.ID, Route: w.Route, Created: w.Created, Reference: w.Reference,
			Key: w.Key})
	}
	return all, nil
}

// CountWaiting implements ledger.Store.
func (m *memory) CountWaiting(context.Context) (map[string]int64, error) {
	leave, err := m.enter()
	defer leave()
	count := map[string]int64{}
	for _, w := range m.waiting() {
		count[w.Provider]++
	}
	return count, err
}

// CloseUnproven implements ledger.Store.
func (m *memory) CloseUnproven(_ context.Context, before time.Time) (ledger.Closings, error) {
	closed := ledger.Closings{Charged: map[string]int64{}, Over: map[string]int64{}}
	leave, err := m.enter()
	defer leave()
	for _, w := range m.waiting() {
		if err != nil || !w.Created.Before(before) {
			break
		}
		var a *accountRow
		if a, err = m.look(w.s.Account); err != nil {
			break
		}
		var p book.Proven
		if p, err = book.DecideClosing(m.payer(a, w.s.line), &w.s.Request, w.s.attempts, w.seq, m.now()); err != nil {
			break
		}
		m.prove(a, w.s, &p, w.seq)
		closed.Attempts++
		if p.Charge > 0 {
			closed.Charged[w.Route] += p.Charge
		}
		if p.Over > 0 {
			closed.Over[w.Route] += p.Over
		}
	}
	return closed, err
}

// EndPeriods implements ledger.Store.
func (m *memory) EndPeriods(context.Context) (ended int64, err error) {
	leave, err := m.enter()
	defer leave()
	for id, a := range m.accounts {
		if a.Overdue(m.terms(a), m.now()) && err == nil {
			_, err = m.look(id)
			ended++
		}
	}
	return ended, err
}

// PriceVersion implements ledger.Store.
func (m *memory) PriceVersion(_ context.Context, route string, price, cost config.Price) (int64, error) {
	leave, err := m.enter()
	defer leave()
	if err != nil {
		return 0, err
	}
	known := m.prices[route]
	version, err := book.DecidePrice(known, price, cost)
	if err == nil && version > int64(len(known)) {
		m.prices[route] = append(m.prices[route], book.Price{Version: version, Price: price, Cost: cost})
	}
	return version, err
}

// Prune implements ledger.Store.
func (m *memory) Prune(ctx context.Context, before time.Time) (requests int64, err error) {
	leave, err := m.enter()
	defer leave()
	for id, s := range m.settled {
		if s.Pending || !s.record.Settled.Before(before) || err != nil {
			continue
		}
		var act book.Act
		if act, err = book.RecordPruning(m.trail, m.prunedUntil, before, m.by(ctx)); act.Seq > 0 {
			m.prunedUntil = before
			m.act(nil, act)
		}
		m.pruned = append(m.pruned, m.recordOf(s))
		delete(m.settled, id)
		requests++
	}
	return requests, err
}

// AppliesLate implements Late.
func (m *memory) AppliesLate() {}

// Learn implements ledger.Store.
func (m *memory) Learn(_ context.Context, fold func(kept []ledger.Learned) []ledger.Learned) error {
	leave, err := m.enter()
	defer leave()
	if err == nil {
		m.learned = slices.Clone(fold(slices.Clone(m.learned)))
		slices.SortFunc(m.learned, func(a, b ledger.Learned) int {
			return cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Kind, b.Kind))
		})
	}
	return err
}

// Shrink implements ledger.Store.
func (m *memory) Shrink(context.Context) (ledger.Shrunk, error) { return ledger.Shrunk{}, nil }

// Loss implements ledger.Store.
func (m *memory) Loss() *ledger.Loss { return nil }

// AcceptLoss implements ledger.Store.
func (m *memory) AcceptLoss(ctx context.Context, reason string) (ledger.Loss, error) {
	_, err := book.AcceptLoss(m.trail, nil, reason, m.by(ctx))
	return ledger.Loss{}, err
}
