package gateway

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/ledger"
)

func accountCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "account",
		Short: "Makes, shows and suspends accounts",
		Long:  "Makes, shows and suspends prepaid accounts. An account has a balance in credits\n(1 credit is one US cent), an optional plan, and API keys.",
	})
	cmd.AddCommand(accountCreateCommand(), accountListCommand(), accountShowCommand(),
		accountStateCommand("suspend", ledger.Suspended, "Refuses an account's requests from the next one on (403); running ones finish"),
		accountStateCommand("deactivate", ledger.Inactive, "Closes an account; its balance and its history stay"),
		accountStateCommand("activate", ledger.Active, "Lets a suspended or deactivated account work again"))
	return cmd
}

func accountCreateCommand() *cobra.Command {
	var (
		to  target
		out output
		in  newAccount
	)
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Makes an account with a balance of 0",
		Example: "  fareway gateway account create ann --plan starter",
		Args:    exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Name = args[0]
			var v accountView
			if err := to.call(cmd, "POST", "/fareway/accounts", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Account %s is made (%s).\n\nGive it credits:  fareway gateway credit add --account %s 1000\nand a key:        fareway gateway key create --account %s --name first\n",
					v.Name, v.ID, v.Name, v.Name)
			})
		},
	}
	cmd.Flags().StringVar(&in.Plan, "plan", "", "a `PLAN` of the configuration")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func accountListCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Lists all accounts",
		Example: "  fareway gateway account list --json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var v []accountView
			if err := to.call(cmd, "GET", "/fareway/accounts", nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				if len(v) == 0 {
					fmt.Fprintln(w, "There are no accounts: make one with `fareway gateway account create NAME`.")
					return
				}
				table(w, func(w io.Writer) {
					fmt.Fprintln(w, "NAME\tSTATE\tPLAN\tBALANCE\tAVAILABLE")
					for _, a := range v {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", a.Name, a.State, orDash(a.Plan), credits(a.BalanceCredits), credits(a.AvailableCredits))
					}
				})
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func accountShowCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Shows one account, by name or id",
		Example: "  fareway gateway account show ann",
		Args:    exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v accountView
			if err := to.call(cmd, "GET", "/fareway/accounts/"+url.PathEscape(args[0]), nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printAccount(w, v) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func accountStateCommand(verb string, state ledger.State, short string) *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: "  fareway gateway account " + verb + " ann",
		Args:    exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v accountView
			if err := to.call(cmd, "POST", "/fareway/accounts/"+url.PathEscape(args[0])+"/state", newState{state}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { fmt.Fprintf(w, "Account %s is %s.\n", v.Name, v.State) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func printAccount(w io.Writer, v accountView) {
	table(w, func(w io.Writer) {
		fmt.Fprintf(w, "name\t%s\n", v.Name)
		fmt.Fprintf(w, "id\t%s\n", v.ID)
		fmt.Fprintf(w, "state\t%s\n", v.State)
		fmt.Fprintf(w, "plan\t%s\n", orDash(v.Plan))
		fmt.Fprintf(w, "created\t%s\n", v.Created.Format(time.DateTime+" MST"))
		fmt.Fprintf(w, "balance\t%s\n", credits(v.BalanceCredits))
		fmt.Fprintf(w, "on hold\t%s\n", credits(v.ReservedCredits))
		fmt.Fprintf(w, "available\t%s\n", credits(v.AvailableCredits))
		fmt.Fprintf(w, "used, not yet debited\t%s\n", cents(v.AccruedMicrocents))
	})
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// exactly asks for these arguments, and names what is missing.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing, as in `%s`", names[len(args)], cmd.UseLine())
		}
		if len(args) > len(names) {
			return fmt.Errorf("%q is one argument too many for `%s`", args[len(names)], cmd.UseLine())
		}
		return nil
	}
}
