package sqlite

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// The last entry of an account is written anew, with its hash, so that its chain is whole and its request still has
// what it was settled with: each thing that both say is compared.
func TestVerifyComparesAnEntryWithItsRequest(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	var e ledger.Entry
	require.NoError(t, run(v.conn, `SELECT `+entryColumns+`
		FROM balances AS b JOIN entries AS e ON e.n = b.last JOIN accounts AS a ON a.n = b.n WHERE b.n = 2`,
		func(row *sqlite.Stmt) error {
			e = scanEntry(row)
			return nil
		}))
	require.Equal(t, "r17-second", e.Request)
	for problem, change := range map[string]func(*ledger.Entry){
		`it has the reason "length", request "r17-second" was settled for "ok"`: func(
			e *ledger.Entry) {
			e.Reason = "length"
		},
		`it is not of the moment when request "r17-second" was settled`: func(
			e *ledger.Entry) {
			e.Created = e.Created.Add(time.Nanosecond)
		},
		`it names the prices "large@1", the attempts of request "r17-second" began at "small@1"`: func(
			e *ledger.Entry) {
			e.Prices = "large@1"
		},
		`what is on record of request "r17-second" is not what it was settled with`: func(
			e *ledger.Entry) {
			e.Detail[31]++
		},
	} {
		forged := e
		change(&forged)
		p := v.problem(func() error {
			err := run(v.conn, `UPDATE entries SET reason = ?, created = ?, prices = ?, detail = ?, hash = ? WHERE n = ?`, nil,
				forged.Reason, forged.Created, forged.Prices, forged.Detail, forged.Hash(), e.N)
			if err != nil {
				return err
			}
			return run(v.conn, `UPDATE balances SET head = ? WHERE n = 2`, nil, forged.Hash())
		})
		require.Equal(t, e.Account+"/"+strconv.FormatInt(e.Seq, 10)+": "+problem, p)
	}
}

// What fair use left free of a part, and the tokens that count beside it, follow from one another (GAP-135).
func TestVerifyComparesAnEntryThatIsFreeInPart(t *testing.T) {
	t.Parallel()
	v := newVandal(t)
	var e ledger.Entry
	require.NoError(t, run(v.conn, `SELECT `+entryColumns+`
		FROM balances AS b JOIN entries AS e ON e.n = b.last JOIN accounts AS a ON a.n = b.n WHERE b.n = 4`,
		func(row *sqlite.Stmt) error {
			e = scanEntry(row)
			return nil
		}))
	require.Equal(t, "r29-receipt-in-part", e.Request)
	require.NotZero(t, e.Waived)
	for problem, change := range map[string]func(*ledger.Entry){
		"one token more":          func(e *ledger.Entry) { e.Tokens++ },
		"more free than was due":  func(e *ledger.Entry) { e.Waived = 1 << 40 },
		"a microcent of it twice": func(e *ledger.Entry) { e.Waived++ },
		"a microcent of it lost":  func(e *ledger.Entry) { e.Waived-- },
	} {
		forged := e
		change(&forged)
		p := v.problem(func() error {
			err := run(v.conn, `UPDATE entries SET tokens = ?, waived = ?, hash = ? WHERE n = ?`, nil,
				forged.Tokens, forged.Waived, forged.Hash(), e.N)
			if err != nil {
				return err
			}
			return run(v.conn, `UPDATE balances SET head = ? WHERE n = 4`, nil, forged.Hash())
		})
		require.Contains(t, p, e.Account+"/"+strconv.FormatInt(e.Seq, 10)+": it charges ", problem)
	}
}
