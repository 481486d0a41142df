package command

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

// Verify is the result of `gateway ledger verify`.
type verifyView struct {
	admin.Verified
	Source string `json:"source"` // the admin address that was asked, or the path of the database
}

func ledgerCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "ledger",
		Short: "Verifies, exports, prunes and moves the ledger",
		Long: `Looks after the ledger: the append-only journal of all money, and the audit
trail of what operators did.`,
	})
	cmd.AddCommand(ledgerVerifyCommand(), ledgerExportCommand(), ledgerCheckpointCommand(), ledgerAuditCommand(),
		ledgerMoveCommand(), ledgerPruneCommand(), ledgerSpoolCommand(),
		ledgerAcceptLossCommand())
	return cmd
}

func ledgerVerifyCommand() *cobra.Command {
	var (
		to   target
		out  output
		kept []string
		from string
	)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Recomputes every balance and every charge",
		Long: `Recomputes every balance, every hold and every charge from usage and price, and
the hash chain of every account. It exits with 0 when all agree, and with 1 and
the first entry that does not otherwise.

With a checkpoint that was kept elsewhere (see ` + "`ledger checkpoint`" + `) it also sees
that nothing before that was rewritten: somebody who can write the database can
make its hashes agree again, but not with a hash that they cannot change.

It fails when the newest part of the ledger is missing, by what the witness beside
it has seen (see ` + "`ledger accept-loss`" + `), and while something of the spool waits for an
operator's decision: see ` + "`ledger spool`" + `.

With --from-checkpoint it begins where a checkpoint ends that was kept elsewhere when
the ledger was clean: it compares that, takes what it is over as it is, and recomputes
what came later, all balances and all sums. It does not look at the file's structure.

It uses all processors (at most 8), and shows on a terminal how far it is. It asks the
gateway that runs, and reads the files in the data folder when none does. It changes
nothing.`,
		Example: "  fareway gateway ledger verify\n  fareway gateway ledger verify --checkpoint " +
			"/mnt/elsewhere/checkpoint.json\n  fareway gateway ledger verify --data /var/lib/fareway --json",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var in admin.Verification
			for _, path := range kept {
				checkpoints, err := readCheckpoints(path)
				if err != nil {
					return err
				}
				in.Checkpoints = append(in.Checkpoints, checkpoints...)
			}
			if from != "" {
				checkpoints, err := readCheckpoints(from)
				if err != nil {
					return err
				}
				in.From = &checkpoints[len(checkpoints)-1]
			}
			var v verifyView
			err := to.read(cmd, func(c *admin.Client) error {
				v.Source = c.Source
				return verifyLedger(cmd, c, in, &v.Verified)
			})
			if err != nil {
				return err
			}
			return printVerified(cmd, out, v, len(in.Checkpoints))
		},
	}
	cmd.Flags().StringArrayVar(&kept, "checkpoint", nil,
		"a `FILE` with a checkpoint, or an export that ends with one; may be repeated")
	cmd.Flags().StringVar(&from, "from-checkpoint", "",
		"begin behind the last checkpoint in a `FILE`")
	to.addFlags(cmd)
	to.addFromFlag(cmd)
	out.addFlag(cmd)
	return cmd
}

// verifyLedger asks for a verification, and shows on a terminal how far it is.
func verifyLedger(cmd *cobra.Command, c *admin.Client, in admin.Verification, v *admin.Verified) error {
	const path = "/fareway/ledger/verify"
	bar := cmd.ErrOrStderr()
	if !human.IsTerminal(bar) {
		return c.Call(cmd.Context(), "POST", path, in, v)
	}
	in.Progress = true
	err := c.PostLines(cmd.Context(), path, in, func(line []byte) error {
		var l admin.VerifyLine
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("reading how far the verification is: %w", err)
		}
		if l.Verified != nil {
			*v = *l.Verified
			return nil
		}
		_, err := io.WriteString(bar, progress(l.Done, l.Of, "row"))
		return err
	})
	_, _ = io.WriteString(bar, clearLine) // the terminal is still there, or there is nobody to tell
	return err
}

func printVerified(cmd *cobra.Command, out output, v verifyView, kept int) error {
	err := out.print(cmd, v, func(w io.Writer) {
		fmt.Fprintf(w, "Looked at %s: %s, %s, %s, %s.\n", v.Source, human.Count(v.Accounts, "account"),
			movements(v.Entries), human.Count(v.Requests, "request"), human.Count(v.Holds, "live hold"))
		if v.Spool.Waiting > 0 {
			fmt.Fprintf(w, "%s in the spool until the ledger takes them.\n", waitingIn(v.Spool.Waiting))
		}
		if v.From > 0 {
			fmt.Fprintf(w, "What checkpoint %d is over was taken as it is: movements and requests are those since.\n", v.From)
		}
		if v.Stopped {
			fmt.Fprintln(w, "It stopped at what does not agree. Not all balances, checkpoints and acts were looked at.")
		}
		if c := v.PowerCut; c != nil {
			fmt.Fprintf(w, "A power cut has taken the end of the ledger, as durability \"process\" lets it (%s; the last is "+
				"booked at %s): %s.\n", human.Count(c.Times, "time"), human.Moment(c.Last), c.Lost)
		}
		if !v.OK {
			return
		}
		if v.Loss != nil && v.Loss.PowerCut {
			fmt.Fprintf(w, "A power cut has taken its end, as durability \"process\" lets it, which the next start books: "+
				"%s.\n", v.Loss)
		}
		if !v.Witnessed {
			fmt.Fprintln(w, "There is no witness beside it, so nobody can see here whether its newest part is missing.")
		}
		if kept > 0 {
			fmt.Fprintf(w, "It still has what %s fixed.\n", human.Count(kept, "kept checkpoint"))
		}
		fmt.Fprintln(w, "The ledger is clean.")
	})
	switch {
	case err != nil:
		return err
	case v.OK:
		return nil
	case out.json:
		return exitSilently(cmd)
	}
	return fmt.Errorf("the ledger does not agree at %s: %s", v.Entry, v.Problem)
}

// waitingIn counts settlements that wait.
func waitingIn(n int64) string {
	if n == 1 {
		return "1 settlement waits"
	}
	return human.Count(n, "settlement") + " wait"
}
