package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// Settle implements ledger.Store.
func (s *Store) Settle(ctx context.Context, st ledger.Settlement) (ledger.Charge, error) {
	var c ledger.Charge
	err := s.write(ctx, "settle", func(t *tx) (err error) {
		c, err = t.settle(&st)
		return err
	})
	if err != nil {
		return ledger.Charge{}, fmt.Errorf("settling request %q: %w", st.Request, err)
	}
	return c, nil
}

func (t *tx) settle(st *ledger.Settlement) (ledger.Charge, error) {
	var none ledger.Charge
	if err := checkSettlement(st); err != nil {
		return none, err
	}
	r, ok := t.live[st.Request]
	if !ok {
		return t.settledBefore(st.Request)
	}
	a, err := t.account(r.account)
	if err != nil {
		return none, err
	}
	l, err := a.line(t.conn, r.key.root)
	if err != nil {
		return none, err
	}
	if err := t.conclude(r, st.Results); err != nil {
		return none, err
	}
	due, err := billOf(r.attempts, st.Surcharge)
	if err != nil {
		return none, err
	}
	var p part
	if !st.Free {
		p = t.judge(a, st.ServiceLimit, due.microcents, due.Ceiling(st.Surcharge, r.hold), due.Tokens)
	}
	now := t.now()
	err = t.charge(a, l, p, ledger.Entry{
		Kind: ledger.Charged, Request: r.id, Reason: st.Reason, Prices: due.prices, Created: now,
		Detail: t.detail(r, st, now),
	})
	if err != nil {
		return none, err
	}
	a.Held -= r.hold
	a.requests++
	t.end(r)
	pending := due.Pending && !st.Free
	t.settled.add(r.id)
	e := ended{r, st, p, pending, now, a.last}
	t.ends = append(t.ends, e)
	if err := t.unsummed.count(t.conn, &e); err != nil {
		return none, err
	}
	return ledger.Charge{Microcents: p.charge, Waived: p.waived, Over: p.over, Pending: pending, Balance: a.Balance}, nil
}

// detail is what the entry of a request's settlement vouches for.
func (t *tx) detail(r *running, st *ledger.Settlement, now time.Time) ledger.Digest {
	attempts := t.record.Attempts[:0]
	for i := range r.attempts {
		attempts = append(attempts, r.attempts[i].record())
	}
	t.record = ledger.RequestRecord{
		ID: r.id, Account: r.account, Key: r.key.id, Endpoint: r.endpoint, Profile: r.profile, Owner: r.owner, Held: r.hold,
		Created: r.first().created, Settled: now, Status: st.Status, Reason: st.Reason, Free: st.Free,
		ServiceLimit: st.ServiceLimit, Surcharge: st.Surcharge, Attempts: attempts,
	}
	return t.record.Detail()
}

// unanswered settles a request whose hold was committed when nobody waited for it any more: its call was
// never made.
func (r *running) unanswered() *ledger.Settlement {
	st := &ledger.Settlement{Request: r.id, Reason: "hold_not_answered", Free: true}
	if len(r.attempts) > 0 {
		st.Results = []ledger.Result{{Attempt: ledger.AttemptID(r.id, 1), Outcome: ledger.NotMade}}
	}
	return st
}

// checkSettlement checks what a settlement says by itself.
func checkSettlement(st *ledger.Settlement) error {
	if st.Surcharge < 0 || st.Surcharge > ledger.MaxCharge {
		return fmt.Errorf("%w: a surcharge of %d microcents", ledger.ErrInvalid, st.Surcharge)
	}
	for i, r := range st.Results {
		switch r.Outcome {
		case ledger.Finished, ledger.Failed, ledger.Unproven, ledger.NotMade:
		default:
			return fmt.Errorf("%w: outcome %q of attempt %q", ledger.ErrInvalid, r.Outcome, r.Attempt)
		}
		for _, other := range st.Results[:i] {
			if other.Attempt == r.Attempt {
				return fmt.Errorf("%w: two results of attempt %q", ledger.ErrInvalid, r.Attempt)
			}
		}
	}
	return nil
}

