package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/backup"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func backupCommand() *cobra.Command {
	var (
		to  target
		out output
		how = backup.Options{Version: gateway.Version()}
	)
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copies the ledger whole, while the gateway runs",
		Long: `Copies the ledger into a new file, or to stdout for "-": the database as it is at
one moment, with what is still in its write-ahead log, the spool, what was kept
aside of it, a witness, and who may sign in to the portal. It is a tar archive with a
manifest of checksums.

The copy is verified as ` + "`ledger verify`" + ` does before any of it is written, so that a
file that is there is a good one. A gateway may run meanwhile; it is not disturbed.
For the time of it there has to be room for the copy beside the file, or for "-" in
the data folder.

A ledger of which a part is missing (` + "`status` and `ledger verify`" + ` say so) is not
copied: its copy would look whole. Decide first (` + "`ledger accept-loss`" + `), or copy what
it has with --incomplete; the archive, and who restores it, say then what is missing.

The configuration and the keys of providers are not in it.

` + "`backup run`" + ` is for a timer, and ` + "`backup test`" + ` restores a backup to see whether it is one.`,
		Example: "  fareway gateway backup /backup/fareway-$(date +%F).tar\n" +
			"  fareway gateway backup - | ssh elsewhere 'cat > fareway.tar'",
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			place, err := to.file()
			if err != nil {
				return err
			}
			if _, err := os.Stat(place.Ledger); err != nil {
				return fmt.Errorf("there is no ledger to copy: %w; name the data folder with --data, or the gateway's "+
					"Caddyfile with --config", err)
			}
			if args[0] == "-" {
				signal.Ignore(syscall.SIGPIPE) // a reader that leaves is an error, after which the copy is removed
				if out.json {
					return errors.New("--json would come into the archive: leave it out, or name a FILE")
				}
				how.Temp = place.Data
				m, err := backup.Write(cmd.Context(), place.Ledger, how, cmd.OutOrStdout())
				if err == nil {
					printBackup(cmd.ErrOrStderr(), m, "stdout")
				}
				return adviseIncomplete(err)
			}
			m, err := backupInto(cmd, place.Ledger, how, args[0], nil)
			if err != nil {
				return adviseIncomplete(err)
			}
			return out.print(cmd, m, func(w io.Writer) { printBackup(w, m, args[0]) })
		},
	}
	cmd.Flags().BoolVar(&how.Incomplete, "incomplete", false, "copy a ledger of which a part is missing, too")
	to.addPlaceFlags(cmd)
	out.addFlag(cmd)
	cmd.AddCommand(backupRunCommand(), backupTestCommand())
	return cmd
}

// adviseIncomplete says how a ledger of which a part is missing is copied all the same.
func adviseIncomplete(err error) error {
	if errors.Is(err, ledger.ErrLost) {
		return fmt.Errorf("%w; --incomplete copies what it has before that", err)
	}
	return err
}

