package admin

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Statement is what an account's money did in a month of UTC. Opening, the sum of Movements and -Charges together are
// Closing, to the microcent; a month's Closing is the next one's Opening.
type Statement struct {
	Account   string    `json:"account"` // name
	AccountID string    `json:"account_id"`
	Month     string    `json:"month"` // "2026-11"
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"` // before it
	Over      bool      `json:"over"`  // false: the month still runs, and the statement is as of now
	Opening   int64     `json:"opening_microcents"`
	Closing   int64     `json:"closing_microcents"`
	// Movements are top-ups, refunds, corrections and the plan's credits, the oldest first; Moved what they come to by
	// their kinds.
	Movements []Entry          `json:"movements"`
	Moved     map[string]int64 `json:"moved_microcents"`
	// Charges is what use has taken, by the journal. Settled is what the requests that were settled in the month came to,
	// receipts of later months included. Elsewhere is the difference: what receipts of this month added to requests of
	// earlier ones, less what later ones added to this month's; and what was pruned before there were sums of days, which
	// no day has. Rough: requests were settled while it was read, and are in the one and not in the other.
	Charges   int64   `json:"charges_microcents"`
	Settled   Usage   `json:"settled"`
	Elsewhere int64   `json:"elsewhere_microcents"`
	Rough     bool    `json:"rough,omitempty"`
	Days      []Usage `json:"days"`
	Keys      []Usage `json:"keys"`
	Routes    []Usage `json:"routes"`
	// First and Last are the numbers of the month's entries in the account's journal, 0 for none; Head is the hash of the
	// account's last entry before Until, and Checkpoint the first that covers it, absent where none does yet.
	First      int64              `json:"first_entry"`
	Last       int64              `json:"last_entry"`
	Head       ledger.Digest      `json:"head"`
	Checkpoint *ledger.Checkpoint `json:"checkpoint,omitempty"`

	end int64 // the number of that entry
}

// maxMovements bounds what a statement lists: nobody moves an account's money so often by hand.
const maxMovements = 10_000

