package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/backup"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/stores"
)

// backupTrial is what `backup test` is told.
type backupTrial struct {
	identity string
	kept     []string
	temp     string
	every    string
}

// backupTrialView is what `backup test` prints.
type backupTrialView struct {
	backup.Manifest
	File    string  `json:"file"`
	Seconds float64 `json:"seconds"` // that it took to be restored and verified
	// Missing is what it does not have of the ledger that is in use, and of checkpoints that were kept.
	Missing []missingView `json:"missing"`
}

// exitUntried is the exit status of a trial that there was none of: to a timer it is no success.
const exitUntried = 3

var errUntried = errors.New("the backup was not tried")

// withStatus is an error with which the command exits with a status.
func withStatus(cmd *cobra.Command, status int, err error) error {
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, err })(cmd, nil)
}

// backupUntriedView is what it prints of a backup that nobody here can open.
type backupUntriedView struct {
	File    string `json:"file"`
	Untried string `json:"untried"` // why
}

func backupTestCommand() *cobra.Command {
	var (
		to  target
		out output
		job backupTrial
	)
	cmd := &cobra.Command{
		Use:   "test FILE|FOLDER",
		Short: "Restores a backup in a folder of its own, verifies it and removes it again",
		Long: `Restores a backup as ` + "`restore`" + ` does, but in a folder of its own, opens it, and
verifies it as ` + "`ledger verify`" + ` does. Then the folder is removed. Of a FOLDER it takes
the newest backup; "-" is stdin, for one that comes back from where it was sent:

  rclone cat remote:fareway/fareway-20261126T031500Z.tar.age |
    fareway gateway backup test - --identity key.txt

An encrypted one without --identity is not tried: the command says so, exits with 3
(1 is for a trial that failed), and keeps nothing. Try the backups where the key is,
and run no timer where it isn't.

It says what the backup lacks of the ledger that is in use, and of checkpoints that
were kept elsewhere, and how long a restore takes. When it was done stands in
` + "`gateway status`" + ` and in the metrics fareway_backup_*.`,
		Example: "  fareway gateway backup test /var/backups/fareway --every 31d\n" +
			"  fareway gateway backup test fareway-20261126T031500Z.tar.age --identity key.txt",
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := to.file()
			if err != nil {
				return err
			}
			if err := checkOwner(place.Ledger); err != nil {
				return err
			}
			v, err := job.runKept(cmd, args[0], place.Ledger)
			if errors.Is(err, backup.ErrSealed) {
				untried := backupUntriedView{v.File, "it is encrypted, and --identity names no secret key that opens it"}
				err := out.print(cmd, untried, func(w io.Writer) { printBackupUntried(w, untried) })
				if err != nil {
					return err
				}
				return withStatus(cmd, exitUntried, errUntried)
			}
			if err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printBackupTrial(w, v) })
		},
	}
	addBackupReadFlags(cmd, &job.identity, &job.kept)
	cmd.Flags().StringVar(&job.temp, "temp", os.TempDir(), "the `FOLDER` in which it is restored, with room for all of it")
	cmd.Flags().StringVar(&job.every, "every", "", "how often this is run, a `SPAN` as in 31d")
	to.addPlaceFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// runKept runs, and keeps what came of it beside the ledger that is in use. Where there is none, as on a machine that
// keeps backups only, nobody is told.
func (b *backupTrial) runKept(cmd *cobra.Command, file, database string) (v backupTrialView, err error) {
	if _, err := os.Stat(database); errors.Is(err, os.ErrNotExist) {
		return b.run(cmd, file, database)
	}
	defer func() {
		if err != nil && !errors.Is(err, backup.ErrSealed) {
			err = errors.Join(err, chores.KeepFailed(database, chores.Trial, time.Now(), err))
		}
	}()
	every, err := parseSpan("every", b.every)
	if err != nil {
		return v, err
	}
	if v, err = b.run(cmd, file, database); err != nil {
		return v, err
	}
	done := chores.Record{File: v.File, Made: v.Made, Extent: v.Extent}
	return v, chores.KeepDone(database, chores.Trial, done, time.Now(), every)
}

func (b *backupTrial) run(cmd *cobra.Command, file, database string) (v backupTrialView, err error) {
	began := time.Now()
	checkpoints, err := readKept(b.kept)
	if err != nil {
		return v, err
	}
	if v.File, err = findNewest(file, began); err != nil {
		return v, err
	}
	from, closeIt, err := openBackup(cmd, v.File, b.identity)
	if err != nil {
		return v, err
	}
	defer closeIt()
	work, err := files.MakeWorkFolder(b.temp, backup.RestoreWork)
	if err != nil {
		return v, fmt.Errorf("making a folder to restore it in: %w", err)
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	restored := filepath.Join(work.Path, filepath.Base(database))
	done, err := backup.Restore(cmd.Context(), from, restored, "backup test", false, checkpoints)
	if err != nil {
		return v, err
	}
	// Once more, as it is in place and was opened as a gateway opens it.
	books, err := stores.File(restored).OpenBooks(cmd.Context())
	if err != nil {
		return v, fmt.Errorf("opening what was restored: %w", err)
	}
	report, err := books.Verify(cmd.Context())
	if err := errors.Join(err, books.Close()); err != nil {
		return v, fmt.Errorf("verifying what was restored: %w", err)
	}
	if !report.OK {
		return v, fmt.Errorf("verifying what was restored: it does not agree at %s: %s", report.Entry, report.Problem)
	}
	v.Manifest = done.Manifest
	v.Missing = missingOf(done, checkpoints)
	if _, err := os.Stat(database); err == nil {
		now, err := stores.File(database).ReadExtent(cmd.Context())
		if err != nil {
			return v, fmt.Errorf("comparing with the ledger in use: %w", err)
		}
		if now.Entries < v.Entries || now.Acts < v.Acts {
			return v, fmt.Errorf("the backup has more than the ledger in use (%d movements of money and %d acts against %d "+
				"and %d): that is an older copy, or another ledger; see `fareway gateway ledger verify`", v.Entries, v.Acts,
				now.Entries, now.Acts)
		}
		v.Missing = append([]missingView{{"the ledger in use", v.Manifest.Missing(now)}}, v.Missing...)
	}
	v.Seconds = time.Since(began).Seconds()
	return v, nil
}

// findNewest is the newest backup in a folder, or the file itself.
func findNewest(file string, now time.Time) (string, error) {
	if info, err := os.Stat(file); file == "-" || err != nil || !info.IsDir() {
		return file, nil // who opens it says what is wrong with it
	}
	all, err := backup.Find(file, now)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", fmt.Errorf("there is no backup in %s: `fareway gateway backup run --into %s` makes one", file, file)
	}
	return all[0], nil
}

func printBackupTrial(w io.Writer, v backupTrialView) {
	fmt.Fprintf(w, "Restored %s as of %s in %.1f s and verified it: %s, %s, %s. It is removed again.\n", v.File,
		human.Moment(v.Made), v.Seconds, human.Count(v.Accounts, "account"), movements(v.Entries),
		human.Count(v.Acts, "act"))
	if v.Loss != nil {
		fmt.Fprintf(w, "A part of the ledger was missing when it was backed up: %s.\n", v.Loss)
	}
	printMissing(w, v.Missing)
}

func printBackupUntried(w io.Writer, v backupUntriedView) {
	fmt.Fprintf(w, "%s was NOT TRIED: %s. Try it where its key is, with `fareway gateway backup test FILE --identity "+
		"KEY-FILE`.\n", v.File, v.Untried)
}
