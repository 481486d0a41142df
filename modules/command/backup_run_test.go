package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/backup"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
)

// backedHouse is a data folder with a ledger that is open, and something in it.
func backedHouse(t *testing.T) (data string, topUp func()) {
	t.Helper()
	data = t.TempDir()
	e, err := engine.Open(engine.Options{OpenStore: stores.Open, DataDir: data, Logger: slog.New(slog.DiscardHandler)},
		&config.Config{Store: config.DefaultStore()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	account, err := e.Store().CreateAccount(t.Context(), "ann", "")
	require.NoError(t, err)
	topUp = func() {
		_, _, err := e.Store().AddCredit(t.Context(), ledger.Credit{Account: account.ID, Credits: 5})
		require.NoError(t, err)
	}
	topUp()
	return data, topUp
}

func standing(t *testing.T, data string) chores.Standing {
	t.Helper()
	s, err := chores.ReadStanding(filepath.Join(data, "fareway.db"))
	require.NoError(t, err)
	return s
}

// writeScript makes a file that can be started.
func writeScript(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "send")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	return path
}

// TestBackupRun: a backup by a timer is encrypted, sent elsewhere, and can be restored from there; its name and what
// came of it are known.
func TestBackupRun(t *testing.T) {
	t.Parallel()
	data, topUp := backedHouse(t)
	key, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	folder, elsewhere := filepath.Join(t.TempDir(), "new", "backups"), t.TempDir()
	identity := filepath.Join(t.TempDir(), "key.txt")
	require.NoError(t, os.WriteFile(identity, []byte("# mine\n"+key.String()+"\n"), 0o600))

	v := runJSON[backupRunView](t, "backup", "run", "--data", data, "--into", folder, "--every", "1d",
		"--encrypt-to", key.Recipient().String(), "--send", writeScript(t, `cp "$1" `+elsewhere))
	require.True(t, v.Sent)
	require.True(t, v.Encrypted)
	require.EqualValues(t, 1, v.Entries)
	info, err := os.Stat(v.File)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	s := standing(t, data)
	require.Equal(t, v.File, s.Backup.File)
	require.Equal(t, 30*time.Hour, s.Backup.Due.Sub(*s.Backup.Done))
	content, err := os.ReadFile(v.File)
	require.NoError(t, err)
	require.NotContains(t, string(content), "SQLite")
	require.NotContains(t, string(content), "manifest.json")

	out, err := run(t, "backup", "test", folder, "--data", data, "--every", "31d")
	require.EqualError(t, err, "the backup was not tried", "to a timer, that its key is elsewhere is no success")
	require.Contains(t, out, v.File+" was NOT TRIED: it is encrypted, and --identity names no secret key that opens it.")
	out, err = run(t, "backup", "test", v.File, "--data", data, "--json")
	require.EqualError(t, err, "the backup was not tried")
	var untried map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &untried))
	require.Equal(t, v.File, untried["file"])
	require.Len(t, untried, 2, "nothing that looks tried")
	s = standing(t, data)
	require.Equal(t, chores.Record{}, s.Trial, "neither done nor failed")
	require.False(t, s.IsMissed(chores.Trial, time.Now().AddDate(1, 0, 0)))

	topUp()
	out, err = run(t, "backup", "test", elsewhere, "--data", data, "--identity", identity, "--every", "31d")
	require.NoError(t, err)
	require.Contains(t, out, "verified it: 1 account, 1 movement of money")
	require.Contains(t, out, "It lacks of the ledger in use: 1 movement of money, 1 act.\n")
	s = standing(t, data)
	require.Nil(t, s.Trial.Failed)
	require.Equal(t, 31*24*time.Hour*5/4, s.Trial.Due.Sub(*s.Trial.Done))

	_, err = run(t, "restore", v.File, "--data", t.TempDir())
	require.ErrorContains(t, err, "is encrypted: name the file with the secret key that opens it, --identity FILE")
	other, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	wrong := filepath.Join(t.TempDir(), "other.txt")
	require.NoError(t, os.WriteFile(wrong, []byte(other.String()), 0o600))
	_, err = run(t, "restore", v.File, "--data", t.TempDir(), "--identity", wrong)
	require.ErrorContains(t, err, "decrypting the backup")
	restored := t.TempDir()
	_, err = run(t, "restore", v.File, "--data", restored, "--identity", identity)
	require.NoError(t, err)
	out, err = run(t, "ledger", "verify", "--data", restored)
	require.NoError(t, err)
	require.Contains(t, out, "1 movement of money")

	require.NoError(t, os.WriteFile(v.File, content[:len(content)-100], 0o600))
	_, err = run(t, "backup", "test", folder, "--data", data, "--identity", identity)
	require.Error(t, err, "one that is cut off")
	require.NotNil(t, standing(t, data).Trial.Failed)
	require.NotNil(t, standing(t, data).Trial.Done, "when it was done last is known all the same")
}