// backupInto writes a backup into a new file, whole or not at all, encrypted where somebody is to open it.
func backupInto(cmd *cobra.Command, database string, how backup.Options, path string, readers []age.Recipient) (
	m backup.Manifest, err error) {
	if err := backup.CheckRoom(database, filepath.Dir(path)); err != nil {
		return m, err
	}
	work, err := files.MakeWorkFolder(filepath.Dir(path), backup.BackupWork)
	if err != nil {
		return m, fmt.Errorf("writing the backup: %w", err)
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	f, err := files.CreateOutputIn(work.Path, path)
	if errors.Is(err, fs.ErrExist) {
		return m, fmt.Errorf("writing the backup into %s: %w: name a new file", path, fs.ErrExist)
	}
	if err != nil {
		return m, fmt.Errorf("writing the backup: %w", err)
	}
	defer f.Discard()
	how.Temp = work.Path
	if m, err = writeBackup(cmd.Context(), database, how, f, readers); err != nil {
		return m, err
	}
	if err := f.Place(); err != nil {
		return m, fmt.Errorf("writing the backup: %w", err)
	}
	return m, nil
}

func writeBackup(ctx context.Context, database string, how backup.Options, w io.Writer, readers []age.Recipient) (
	m backup.Manifest, err error) {
	if len(readers) == 0 {
		return backup.Write(ctx, database, how, w)
	}
	sealed, err := backup.Seal(w, readers)
	if err != nil {
		return m, err
	}
	if m, err = backup.Write(ctx, database, how, sealed); err != nil {
		return m, err
	}
	if err := sealed.Close(); err != nil {
		return m, fmt.Errorf("encrypting the backup: %w", err)
	}
	return m, nil
}

func printBackup(w io.Writer, m backup.Manifest, where string) {
	var size int64
	for _, file := range m.Files {
		size += file.Size
	}
	fmt.Fprintf(w, "Backed up to %s, verified: %s, %s, %s (%d bytes).\n", where, human.Count(m.Accounts, "account"),
		movements(m.Entries), human.Count(m.Acts, "act"), size)
	if m.Waiting > 0 {
		fmt.Fprintf(w, "%s in its spool.\n", waitingIn(m.Waiting))
	}
	if m.Loss != nil {
		fmt.Fprintf(w, "It is not whole, for a part of the ledger is missing: %s.\n", m.Loss)
	}
}

// restoredView is what `gateway restore` prints.
type restoredView struct {
	backup.Restored
	// Missing is what the backup does not have of what was there before, and of checkpoints that were kept.
	Missing []missingView `json:"missing"`
}

type missingView struct {
	Of string `json:"of"`
	ledger.Extent
}

func restoreCommand() *cobra.Command {
	var (
		to       target
		out      output
		reason   string
		replace  bool
		identity string
		kept     []string
	)
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Puts a backup of the ledger in place",
		Long: `Puts a backup that ` + "`gateway backup`" + ` made in the place of the ledger; FILE may be "-"
for stdin, and may be encrypted. No gateway may be running. The backup is verified before anything is
changed. A ledger that is there is moved into a folder beside it, with --replace and
a --reason, and never removed. One that was moved to a database is not replaced: an
older copy of it would be served beside that.

It says in numbers what the backup does not have: of the ledger that was there, and
of checkpoints that were kept elsewhere. That is gone then: look at the payments,
and at the providers' bills, for what to add by ` + "`credit`" + `. The restoring is on the
audit trail.`,
		Example: "  fareway gateway restore /backup/fareway-2026-11-25.tar --data /var/lib/fareway\n" +
			"  fareway gateway restore fareway.tar --replace --reason 'disk failed' --checkpoint checkpoints.json",
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if replace && reason == "" {
				return errors.New("--reason is missing: a ledger that is there is replaced for one")
			}
			place, err := to.file()
			if err != nil {
				return err
			}
			checkpoints, err := readKept(kept)
			if err != nil {
				return err
			}
			from, closeIt, err := openBackup(cmd, args[0], identity)
			if err != nil {
				return err
			}
			defer closeIt()
			done, err := backup.Restore(cmd.Context(), from, place.Ledger, reason, replace, checkpoints)
			switch {
			case errors.Is(err, backup.ErrLedgerThere):
				return fmt.Errorf("%w; --replace moves it aside, and nothing was changed", err)
			case errors.Is(err, ledger.ErrLocked):
				return fmt.Errorf("%w; nothing was changed", err)
			case err != nil:
				return err
			}
			v := restoredView{Restored: done, Missing: missingOf(done, checkpoints)}
			return out.print(cmd, v, func(w io.Writer) {
				printRestored(w, v, place.Ledger)
				printNextStart(w, filepath.Dir(place.Ledger), to.config)
			})
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "move the ledger that is there into a folder beside it")
	cmd.Flags().StringVar(&reason, "reason", "", "a `TEXT` that says why, for whoever reads the ledger")
	addBackupReadFlags(cmd, &identity, &kept)
	to.addPlaceFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// openBackup opens a file, or stdin for "-", and what is encrypted in it. It was read only: closing it cannot fail.
func openBackup(cmd *cobra.Command, file, identity string) (from io.Reader, closeIt func(), err error) {
	from, closeIt = cmd.InOrStdin(), func() {}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the backup: %w", err)
		}
		from, closeIt = f, func() { _ = f.Close() }
	}
	from, err = backup.Unseal(from, identity)
	if err != nil {
		closeIt()
	}
	if errors.Is(err, backup.ErrSealed) {
		err = fmt.Errorf("%w: name the file with the secret key that opens it, --identity FILE", err)
	}
	return from, closeIt, err
}

// readKept reads the checkpoints that were kept elsewhere.
func readKept(paths []string) (all []ledger.Checkpoint, err error) {
	for _, path := range paths {
		found, err := readCheckpoints(path)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func addBackupReadFlags(cmd *cobra.Command, identity *string, kept *[]string) {
	cmd.Flags().StringVar(identity, "identity", "", "the `FILE` with the secret key of age that opens an encrypted backup")
	cmd.Flags().StringArrayVar(kept, "checkpoint", nil,
		"a `FILE` with a checkpoint that was kept elsewhere, or an export that ends with one; may be repeated")
}

// missingOf is what a backup does not have, by where it was seen.
func missingOf(done backup.Restored, kept []ledger.Checkpoint) []missingView {
	all := []missingView{}
	if done.Was != nil {
		all = append(all, missingView{"the ledger that was there", done.Missing(*done.Was)})
	}
	for _, c := range kept {
		missing := done.Missing(ledger.Extent{Entries: c.Entries, Acts: c.Acts})
		all = append(all, missingView{fmt.Sprintf("checkpoint %d of %s", c.N, human.Moment(c.Created)), missing})
	}
	return all
}

func printRestored(w io.Writer, v restoredView, database string) {
	fmt.Fprintf(w, "Restored %s as of %s, verified: %s, %s, %s.\n", database, human.Moment(v.Made),
		human.Count(v.Accounts, "account"), movements(v.Entries), human.Count(v.Acts, "act"))
	if v.Loss != nil {
		fmt.Fprintf(w, "A part of the ledger was missing when it was backed up: %s.\n", v.Loss)
	}
	printMissing(w, v.Missing)
	if v.Aside != "" {
		fmt.Fprintf(w, "What was there is in %s.\n", v.Aside)
	}
}

// printNextStart says how the gateway on a folder is started: by the Caddyfile that the command was given, if any.
func printNextStart(w io.Writer, folder, caddyfile string) {
	if caddyfile != "" {
		fmt.Fprintf(w, gateway.Own("Start the gateway: its service, or `fareway run --config %s`.\n"), caddyfile)
		return
	}
	if _, err := os.Lstat(filepath.Join(folder, hclFile)); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w, "A backup has no configuration: put gateway.hcl and Caddyfile into %s.\n", folder)
	}
	fmt.Fprintf(w, gateway.Own("Start the gateway: `fareway gateway up --data %s` or its service.\n"), folder)
}

func printMissing(w io.Writer, all []missingView) {
	for _, m := range all {
		if m.Entries == 0 && m.Acts == 0 {
			fmt.Fprintf(w, "It has all of %s.\n", m.Of)
			continue
		}
		fmt.Fprintf(w, "It lacks of %s: %s, %s.\n", m.Of, movements(m.Entries), human.Count(m.Acts, "act"))
	}
}
