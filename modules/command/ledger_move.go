package command

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// unmovedView is the result of `gateway ledger move --undo`.
type unmovedView struct {
	Was  string `json:"was"`  // where it had been moved to
	Told bool   `json:"told"` // that database was told, and is served by nobody
}

func ledgerMoveCommand() *cobra.Command {
	var (
		at        target
		out       output
		to        string
		undo, yes bool
		gone      bool
	)
	cmd := &cobra.Command{
		Use:   "move --to DSN",
		Short: "Takes a SQLite ledger to PostgreSQL",
		Long: `Takes the ledger in the data folder into an empty PostgreSQL database: accounts, keys,
balances, every movement of money with its hashes, the audit trail, checkpoints,
requests with their attempts and receipts, usage, prices, what was learned of routes,
and who may sign in to the portal (everybody signs in anew). No gateway may run on it.
What its spool has is taken up first, and what dead processes held is released.

It verifies the ledger before it begins, compares every row on both sides when all are
there, verifies the new ledger as ` + "`ledger verify`" + ` does, with all checkpoints, and compares
what both reports say. Only then is the old file marked as moved, and the database opened
to gateways. The old file stays as it was; a gateway that is started on it refuses, and
says where the ledger is. Checkpoints and exports that were kept elsewhere hold for the
new ledger.

It can be interrupted at any moment, and started again: it goes on where it was, or begins
anew if the ledger was used in between. Until it is done no gateway starts on the database.

DSN is a postgres:// URL. With env:NAME it is in an environment variable, and with
file:PATH in a file, where no list of processes shows its password.

A file that an older fareway wrote is brought to this one's schema first, and then no
older one opens it. What is marked is this file only: a copy of it from before the
move, or a backup, would be served by whoever starts a gateway on it.

A ledger that was moved in error is brought back with --undo and the DSN that it was
moved to, as it was then. That database refuses gateways from then on. Where one runs
on it, or it has more than was moved there, --undo refuses. If the database is gone, or
cannot be asked, --target-is-gone brings the ledger back without: if it is there after
all, both are served, and each credit can be spent twice.`,
		Example: "  fareway gateway ledger move --to env:DATABASE_URL\n" +
			"  fareway gateway ledger move --data /var/lib/fareway --to postgres://fareway@db.example.com/fareway\n" +
			"  fareway gateway ledger move --undo --to env:DATABASE_URL",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := at.place()
			switch {
			case err != nil:
				return err
			case place.Shared:
				return fmt.Errorf("the configuration of %s has a store \"postgres\" already; a ledger is moved while it "+
					"still names the SQLite file: put that store block back until it is moved", place.Data)
			}
			if _, err := os.Stat(place.Ledger); err != nil {
				return fmt.Errorf("there is no ledger to move: %w; name the data folder with --data, or the gateway's "+
					"Caddyfile with --config", err)
			}
			dsn, err := readDSN(to)
			if err != nil {
				return fmt.Errorf("--to: %w", err)
			}
			if undo {
				return undoMove(cmd, place, dsn, out, yes)
			}
			show := newSteps(cmd.ErrOrStderr())
			m, err := place.Move(cmd.Context(), dsn, show.tell)
			show.end()
			if errors.Is(err, ledger.ErrLocked) {
				return fmt.Errorf("%w; nothing was moved", err)
			}
			if err != nil {
				return err
			}
			return out.print(cmd, m, func(w io.Writer) { printMoved(w, m, place.Ledger) })
		},
	}
	cmd.Flags().StringVar(&to, "to", "",
		"the `DSN` of an empty PostgreSQL database; with --undo of the one that it was moved to")
	cmd.Flags().BoolVar(&undo, "undo", false, "have a ledger that was moved served from its file again")
	cmd.Flags().BoolVar(&gone, "target-is-gone", false, "with --undo: do not tell the database that it was moved to; "+
		"if that is there after all, both are served")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --undo: do not ask")
	addPreCheck(cmd, func(cmd *cobra.Command) error {
		switch {
		case gone && !undo:
			return errors.New("--target-is-gone is for --undo")
		case undo && !gone && to == "":
			return errors.New("--to is missing: with --undo it is the database that the ledger was moved to, which is told; " +
				"if that is gone for good, say --target-is-gone")
		case !undo && to == "":
			return fmt.Errorf("--to is missing, as in `%s`", cmd.UseLine())
		}
		return notBoth(cmd, "to", "target-is-gone", "one has the database told, the other that there is none")
	})
	at.addPlaceFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// readDSN is a dsn that is given as it is, in an environment variable or in a file.