// TestBackupRunFails: what fails is known to the gateway, and costs no older backup.
func TestBackupRunFails(t *testing.T) {
	t.Parallel()
	data, _ := backedHouse(t)
	folder, other := t.TempDir(), t.TempDir()
	secret := "AGE-SECRET-KEY-1QQQQ"
	for _, wrong := range []struct {
		args []string
		want string
	}{
		{[]string{"--into", folder, "--send", writeScript(t, "echo no \x1b[31mroute; exit 3")},
			`exit status 3, and printed "no \x1b[31mroute"; the file is kept here, so send it once that is mended`},
		{[]string{"--into", other, "--send", filepath.Join(other, "none")}, "sending "},
		{[]string{"--into", folder, "--encrypt-to", secret}, "this is a secret key"},
		{[]string{"--into", folder, "--encrypt-to", "bob"}, `"bob" is no public key of age`},
		{[]string{"--into", folder, "--encrypt-to", "age1bob"}, "reading the public key of age"},
		{[]string{"--into", folder, "--every", "daily"}, "--every: \"daily\" is no length of time"},
		{[]string{"--into", folder, "--keep", "0"}, "at least the newest one has to be kept"},
		{[]string{"--into", filepath.Join(data, "fareway.db", "x")}, "making the folder of the backups"},
	} {
		_, err := run(t, append([]string{"backup", "run", "--data", data}, wrong.args...)...)
		require.ErrorContains(t, err, wrong.want, "%v", wrong.args)
		require.NotContains(t, err.Error(), secret)
		require.Contains(t, standing(t, data).Backup.Failed.Text, wrong.want)
		require.True(t, standing(t, data).IsMissed(chores.Backup, time.Now()))
	}
	all, err := backup.Find(folder, time.Now())
	require.NoError(t, err)
	require.NotEmpty(t, all, "what could not be sent is kept")
	_, err = run(t, "backup", "run", "--data", data)
	require.ErrorContains(t, err, "--into is missing")
	_, err = run(t, "backup", "run", "--data", t.TempDir(), "--into", folder)
	require.ErrorContains(t, err, "there is no ledger to copy")
	_, err = run(t, "backup", "test", t.TempDir(), "--data", data)
	require.ErrorContains(t, err, "there is no backup in")
}

// TestSendLeavesSomethingRunning: what the program leaves running, with its output open, holds up no backup.
func TestSendLeavesSomethingRunning(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	program := writeScript(t, `(read -r _ <"$1") & exit 0`)
	require.NoError(t, sendBackup(t.Context(), program, fifo, time.Millisecond))
	end, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits until it reads
	require.NoError(t, err)
	_, err = end.WriteString("enough\n")
	require.NoError(t, errors.Join(err, end.Close()))
}

// TestBackupOfAnotherLedger: a backup that has more than the ledger in use is none of it, or the ledger is old.
func TestBackupOfAnotherLedger(t *testing.T) {
	t.Parallel()
	data, _ := backedHouse(t)
	other, topUp := backedHouse(t)
	topUp()
	file := filepath.Join(t.TempDir(), "other.tar")
	_, err := run(t, "backup", file, "--data", other)
	require.NoError(t, err)
	_, err = run(t, "backup", "test", file, "--data", data)
	require.ErrorContains(t, err, "the backup has more than the ledger in use (2 movements of money and")
	out, err := run(t, "backup", "test", file, "--data", t.TempDir())
	require.NoError(t, err, "on a machine that keeps backups only")
	require.Contains(t, out, "2 movements of money")
}

// TestRotate: the newest stay, and the newest of months; what is of somebody else, or of a clock that was ahead, does.
func TestRotate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	now := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	touch := func(name string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	for days := range 100 {
		touch(backup.Name(now.AddDate(0, 0, -days), days%2 == 0))
	}
	others := []string{touch("fareway-by-hand.tar"), touch("notes"), touch(backup.Name(now.AddDate(70, 0, 0), false))}
	removed, err := backup.Rotate(folder, now, backup.Kept{Newest: 3, Months: 3})
	require.NoError(t, err)
	require.Len(t, removed, 95)
	all, err := backup.Find(folder, now)
	require.NoError(t, err)
	var names []string
	for _, path := range all {
		names = append(names, filepath.Base(path))
	}
	require.Equal(t, []string{"fareway-20261126T030000Z.tar.age", "fareway-20261125T030000Z.tar",
		"fareway-20261124T030000Z.tar.age", "fareway-20261031T030000Z.tar.age", "fareway-20260930T030000Z.tar"}, names,
		fmt.Sprint(all))
	for _, path := range others {
		require.FileExists(t, path)
	}

	removed, err = backup.Rotate(folder, now, backup.Kept{Newest: 1, For: 24 * time.Hour})
	require.NoError(t, err)
	require.Len(t, removed, 3, "what was made a day ago stays")
}

// TestNoRoomForABackup: nothing is begun that the disk has no room for. The ledger here says that it is as large as no
// disk is.
func TestNoRoomForABackup(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	database := filepath.Join(folder, "fareway.db")
	require.NoError(t, os.WriteFile(database, nil, 0o600))
	require.NoError(t, backup.CheckRoom(database, folder))
	require.NoError(t, os.Truncate(database, 1<<43)) // a hole
	err := backup.CheckRoom(database, folder)
	require.ErrorIs(t, err, backup.ErrNoRoom)
	require.ErrorContains(t, err, "takes up to 16777217 MiB while it is made (twice the ledger)")
}
