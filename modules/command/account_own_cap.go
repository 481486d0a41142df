package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

func accountOwnCapCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "set-own-cap NAME CREDITS|none",
		Short: "Sets the spend cap that an account's owner wants for it",
		Long: `Sets what an account may spend in a period by the wish of its owner, who can do so in the
portal, too. It is below the cap that its plan or ` + "`account set-limit`" + ` gives it, and only ever lowers
that: whatever the operator changes afterwards, the lower of both holds. "none" takes it away.`,
		Example: "  fareway gateway account set-own-cap ann 500\n" +
			"  fareway gateway account set-own-cap ann none",
		Args: exactly("NAME", "CREDITS"),
		Annotations: map[string]string{
			negativeNote: `a cap is a whole number of credits from 1 on, or "none"`,
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var in admin.NewOwnCap
			if args[1] != admin.Inherit {
				n, err := strconv.ParseInt(strings.ReplaceAll(args[1], ",", ""), 10, 64)
				if err != nil {
					return fmt.Errorf("cap %q: it is a whole number of credits from 1 on, or %q", args[1], admin.Inherit)
				}
				in.Credits = &n
			}
			var v admin.Account
			if err := to.call(cmd, "POST", accountPath(args[0])+"/own-cap", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Account %s: %s%s.\n", v.Name, ownCapText(limitsOf(v).SpendCapCredits),
					sourceOf(v, "spend_cap_credits"))
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// ownCapText says what may be spent, 0 for as much as there is.
func ownCapText(credits int64) string {
	if credits == 0 {
		return "a period has no spend cap"
	}
	return "at most " + human.Count(credits, "credit") + " may be spent in a period"
}
