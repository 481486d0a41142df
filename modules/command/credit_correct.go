package command

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func creditAdjustCommand() *cobra.Command {
	var (
		to     target
		out    output
		in     admin.NewAdjustment
		amount int64
		yes    bool
	)
	cmd := &cobra.Command{
		Use:   "adjust --account NAME --credits N --reason TEXT",
		Short: "Corrects a balance, up or down",
		Long: `Corrects a balance, up or down, by whole credits or by microcents. It is an entry of
its own with its reason; what was booked before stays as it is. With a reference it
can be repeated safely: an account takes each reference once, and refuses it with
another amount. An adjustment of 10,000 credits (US$100.00) or more, up or down, is
asked about first.

To give the charge of a request back, use ` + "`credit refund`" + `: that counts for margin.`,
		Example: "  fareway gateway credit adjust --account ann --credits -250 --reason 'invoice 17 was booked twice' " +
			"--reference fix-17",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			byCredits := cmd.Flags().Changed("credits")
			if byCredits == cmd.Flags().Changed("microcents") {
				return errors.New("say by how much: give --credits or --microcents, one of the two")
			}
			if byCredits {
				if amount > math.MaxInt64/ledger.MicrocentsPerCredit || amount < math.MinInt64/ledger.MicrocentsPerCredit {
					return fmt.Errorf("--credits %d: that is more than any balance", amount)
				}
				in.Microcents = amount * ledger.MicrocentsPerCredit
			}
			credits := in.Microcents / ledger.MicrocentsPerCredit
			q := question{fmt.Sprintf("Adjust account %s by %s?", in.Account, human.Credits(credits)), "adjust by so much",
				"it is not adjusted: nothing has changed"}
			if err := q.ifLarge(cmd, out, yes, credits); err != nil {
				return err
			}
			var v admin.Correction
			if err := to.call(cmd, "POST", "/fareway/adjustments", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				if v.Applied {
					fmt.Fprintf(w, "Adjusted account %s by %s credits.\n", v.Account, human.Exact(v.Microcents))
				} else {
					printUnchanged(w, v.Account, v.Reference)
				}
				printBalance(w, v.BalanceCredits, v.AccruedMicrocents)
			})
		},
	}
	cmd.Flags().StringVar(&in.Account, "account", "", "the `NAME` of the account")
	cmd.Flags().Int64Var(&amount, "credits", 0, "`N` whole credits; negative takes away")
	cmd.Flags().Int64Var(&in.Microcents, "microcents", 0, "`N` microcents; negative takes away")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "a `TEXT` that says why, for whoever reads the ledger")
	cmd.Flags().StringVar(&in.Reference, "reference", "", "an `ID` of yours; the account takes each one once")
	addLargeFlag(cmd, &yes)
	needs(cmd, "account", "reason")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// largeAmount is the least amount, in credits, that is asked about: a slip of three zeros, or of the unit, is above
// it.
const largeAmount = 10_000

// ifLarge asks about so many credits where they are many, up or down.
func (q question) ifLarge(cmd *cobra.Command, out output, yes bool, credits int64) error {
	if yes || -largeAmount < credits && credits < largeAmount {
		return nil
	}
	return q.confirm(cmd, screen(cmd), out)
}

func addLargeFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "do not ask, whatever the amount")
}

func creditRefundCommand() *cobra.Command {
	var (
		to  target
		out output
		in  admin.NewRefund
	)
	cmd := &cobra.Command{
		Use:   "refund REQUEST --reason TEXT",
		Short: "Gives the charge of a request back, whole or in part",
		Long: `Gives the charge of a request back to its account, whole or in part; never more than
was charged. The charge stays in the journal, the refund is an entry of its own.`,
		Example: "  fareway gateway credit refund req_0123456789abcdef --reason 'ticket 4711'\n  fareway gateway credit " +
			"refund req_0123456789abcdef --microcents 250000 --reason goodwill --reference ticket-4711",
		Args: exactly("REQUEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("microcents") && in.Microcents < 1 {
				return fmt.Errorf("--microcents %d: a refund is at least 1; leave it out to give the whole charge back",
					in.Microcents)
			}
			in.Request = args[0]
			var v admin.Correction
			if err := to.call(cmd, "POST", "/fareway/refunds", in, &v); err != nil {
				return out.orPruned(cmd, err)
			}
			return out.print(cmd, v, func(w io.Writer) {
				if v.Applied {
					fmt.Fprintf(w, "Refunded %s to account %s for request %s.\n", human.Amount(v.Microcents), v.Account, v.Request)
				} else {
					printUnchanged(w, v.Account, v.Reference)
				}
				if v.Pending {
					fmt.Fprintln(w, "Part of the request is not proven yet: a receipt may charge it later, and can be refunded then.")
				}
				printBalance(w, v.BalanceCredits, v.AccruedMicrocents)
			})
		},
	}
	cmd.Flags().Int64Var(&in.Microcents, "microcents", 0,
		"give only `N` microcents back (default: all that is left of the charge)")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "a `TEXT` that says why, for whoever reads the ledger")
	cmd.Flags().StringVar(&in.Reference, "reference", "", "an `ID` of yours; the account takes each one once")
	needs(cmd, "reason")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
