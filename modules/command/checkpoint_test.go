package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func TestReadCheckpoints(t *testing.T) {
	t.Parallel()
	first := ledger.Checkpoint{N: 1, Entries: 5, Created: time.Date(2026, 11, 20, 18, 0, 0, 1, time.UTC),
		Hash: ledger.Digest{1}}
	second := ledger.Checkpoint{N: 2, Entries: 9, Created: first.Created.Add(time.Hour), Prev: first.Hash,
		Hash: ledger.Digest{2}}
	line := func(c ledger.Checkpoint) string {
		b, err := checkpointLine(c)
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(b, []byte("\n")))
		return string(b)
	}
	for name, tc := range map[string]struct {
		content string
		want    []ledger.Checkpoint
	}{
		"one":             {line(first), []ledger.Checkpoint{first}},
		"several":         {line(first) + line(second), []ledger.Checkpoint{first, second}},
		"with remarks":    {"made by hand:\n" + line(first) + "thanks", []ledger.Checkpoint{first}},
		"without a break": {strings.TrimSpace(line(first)), []ledger.Checkpoint{first}},
		"after an export": {strings.Repeat(`{"n":1,"account":"acct_1","prev":"00"}`+"\n", 5000) + line(second),
			[]ledger.Checkpoint{second}},
		"of other content": {`{"n":1}` + "\n", nil},
		"of a bad digest":  {strings.Replace(line(first), "01000", "0100", 1), nil},
		"empty":            {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "checkpoint")
			require.NoError(t, os.WriteFile(path, []byte(tc.content), 0o600))
			got, err := readCheckpoints(path)
			if tc.want == nil {
				require.ErrorContains(t, err, path+" has none")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	_, err := readCheckpoints(filepath.Join(t.TempDir(), "nothing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestCheckpointThatWasNeverMade: one that was changed by hand is no place to begin at.
func TestCheckpointThatWasNeverMade(t *testing.T) {
	t.Parallel()
	for _, line := range []string{`{"n":0,"entries":1}`, `{"n":1,"entries":-1}`, `{"n":1,"entries":1,"acts":-1}`} {
		path := filepath.Join(t.TempDir(), "checkpoint.json")
		require.NoError(t, os.WriteFile(path, []byte(`{"checkpoint":`+line+"}\n"), 0o600))
		_, err := readCheckpoints(path)
		require.ErrorContains(t, err, "was never made: the line was changed")
	}
}