// statement reads month ("2026-11").
func (b *booksAPI) statement(r *http.Request) (any, error) {
	account, err := b.account(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	text := r.URL.Query().Get("month")
	from, err := time.Parse("2006-01", text)
	switch now := b.now().UTC(); {
	case err != nil || len(text) != len("2006-01"):
		return nil, problem(http.StatusBadRequest, "month %q: write a year and a month, as in 2026-11", text)
	case from.After(now):
		return nil, problem(http.StatusBadRequest, "month %s has not begun: months are those of UTC", text)
	case !from.AddDate(0, 1, 0).After(account.Created):
		return nil, problem(http.StatusNotFound, "account %s was made at %s: it has no statement of %s", account.Name,
			human.Moment(account.Created), text)
	}
	s := Statement{Account: account.Name, AccountID: account.ID, Month: text, From: from, Until: from.AddDate(0, 1, 0)}
	s.Over = !s.Until.After(b.now())
	// What is charged while a running month is read would be in one sum and not in another.
	for tries := 3; tries > 0 && (tries == 3 || s.Rough); tries-- {
		if err = b.fillStatement(r.Context(), &s); err != nil {
			return nil, err
		}
		last, err := b.lastBefore(r.Context(), account.ID, s.Until, false)
		if err != nil {
			return nil, err
		}
		s.Rough = last.Seq != s.end
	}
	return s, nil
}

// lastBefore is an account's last entry before a time, the zero Movement for none. In the account's order: where a
// clock was put back, what came behind it belongs to what is later.
func (b *booksAPI) lastBefore(ctx context.Context, account string, until time.Time, covered bool,
) (m ledger.Movement, err error) {
	err = b.books.Latest(ctx, ledger.LatestQuery{Account: account, Until: until, Covered: covered},
		func(is ledger.Movement) error {
			m = is
			return errEnough
		})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return m, err
}

func worthAfter(e *ledger.Entry) int64 { return e.Credits*ledger.MicrocentsPerCredit - e.Accrued }

func (b *booksAPI) fillStatement(ctx context.Context, s *Statement) error {
	opening, err := b.lastBefore(ctx, s.AccountID, s.From, false)
	if err != nil {
		return err
	}
	closing, err := b.lastBefore(ctx, s.AccountID, s.Until, true)
	if err != nil {
		return err
	}
	s.Opening, s.Closing = worthAfter(&opening.Entry), worthAfter(&closing.Entry)
	s.First, s.Last, s.Checkpoint, s.end = 0, 0, closing.Checkpoint, closing.Seq
	if closing.Seq > opening.Seq {
		s.First, s.Last = opening.Seq+1, closing.Seq
	}
	if closing.Seq > 0 {
		s.Head = closing.Entry.Hash()
	}
	s.Movements, s.Moved = []Entry{}, map[string]int64{}
	s.Charges = s.Opening - s.Closing
	err = b.books.Latest(ctx, ledger.LatestQuery{Account: s.AccountID, Before: closing.Seq + 1, Moved: true,
		Until: s.Until}, func(m ledger.Movement) error {
		switch {
		case m.Seq <= opening.Seq:
			return errEnough
		case len(s.Movements) == maxMovements:
			return problem(http.StatusBadRequest, "more than %s top-ups, refunds and corrections are in %s: `fareway gateway "+
				"ledger export` has all", human.Thousands(maxMovements), s.Month)
		}
		s.Movements = append(s.Movements, Entry{m.Entry, m.Hash()})
		s.Moved[string(m.Kind)] += m.Microcents
		s.Charges += m.Microcents
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	slices.Reverse(s.Movements)
	for _, sums := range []struct {
		by   []ledger.Dimension
		into *[]Usage
	}{{nil, nil}, {[]ledger.Dimension{ledger.ByDay}, &s.Days}, {[]ledger.Dimension{ledger.ByKey}, &s.Keys},
		{[]ledger.Dimension{ledger.ByRoute}, &s.Routes}} {
		rows := []Usage{}
		err := b.books.Usage(ctx, ledger.UsageQuery{Query: ledger.Query{Account: s.AccountID, Since: s.From, Until: s.Until},
			By: sums.by}, func(u ledger.UsageRow) error {
			rows = append(rows, viewUsage(u))
			return nil
		})
		switch {
		case err != nil:
			return err
		case sums.into != nil:
			*sums.into = rows
		case len(rows) > 0:
			s.Settled = rows[0]
		}
	}
	s.Elsewhere = s.Charges - s.Settled.Microcents
	return nil
}

// StatementMonths are the months of UTC in which an account has been, the newest first.
func StatementMonths(created, now time.Time) (months []string) {
	created, now = created.UTC(), now.UTC()
	for m := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC); m.AddDate(0, 1, 0).After(created); {
		months = append(months, m.Format("2006-01"))
		m = m.AddDate(0, -1, 0)
	}
	return months
}

// WriteCSV writes the statement as lines whose amounts add up: from the opening balance to the closing one, both of
// which have theirs in the column of the balance.
func (s *Statement) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	balance := s.Opening
	line := func(date, what, reference, reason string, requests, microcents int64) {
		balance += microcents
		_ = out.Write([]string{date, what, human.PlainCell(reference), human.PlainCell(reason),
			strconv.FormatInt(requests, 10), strconv.FormatInt(microcents, 10), strconv.FormatInt(balance, 10)})
	}
	_ = out.Write([]string{"date", "what", "reference", "reason", "requests", "microcents", "balance_microcents"})
	line(s.From.Format(time.DateOnly), "opening", "", "", 0, 0)
	movements := s.Movements
	until := func(day string) { // what was moved up to a day
		for len(movements) > 0 && (day == "" || movements[0].Created.UTC().Format(time.DateOnly) <= day) {
			e := &movements[0]
			line(e.Created.UTC().Format(time.DateOnly), string(e.Kind), e.Reference, e.Reason, 0, e.Microcents)
			movements = movements[1:]
		}
	}
	for i := range s.Days {
		d := &s.Days[i]
		until(d.Day)
		line(d.Day, "charges", "", "", d.Requests, -d.Microcents)
	}
	until("")
	if s.Elsewhere != 0 {
		line("", "elsewhere", "",
			"receipts that came in another month than their requests, and what no day has", 0, -s.Elsewhere)
	}
	line(s.Until.AddDate(0, 0, -1).Format(time.DateOnly), "closing", "", "", 0, 0)
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("writing the statement: %w", err)
	}
	return nil
}
