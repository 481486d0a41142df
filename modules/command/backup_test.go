package command

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/backup"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
)

func TestCommandBackup(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	e, err := engine.Open(engine.Options{OpenStore: stores.Open, DataDir: data, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: config.DefaultStore()})
	require.NoError(t, err)
	account, err := e.Store().CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	topUp := func() {
		_, _, err := e.Store().AddCredit(t.Context(), ledger.Credit{Account: account.ID, Credits: 5})
		require.NoError(t, err)
	}
	topUp()
	archive := filepath.Join(t.TempDir(), "fareway.tar")

	out, err := run(t, "backup", archive, "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `^Backed up to .*fareway.tar, verified: 1 account, 1 movement of money, \d+ acts \(\d+ bytes\)\.\n`,
		out)
	info, err := os.Stat(archive)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = run(t, "backup", archive, "--data", data)
	require.ErrorContains(t, err, "name a new file")
	entries, err := os.ReadDir(filepath.Dir(archive))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing else is left")
	m := runJSON[backup.Manifest](t, "backup", archive+".2", "--data", data)
	require.EqualValues(t, 1, m.Entries)

	for _, wrong := range []struct {
		args []string
		want string
	}{
		{[]string{"backup"}, "FILE is missing, as in `fareway gateway backup FILE"},
		{[]string{"backup", "x", "--data", t.TempDir()}, "there is no ledger to copy"},
		{[]string{"backup", filepath.Join(archive, "x"), "--data", data}, "writing the backup"},
		{[]string{"backup", "-", "--json", "--data", data}, "--json would come into the archive"},
		{[]string{"restore", archive, "--data", data}, "ledger in use"},
		{[]string{"restore", archive, "--replace", "--data", data}, "--reason is missing"},
		{[]string{"restore", archive + ".none", "--data", t.TempDir()}, "reading the backup"},
	} {
		_, err := run(t, wrong.args...)
		require.ErrorContains(t, err, wrong.want, "%v", wrong.args)
	}

	topUp()
	checkpoint, err := e.Store().MakeCheckpoint(t.Context())
	require.NoError(t, err)
	line, err := json.Marshal(map[string]any{"checkpoint": checkpoint})
	require.NoError(t, err)
	kept := filepath.Join(t.TempDir(), "kept.json")
	require.NoError(t, os.WriteFile(kept, line, 0o600))
	require.NoError(t, e.Close())

	_, err = run(t, "restore", archive, "--data", data)
	require.ErrorContains(t, err, "with 2 movements of money")
	require.ErrorContains(t, err, "--replace moves it aside, and nothing was changed")
	out, err = run(t, "restore", archive, "--data", data, "--replace", "--reason", "disk failed", "--checkpoint", kept)
	require.NoError(t, err)
	require.Contains(t, out, "It lacks of the ledger that was there: 1 movement of money, 1 act.\n")
	require.Contains(t, out, "It lacks of checkpoint 1 of ")
	require.Contains(t, out, "What was there is in "+filepath.Join(data, "ledger-before-restore-"))
	out, err = run(t, "ledger", "verify", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "1 movement of money")
	_, err = run(t, "ledger", "verify", "--data", data, "--checkpoint", kept)
	require.Error(t, err)
	out, err = run(t, "ledger", "audit", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "ledger.restore")

	elsewhere := filepath.Join(t.TempDir(), "new", "folder")
	v := runJSON[restoredView](t, "restore", archive, "--data", elsewhere)
	require.Empty(t, v.Missing)
	require.EqualValues(t, 1, v.Entries)
	require.FileExists(t, filepath.Join(elsewhere, "fareway.db"))
}

// TestCommandBackupOfALoss (GAP-133): a copy of a ledger of which a part is missing would look whole.
func TestCommandBackupOfALoss(t *testing.T) {
	t.Parallel()
	const damagedLog = "fareway.db-wal.damaged-20260102-030405"
	for name, lose := range map[string]func(t *testing.T) (data, says string){
		"older copy": func(t *testing.T) (string, string) { return leftOlder(t), lost },
		"damaged log": func(t *testing.T) (string, string) {
			data := t.TempDir()
			e, err := engine.Open(engine.Options{OpenStore: stores.Open, DataDir: data, Logger: slog.New(slog.DiscardHandler)},
				&config.Config{Store: config.DefaultStore()})
			require.NoError(t, err)
			require.NoError(t, e.Close())
			path := filepath.Join(data, damagedLog)
			require.NoError(t, os.WriteFile(path, []byte("log"), 0o600))
			return data, "a part of the ledger is missing: its write-ahead log is damaged from byte 0 on (" + path + ")"
		},
	} {
		for _, serving := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with a gateway: %t", name, serving), func(t *testing.T) {
				t.Parallel()
				data, says := lose(t)
				_, missing, _ := strings.Cut(says, ": ")
				if serving {
					serve(t, enginetest.On(t, data, nil))
					out, err := run(t, "status", "--data", data)
					require.NoError(t, err)
					require.Contains(t, out, "not ready: "+says)
				}
				archive := filepath.Join(t.TempDir(), "fareway.tar")
				for _, file := range []string{archive, "-"} {
					_, err := run(t, "backup", file, "--data", data)
					require.ErrorIs(t, err, ledger.ErrLost)
					require.ErrorContains(t, err, missing)
					require.ErrorContains(t, err, "`fareway gateway ledger accept-loss --reason TEXT`")
					require.ErrorContains(t, err, "--incomplete")
				}
				require.NoFileExists(t, archive)

				out, err := run(t, "backup", archive, "--data", data, "--incomplete")
				require.NoError(t, err)
				require.Contains(t, out, "It is not whole, for "+says)
				restored := t.TempDir()
				out, err = run(t, "restore", archive, "--data", restored)
				require.NoError(t, err)
				require.Contains(t, out, "A part of the ledger was missing when it was backed up: "+missing)
				out, err = run(t, "ledger", "audit", "--data", restored, "--json")
				require.NoError(t, err)
				require.Contains(t, out, missing)

				_, err = run(t, "ledger", "accept-loss", "--data", data, "--reason", "disk failed")
				require.NoError(t, err)
				require.Nil(t, runJSON[backup.Manifest](t, "backup", archive+".2", "--data", data).Loss)
			})
		}
	}
}
