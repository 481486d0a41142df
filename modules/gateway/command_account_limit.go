package gateway

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
)

func accountLimitCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "set-limit NAME LIMIT VALUE",
		Short: "Sets a limit of one account, over its plan",
		Long: `Sets a limit of one account, over its plan, within a second. The limits and their
values are those of a plan's block in the configuration:

` + limitHelp() + `
The beginning of a limit's name is enough where no other begins like it. 0 is no limit, and
no allowance for fair use. The value "none" takes the account's own limit away: then
its plan's holds again. ` + "`account show`" + ` says which limits hold and where they come from.`,
		Example: "  fareway gateway account set-limit ann spend_cap_credits 2000\n" +
			"  fareway gateway account set-limit ann requests_per_minute.key 60\n" +
			"  fareway gateway account set-limit ann spend-cap none",
		Args: exactly("NAME", "LIMIT", "VALUE"),
		Annotations: map[string]string{
			negativeNote: `a limit is a whole number from 0 on (0 is no limit), or "none" for what the account's plan says`,
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := findLimit(args[1])
			if err != nil {
				return err
			}
			value, err := limit.parse(args[2])
			if err != nil {
				return err
			}
			var v accountView
			if err := to.call(cmd, "POST", accountPath(args[0])+"/limit", newLimit{Limit: limit.name, Value: value}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Account %s: %s is %s%s.\n", v.Name, limit.name, limit.text(v.limits()), v.source(limit.name))
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// limitHelp lists the limits.
func limitHelp() string {
	var b strings.Builder
	for _, l := range accountLimits {
		fmt.Fprintf(&b, "  %-27s  %s\n", l.name, l.what)
	}
	return b.String()
}

func accountProfileCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "set-profile NAME " + strings.Join(config.ProfileNames(), "|") + "|" + inherit,
		Short: "Sets the routing profile of an account's requests that name none",
		Long: `Sets the routing profile of an account's requests that name none by header, model or
reasoning effort, over its plan's default_profile and the gateway's, within a second.
"none" takes it away: then the plan's holds again.`,
		Example: "  fareway gateway account set-profile ann max",
		Args:    exactly("NAME", "PROFILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v accountView
			if err := to.call(cmd, "POST", accountPath(args[0])+"/profile", newProfile{args[1]}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Account %s: requests that name no profile have %s%s.\n", v.Name, v.limits().DefaultProfile, v.source("default_profile"))
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
