package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/spool"
)

func ledgerSpoolCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "spool",
		Short: "Decides about settlements that the ledger could not take",
		Long: `While the ledger's database is away, settlements wait in a file beside it, the
spool, and come into the ledger when it is back. What cannot is kept aside until
an operator decides, and ` + "`ledger verify`" + ` fails until then:

  unknown_request  the ledger does not know the request: its database is an older
                   copy, perhaps. Bring the newer one back and start again, and it
                   is applied; otherwise ` + "`apply`" + ` charges its account.
  differs          the request was settled before, for less
  refused          the ledger refuses the settlement; the request is free so far
  damaged          a part of the file cannot be read. Look at what its requests
                   were charged, put it right, and discard it.`,
	})
	cmd.AddCommand(spoolListCommand(), spoolDecisionCommand(spool.Applied), spoolDecisionCommand(spool.Discarded))
	return cmd
}

func spoolListCommand() *cobra.Command {
	var (
		to  target
		out output
		all bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Lists what was kept aside and is not decided",
		Long: `Lists what was kept aside and waits for a decision, oldest first. It asks the
gateway that runs, and reads the files in the data folder when none does. With
--json it prints JSON lines; whole settlements and damaged bytes are in the file
that they name.`,
		Example: "  fareway gateway ledger spool list\n  fareway gateway ledger spool list --all --json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return to.read(cmd, func(c *admin.Client) error {
				if out.json {
					return c.Lines(cmd.Context(), asidePath, asideQuery(all), writeLines(cmd.OutOrStdout()))
				}
				return printAside(cmd, c, asideQuery(all))
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also what is decided")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// asidePath is what was kept aside, in the admin API.
const asidePath = "/fareway/ledger/spool"

func printAside(cmd *cobra.Command, c *admin.Client, query url.Values) error {
	w := screen(cmd)
	rows := newListing(w, column{title: "ID"}, column{title: "STATE"}, column{title: "KIND"}, column{title: "REQUEST"},
		column{title: "ACCOUNT"}, column{title: "CREDITS", align: right}, column{title: "WHY"})
	return printRows(w, "Nothing waits for a decision.", rows, func(add func(...string) error) error {
		return admin.ReadList(cmd.Context(), c, asidePath, query, func(v admin.Aside) error {
			return add(v.ID, v.State, string(v.Kind), orDash(requestOf(v)), orDash(accountOf(v)), comesTo(v), whyOf(v))
		})
	})
}

func asideQuery(all bool) url.Values {
	if !all {
		return nil
	}
	return url.Values{"all": {"true"}}
}

func requestOf(v admin.Aside) string {
	if v.Damage != nil {
		return strings.Join(v.Damage.Requests, " ")
	}
	return v.Request
}

func accountOf(v admin.Aside) string {
	if v.Account != "" {
		return v.Account
	}
	return v.AccountID
}

func comesTo(v admin.Aside) string {
	if v.Microcents == nil {
		return "-"
	}
	return human.Exact(*v.Microcents)
}

func whyOf(v admin.Aside) string {
	d := v.Damage
	if d == nil {
		return v.Why
	}
	why := fmt.Sprintf("%s: %s at %d of %s", v.Why, human.Count(int64(d.Bytes), "byte"), d.Offset, d.File)
	if d.Lost > 0 {
		why += ", " + human.Count(d.Lost, "settlement") + " lost"
	}
	return why
}

func spoolDecisionCommand(outcome spool.Outcome) *cobra.Command {
	var (
		to     target
		out    output
		reason string
		all    bool
		verb   = "apply"
		cmd    = &cobra.Command{
			Short: "Charges what was kept aside to its account, once",
			Long: `Charges what a settlement comes to and its request was not charged. Where the ledger
knows the request it is settled, or its proven usage charged as a receipt; otherwise
the account's balance is adjusted by the amount, with the reason and the request's
id as its reference, which the account takes once. That does not count for caps,
budgets and usage, nor does it ask fair use: a settlement at a limit of the service
(service_limit in --json) may have been free, or a part of it. Discard it to leave it
free.

It asks the gateway that runs, and changes the files in the data folder when none
does. Each decision is on the audit trail.`,
		}
	)
	if outcome == spool.Discarded {
		verb = "discard"
		cmd.Short = "Lets what was kept aside be: nobody is charged for it"
		cmd.Long = `Lets what was kept aside be: nobody is charged for it. It stays in the file, with who
decided and why, and no longer fails ` + "`ledger verify`" + `.

It asks the gateway that runs, and changes the files in the data folder when none
does. Each decision is on the audit trail.`
	}
	cmd.Use = verb + " ID... --reason TEXT"
	cmd.Example = fmt.Sprintf("  fareway gateway ledger spool %s aside_0123456789abcdef --reason 'ticket 4711'\n"+
		"  fareway gateway ledger spool %s --all --reason 'database restored from Sunday'", verb, verb)
	cmd.Args = func(cmd *cobra.Command, ids []string) error {
		switch {
		case len(ids) == 0 && !all:
			return fmt.Errorf("ID is missing, as in `%s`; --all is for all that wait", cmd.UseLine())
		case len(ids) > 0 && all:
			return errors.New("--all is for all that wait: leave it out, or the ids")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		views := []admin.Aside{}
		left := 0
		err := to.decide(cmd, func(c *admin.Client) (err error) {
			if all {
				if ids, left, err = decidable(cmd.Context(), c, outcome); err != nil {
					return err
				}
			}
			for _, id := range ids {
				var v admin.Aside
				path := asidePath + "/" + url.PathEscape(id) + "/" + verb
				if err := c.Call(cmd.Context(), "POST", path, admin.Decision{Reason: reason}, &v); err != nil {
					return err
				}
				views = append(views, v)
			}
			if len(views) == 0 && left > 0 {
				return fmt.Errorf("nothing was applied: %s cannot be; `fareway gateway ledger spool list` says why, "+
					"and `discard` decides about what stays so", human.Count(int64(left), "item"))
			}
			return nil
		})
		if err == nil || len(views) > 0 { // what was decided before an error is decided
			if err := out.print(cmd, views, func(w io.Writer) { printDecided(w, views, left) }); err != nil {
				return err
			}
		}
		return err
	}
	cmd.Flags().StringVar(&reason, "reason", "", "a `TEXT` that says why, for whoever reads the ledger")
	cmd.Flags().BoolVar(&all, "all", false, "all that wait for a decision")
	needs(cmd, "reason")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// decidable are the ids of all items that a decision is possible about; left is how many there are beside them.
func decidable(ctx context.Context, c *admin.Client, outcome spool.Outcome) (ids []string, left int, err error) {
	err = admin.ReadList(ctx, c, asidePath, nil, func(v admin.Aside) error {
		if outcome == spool.Applied && v.Microcents == nil {
			left++
			return nil
		}
		ids = append(ids, v.ID)
		return nil
	})
	return ids, left, err
}

func printDecided(w io.Writer, views []admin.Aside, left int) {
	for _, v := range views {
		switch {
		case v.State == string(spool.Discarded):
			fmt.Fprintf(w, "Discarded %s.\n", v.ID)
		case v.Decision.Microcents == 0:
			fmt.Fprintf(w, "Applied %s: the ledger has the settlement of request %s; nothing more was to be charged.\n",
				v.ID, v.Request)
		default:
			fmt.Fprintf(w, "Applied %s: account %s was charged %s for request %s.\n",
				v.ID, accountOf(v), human.Amount(v.Decision.Microcents), v.Request)
		}
	}
	if len(views) == 0 {
		fmt.Fprintln(w, "Nothing could be decided.")
	}
	if left > 0 {
		fmt.Fprintf(w, "%s cannot be applied: see `fareway gateway ledger spool list`.\n", human.Count(int64(left), "item"))
	}
}
