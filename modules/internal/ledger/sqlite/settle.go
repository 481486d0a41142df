package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// attempt is an attempt's row, with its price; outcome is "" while it runs.
type attempt struct {
	seq     int64
	id      string
	outcome ledger.Outcome
	usage   llm.Usage
	price   config.Price
}

// attemptsOf gives the attempts of a request in their order.
func attemptsOf(conn *sqlite.Conn, request string, each func(attempt) error) error {
	return run(conn, `SELECT a.seq, a.id, a.outcome, a.input, a.cache_read, a.cache_write, a.output, a.reasoning, a.estimated,
		p.input, p.cache_read, p.cache_write, p.output
		FROM attempts AS a JOIN prices AS p ON p.route = a.route AND p.version = a.price_version
		WHERE a.request = ? ORDER BY a.seq`, func(row *sqlite.Stmt) error {
		return each(attempt{
			seq:     row.ColumnInt64(0),
			id:      row.ColumnText(1),
			outcome: ledger.Outcome(row.ColumnText(2)),
			usage: llm.Usage{
				Input:      columnCount(row, 3),
				CacheRead:  columnCount(row, 4),
				CacheWrite: columnCount(row, 5),
				Output:     columnCount(row, 6),
				Reasoning:  columnCount(row, 7),
				Estimated:  row.ColumnBool(8),
			},
			price: scanPrice(row, 9),
		})
	}, request)
}

// bill is what a request costs by its attempts. Settling and verifying share it.
type bill struct {
	tally    ledger.Tally
	unproven bool
}

func (b *bill) add(a attempt) error {
	b.unproven = b.unproven || a.outcome == ledger.Unproven
	return b.tally.Add(a.usage, a.price)
}

// total is the charge and whether it may still grow. A failure of the service stays free, whatever is proven
// later.
func (b *bill) total(free bool, surcharge int64) (microcents int64, pending bool, err error) {
	if free {
		return 0, false, nil
	}
	microcents, err = b.tally.Microcents()
	return microcents + surcharge, b.unproven, err
}

// Settle implements ledger.Store.
func (s *Store) Settle(ctx context.Context, st ledger.Settlement) (ledger.Charge, error) {
	var c ledger.Charge
	err := s.write(ctx, "settle", func(t *tx) error {
		results, err := resultsOf(st)
		if err != nil {
			return err
		}
		r, found, err := findRequest(t, st.Request)
		if err != nil {
			return err
		}
		if !found {
			return ledger.ErrNotFound
		}
		p, err := findPurse(t.conn, r.account)
		if err != nil {
			return err
		}
		if r.state == settled {
			c = ledger.Charge{Microcents: r.charge, Pending: r.pending, Balance: p.Balance}
			return nil
		}
		c, err = s.settle(t, st, r, &p, results)
		return err
	})
	if err != nil {
		return ledger.Charge{}, fmt.Errorf("settling request %q: %w", st.Request, err)
	}
	return c, nil
}

// settle reads everything first, and then writes the attempts, the request, the entry and the account.
func (s *Store) settle(t *tx, st ledger.Settlement, r request, p *purse, results map[string]ledger.Result) (ledger.Charge, error) {
	var (
		attempts []attempt
		due      bill
		zero     ledger.Charge
	)
	err := attemptsOf(t.conn, r.id, func(a attempt) error {
		a = s.conclude(a, results[a.id])
		attempts = append(attempts, a)
		return due.add(a)
	})
	if err != nil {
		return zero, err
	}
	if err := known(attempts, st.Results); err != nil {
		return zero, err
	}
	charge, pending, err := due.total(st.Free, st.Surcharge)
	if err != nil {
		return zero, err
	}

	for _, a := range attempts {
		u := a.usage
		err := t.exec(`UPDATE attempts SET outcome = ?, input = ?, cache_read = ?, cache_write = ?, output = ?, reasoning = ?, estimated = ?
			WHERE request = ? AND seq = ?`,
			string(a.outcome), u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning, u.Estimated, r.id, a.seq)
		if err != nil {
			return zero, err
		}
	}
	now := s.opts.Now()
	err = t.exec(`UPDATE requests SET state = ?, status = ?, reason = ?, free = ?, surcharge = ?, charge = ?, pending = ?, settled = ?
		WHERE id = ?`, settled, st.Status, st.Reason, st.Free, st.Surcharge, charge, pending, now, r.id)
	if err != nil {
		return zero, err
	}
	p.Held -= r.hold
	if charge > 0 {
		err := p.post(t, ledger.Entry{
			Kind: ledger.Charged, Request: r.id, Reason: st.Reason, Microcents: -charge, Created: now,
		})
		if err != nil {
			return zero, err
		}
	}
	return ledger.Charge{Microcents: charge, Pending: pending, Balance: p.Balance}, p.save(t)
}

// conclude ends an attempt. What a provider says never stops a settlement, for that would keep the hold: a
// usage that cannot be priced proves nothing. r is the zero Result for an attempt that nobody reported on.
func (s *Store) conclude(a attempt, r ledger.Result) attempt {
	a.outcome = r.Outcome
	if r.Usage != nil {
		var err error
		if _, err = ledger.Cost(*r.Usage, a.price); err == nil {
			a.usage = *r.Usage
		} else {
			s.opts.Logger.Error("a provider's usage is left out of its request's charge", "attempt", a.id, "error", err)
			a.outcome = ledger.Unproven
		}
	}
	if a.outcome == "" || a.outcome == ledger.Finished && !a.usage.Known() {
		a.outcome = ledger.Unproven
	}
	return a
}

// resultsOf checks what a settlement says by itself, and indexes its results by attempt.
func resultsOf(st ledger.Settlement) (map[string]ledger.Result, error) {
	if st.Surcharge < 0 || st.Surcharge > ledger.MaxCharge {
		return nil, fmt.Errorf("%w: a surcharge of %d microcents", ledger.ErrInvalid, st.Surcharge)
	}
	results := make(map[string]ledger.Result, len(st.Results))
	for _, r := range st.Results {
		switch r.Outcome {
		case ledger.Finished, ledger.Failed, ledger.Unproven, ledger.NotMade:
		default:
			return nil, fmt.Errorf("%w: outcome %q of attempt %q", ledger.ErrInvalid, r.Outcome, r.Attempt)
		}
		if _, twice := results[r.Attempt]; twice {
			return nil, fmt.Errorf("%w: two results of attempt %q", ledger.ErrInvalid, r.Attempt)
		}
		results[r.Attempt] = r
	}
	return results, nil
}

// known refuses results of attempts that the request never began.
func known(attempts []attempt, results []ledger.Result) error {
results:
	for _, r := range results {
		for _, a := range attempts {
			if a.id == r.Attempt {
				continue results
			}
		}
		return fmt.Errorf("%w: attempt %q of this request", ledger.ErrNotFound, r.Attempt)
	}
	return nil
}