// conclude ends the attempts of a running request (see ledger.Result.Conclude). Those of a call for comparison are the
// operator's, and so is one that was made beside another, where nobody says how they ended.
//
// It changes the attempts where they are. A settlement that is refused after it leaves nothing behind that
// the next one does not set anew.
func (t *tx) conclude(r *running, results []ledger.Result) error {
	for i := range r.attempts {
		a := &r.attempts[i]
		a.outcome, a.usage, a.estimate, a.Key, a.operator = ledger.Unproven, llm.Usage{}, nil, "", false
		if a.beside || r.endpoint == ledger.Shadow {
			a.outcome, a.operator = ledger.Failed, true
		}
		if t.unmade[a.ID] {
			a.outcome = ledger.NotMade
		}
	}
results:
	for _, res := range results {
		for i := range r.attempts {
			if r.attempts[i].ID == res.Attempt {
				res.Operator = res.Operator || r.endpoint == ledger.Shadow
				t.concludeOne(&r.attempts[i], res)
				continue results
			}
		}
		return fmt.Errorf("%w: attempt %q of this request", ledger.ErrNotFound, res.Attempt)
	}
	return nil
}

func (t *tx) concludeOne(a *attempt, r ledger.Result) {
	var err error
	a.Key, a.operator, a.reference = r.Key, r.Operator, cmp.Or(r.Reference, a.reference)
	if a.outcome, a.usage, err = r.Conclude(a.price); err != nil {
		t.opts.Logger.Error("a provider's usage is left out of its request's charge", "attempt", a.ID, "error", err)
	}
	if a.outcome == ledger.Unproven {
		a.estimate = t.usable(a, r.Estimate)
	}
}

// usable is what can be charged of an estimate, as an attempt's row has it; nil: nothing.
func (t *tx) usable(a *attempt, estimate *llm.Usage) *llm.Usage {
	if !estimate.Known() {
		return nil
	}
	u := &llm.Usage{Input: estimate.Input, Output: estimate.Output, Estimated: true}
	if _, err := ledger.Cost(*u, a.price); err != nil {
		t.opts.Logger.Error("an estimate of what an attempt used is left out", "attempt", a.ID, "error", err)
		return nil
	}
	return u
}

// ended is a request that was settled, whose row still is in holds and not yet in requests.
type ended struct {
	*running
	st *ledger.Settlement
	part
	pending bool
	settled time.Time
	entry   int64 // where its charge lies
}

const insertRequest = `INSERT OR FAIL INTO requests (id, account, key, owner, endpoint, profile, hold, status, ` +
	`reason, free, service_limit,
	surcharge, charge, waived, tokens, refunded, pending, created, settled, entry, over)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)`

func bindRequest(row *rows, e *ended) {
	row.text(e.id)
	row.number(e.key.account)
	row.number(e.key.n)
	row.usual(e.owner)
	row.usual(e.endpoint)
	row.usual(e.profile)
	row.number(e.hold)
	row.number(int64(e.st.Status))
	row.usual(e.st.Reason)
	row.truth(e.st.Free)
	row.truth(e.st.ServiceLimit)
	row.number(e.st.Surcharge)
	row.number(e.charge)
	row.number(e.waived)
	row.number(e.tokens)
	row.truth(e.pending)
	row.number(e.first().created.UnixNano())
	row.number(e.settled.UnixNano())
	row.number(e.entry)
	row.number(e.over)
}

// made is an attempt of a request that was settled.
type made struct {
	*attempt
	request string
	seq     int64
}

const insertAttempt = `INSERT OR FAIL INTO attempts (request, seq, route, provider, model, price_version, outcome,
	input, cache_read, cache_write, output, reasoning, estimated, created, receipt, worst, estimate_input, estimate_output,
	provider_key, operator)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?, ?)`

