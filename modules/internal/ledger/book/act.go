package book

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// By is who decides something, and when.
type By struct {
	Actor string // see ledger.ActorOf
	Now   time.Time
}

// Trail is how far a chain of acts has come: those about one account, or those about none.
type Trail struct {
	Acts int64         // how many there are
	Head ledger.Digest // the hash of the last, zero without one
}

// Act is an act with its hash. The zero Act is none.
type Act struct {
	ledger.Act
	Hash ledger.Digest
}

// Trail is how far its chain has come with it.
func (a *Act) Trail() Trail { return Trail{a.Seq, a.Hash} }

// Fields are what an act changed, or what there is to say of it. None of it is secret.
type Fields map[string]any

func (f Fields) text() (string, error) {
	if f == nil {
		return "", nil
	}
	b, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("writing the audit trail: %w", err)
	}
	return string(b), nil
}

// RecordAct is the next act of a trail, about an account (its id) or none (""). subject is the id of what changed,
// before what it was, nil for what was made.
func RecordAct(t Trail, account, action, subject string, before, after Fields, by By) (Act, error) {
	was, err := before.text()
	if err != nil {
		return Act{}, err
	}
	is, err := after.text()
	if err != nil {
		return Act{}, err
	}
	act := ledger.Act{
		Seq: t.Acts + 1, Created: by.Now, Actor: by.Actor, Action: action, Account: account, Subject: subject,
		Before: was, After: is, Prev: t.Head, Format: ledger.ActFormat,
	}
	return Act{act, act.Hash()}, nil
}

// Change is what an operator decided, as rows to write. Without Acts nothing is to change, and Account is as it was.
type Change struct {
	Account  Account
	Acts     []Act
	Entry    Entry      // of a movement of money
	Refunded int64      // of a refund: what of the request's charge is refunded now, in all
	Key      ledger.Key // that was changed, as it is now; its cap is its line's
	Fresh    FreshKey   // that was made, on the line of Key, or else the first of a line of its own
}

// FreshKey is a key with the hash of its text.
type FreshKey struct {
	ledger.Key
	Hash [32]byte
}

// record adds to a change the act that says it, with the account as it is now.
func (a Account) record(c Change, action, subject string, before, after Fields, by By) (Change, error) {
	act, err := RecordAct(a.Trail, a.ID, action, subject, before, after, by)
	if err != nil {
		return Change{}, err
	}
	a.Trail = act.Trail()
	c.Account, c.Acts = a, append(c.Acts, act)
	return c, nil
}

// AcceptLoss records, in the trail of what is about no account, that a ledger goes on without what it has lost
// (GAP-133): nil is nothing.
func AcceptLoss(t Trail, lost *ledger.Loss, reason string, by By) (Act, error) {
	if lost == nil {
		return Act{}, fmt.Errorf("%w: nothing of the ledger is missing", ledger.ErrInvalid)
	}
	if reason == "" {
		return Act{}, fmt.Errorf("%w: accepting a loss needs a reason", ledger.ErrInvalid)
	}
	if err := checkTexts("", reason); err != nil {
		return Act{}, err
	}
	what := lossFields(lost)
	what["reason"] = reason
	return RecordAct(t, "", "ledger.accept_loss", "ledger", nil, what, by)
}

// PowerCutAction is that of the act of RecordPowerCut.
const PowerCutAction = "ledger.power_cut"

// RecordPowerCut records, in the same trail, what a power cut has taken of a ledger of which an operator has said that
// it may (durability "process", GAP-133).
func RecordPowerCut(t Trail, lost *ledger.Loss, by By) (Act, error) {
	what := lossFields(lost)
	what["lost"] = lost.String()
	return RecordAct(t, "", PowerCutAction, "ledger", nil, what, by)
}

func lossFields(lost *ledger.Loss) Fields {
	what := Fields{
		"has_entries": lost.HasEntries, "seen_entries": lost.SeenEntries,
		"has_acts": lost.HasActs, "seen_acts": lost.SeenActs,
	}
	if lost.Settlements > 0 {
		what["settlements"] = lost.Settlements
	}
	if lost.Log != nil {
		what["log_damaged_at"], what["log_commits"] = lost.Log.Byte, lost.Log.Commits
	}
	return what
}

// RecordPruning records, in the trail of what is about no account, that the detail of what was settled before then is
// removed. The zero Act where that was said before: was is up to when, zero for never.
func RecordPruning(t Trail, was, before time.Time, by By) (Act, error) {
	if !was.Before(before) {
		return Act{}, nil
	}
	say := func(t time.Time) Fields {
		if t.IsZero() {
			return nil
		}
		return Fields{"settled_before": t.Format(time.RFC3339Nano)}
	}
	return RecordAct(t, "", "ledger.prune", "", say(was), say(before), by)
}