func readDSN(text string) (string, error) {
	if name, is := strings.CutPrefix(text, "env:"); is {
		if dsn := os.Getenv(name); dsn != "" {
			return dsn, nil
		}
		return "", fmt.Errorf("the environment has no %s", name)
	}
	if path, is := strings.CutPrefix(text, "file:"); is {
		read, err := os.ReadFile(path)
		return strings.TrimSpace(string(read)), err
	}
	return text, nil
}

func printMoved(w io.Writer, m admin.Moved, from string) {
	if m.Already {
		fmt.Fprintf(w, "The ledger %s was moved to %s before, and is served there.\n", from, m.To)
	} else {
		if m.Resumed {
			fmt.Fprintln(w, "It went on with what an earlier move had brought.")
		}
		rows := int64(0)
		for _, n := range slices.Collect(maps.Values(m.Rows)) {
			rows += n
		}
		fmt.Fprintf(w, "Moved to %s, compared and verified: %s, %s, %s, %s (%s).\n", m.To,
			human.Count(m.Report.Accounts, "account"), movements(m.Report.Entries), human.Count(m.Report.Requests, "request"),
			human.Count(m.Report.Checkpoints, "checkpoint"), human.Count(rows, "row"))
	}
	if m.NoStandby {
		fmt.Fprintln(w, "Commits of that database wait for no standby: if its machine is lost, so is what was moved.")
	}
	fmt.Fprintf(w, `
Put this into the configuration, in the place of its store block, with the DSN in the
environment of the gateway, and start it:

store "postgres" {
  dsn = env("DATABASE_URL")
}

%s stays as it was, and is served no more. Keep it until you have a backup of
the database.
`, from)
}

func undoMove(cmd *cobra.Command, place admin.Offline, dsn string, out output, yes bool) error {
	if !yes {
		err := question{
			ask: "What was charged or paid in since the ledger was moved is not in this file. Serve it again?",
			do:  "have it served again", not: "it is not brought back: nothing has changed",
		}.confirm(cmd, cmd.ErrOrStderr(), out)
		if err != nil {
			return err
		}
	}
	was, err := place.UndoMove(cmd.Context(), dsn)
	if err != nil {
		return fmt.Errorf("%w; the ledger is not served from its file: nothing has changed there", err)
	}
	return out.print(cmd, unmovedView{Was: was.Target, Told: dsn != ""}, func(w io.Writer) {
		fmt.Fprintf(w, "%s is served again, as it was at %s.\n", place.Ledger, human.Moment(was.Done))
		if dsn == "" {
			fmt.Fprintf(w, "Drop the database %s, if it is there:\n"+
				"a gateway that is started on it would serve the same ledger a second time.\n", was.Target)
		} else {
			fmt.Fprintf(w, "The database %s refuses gateways from now on, and can be dropped.\n", was.Target)
		}
	})
}

// steps shows how far something is that has several: as a bar on a terminal, and else as a line now and then.
type steps struct {
	w    io.Writer
	bar  bool
	step string
	last int64 // tenths of the step that were told
}

func newSteps(w io.Writer) *steps { return &steps{w: w, bar: human.IsTerminal(w)} }

func (s *steps) tell(step string, done, of int64) {
	if s.bar {
		if step != s.step {
			s.end()
		}
		s.step = step
		if of == 0 {
			fmt.Fprint(s.w, "\r"+step)
			return
		}
		fmt.Fprint(s.w, progress(done, of, "row"), " (", step, ")")
		return
	}
	if step != s.step {
		s.step, s.last = step, -1
	}
	if of == 0 {
		if s.last < 0 {
			s.last = 0
			fmt.Fprintln(s.w, step)
		}
		return
	}
	if tenths := 10 * min(done, of) / max(of, 1); tenths != s.last {
		s.last = tenths
		fmt.Fprintf(s.w, "%s: %s of %s\n", step, human.Thousands(done), human.Count(of, "row"))
	}
}

// end takes the bar away.
func (s *steps) end() {
	if s.bar && s.step != "" {
		fmt.Fprint(s.w, clearLine)
	}
}
