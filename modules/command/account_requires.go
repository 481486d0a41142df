package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
)

func accountRequiresCommand() *cobra.Command {
	var (
		to        target
		out       output
		regions   []string
		retention string
		anyRoute  bool
	)
	cmd := &cobra.Command{
		Use:   "set-requires NAME [--region REGION]... [--retention none|DURATION] [--clear]",
		Short: "Sets what the routes of an account's requests must be",
		Long: `Sets what the routes of an account's requests must be: a floor that no request can
loosen, besides what the account's plan requires. An account can only demand more than
its plan. What is not given stays as it was; --clear takes away what was set before.

A route that does not say its region or its retention is out where that is required.
Where no route is left, every request of the account is refused, and nothing is charged.`,
		Example: "  fareway gateway account set-requires ann --region eu --retention none\n" +
			"  fareway gateway account set-requires ann --region eu,ch\n" +
			"  fareway gateway account set-requires ann --clear",
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var in admin.NewRequires
			if anyRoute {
				in = admin.NewRequires{Region: &[]string{}, Retention: new("")}
			}
			if cmd.Flags().Changed("region") {
				in.Region = &regions
			}
			if cmd.Flags().Changed("retention") {
				if retention == "" {
					return fmt.Errorf("--retention is empty: write \"none\", a duration such as 30d, or --clear")
				}
				in.Retention = &retention
			}
			if in.Region == nil && in.Retention == nil {
				return fmt.Errorf("--region or --retention is missing, or --clear, as in `%s`", cmd.UseLine())
			}
			var v admin.Account
			if err := to.call(cmd, "POST", accountPath(args[0])+"/requires", in, &v); err != nil {
				return err
			}
			if out.json {
				warnUnmet(cmd.ErrOrStderr(), v)
			}
			return out.print(cmd, v, func(w io.Writer) {
				own := requiresOf(v).Account
				if own.None() {
					fmt.Fprintf(w, "Account %s: nothing is required of routes but what its plan requires.\n", v.Name)
				} else {
					fmt.Fprintf(w, "Account %s: routes must be %s (set for the account).\n", v.Name, requiresText(own))
				}
				if r := v.Requires; r != nil && len(r.Routes) > 0 {
					fmt.Fprintf(w, "Routes that are, with what its plan requires: %s.\n", strings.Join(r.Routes, ", "))
				}
				warnUnmet(w, v)
			})
		},
	}
	cmd.Flags().StringSliceVar(&regions, "region", nil, "one of these is to be the route's `REGION`; several with commas")
	cmd.Flags().StringVar(&retention, "retention", "",
		"for how long the upstream may keep what it is sent: none, or a `DURATION` such as 30d")
	cmd.Flags().BoolVar(&anyRoute, "clear", false, "takes away what was set for the account before")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// requiresOf are what is required of the account's routes.
func requiresOf(v admin.Account) *admin.Requires {
	if v.Requires == nil {
		return new(admin.Requires)
	}
	return v.Requires
}

// warnUnmet says that no route is what is required.
func warnUnmet(w io.Writer, v admin.Account) {
	if r := v.Requires; r != nil && r.Routes != nil && len(r.Routes) == 0 {
		fmt.Fprintf(w, "Warning: no route is what is required: every request of %s is refused. Say region and retention of "+
			"the routes that are.\n", v.Name)
	}
}

// requiresText writes what is required of a route.
func requiresText(q config.Requires) string {
	regions, retention := q.Texts()
	var parts []string
	if len(regions) > 0 {
		parts = append(parts, "in "+strings.Join(regions, " or "))
	}
	switch {
	case q.Retention == nil:
	case *q.Retention == 0:
		parts = append(parts, "of retention none")
	default:
		parts = append(parts, "of a retention of at most "+retention)
	}
	return strings.Join(parts, " and ")
}

// printRequires writes what is required of the account's routes, and which they are.
func printRequires(w io.Writer, v admin.Account) {
	r := requiresOf(v)
	if !r.Account.None() {
		fmt.Fprintf(w, "routes must be\t%s (set for the account)\n", requiresText(r.Account))
	}
	if !r.Plan.None() {
		fmt.Fprintf(w, "routes must be\t%s (plan %s)\n", requiresText(r.Plan), v.Plan)
	}
	if r.Routes != nil {
		fmt.Fprintf(w, "routes that are\t%s\n", orNone(strings.Join(r.Routes, ", ")))
	}
}

// orNone says what it means that there is none.
func orNone(routes string) string {
	if routes == "" {
		return "none: every request is refused"
	}
	return routes
}
