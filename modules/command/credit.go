package command

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
)

func creditCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "credit",
		Short: "Tops up, adjusts and refunds accounts",
		Long: "Tops up, adjusts and refunds prepaid accounts. 1 credit is one US cent, or 1,000,000\nmicrocents. Each is " +
			"an entry of the journal; none is ever changed or removed.",
	})
	cmd.AddCommand(creditAddCommand(), creditAdjustCommand(), creditRefundCommand())
	return cmd
}

func creditAddCommand() *cobra.Command {
	var (
		to  target
		out output
		in  admin.NewCredit
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "add --account NAME CREDITS",
		Short: "Adds whole credits to an account",
		Long: `Adds whole credits to an account.

With a reference, such as the number of a payment, the command can be repeated
safely: an account takes each reference once, and refuses it with another amount.
To take credits
away, use ` + "`credit adjust`" + `. 10,000 credits (US$100.00) or more are asked about first.`,
		Example: "  fareway gateway credit add --account ann 1000 --reference invoice-17",
		Args:    exactly("CREDITS"),
		Annotations: map[string]string{negativeNote: "what is added is at least 1 credit. To take credits away, use " +
			gateway.Own("`fareway gateway credit adjust --account NAME --credits -N --reason TEXT`")},
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if in.Credits, err = strconv.ParseInt(args[0], 10, 64); err != nil {
				return fmt.Errorf("credits %q: write a whole number, as in 1000 for ten US dollars", args[0])
			}
			q := question{fmt.Sprintf("Add %s to account %s?", human.Credits(in.Credits), in.Account), "add so much",
				"nothing is added"}
			if err := q.ifLarge(cmd, out, yes, in.Credits); err != nil {
				return err
			}
			var v admin.Credit
			if err := to.call(cmd, "POST", "/fareway/credits", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				if v.Applied {
					fmt.Fprintf(w, "Added %s to account %s.\n", human.Credits(v.Credits), v.Account)
				} else {
					printUnchanged(w, v.Account, v.Reference)
				}
				printBalance(w, v.BalanceCredits, v.AccruedMicrocents)
			})
		},
	}
	cmd.Flags().StringVar(&in.Account, "account", "", "the `NAME` of the account")
	cmd.Flags().StringVar(&in.Reference, "reference", "", "an `ID` of yours; the account takes each one once")
	cmd.Flags().StringVar(&in.Reason, "reason", "", "a `TEXT` for whoever reads the ledger")
	addLargeFlag(cmd, &yes)
	needs(cmd, "account")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func printUnchanged(w io.Writer, account, reference string) {
	fmt.Fprintf(w, "Nothing was changed: account %s has reference %s already.\n", account, reference)
}

func printBalance(w io.Writer, balance, accrued int64) {
	fmt.Fprintf(w, "Its balance is %s", human.Credits(balance))
	if accrued > 0 {
		fmt.Fprintf(w, ", less %s for usage that is not debited yet", human.Cents(accrued))
	}
	fmt.Fprintln(w, ".")
}