func bindAttempt(row *rows, a *made) {
	row.text(a.request)
	row.number(a.seq)
	row.usual(a.Route)
	row.usual(a.Provider)
	row.usual(a.Model)
	row.number(a.PriceVersion)
	row.usual(string(a.outcome))
	row.count(a.usage.Input)
	row.count(a.usage.CacheRead)
	row.count(a.usage.CacheWrite)
	row.count(a.usage.Output)
	row.count(a.usage.Reasoning)
	row.truth(a.usage.Estimated)
	row.number(a.created.UnixNano())
	row.worst(a.Worst)
	e := a.guess()
	row.count(e.Input)
	row.count(e.Output)
	row.usual(a.Key)
	row.truth(a.operator)
}

// flushEnds moves the requests that were settled from holds to requests and attempts, in the order of their ids:
// that is where they lie.
func (t *tx) flushEnds() error {
	slices.SortFunc(t.ends, func(a, b ended) int { return strings.Compare(a.id, b.id) })
	attempts, numbers := make([]made, 0, len(t.ends)), make([]int64, 0, len(t.ends))
	for i := range t.ends {
		r := t.ends[i].running
		for seq := r.from(); seq <= len(r.attempts); seq++ {
			a := r.row(seq)
			numbers = append(numbers, a.n)
			if seq > 0 {
				attempts = append(attempts, made{a, r.id, int64(seq)})
			}
		}
		if err := t.ends[i].wait(t.conn); err != nil {
			return err
		}
	}
	if err := t.deleteHolds(numbers); err != nil {
		return err
	}
	if err := insert(t.stmts.insertRequest, t.ends, bindRequest); err != nil {
		return err
	}
	return insert(t.stmts.insertAttempt, attempts, bindAttempt)
}

// wait records the attempts that wait for a receipt.
func (e *ended) wait(conn *sqlite.Conn) error {
	for i := range e.attempts {
		a := &e.attempts[i]
		if !e.pending || !a.waits() {
			continue
		}
		err := run(conn, `INSERT INTO waiting (provider, created, request, seq, route, reference)
			VALUES (?, ?, ?, ?, ?, nullif(?, ''))`, nil, a.Provider, a.created, e.id, i+1, a.Route, a.reference)
		if err != nil {
			return err
		}
	}
	return nil
}

// settledBefore is the answer to a settlement of a request that does not run.
func (t *tx) settledBefore(id string) (ledger.Charge, error) {
	s, found, err := t.settledRequest(id)
	switch {
	case err != nil:
		return ledger.Charge{}, err
	case !found:
		return ledger.Charge{}, fmt.Errorf("%w: a request with this id", ledger.ErrNotFound)
	}
	a, err := t.account(s.account)
	if err != nil {
		return ledger.Charge{}, err
	}
	return s.result(a), nil
}

// settledRequest is the part of a settled request's row that later operations need.
type settledRequest struct {
	id           string
	account      string // id
	key          int64
	hold         int64
	serviceLimit bool
	surcharge    int64
	charge       int64
	waived       int64
	over         int64
	refunded     int64
	pending      bool
}

func (s *settledRequest) result(a *account) ledger.Charge {
	return ledger.Charge{Microcents: s.charge, Waived: s.waived, Over: s.over, Pending: s.pending, Balance: a.Balance}
}

func (t *tx) settledRequest(id string) (s settledRequest, found bool, err error) {
	if t.settled.unknown(id) {
		return s, false, nil
	}
	err = t.query(`SELECT a.id, r.key, r.service_limit, r.surcharge, r.charge, r.waived, r.refunded, r.pending, r.hold, `+
		`r.over
		FROM requests AS r JOIN accounts AS a ON a.n = r.account WHERE r.id = ?`, func(row *sqlite.Stmt) error {
		found = true
		s = settledRequest{
			id:           id,
			account:      row.ColumnText(0),
			key:          row.ColumnInt64(1),
			serviceLimit: row.ColumnBool(2),
			surcharge:    row.ColumnInt64(3),
			charge:       row.ColumnInt64(4),
			waived:       row.ColumnInt64(5),
			refunded:     row.ColumnInt64(6),
			pending:      row.ColumnBool(7),
			hold:         row.ColumnInt64(8),
			over:         row.ColumnInt64(9),
		}
		return nil
	}, id)
	return s, found, err
}
