package audit

import (
	"fmt"
	"math"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// recentLinks is how many accounts' last entries are remembered, about 400 bytes each. Those of others are read again.
const recentLinks = 1 << 14

// journalPass is what verifyJournal remembers from one entry to the next.
type journalPass struct {
	*verification
	n       int64  // of the last entry
	format  int64  // of the last entry
	account string // of the last entry
	recent  []Entry
}

// verifyJournal reads a part of the journal, from one entry to another. Each entry has to continue the one that it
// names as its account's last before it, so that by induction all of an account's entries form one tree;
// verifyLast finds that it is a chain, for the account's last entry has as many before it as there are.
func (v *verification) verifyJournal(first, last int64) error {
	p := journalPass{verification: v, recent: make([]Entry, max(1, min(v.head.LastEntry, recentLinks)))}
	if first != math.MinInt64 && !v.head.ByAccount {
		p.n = first - 1
		before, _, err := v.Entry("", p.n)
		if p.format = before.Format; err != nil {
			return err
		}
	}
	err := each(v.Entries(first, last, false), p.entry)
	if err == nil && last != math.MaxInt64 && p.n != last { // of a store with places alone: only those have several parts
		err = missingEntry(p.n+1, "journal", "entry %d of the journal is missing", p.n+1)
	}
	return err
}

func missingEntry(n int64, where, format string, args ...any) error {
	return &finding{n: n, where: where, what: fmt.Sprintf(format, args...)}
}

func (p *journalPass) entry(e Entry) error {
	p.done.Add(1)
	if p.head.ByAccount && e.Account != p.account {
		p.format, p.account = 0, e.Account
	}
	switch {
	case !p.head.ByAccount && e.N != p.n+1:
		return missingEntry(p.n+1, e.where(), "entry %d of the journal is missing before it, which is entry %d", p.n+1, e.N)
	case !p.head.ByAccount && e.Numbered != nil:
		return e.disagree("it has two numbers among all entries")
	case e.Account == "":
		return e.disagree("it belongs to an account that does not exist, number %d", e.Number)
	}
	p.look(e.Number)
	before, err := p.before(&e)
	if err != nil {
		return err
	}
	after, err := ledger.Balance{Credits: before.Credits, Accrued: before.Accrued}.Add(e.Microcents)
	switch {
	case (e.Before == 0) != (e.Seq == 1):
		return e.disagree("it is entry %d of its account and names entry %d of the journal as the one before it", e.Seq,
			e.Before)
	case before.Account != e.Account || before.Seq != e.Seq-1:
		return e.disagree("entry %d of the journal, which it names as the one before it, is not entry %d of its account",
			e.Before, e.Seq-1)
	case e.Prev != before.Hash:
		return e.disagree("its link to the entry before it is broken")
	case e.hashNow() != e.Hash:
		return e.disagree("it is not what its hash was made of")
	case err != nil || after.Credits != e.Credits || after.Accrued != e.Accrued:
		return e.disagree("it leaves %d credits and %d microcents accrued, %d and %d follow from the entry before it",
			e.Credits, e.Accrued, after.Credits, after.Accrued)
	case e.Format < p.format && e.Format > 0:
		return e.disagree("its hash has format %d, and that of an entry before it has format %d", e.Format, p.format)
	}
	if what := e.nonsense(); what != "" {
		return e.disagree("%s", what)
	}
	p.n, p.format = e.N, e.Format
	*p.slot(e.Number) = e
	p.report.Entries++
	p.report.Sums[string(e.Book)] -= e.Microcents
	if e.Request != "" {
		p.count(p.counted, &e)
	}
	return nil
}

// look marks an account, whose number is not above any that was ever made, as one that an entry was looked at of.
func (p *journalPass) look(account int64) {
	if account < 1 || account > math.MaxInt32 {
		return
	}
	for int64(len(p.looked)) <= account/64 {
		p.looked = append(p.looked, 0)
	}
	p.looked[account/64] |= 1 << (account % 64)
}

// before is the entry that another one continues; the zero entry of its account when that is its first. An entry can
// only continue an earlier one.
func (p *journalPass) before(e *Entry) (last Entry, err error) {
	switch l := p.slot(e.Number); {
	case e.Before == 0:
		last.Account = e.Account
	case l.N == e.Before && l.Account == e.Account:
		last = *l
	case e.Before < e.N:
		last, _, err = p.Entry(e.Account, e.Before)
	}
	return last, err
}

// hashNow is the hash of what the entry says.
func (e *Entry) hashNow() ledger.Digest {
	is := e.Entry
	if e.Numbered != nil {
		is.N = *e.Numbered
	}
	return is.Hash()
}

// slot is where the account's last entry is remembered, if it is not another account's.
func (p *journalPass) slot(account int64) *Entry {
	return &p.recent[uint64(account)%uint64(len(p.recent))]
}

// nonsense says what an entry of its kind cannot be; "" when it can.
func (e *Entry) nonsense() string {
	const credit = ledger.MicrocentsPerCredit
	about := e.Request != ""
	says := e.Detail != ledger.Digest{} || e.Waived != 0 || e.Over != 0 || e.Tokens != 0
	switch {
	case e.Format < 1 || e.Format > ledger.EntryFormat:
		return fmt.Sprintf("its hash has format %d; there are 1 to %d", e.Format, ledger.EntryFormat)
	case e.Format != 2 && e.Numbered != nil:
		return "it has a number among all entries, which only one of format 2 has in its hash"
	case e.Format == 1 && e.Prices != "":
		return "it names prices, which no entry of format 1 does"
	case e.Format < 3 && (says || e.Kind == ledger.Closing):
		return "it says what no entry before format 3 does"
	case (!about || e.Kind == ledger.Refund) && says:
		return "it says of a request what only its charge, a receipt or a closing does"
	case e.Book != e.Kind.Book():
		return fmt.Sprintf("the other side of a %s is the book %s, and it says %q", e.Kind, e.Kind.Book(), e.Book)
	}
	wholeCredits := e.Microcents >= credit && e.Microcents%credit == 0
	switch e.Kind {
	case ledger.TopUp:
		if about || !wholeCredits || e.Microcents > ledger.MaxTopUp*credit {
			return fmt.Sprintf("it is a top-up of %d microcents; a top-up is of whole credits and about no request",
				e.Microcents)
		}
	case ledger.Allotment:
		if about || !wholeCredits {
			return fmt.Sprintf("it is an allotment of %d microcents; an allotment is of whole credits and about no request",
				e.Microcents)
		}
		if !beginsPeriod(e.Since, e.Reference) {
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
				"and is about no request", e.Microcents, e.Reason)
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
