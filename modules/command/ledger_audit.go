package command

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

func ledgerAuditCommand() *cobra.Command {
	var (
		to     target
		out    output
		filter listFilter
	)
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Lists what operators did: who, when, what, before and after",
		Long: `Lists what operators did: who, when, what, before and after; oldest first.

Who it was is what they said themselves: whoever can use the admin socket or has
the admin token can say what they like. With --json it prints JSON lines.`,
		Example: "  fareway gateway ledger audit --account ann --since 30d\n  fareway gateway ledger audit --json | jq " +
			"'select(.action == \"credit.add\")'",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := filter.query()
			if err != nil {
				return err
			}
			return to.read(cmd, func(c *admin.Client) error {
				if out.json {
					return c.Lines(cmd.Context(), "/fareway/ledger/audit", query, writeLines(cmd.OutOrStdout()))
				}
				w := screen(cmd)
				return printRows(w, "There is nothing in the audit trail for this.", newListing(w,
					column{title: "TIME"}, column{title: "ACTOR"}, column{title: "ACTION"},
					column{title: "ACCOUNT"}, column{title: "SUBJECT"}, column{title: "CHANGE"}),
					func(add func(...string) error) error {
						return admin.ReadList(cmd.Context(), c, "/fareway/ledger/audit", query, func(a admin.Act) error {
							return add(human.Moment(a.Time), a.Actor, a.Action, orDash(a.Account), orDash(a.Subject), changeOf(a))
						})
					})
			})
		},
	}
	filter.addFlags(cmd)
	to.addFlags(cmd)
	to.addFromFlag(cmd)
	out.addFlag(cmd)
	return cmd
}

// changeOf writes what an act changed: "before -> after", or only what is new.
func changeOf(a admin.Act) string {
	before, after := text(a.Before), text(a.After)
	switch {
	case before == "":
		return after
	case after == "":
		return before + " -> -"
	}
	return before + " -> " + after
}

func text(v json.RawMessage) string {
	if string(v) == "null" {
		return ""
	}
	return string(v)
}
