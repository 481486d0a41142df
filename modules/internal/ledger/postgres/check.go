package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Check implements ledger.Store. It locks nothing: what it answers may be otherwise a moment later, and the hold that
// follows decides. Where a period has ended, it is ended first.
func (s *Store) Check(ctx context.Context, account, key string, microcents, tokens int64) error {
	q := &question{keyID: keyID{account, key}, microcents: microcents, tokens: tokens, done: make(chan struct{})}
	err := s.mayAnswer(ctx, q)
	if err == nil && q.overdue {
		op := &operation{account: account, keys: []keyID{q.keyID}}
		op.run = func(u *unit) error {
			a, err := u.look(account)
			if err != nil {
				return err
			}
			l, err := u.line(account, key)
			if err != nil {
				return err
			}
			return book.CheckPayer(u.payer(a, l), microcents, tokens)
		}
		err = s.perform(ctx, "check", op)
	}
	return wrap(err, "checking an account")
}

// question is a Check that waits for its answer.
type question struct {
	keyID
	microcents, tokens int64

	err     error
	overdue bool // a period of its account has ended, so that somebody has to write that first
	done    chan struct{}
}

// mayAnswer asks a question and waits for the answer.
func (s *Store) mayAnswer(ctx context.Context, q *question) error {
	start := time.Now()
	defer func() { s.o.Observe("check", time.Since(start), 0) }()
	timer := time.NewTimer(s.o.WaitTimeout)
	defer timer.Stop()
	select {
	case s.questions <- q:
	case <-ctx.Done():
		return gaveUp(ctx)
	case <-s.closed:
		return errClosed
	case <-timer.C:
		return tooSlow(s.o.WaitTimeout)
	}
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return gaveUp(ctx)
	case <-s.closed: // it may be queued, with nobody to answer it
		return errClosed
	case <-timer.C:
		return tooSlow(s.o.WaitTimeout)
	}
}

// answerQuestions answers all questions that wait with one statement, until the store is closed.
func (s *Store) answerQuestions() {
	waiting := make([]*question, 0, maxBatch)
	for {
		select {
		case <-s.closed:
			return
		case q := <-s.questions:
			waiting = append(waiting[:0], q)
		}
		for more := true; more && len(waiting) < maxBatch; {
			select {
			case q := <-s.questions:
				waiting = append(waiting, q)
			default:
				more = false
			}
		}
		s.answer(waiting)
		clear(waiting)
	}
}

// payers finds accounts with a key's line, as lockBalances does.
const payers = `SELECT ` + balanceColumns + `, ` + settingColumns + `, q.n, coalesce(k.root, ''),
	coalesce(l.spend_cap, 0), coalesce(l.spent, 0), coalesce(l.spent_before, 0), coalesce(l.held, 0),
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint
	FROM unnest($1::text[], $2::text[], $3::int8[]) AS q (account, key, n)
	CROSS JOIN LATERAL (SELECT * FROM balances AS o WHERE o.account = q.account OFFSET 0) AS b
	CROSS JOIN LATERAL (SELECT * FROM accounts AS o WHERE o.account = q.account OFFSET 0) AS a
	LEFT JOIN LATERAL (SELECT * FROM keys AS o WHERE o.account = q.account AND o.key = q.key OFFSET 0) AS k ON true
	LEFT JOIN LATERAL (SELECT * FROM lines AS o WHERE o.account = k.account AND o.root = k.root
		AND b.payer IS DISTINCT FROM k.root OFFSET 0) AS l ON true`

func (s *Store) answer(waiting []*question) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.WaitTimeout)
	defer cancel()
	accounts, keys, places := make([]string, len(waiting)), make([]string, len(waiting)), make([]int64, len(waiting))
	for i, q := range waiting {
		accounts[i], keys[i], places[i] = q.account, q.key, int64(i)
		q.err = book.NoAccount(q.account)
	}
	var b pgx.Batch
	b.Queue(`BEGIN READ ONLY`)
	b.Queue(beginUnit) // for its plans
	b.Queue(payers, accounts, keys, places).Query(each(func(row pgx.Rows) error {
		var n, clock int64
		root := ""
		var is balanceRow
		var set settingRow
		l := &line{}
		values := append(append(is.values(), set.values()...), &n, &root, &l.Cap, &l.Spent, &l.Before, &l.held, &clock)
		if err := row.Scan(values...); err != nil {
			return err
		}
		if err := set.parse(); err != nil {
			return err
		}
		q, a := waiting[n], is.account()
		set.fill(&a)
		if root == "" {
			q.err = book.NoKey(q.key, q.account)
			return nil
		}
		terms := a.Limits.Over(s.o.Terms(a.Plan))
		if q.overdue = a.Overdue(terms, s.nowAt(clock)); q.overdue {
			q.err = nil
			return nil
		}
		if is.payer != nil && *is.payer == root {
			l = is.line()
		}
		q.err = book.CheckPayer(book.Payer{Account: &a, Line: &l.Line, Terms: terms, Held: l.held}, q.microcents, q.tokens)
		return nil
	}))
	b.Queue(`COMMIT`)
	err := s.pool.SendBatch(ctx, &b).Close()
	for _, q := range waiting {
		if err != nil {
			q.err = unavailable(err)
		}
		close(q.done)
	}
}
