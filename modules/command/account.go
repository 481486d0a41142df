package command

import (
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func accountCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "account",
		Short: "Makes, shows, changes and suspends accounts",
		Long: "Makes, shows, changes and suspends prepaid accounts. An account has a balance in\ncredits (1 credit is one " +
			"US cent), an optional plan, and API keys.",
	})
	cmd.AddCommand(accountCreateCommand(), accountListCommand(), accountShowCommand(), accountRenameCommand(),
		accountPlanCommand(), accountPlansCommand(),
		accountLimitCommand(), accountOwnCapCommand(), accountProfileCommand(), accountRequiresCommand(),
		accountMailCommand(),
		accountTopUpCommand(),
		accountStateCommand("suspend", ledger.Suspended,
			"Refuses an account's requests from the next one on (403); running ones finish"),
		accountStateCommand("deactivate", ledger.Inactive, "Closes an account; its balance and its history stay"),
		accountStateCommand("activate", ledger.Active, "Lets a suspended or deactivated account work again"))
	return cmd
}

func accountCreateCommand() *cobra.Command {
	var (
		to  target
		out output
		in  admin.NewAccount
	)
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Makes an account",
		Long:    "Makes an account. Its balance is 0, or what its plan gives for the first month\n(monthly_credits).",
		Example: "  fareway gateway account create ann --plan starter --mail ann@example.com",
		Args:    exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Name = args[0]
			var v admin.Account
			if err := to.call(cmd, "POST", "/fareway/accounts", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				balance := "its balance is 0"
				if v.BalanceCredits != 0 {
					balance = "its balance is " + human.Credits(v.BalanceCredits) + ", which its plan gives for the first month"
				}
				fmt.Fprintf(w, gateway.Own("Account %[1]s is made (%[2]s); %[4]s.\n\n"+
					"Give it credits:  fareway gateway credit add --account %[1]s 1000%[3]s\n"+
					"and a key:        fareway gateway key create --account %[1]s --name first%[3]s\n"),
					v.Name, v.ID, to.flags(cmd), balance)
			})
		},
	}
	cmd.Flags().StringVar(&in.Plan, "plan", "", "a `PLAN` of the configuration")
	cmd.Flags().StringArrayVar(&in.Mail, "mail", nil, "an `ADDRESS` that is told what is about the account; up to 5")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func accountListCommand() *cobra.Command {
	var (
		to  target
		out output
		on  string
	)
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Lists all accounts, or those on a plan",
		Example: "  fareway gateway account list --json\n  fareway gateway account list --plan pro",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := to.client()
			if err != nil {
				return err
			}
			query, empty := url.Values{}, "There are no accounts: make one with `fareway gateway account create NAME`."
			if cmd.Flags().Changed("plan") {
				query.Set("plan", on)
				empty = "No account is on it: `fareway gateway account plans` shows the plans."
			}
			if out.json {
				return copyArray(cmd.Context(), c, "/fareway/accounts", query, cmd.OutOrStdout())
			}
			w := screen(cmd)
			return printRows(w, gateway.Own(empty),
				newListing(w, column{title: "NAME"}, column{title: "STATE"}, column{title: "PLAN"},
					column{title: "BALANCE", align: right}, column{title: "AVAILABLE", align: right}),
				func(add func(...string) error) error {
					return admin.ReadList(cmd.Context(), c, "/fareway/accounts", query, func(a admin.Account) error {
						return add(a.Name, a.State, orDash(a.Plan), human.Credits(a.BalanceCredits), human.Credits(a.AvailableCredits))
					})
				})
		},
	}
	cmd.Flags().StringVar(&on, "plan", "", "only accounts on the `PLAN`; \"none\": those on none")
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
		Short:   "Shows one account, by name or id: its money, its period, its limits",
		Example: "  fareway gateway account show ann",
		Args:    exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v admin.Account
			if err := to.call(cmd, "GET", accountPath(args[0]), nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printAccount(w, v) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func accountPath(name string) string { return "/fareway/accounts/" + url.PathEscape(name) }

func printAccount(w io.Writer, v admin.Account) {
	table(w, func(w io.Writer) {
		fmt.Fprintf(w, "name\t%s\n", v.Name)
		fmt.Fprintf(w, "id\t%s\n", v.ID)
		fmt.Fprintf(w, "state\t%s\n", v.State)
		fmt.Fprintf(w, "plan\t%s\n", orDash(v.Plan))
		fmt.Fprintf(w, "created\t%s\n", human.Moment(v.Created))
		fmt.Fprintf(w, "mail\t%s\n", orDash(strings.Join(v.Mail, ", ")))
		fmt.Fprintf(w, "balance\t%s\n", human.Credits(v.BalanceCredits))
		fmt.Fprintf(w, "on hold\t%s\n", human.Credits(v.ReservedCredits))
		fmt.Fprintf(w, "available\t%s\n", human.Credits(v.AvailableCredits))
		fmt.Fprintf(w, "used, not yet debited\t%s\n", human.Cents(v.AccruedMicrocents))
		printPeriod(w, v)
		if l := v.Limits; l != nil {
			for _, window := range [...]config.Window{config.PerMinute, config.AtOnce} {
				for i := range config.PlanLimits {
					if limit := &config.PlanLimits[i]; limit.Window == window {
						fmt.Fprintf(w, "%s\t%s%s\n", limit.Shown, limitText(limit, l), sourceOf(v, limit.Name))
					}
				}
			}
			fmt.Fprintf(w, "profile\t%s%s\n", l.DefaultProfile, sourceOf(v, "default_profile"))
		}
		printRequires(w, v)
	})
}

// limitsOf are what holds for the account, nothing where that is not known.
func limitsOf(v admin.Account) *admin.Limits {
	if v.Limits == nil {
		return new(admin.Limits)
	}
	return v.Limits
}

// sourceOf says where a limit comes from.
func sourceOf(v admin.Account, limit string) string {
	switch limitsOf(v).From[limit] {
	case admin.FromAccount:
		return " (set for the account)"
	case admin.FromPlan:
		return fmt.Sprintf(" (plan %s)", v.Plan)
	case admin.FromOwner:
		text := " (set by the account's owner; "
		if most := limitsOf(v).OperatorSpendCapCredits; most > 0 {
			return text + "the operator's is " + human.Thousands(most) + ")"
		}
		return text + "the operator has none)"
	case admin.FromGateway:
		return " (the gateway's default_profile)"
	default:
		return " (default, on no plan)"
	}
}

// printPeriod writes what was used in the period, and of what.
func printPeriod(w io.Writer, v admin.Account) {
	p, limits := v.Period, v.Limits
	when := "in the period"
	if p.End == nil {
		when = "ever"
		fmt.Fprintln(w, "period\tnone: its plan has none, and its limits are for good")
	} else if limits == nil || limits.MonthlyCredits == 0 {
		fmt.Fprintf(w, "period\tends %s\n", human.Moment(*p.End))
	} else {
		fmt.Fprintf(w, "period\tends %s; the next one begins with %s\n", human.Moment(*p.End),
			human.Credits(limits.MonthlyCredits))
	}
	for i := range config.PlanLimits {
		limit, of := &config.PlanLimits[i], ""
		if limit.Window != config.PerPeriod {
			continue
		}
		if limits != nil {
			of = ofLimit(limit, limits) + sourceOf(v, limit.Name)
		}
		used := ""
		if write := usedOf[limit.Name]; write != nil {
			used = write(p)
		}
		fmt.Fprintf(w, "%s %s\t%s%s\n", limit.Shown, when, used, of)
	}
}

// usedOf write what was used of the limits of a period.
var usedOf = map[string]func(admin.Period) string{
	"spend_cap_credits":   func(p admin.Period) string { return human.Exact(p.SpentMicrocents) + " credits" },
	"token_budget":        func(p admin.Period) string { return human.Thousands(p.Tokens) },
	"fair_use_microcents": func(p admin.Period) string { return human.Exact(p.WaivedMicrocents) },
}

// amountOf writes so much of what a limit counts.
func amountOf(l *config.Limit, n int64) string {
	switch l.Unit {
	case config.Credits:
		return human.Count(n, "credit")
	case config.Microcents:
		return human.Exact(n) + " credits"
	default:
		return human.Thousands(n)
	}
}

// ofLimit writes a limit of what is used.
func ofLimit(l *config.Limit, v *admin.Limits) string {
	n, of := *l.In(&v.Limits), " of at most "
	switch {
	case l.Allowance:
		of = " of "
	case n == 0:
		return ", without a limit"
	}
	return of + amountOf(l, n)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// needs asks for these flags, and names what is missing.
func needs(cmd *cobra.Command, flags ...string) {
	addPreCheck(cmd, func(cmd *cobra.Command) error {
		for _, name := range flags {
			if !cmd.Flags().Changed(name) {
				return fmt.Errorf("--%s is missing, as in `%s`", name, cmd.UseLine())
			}
		}
		return nil
	})
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

// limitText writes the limit that holds.
func limitText(l *config.Limit, v *admin.Limits) string {
	n := *l.In(&v.Limits)
	if n == 0 && !l.Allowance {
		return "no limit"
	}
	return human.Thousands(n)
}
