package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/backup"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/human"
)

// backupRun is what `backup run` is told.
type backupRun struct {
	into    string
	keep    backup.Kept
	readers []age.Recipient
	send    string
	every   time.Duration
	how     backup.Options
}

// backupRunView is what `backup run` prints.
type backupRunView struct {
	backup.Manifest
	File      string     `json:"file"`
	Encrypted bool       `json:"encrypted"`
	Sent      bool       `json:"sent"`
	Removed   []string   `json:"removed"`
	Due       *time.Time `json:"due,omitempty"`
}

func backupRunCommand() *cobra.Command {
	var (
		to        target
		out       output
		job       = backupRun{how: backup.Options{Version: gateway.Version()}}
		every     string
		keepFor   string
		encryptTo []string
	)
	cmd := &cobra.Command{
		Use:   "run --into FOLDER",
		Short: "Makes a backup for a timer: kept, encrypted, sent, and missed where it fails",
		Long: `Makes a backup in a folder, named after its time, and removes old ones: it keeps the
newest --keep, those that are no older than --keep-for, and the newest of each of the
last --keep-months. Other files in the folder are left alone. Nothing is removed before
the new one is whole and verified, and none is begun where the disk has no room for it:
twice what the ledger takes, for its copy and the archive of that.

With --encrypt-to it is encrypted by age (https://age-encryption.org), to public keys
or a file of them. Keep the secret key elsewhere: without it nobody restores it.

With --send a program of yours gets the path of the file as its only argument and takes
it elsewhere. It has done so if it exits with 0; what it prints is shown if it fails. A
backup that could not be sent stays in the folder, and the command fails. Only the
new one is sent: one that could not be is yours to send, and the next run won't.

When it was made and whether it failed stands in ` + "`gateway status`" + ` and in the metrics
fareway_backup_*. With --every they say so too when the next one is late, by a quarter.`,
		Example: "  fareway gateway backup run --into /var/backups/fareway --every 1d\n" +
			"  fareway gateway backup run --into /var/backups/fareway --every 1d --encrypt-to age1... " +
			"--send /etc/fareway/send-backup",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			place, err := to.file()
			if err != nil {
				return err
			}
			if _, err := os.Stat(place.Ledger); err != nil {
				return fmt.Errorf("there is no ledger to copy: %w; name the data folder with --data, or the gateway's "+
					"Caddyfile with --config", err)
			}
			if err := checkOwner(place.Ledger); err != nil {
				return err
			}
			v, err := job.runKept(cmd, place.Ledger, every, keepFor, encryptTo)
			if err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printBackupRun(w, v) })
		},
	}
	cmd.Flags().StringVar(&job.into, "into", "", "the `FOLDER` of the backups; it is made if there is none")
	cmd.Flags().IntVar(&job.keep.Newest, "keep", 14, "keep the newest `N`")
	cmd.Flags().StringVar(&keepFor, "keep-for", "", "keep all that are no older than a `SPAN` as in 14d")
	cmd.Flags().IntVar(&job.keep.Months, "keep-months", 6, "keep the newest of each of the last `N` months")
	cmd.Flags().StringArrayVar(&encryptTo, "encrypt-to", nil,
		"a public `KEY` of age (age1...), or a file with some; may be repeated")
	cmd.Flags().StringVar(&job.send, "send", "", "the `PROGRAM` that takes the file elsewhere")
	cmd.Flags().StringVar(&every, "every", "", "how often this is run, a `SPAN` as in 1d or 12h")
	cmd.Flags().BoolVar(&job.how.Incomplete, "incomplete", false, "copy a ledger of which a part is missing, too")
	required(cmd, "into")
	to.addPlaceFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// runKept runs, and keeps what came of it beside the ledger, wrong options included: a timer's are nobody's to see.
