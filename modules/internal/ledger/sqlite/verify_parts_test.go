package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
)

// However many look, they find the same, also where something is missing at a border of parts.
func TestVerifyInParts(t *testing.T) {
	t.Parallel()
	const charges = 3 * audit.PartLeast
	path := filepath.Join(t.TempDir(), "fareway.db")
	prefill(t, path, 50, charges)
	conn := openForWriting(t, path)
	for _, trigger := range []string{"entries_keep", "entries_stay"} {
		require.NoError(t, run(conn, `DROP TRIGGER `+trigger, nil))
	}
	look := func(n int) ledger.Report {
		var readers []*sqlite.Conn
		for range n {
			reader, err := openReader(path, time.Second)
			require.NoError(t, err)
			defer func() { require.NoError(t, reader.Close()) }()
			readers = append(readers, reader)
		}
		reader, err := openReader(path, time.Second)
		require.NoError(t, err)
		defer func() { require.NoError(t, reader.Close()) }()
		var done, of int64
		r, err := verifyAs(reader, readers, traces{}, ledger.Verification{Progress: func(d, o int64) { done, of = d, o }})
		require.NoError(t, err)
		require.InDelta(t, done, r.Entries+r.Requests, 1, "one that disagrees is none of them")
		require.GreaterOrEqual(t, of, done)
		return r
	}
	exec := func(sql string) { require.NoError(t, run(conn, sql, nil)) }
	r := look(0)
	require.Equal(t, "trigger entries_keep is missing, or not as this fareway makes it", r.Problem)
	require.False(t, r.Stopped, "that comes last")
	require.EqualValues(t, []int64{50, 50 + charges, charges}, []int64{r.Accounts, r.Entries, r.Requests})
	require.Equal(t, r, look(1))
	require.Equal(t, r, look(3))
	exec(`UPDATE requests SET charge = charge + 1, hold = hold + 1 WHERE entry IN (100, 9000)`)
	r = look(0)
	require.True(t, r.Stopped)
	require.EqualValues(t, 50, r.Accounts, "those whose entries were looked at")
	require.Contains(t, r.Problem, "the request was charged")
	require.Equal(t, r, look(3))
	exec(`UPDATE requests SET charge = charge - 1, hold = hold - 1 WHERE entry IN (100, 9000)`)
	// The last entry of the second of three parts.
	border := int64(50+charges) * 2 / 3
	require.NoError(t, run(conn, `UPDATE entries SET reason = 'gift' WHERE n = ?`, nil, border))
	r = look(0)
	require.Equal(t, "it is not what its hash was made of", r.Problem)
	require.Equal(t, r.Entry, look(3).Entry)
	require.NoError(t, run(conn, `DELETE FROM entries WHERE n = ?`, nil, border))
	r = look(3)
	require.False(t, r.OK)
	require.Contains(t, r.Problem, "of the journal is missing")
}

// What a kept checkpoint is over is taken as it is, and everything since is looked at.
func TestVerifyFromACheckpoint(t *testing.T) {
	t.Parallel()
	s := newScene(t, "")
	kept := s.everything()
	from := kept[1]
	look := func(s *scene, from ledger.Checkpoint) ledger.Report {
		r, err := s.store.VerifyAs(t.Context(), ledger.Verification{From: &from})
		require.NoError(t, err)
		return r
	}
	all, err := s.store.Verify(t.Context())
	require.NoError(t, err)
	r := look(s, from)
	require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
	require.Equal(t, []int64{from.N, all.Entries - from.Entries, all.Accounts, all.Checkpoints},
		[]int64{r.From, r.Entries, r.Accounts, r.Checkpoints})
	require.Equal(t, all.Sums, r.Sums)
	require.Less(t, r.Requests, all.Requests)
	require.Positive(t, r.Requests)
	other := from
	other.Hash[0]++
	require.Equal(t, audit.CheckpointName(from.N), look(s, other).Entry)

	path := s.store.opts.Path
	require.NoError(t, s.store.Close())
	conn := openForWriting(t, path)
	require.NoError(t, run(conn, `DROP TRIGGER entries_stay`, nil))
	problem := func(sql string) string {
		require.NoError(t, run(conn, `BEGIN`, nil))
		defer func() { require.NoError(t, run(conn, `ROLLBACK`, nil)) }()
		require.NoError(t, run(conn, sql, nil))
		r, err := verifyAs(conn, nil, traces{}, ledger.Verification{From: &from})
		require.NoError(t, err)
		return r.Problem
	}
	const guarded = "trigger entries_stay is missing, or not as this fareway makes it"
	require.Equal(t, guarded, problem(`UPDATE entries SET reason = 'gift' WHERE n = 5`), "before the checkpoint")
	require.Contains(t, problem(`UPDATE entries SET reason = 'gift' WHERE n = (SELECT max(n) FROM entries)`),
		"it is not what its hash was made of")
	require.NotEqual(t, guarded, problem(`UPDATE entries SET hash = zeroblob(32) WHERE n = (SELECT max(n) FROM entries
		WHERE n <= (SELECT entries FROM checkpoints WHERE n = 2) AND account = 1)`), "a head")
	require.NotEqual(t, guarded, problem(`UPDATE balances SET credits = credits + 1 WHERE n = 1`))
	require.NotEqual(t, guarded, problem(`UPDATE balances SET spent = spent + 1 WHERE n = 1`))
	require.NotEqual(t, guarded, problem(`UPDATE attempts SET output = output + 1000000 WHERE request =
		(SELECT request FROM entries WHERE kind = 'charge' ORDER BY n DESC LIMIT 1)`))
	// Sums that overflow, of what is not looked at by itself.
	const large, before = `9223372036854775807`, `(SELECT entries FROM checkpoints WHERE n = 2)`
	of := map[string]string{"requests": `id NOT IN (SELECT request FROM entries WHERE n > ` + before +
		` AND request IS NOT NULL)`, "entries": `n <= ` + before}
	for _, column := range []string{"requests.tokens", "requests.charge", "requests.waived", "entries.microcents"} {
		table, name, _ := strings.Cut(column, ".")
		require.Equal(t, "what "+table+" came to is more than any ledger can hold",
			problem(`UPDATE `+table+` SET `+name+` = `+large+` WHERE `+of[table]), column)
	}
}
