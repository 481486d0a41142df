package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

func accountRenameCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "rename NAME NEW",
		Short:   "Renames an account; its id stays",
		Example: "  fareway gateway account rename ann ann.smith",
		Args:    exactly("NAME", "NEW"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v admin.Account
			if err := to.call(cmd, "POST", accountPath(args[0])+"/name", admin.NewName{Name: args[1]}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { fmt.Fprintf(w, "Account %s is now %s (%s).\n", args[0], v.Name, v.ID) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func accountPlanCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "set-plan NAME PLAN",
		Aliases: []string{"plan"},
		Short:   "Puts an account on another plan, or on none",
		Long: `Puts an account on another plan of the configuration; "none" takes it off its plan.
The new plan's limits count from the next request on, also for what was used in the
period before. A plan with periods starts them, one without ends them; the first
plan in a period that has monthly credits adds them, once. What was set for the
account itself stays.`,
		Example: "  fareway gateway account set-plan ann pro\n  fareway gateway account set-plan ann none",
		Args:    exactly("NAME", "PLAN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v admin.Account
			if err := to.call(cmd, "POST", accountPath(args[0])+"/plan", admin.NewPlan{Plan: args[1]}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				if v.Plan == "" {
					fmt.Fprintf(w, "Account %s is on no plan.\n", v.Name)
				} else {
					fmt.Fprintf(w, "Account %s is on plan %s.\n", v.Name, v.Plan)
				}
				if v.Period.End != nil {
					fmt.Fprintf(w, "Its period ends %s.\n", human.Moment(*v.Period.End))
				}
			})
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
			var v admin.Account
			if err := to.call(cmd, "POST", accountPath(args[0])+"/state", admin.NewState{State: state}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { fmt.Fprintf(w, "Account %s is %s.\n", v.Name, v.State) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
