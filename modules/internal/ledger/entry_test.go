package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

var anEntry = ledger.Entry{
	N: 9, Account: "acct_1", Seq: 2, Kind: ledger.TopUp, Book: ledger.Payments, Request: "r", Reference: "ref",
	Reason: "why", Prices: "small@3",
	Microcents: 3, Credits: 4, Accrued: 5, Created: time.Unix(6, 7), Prev: [32]byte{8},
	Waived: 10, Over: 11, Tokens: 12, Detail: [32]byte{13},
}

// changes are of one field each.
var changes = map[string]func(*ledger.Entry){
	"account":    func(e *ledger.Entry) { e.Account = "acct_2" },
	"seq":        func(e *ledger.Entry) { e.Seq++ },
	"kind":       func(e *ledger.Entry) { e.Kind = ledger.Charged },
	"request":    func(e *ledger.Entry) { e.Request = "" },
	"reference":  func(e *ledger.Entry) { e.Reference = "re" },
	"reason":     func(e *ledger.Entry) { e.Reason = "Why" },
	"microcents": func(e *ledger.Entry) { e.Microcents = -3 },
	"credits":    func(e *ledger.Entry) { e.Credits-- },
	"accrued":    func(e *ledger.Entry) { e.Accrued = 0 },
	"created":    func(e *ledger.Entry) { e.Created = e.Created.Add(1) },
	"prev":       func(e *ledger.Entry) { e.Prev[31] = 1 },
	"boundary":   func(e *ledger.Entry) { e.Reference, e.Reason = "refw", "hy" },
}

// later are the fields that format 1 does not know.
var later = map[string]func(*ledger.Entry){
	"n":        func(e *ledger.Entry) { e.N++ },
	"book":     func(e *ledger.Entry) { e.Book = ledger.Revenue },
	"prices":   func(e *ledger.Entry) { e.Prices = "small@4" },
	"boundary": func(e *ledger.Entry) { e.Book, e.Prices = e.Book+"s", e.Prices[1:] },
}

// now are those that format 2 does not know.
var now = map[string]func(*ledger.Entry){
	"waived": func(e *ledger.Entry) { e.Waived++ },
	"over":   func(e *ledger.Entry) { e.Over++ },
	"tokens": func(e *ledger.Entry) { e.Tokens++ },
	"detail": func(e *ledger.Entry) { e.Detail[31]++ },
}

func TestEntryHash(t *testing.T) {
	t.Parallel()
	for format, golden := range map[int64]string{
		1:                  "0ed8a877c3ece1e42ccd96f93dc79dd3ef7248ee44285bc00942be5ca6c18e56",
		2:                  "ffc8997c4e1ddb3ef6c8bf6102c77cddd557df9060dc6393e95b69b6d2eae815",
		3:                  "861ee080369225d9bd5d1f780ac52ae37faf9ea72ac9a5c71983fe3b36b8528e",
		4:                  "52e31e20d3db2d7575d86d93ba62596615dd3adb35fe6ff5977d13479725b15b",
		ledger.EntryFormat: "af953eacb9df8a0c17ee74fdfa4f7b281029a44c2888742e70ef034db12fa47a",
	} {
		e := anEntry
		e.Format = format
		first := e.Hash()
		for name, change := range changes {
			changed := e
			change(&changed)
			require.NotEqual(t, first, changed.Hash(), "format %d: %s", format, name)
		}
		for name, change := range later {
			changed := e
			change(&changed)
			require.Equal(t, format == 1 || format >= 3 && name == "n", first == changed.Hash(), "format %d: %s", format, name)
		}
		for name, change := range now {
			changed := e
			change(&changed)
			require.Equal(t, format < 3, first == changed.Hash(), "format %d: %s", format, name)
		}
		e.Created = e.Created.In(time.FixedZone("elsewhere", 3600))
		require.Equal(t, first, e.Hash(), "a time zone is no part of the moment")
		require.Equal(t, golden, e.Hash().String(), "the encoding is for ever: old ledgers are verified with it")
	}
	seen := map[ledger.Digest]bool{}
	for format := int64(1); format <= ledger.EntryFormat; format++ {
		e := anEntry
		e.Format = format
		seen[e.Hash()] = true
	}
	require.Len(t, seen, ledger.EntryFormat, "by which rules an entry is judged is in its hash")
}

func TestEveryKindHasItsBook(t *testing.T) {
	t.Parallel()
	for kind, book := range map[ledger.EntryKind]ledger.Book{
		ledger.TopUp: ledger.Payments, ledger.Charged: ledger.Revenue, ledger.Receipt: ledger.Revenue,
		ledger.Closing: ledger.Revenue, ledger.Refund: ledger.Revenue,
		ledger.Adjustment: ledger.Adjustments, ledger.Allotment: ledger.Allotments,
	} {
		require.Equal(t, book, kind.Book(), "%s", kind)
	}
}
