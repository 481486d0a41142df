package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
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
			limit, err := admin.FindLimit(args[1])
			if err != nil {
				return err
			}
			value, err := admin.ParseLimit(limit, args[2])
			if err != nil {
				return err
			}
			var v admin.Account
			if err := to.call(cmd, "POST", accountPath(args[0])+"/limit", admin.NewLimit{Limit: limit.Name, Value: value},
				&v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Account %s: %s is %s%s.\n", v.Name, limit.Name, limitText(limit, limitsOf(v)),
					sourceOf(v, limit.Name))
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
	for _, l := range config.AccountLimits {
		fmt.Fprintf(&b, "  %-27s  %s\n", l.Name, l.What)
	}
	return b.String()
}

func accountProfileCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "set-profile NAME " + strings.Join(config.ProfileNames(), "|") + "|" + admin.Inherit,
		Short: "Sets the routing profile of an account's requests that name none",
		Long: `Sets the routing profile of an account's requests that name none by header, model or
reasoning effort, over its plan's default_profile and the gateway's, within a second.
"none" takes it away: then the plan's holds again.`,
		Example: "  fareway gateway account set-profile ann max",
		Args:    exactly("NAME", "PROFILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v admin.Account
			if err := to.call(cmd, "POST", accountPath(args[0])+"/profile", admin.NewProfile{Profile: args[1]}, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Account %s: requests that name no profile have %s%s.\n", v.Name, limitsOf(v).DefaultProfile,
					sourceOf(v, "default_profile"))
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
