package command

import (
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/people"
)

func paymentCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "payment",
		Short: "Shows what accounts pay through Stripe, and decides about what waits",
		Long: "Shows what accounts pay through Stripe (the block stripe in the portal of the HCL file), and\n" +
			"decides about payments that wait for an operator.",
		Example: "  fareway gateway payment list --waiting",
	})
	cmd.AddCommand(paymentListCommand(), paymentCheckCommand(), paymentCloseCommand())
	return cmd
}

// sayPayment prints how far one is.
func sayPayment(w io.Writer, v *people.Payment) {
	fmt.Fprintf(w, "Payment %s of %s (%s) is %s.\n", v.ID, human.Credits(v.Credits),
		config.FormatAmount(v.Amount, v.Currency), v.State)
}

func paymentListCommand() *cobra.Command {
	var (
		to      target
		out     output
		account string
		before  string
		waiting bool
	)
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Lists payments, the newest first, 50 at a time",
		Example: "  fareway gateway payment list --waiting",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			for name, value := range map[string]string{"account": account, "before": before} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if waiting {
				query.Set("waiting", "true")
			}
			var page admin.Payments
			if err := to.call(cmd, "GET", "/fareway/payments?"+query.Encode(), nil, &page); err != nil {
				return err
			}
			if out.json {
				return out.print(cmd, page, nil)
			}
			w := screen(cmd)
			err := printRows(w, "There are none.", newListing(w, column{title: "ID"}, column{title: "ACCOUNT"},
				column{"CREDITS", right}, column{"AMOUNT", right}, column{title: "STATE"}, column{title: "BEGUN"},
				column{title: "WHY"}), func(add func(...string) error) error {
				for i := range page.Payments {
					v := &page.Payments[i]
					state := string(v.State)
					if v.Disputed != "" {
						state += ", dispute " + v.Disputed
					}
					if err := add(v.ID, v.Account, human.Thousands(v.Credits), config.FormatAmount(v.Amount, v.Currency), state,
						human.Moment(v.Created), orDash(v.Why)); err != nil {
						return err
					}
				}
				return nil
			})
			if err == nil && page.Next != "" {
				_, err = fmt.Fprintf(w, "Older ones: --before %s\n", page.Next)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "only those of the account `NAME`")
	cmd.Flags().StringVar(&before, "before", "", "only those before the payment `ID`")
	cmd.Flags().BoolVar(&waiting, "waiting", false, "only those that wait for an operator")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func paymentCheckCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "check ID",
		Short:   "Asks Stripe how far a payment is, and does what follows",
		Example: "  fareway gateway payment check pay_0123456789abcdef01234567",
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v people.Payment
			if err := to.call(cmd, "POST", "/fareway/payments/"+url.PathEscape(args[0])+"/check", nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { sayPayment(w, &v) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func paymentCloseCommand() *cobra.Command {
	var (
		to  target
		out output
		in  admin.PaymentReason
	)
	cmd := &cobra.Command{
		Use:   "close ID --reason TEXT",
		Short: "Says that a payment that waits is decided",
		Long: `Says that a payment that waits is decided. It moves no money: credit the account before
(credit add, with the reference of Stripe's object), or give the money back in Stripe.`,
		Example: "  fareway gateway payment close pay_0123456789abcdef01234567 --reason \"given back\"",
		Args:    exactly("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v people.Payment
			if err := to.call(cmd, "POST", "/fareway/payments/"+url.PathEscape(args[0])+"/close", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { sayPayment(w, &v) })
		},
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", "a `TEXT` for the audit trail")
	needs(cmd, "reason")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
