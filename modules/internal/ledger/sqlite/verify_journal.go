package sqlite

import (
	"fmt"
	"math"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// link is an entry as the next one of its account continues it.
type link struct {
	n, account int64
	seq        int64
	hash       ledger.Digest
	credits    int64
	accrued    int64
}

// recentLinks is how many accounts' last entries are remembered, about 100 bytes each. Those of others are read
// again.
const recentLinks = 1 << 15

// journalPass is what verifyJournal remembers from one entry to the next.
type journalPass struct {
	*verification
	n      int64 // of the last entry
	format int64 // of the last entry
	recent []link
	// accounts is more than any account's number.
	accounts int64
}

// verifyJournal reads a part of the journal, from one entry to another. Each entry has to continue the one that it
// names as its account's last before it, so that by induction all of an account's entries form one tree;
// verifyAccounts finds that it is a chain, for the account's last entry has as many before it as there are.
func (v *verification) verifyJournal(first, last int64) error {
	p := journalPass{verification: v}
	if first != math.MinInt64 {
		p.n = first - 1
		err := run(v.conn, `SELECT format FROM entries WHERE n = ?`, func(row *sqlite.Stmt) error {
			p.format = row.ColumnInt64(0)
			return nil
		}, p.n)
		if err != nil {
			return err
		}
	}
	err := run(v.conn, `SELECT coalesce(max(n), 0) + 1 FROM accounts`, func(row *sqlite.Stmt) error {
		p.accounts = max(1, row.ColumnInt64(0))
		p.recent = make([]link, min(p.accounts, recentLinks))
		return nil
	})
	if err != nil {
		return err
	}
	v.looked = make([]uint64, p.accounts/64+1)
	err = run(v.conn, `SELECT e.n, a.id, e.seq, e.kind, e.book, e.request, e.reference, e.reason, e.prices,
		e.microcents, e.credits, e.accrued, e.created, e.format, e.prev, e.waived, e.over, e.tokens, e.detail,
		e.before, e.hash, e.account, a.created
		FROM entries AS e LEFT JOIN accounts AS a ON a.n = e.account WHERE e.n BETWEEN ? AND ? ORDER BY e.n`, p.entry,
		first, last)
	if err == nil && last != math.MaxInt64 && p.n != last {
		err = entryDisagrees(p.n+1, "journal", "entry %d of the journal is missing", p.n+1)
	}
	return err
}

func (p *journalPass) entry(row *sqlite.Stmt) error {
	e := scanEntry(row)
	account, hash := row.ColumnInt64(entryWidth+2), columnHash(row, entryWidth+1)
	if p.done.Add(1); account > 0 && account < p.accounts {
		p.looked[account/64] |= 1 << (account % 64)
	}
	wrong := func(format string, args ...any) error { return entryDisagrees(e.N, whereOf(e), format, args...) }
	switch {
	case e.N != p.n+1:
		return entryDisagrees(p.n+1, whereOf(e), "entry %d of the journal is missing before it, which is entry %d", p.n+1,
			e.N)
	case e.Account == "":
		return wrong("it belongs to an account that does not exist, number %d", account)
	}
	before, err := p.before(row.ColumnInt64(entryWidth), account, e.N)
	if err != nil {
		return err
	}
	after, err := ledger.Balance{Credits: before.credits, Accrued: before.accrued}.Add(e.Microcents)
	switch {
	case row.ColumnIsNull(entryWidth) != (e.Seq == 1):
		return wrong("it is entry %d of its account and names entry %d of the journal as the one before it",
			e.Seq, row.ColumnInt64(entryWidth))
	case before.account != account || before.seq != e.Seq-1:
		return wrong("entry %d of the journal, which it names as the one before it, is not entry %d of its account",
			row.ColumnInt64(entryWidth), e.Seq-1)
	case e.Prev != before.hash:
		return wrong("its link to the entry before it is broken")
	case e.Hash() != hash:
		return wrong("it is not what its hash was made of")
	case err != nil || after.Credits != e.Credits || after.Accrued != e.Accrued:
		return wrong("it leaves %d credits and %d microcents accrued, %d and %d follow from the entry before it",
			e.Credits, e.Accrued, after.Credits, after.Accrued)
	}
	if what := p.nonsense(e, columnTime(row, entryWidth+3)); what != "" {
		return wrong("%s", what)
	}
	p.n, p.format = e.N, e.Format
	*p.slot(account) = link{n: e.N, account: account, seq: e.Seq, hash: hash, credits: e.Credits, accrued: e.Accrued}
	p.report.Entries++
	p.report.Sums[string(e.Book)] -= e.Microcents
	if e.Request != "" {
		p.count(p.counted, e.Kind, e.Created.UnixNano())
	}
	return nil
}

// before is the entry n, which the entry `next` of the account names; the zero entry of the account when n is 0.
func (p *journalPass) before(n, account, next int64) (link, error) {
	if n == 0 {
		return link{account: account}, nil
	}
	if l := *p.slot(account); l.n == n {
		return l, nil
	}
	var l link
	if n >= next {
		return l, nil // an entry can only continue an earlier one
	}
	err := run(p.conn, `SELECT n, account, seq, hash, credits, accrued FROM entries WHERE n = ?`,
		func(row *sqlite.Stmt) error {
			l = scanLink(row)
			return nil
		}, n)
	return l, err
}

// slot is where the account's last entry is remembered, if it is not another account's.
func (p *journalPass) slot(account int64) *link {
	return &p.recent[uint64(account)%uint64(len(p.recent))]
}

// scanLink reads the columns n, account, seq, hash, credits and accrued of entries.
func scanLink(row *sqlite.Stmt) link {
	return link{
		n: row.ColumnInt64(0), account: row.ColumnInt64(1), seq: row.ColumnInt64(2),
		hash: columnHash(row, 3), credits: row.ColumnInt64(4), accrued: row.ColumnInt64(5),
	}
}

// nonsense says what an entry of its kind cannot be; "" when it can.
func (p *journalPass) nonsense(e ledger.Entry, created time.Time) string {
	const credit = ledger.MicrocentsPerCredit
	about := e.Request != ""
	says := e.Detail != ledger.Digest{} || e.Waived != 0 || e.Over != 0 || e.Tokens != 0
	switch {
	case e.Format < 1 || e.Format > ledger.EntryFormat:
		return fmt.Sprintf("its hash has format %d; there are 1 to %d", e.Format, ledger.EntryFormat)
	case e.Format < p.format:
		return fmt.Sprintf("its hash has format %d, and that of an entry before it has format %d", e.Format, p.format)
	case e.Format == 1 && e.Prices != "":
		return "it names prices, which no entry of format 1 does"
	case e.Format < 3 && (says || e.Kind == ledger.Closing):
		return "it says what no entry before format 3 does"
	case (!about || e.Kind == ledger.Refund) && says:
		return "it says of a request what only its charge, a receipt or a closing does"
	case e.Book != e.Kind.Book():
		return fmt.Sprintf("the other side of a %s is the book %s, and it says %q", e.Kind, e.Kind.Book(), e.Book)
	}
	switch e.Kind {
	case ledger.TopUp:
		if about || e.Microcents < credit || e.Microcents%credit != 0 || e.Microcents > ledger.MaxTopUp*credit {
			return fmt.Sprintf("it is a top-up of %d microcents; a top-up is of whole credits and about no request",
				e.Microcents)
		}
	case ledger.Allotment:
		if about || e.Microcents < credit || e.Microcents%credit != 0 {
			return fmt.Sprintf("it is an allotment of %d microcents; an allotment is of whole credits and about no request",
				e.Microcents)
		}
		if !beginsPeriod(created, e.Reference) {
			return fmt.Sprintf("it is an allotment for a period that began at %q, when no period of its account does",
				e.Reference)
		}
	case ledger.Charged, ledger.Receipt, ledger.Closing:
		if !about || e.Microcents > 0 || e.Microcents == 0 && e.Format < 3 {
			return fmt.Sprintf("it is a %s of %d microcents for request %q; it takes something, for a request", e.Kind,
				e.Microcents, e.Request)
		}
	case ledger.Refund:
		if !about || e.Microcents <= 0 {
			return fmt.Sprintf("it is a refund of %d microcents for request %q; it gives something back, of a request",
				e.Microcents, e.Request)
		}
	case ledger.Adjustment:
		if about || e.Microcents == 0 || e.Reason == "" {
			return fmt.Sprintf("it is an adjustment of %d microcents with the reason %q; it moves something, for a reason, "+
				"and is about no request",
				e.Microcents, e.Reason)
		}
	default:
		return fmt.Sprintf("there is no kind of entry %q", e.Kind)
	}
	return ""
}

// beginsPeriod reports whether a period of an account that was created then begins at this moment, in RFC 3339 without
// fractions of a second.
func beginsPeriod(created time.Time, reference string) bool {
	begin, err := time.Parse(time.RFC3339, reference)
	if err != nil {
		return false
	}
	n := ledger.PeriodAt(created, begin.Add(time.Second)) // the fraction that is left out
	return ledger.PeriodBegin(created, n).Format(time.RFC3339) == reference
}
