package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
)

func accountMailCommand() *cobra.Command {
	var (
		to     target
		out    output
		nobody bool
	)
	cmd := &cobra.Command{
		Use:   "set-mail NAME ADDRESS... | --clear",
		Short: "Sets who is mailed what is about an account",
		Long: `Sets the addresses that are mailed what the account's owner must hear of: the balance
is low, a cap is near or reached, the account was suspended. They take the place of
those that there were, up to 5; --clear takes them away.

Mails go out where a block mail of the configuration has accounts = true. The audit
trail has addresses masked, as in a***@example.com: what is taken away is gone.`,
		Example: "  fareway gateway account set-mail ann ann@example.com billing@example.com\n" +
			"  fareway gateway account set-mail ann --clear",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("NAME is missing, as in `fareway gateway account set-mail ann ann@example.com`")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			addresses := args[1:]
			switch {
			case nobody && len(addresses) > 0:
				return fmt.Errorf("--clear takes all addresses away: leave it out, or %q", addresses[0])
			case !nobody && len(addresses) == 0:
				return fmt.Errorf("ADDRESS is missing, or --clear, as in `%s`", cmd.UseLine())
			}
			var v admin.Account
			if err := to.call(cmd, "POST", accountPath(args[0])+"/mail", admin.NewMail{Mail: &addresses}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				if len(v.Mail) == 0 {
					fmt.Fprintf(w, "Account %s: nobody is mailed.\n", v.Name)
					return
				}
				fmt.Fprintf(w, "Account %s: what is about it is mailed to %s.\n", v.Name, strings.Join(v.Mail, ", "))
			})
		},
	}
	cmd.Flags().BoolVar(&nobody, "clear", false, "takes the addresses away")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
