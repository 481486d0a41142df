package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

func accountPlansCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "plans",
		Short: "Shows what each plan gives and allows, and how many accounts are on it",
		Long: `Shows the plans of the configuration that serves, what each gives and allows, and how
many accounts are on it; what accounts are on that the configuration has no more; and
what holds for accounts on no plan. ` + "`account list --plan NAME`" + ` lists the accounts,
` + "`account set-plan`" + ` moves one.`,
		Example: "  fareway gateway account plans\n  fareway gateway account list --plan pro",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var plans []admin.AccountPlan
			if err := to.call(cmd, "GET", "/fareway/plans", nil, &plans); err != nil {
				return err
			}
			return out.print(cmd, plans, func(w io.Writer) {
				for i := range plans {
					if i > 0 {
						fmt.Fprintln(w)
					}
					printAccountPlan(w, &plans[i])
				}
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func printAccountPlan(w io.Writer, p *admin.AccountPlan) {
	title := "Plan " + p.Name
	switch {
	case p.Name == "":
		title = "On no plan"
	case p.Gone:
		title += ", which the configuration does not have"
	}
	fmt.Fprintf(w, "%s: %s\n", title, human.Count(p.Accounts, "account"))
	table(w, func(w io.Writer) {
		switch {
		case p.MonthlyCredits > 0:
			fmt.Fprintf(w, "  period\ta month, which begins with %s\n", human.Credits(p.MonthlyCredits))
		case p.Periods:
			fmt.Fprintln(w, "  period\ta month")
		default:
			fmt.Fprintln(w, "  period\tnone: its limits are for good")
		}
		for i := range config.PlanLimits {
			limit := &config.PlanLimits[i]
			name, n, most := limit.Shown, *limit.In(&p.Limits), "no limit"
			if limit.Window == config.PerPeriod {
				name += " in a period"
			}
			if n > 0 || limit.Allowance {
				most = amountOf(limit, n)
			}
			fmt.Fprintf(w, "  %s\t%s\n", name, most)
		}
		fmt.Fprintf(w, "  profile\t%s\n", p.DefaultProfile)
		if !p.Requires.None() {
			fmt.Fprintf(w, "  routes must be\t%s\n", requiresText(p.Requires))
		}
		if p.Declines != nil {
			fmt.Fprintf(w, "  suspended after\t%s within %s\n", human.Count(p.Declines.Count, "refused prompt"),
				p.Declines.Window)
		}
	})
}
