package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
)

func ledgerAcceptLossCommand() *cobra.Command {
	var (
		to     target
		out    output
		reason string
	)
	cmd := &cobra.Command{
		Use:   "accept-loss --reason TEXT",
		Short: "Goes on without a part of the ledger that is missing",
		Long: `Beside the ledger lies its witness, which knows how far the ledger had come. A
ledger that does not have all of that (its write-ahead log is damaged or was not
copied, or it is an older copy) is named by the start, by ` + "`status`" + ` and by
` + "`ledger verify`" + `, and nothing is charged or paid in until an operator decides:

  put the newer files back, the database and all that begin with its name, of one
  moment, and start again: nothing is lost then;

  or go on without, with this command. Accounts have the balances that this ledger
  says; what was charged or paid in since is gone. A kept checkpoint or an export
  tells what that was (` + "`ledger verify --checkpoint`" + `, ` + "`ledger export`" + `).

It asks the gateway that runs, and changes the files in the data folder when none
does. The decision is on the audit trail.`,
		Example: "  fareway gateway ledger accept-loss --reason 'disk failed, ticket 4711'",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var v admin.AcceptedLoss
			err := to.decide(cmd, func(c *admin.Client) error {
				return c.Call(cmd.Context(), "POST", "/fareway/ledger/accept-loss", admin.Decision{Reason: reason}, &v)
			})
			if err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Accepted: %s.\nThe ledger goes on from what it has.\n", v.Text)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "a `TEXT` that says why, for whoever reads the ledger")
	needs(cmd, "reason")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