func (b *backupRun) runKept(cmd *cobra.Command, database, every, keepFor string, encryptTo []string) (v backupRunView,
	err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, chores.KeepFailed(database, chores.Backup, time.Now(), err))
		}
	}()
	if b.every, err = parseSpan("every", every); err != nil {
		return v, err
	}
	if b.keep.For, err = parseSpan("keep-for", keepFor); err != nil {
		return v, err
	}
	if b.keep.Newest < 1 || b.keep.Months < 0 {
		return v, fmt.Errorf("--keep %d, --keep-months %d: at least the newest one has to be kept", b.keep.Newest,
			b.keep.Months)
	}
	if b.readers, err = backup.ParseRecipients(encryptTo); err != nil {
		return v, fmt.Errorf("--encrypt-to: %w", err)
	}
	if v, err = b.run(cmd, database); err != nil {
		return v, adviseIncomplete(err)
	}
	done := chores.Record{File: v.File, Made: v.Made, Extent: v.Extent, Encrypted: v.Encrypted, Sent: v.Sent}
	if err := chores.KeepDone(database, chores.Backup, done, time.Now(), b.every); err != nil {
		return v, err
	}
	kept, err := chores.Read(database, chores.Backup)
	v.Due = kept.Due
	return v, err
}

// parseSpan reads a flag's span, 0 where it is not given.
func parseSpan(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := human.ParseSpan(text)
	if err != nil {
		return 0, fmt.Errorf("--%s: %w", flag, err)
	}
	return d, nil
}

// run makes, sends and rotates. What could not be sent is rotated all the same: the folder must not grow until it is.
func (b *backupRun) run(cmd *cobra.Command, database string) (v backupRunView, err error) {
	if err := os.MkdirAll(b.into, 0o700); err != nil {
		return v, fmt.Errorf("making the folder of the backups: %w", err)
	}
	lock := flock.New(filepath.Join(b.into, ".fareway-backup.lock"))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return v, fmt.Errorf("locking the folder of the backups: %w", err)
	case !locked:
		return v, fmt.Errorf("another `backup run` is at work in %s: wait until it has ended", b.into)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	now := time.Now().UTC()
	v.File, v.Encrypted = filepath.Join(b.into, backup.Name(now, len(b.readers) > 0)), len(b.readers) > 0
	if v.Manifest, err = backupInto(cmd, database, b.how, v.File, b.readers); err != nil {
		return v, err
	}
	if err := files.SyncFolder(b.into); err != nil {
		return v, err
	}
	if b.send != "" {
		err = sendBackup(cmd.Context(), b.send, v.File, sendDelay)
		v.Sent = err == nil
	}
	var removing error
	v.Removed, removing = backup.Rotate(b.into, now, b.keep)
	return v, errors.Join(err, removing)
}

// sendDelay is how long what the operator's program has started may hold on to its output after that has ended.
const sendDelay = 10 * time.Second

// sendBackup has the operator's program take a file elsewhere.
func sendBackup(ctx context.Context, program, file string, delay time.Duration) error {
	const shown = 2048
	cmd := exec.CommandContext(ctx, program, file)
	cmd.WaitDelay = delay
	printed, err := cmd.CombinedOutput()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // it has exited with 0, and left something running
		return nil
	}
	text := strings.TrimSpace(string(printed[max(0, len(printed)-shown):]))
	if text != "" {
		text = fmt.Sprintf(", and printed %q", text)
	}
	return fmt.Errorf("sending %s elsewhere: %s: %w%s; the file is kept here, so send it once that is mended", file,
		program, err, text)
}

func printBackupRun(w io.Writer, v backupRunView) {
	printBackup(w, v.Manifest, v.File)
	if v.Encrypted {
		fmt.Fprintln(w, "It is encrypted.")
	}
	if v.Sent {
		fmt.Fprintln(w, "It was sent elsewhere.")
	}
	for _, path := range v.Removed {
		fmt.Fprintf(w, "Removed %s.\n", path)
	}
	if v.Due != nil {
		fmt.Fprintf(w, "The next one is missed after %s.\n", human.Moment(*v.Due))
	}
}
