package audit

import (
	"encoding/json"
	"fmt"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func (a *Act) where() string { return fmt.Sprintf("act/%d", a.Place) }

// verifyTrail checks that the acts are what their hashes were made of. Those of format 1 are one chain of all.
// readAccounts checks that those of an account are a chain.
func (v *verification) verifyTrail() error {
	var last Act
	var old ledger.Digest // the hash of the last act of format 1
	return each(v.Acts(false, false), func(a Act) error {
		where := a.where()
		switch {
		case a.Format < 1 || a.Format > ledger.ActFormat || a.Format < last.Format:
			return Disagree(where, "its hash has format %d, and that of the act before it format %d", a.Format, last.Format)
		case a.Format == 1 && a.N != last.N+1:
			return Disagree(where, "act %d of the audit trail is missing before it", last.N+1)
		case a.Account == "" && a.Number != 0:
			return Disagree(where, "it is about an account that does not exist, number %d", a.Number)
		case a.Format == 1 && a.Prev != old:
			return Disagree(where, "its link to the act before it is broken")
		case a.Act.Hash() != a.Hash:
			return Disagree(where, "it is not what its hash was made of")
		}
		if last = a; a.Format == 1 {
			old = a.Hash
		}
		if a.Action == "ledger.prune" {
			v.lastPruning = a.After
		}
		return nil
	})
}

// verifyPrunedAct compares since when every request has to be there with what the trail said last of it.
func (v *verification) verifyPrunedAct() error {
	var says struct {
		Before string `json:"settled_before"`
	}
	_ = json.Unmarshal([]byte(v.lastPruning), &says) // none where there was none
	is := ""
	if !v.head.Pruned.IsZero() {
		is = nano(v.head.Pruned)
	}
	if says.Before != is {
		return Disagree("meta", "the detail of requests is to be there since %q, the audit trail says %q", is, says.Before)
	}
	return nil
}

// moved is what an operator moved, as an entry or an act has it.
type moved struct {
	account                    int64
	action                     string
	microcents                 int64
	request, reference, reason string
	credits                    int64 // the balance after it
}

// The actions that move money.
const (
	addCredit = "credit.add"
	refund    = "credit.refund"
	adjust    = "credit.adjust"
)

func (e *Entry) moved() moved {
	action := adjust
	switch e.Kind {
	case ledger.TopUp:
		action = addCredit
	case ledger.Refund:
		action = refund
	default:
	}
	return moved{e.Number, action, e.Microcents, e.Request, e.Reference, e.Reason, e.Credits}
}

func (a *Act) moved() moved {
	var before, after struct {
		Credits    int64  `json:"credits"`
		Microcents int64  `json:"microcents"`
		Refunded   int64  `json:"refunded_microcents"`
		Reference  string `json:"reference"`
		Reason     string `json:"reason"`
		Balance    int64  `json:"balance_credits"`
	}
	_ = json.Unmarshal([]byte(a.Before), &before) // it is what its hash was made of
	_ = json.Unmarshal([]byte(a.After), &after)
	m := moved{a.Number, a.Action, after.Refunded - before.Refunded, "", after.Reference, after.Reason, after.Balance}
	switch a.Action {
	case addCredit:
		m.microcents = after.Credits * ledger.MicrocentsPerCredit
	case adjust:
		m.microcents = after.Microcents
	case refund:
		m.request = a.Subject
	}
	return m
}

// verifyMoved compares what operators moved with what the audit trail says that they did. Each entry was written in
// one transaction with its act, so they are in the same order. Entries of format 1 are of a ledger that had no trail
// yet.
func (v *verification) verifyMoved() (err error) {
	acts := open(v.Acts(false, true), &err)
	defer acts.stop()
	if err != nil {
		return err
	}
	err = each(v.Entries(minPlace, maxPlace, true), func(e Entry) error {
		switch {
		case e.Format == 1:
			return nil
		case !acts.has:
			return e.disagree("the audit trail does not say who made it")
		case acts.row.moved() != e.moved():
			return e.disagree("act %d of the audit trail, which should have made it, says otherwise", acts.row.Place)
		}
		return acts.advance()
	})
	if err == nil && acts.has {
		err = Disagree(acts.row.where(), "the journal does not have what it says was moved")
	}
	return err
}
