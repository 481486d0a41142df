package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/payments"
	"github.com/fareway/fareway/modules/internal/people"
)

func accountTopUpCommand() *cobra.Command {
	var (
		to  target
		out output
		in  payments.Setting
		off bool
	)
	cmd := &cobra.Command{
		Use:   "set-top-up NAME --below CREDITS --buy CREDITS --monthly CREDITS | --off | --forget",
		Short: "Sets whether an account buys credits by itself, through Stripe",
		Long: `Sets whether an account buys credits by itself, through Stripe, when its balance falls below so
many credits, and how many it buys at most in a month of UTC. It pays with what somebody of
the account has had kept when they bought credits in the portal; only they can do that.

--off ends it and keeps the means of payment, --forget drops that, too.`,
		Example: "  fareway gateway account set-top-up ann --below 500 --buy 1000 --monthly 5000\n" +
			"  fareway gateway account set-top-up ann --off",
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Active = !off && !in.Forget
			var v people.TopUp
			if err := to.call(cmd, "POST", accountPath(args[0])+"/top-up", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { sayTopUp(w, args[0], &v) })
		},
	}
	cmd.Flags().Int64Var(&in.Threshold, "below", 0, "buy when the balance is below so many `CREDITS`")
	cmd.Flags().Int64Var(&in.Credits, "buy", 0, "buy so many `CREDITS` at a time")
	cmd.Flags().Int64Var(&in.Monthly, "monthly", 0, "buy so many `CREDITS` in a month at most")
	cmd.Flags().BoolVar(&off, "off", false, "buy nothing by itself any more")
	cmd.Flags().BoolVar(&in.Forget, "forget", false, "nor keep what is paid with")
	cmd.MarkFlagsRequiredTogether("below", "buy", "monthly")
	cmd.MarkFlagsOneRequired("below", "off", "forget")
	cmd.MarkFlagsMutuallyExclusive("below", "off", "forget")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func sayTopUp(w io.Writer, account string, v *people.TopUp) {
	if !v.Active {
		fmt.Fprintf(w, "Account %s buys nothing by itself.\n", account)
		return
	}
	fmt.Fprintf(w, "Account %s buys %s with %s when its balance is below %s, %s in a month at most.\n", account,
		human.Credits(v.Credits), v.Card, human.Credits(v.Threshold), human.Credits(v.Monthly))
}
