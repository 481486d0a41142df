package audit_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/golden"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/audit"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
)

// seal writes all hashes of a ledger anew, as somebody does who changed a row and can write the rest, and forgets the
// checkpoints, which are kept elsewhere.
func seal(t *ledgertest.Tables) {
	heads, trails := map[int64]ledger.Digest{}, map[int64]ledger.Digest{}
	var old ledger.Digest
	for i := range t.EntryRows {
		e := &t.EntryRows[i]
		e.Prev = heads[e.Number]
		e.Hash = e.Entry.Hash()
		heads[e.Number] = e.Hash
	}
	for i := range t.ActRows {
		a := &t.ActRows[i]
		if a.Prev = trails[a.Number]; a.Format == 1 {
			a.Prev = old
		}
		a.Hash = a.Act.Hash()
		trails[a.Number], old = a.Hash, a.Hash
	}
	for i := range t.AccountRows {
		a := &t.AccountRows[i]
		a.Head, a.Trail.Head = heads[a.Number], trails[a.Number]
	}
	t.Meta.Trail.Head = trails[0]
	t.CheckRows, t.Meta.Checkpoints, t.Meta.Checkpoint = nil, 0, ledger.Digest{}
}

// What an entry or an act says is compared with what it follows from, also where every hash is right. What is not seen
// then is listed, with a hash of what is said of everything else.
func TestForgedHashes(t *testing.T) {
	t.Parallel()
	for _, name := range ledgers {
		for _, table := range []string{"EntryRows", "ActRows"} {
			t.Run(name+"/"+table, func(t *testing.T) {
				t.Parallel()
				rows := tables(t, name)
				seal(rows)
				require.Empty(t, problem(t, rows))
				var unseen strings.Builder
				said := sha256.New()
				eachChange(table, reflect.ValueOf(rows).Elem().FieldByName(table), func(path, to string) {
					if strings.Contains(path, ".Hash[") || strings.Contains(path, ".Prev[") {
						return
					}
					seal(rows)
					p := problem(t, rows)
					if fmt.Fprintln(said, path, to, p); p == "" {
						fmt.Fprintln(&unseen, path, to)
					}
				})
				fmt.Fprintf(&unseen, "%x\n", said.Sum(nil))
				golden.Equal(t, filepath.Join("testdata", "forged-"+name+"-"+table+".txt"), []byte(unseen.String()))
			})
		}
	}
}

// A ledger is right only when everything was read.
func TestRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, name := range ledgers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rows := tables(t, name)
			for at := 0; ; at++ {
				n := 0
				rows.Fail = func() error {
					if n++; n == at+1 {
						return broken
					}
					return nil
				}
				r, err := audit.Verify(audit.Ledger{Rows: rows}, ledger.Verification{})
				if n <= at {
					require.NoError(t, err)
					require.True(t, r.OK)
					require.Greater(t, at, 50)
					return
				}
				require.ErrorIs(t, err, broken, "row %d", at)
				require.False(t, r.OK)
			}
		})
	}
}
