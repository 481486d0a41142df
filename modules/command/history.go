package command

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

func historyCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Lists the configurations that were in force",
		Long: `Lists the configurations that were in force, the newest first; the last 20 are
kept, with what brought each into force: start, a saved file, SIGHUP, or a command
and who says to have given it. "diff N M" shows what is different between two, "rollback N" puts one back.`,
		Example: "  fareway gateway history",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []admin.Configuration
			if err := to.call(cmd, "GET", "/fareway/configurations", nil, &list); err != nil {
				return err
			}
			return out.print(cmd, list, func(w io.Writer) {
				table(w, func(w io.Writer) {
					fmt.Fprintln(w, "number\tin force since\tcontent\tfiles\tby")
					for i, k := range list {
						now, same := "", ""
						if k.InForce {
							now = " (now)"
						}
						for _, older := range list[i+1:] {
							if older.ConfigHash == k.ConfigHash {
								same = fmt.Sprintf(" (as %d)", older.Number)
							}
						}
						fmt.Fprintf(w, "%d%s\t%s\t%.12s%s\t%d\t%s\n", k.Number, now, human.Moment(k.Since), k.ConfigHash, same,
							len(k.Files), orDash(k.By))
					}
				})
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func rollbackCommand() *cobra.Command {
	a := applying{rollback: true}
	cmd := &cobra.Command{
		Use:   "rollback [NUMBER]",
		Short: "Puts back a configuration that was in force",
		Long: `Puts back a configuration that was in force: the one of that number in history.
Without a number it puts back what serves, where something else is saved and does
not serve; otherwise the one before it, so that a second rollback undoes the first.
It shows what would change and asks, and watches, as apply does.

A saved text that does not serve is kept in a file beside it. So is a file that
would be included now and was not there then. Files that file("...") names are left
as they are: they may hold secrets, which are not kept.`,
		Example: "  fareway gateway rollback\n  fareway gateway rollback 12 --yes",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := a.which(cmd, args)
			if err != nil {
				return err
			}
			if !a.json {
				fmt.Fprintf(screen(cmd), "Back to configuration %d, which came into force %s.\n\n", k.Number,
					human.Moment(k.Since))
			}
			return a.run(cmd, admin.PlanRequest{Kept: k.Number})
		},
	}
	a.addFlags(cmd)
	return cmd
}

// which is the configuration to go back to.
func (t *target) which(cmd *cobra.Command, args []string) (admin.Configuration, error) {
	var none admin.Configuration
	if len(args) > 0 {
		number, err := configurationNumber(args[0])
		if err != nil {
			return none, err
		}
		var k admin.Configuration
		return k, t.call(cmd, "GET", fmt.Sprintf("/fareway/configurations/%d", number), nil, &k)
	}
	var list []admin.Configuration
	if err := t.call(cmd, "GET", "/fareway/configurations", nil, &list); err != nil {
		return none, err
	}
	for i, k := range list {
		if !k.InForce {
			continue
		}
		var saved admin.Plan
		if err := t.call(cmd, "POST", "/fareway/plan", admin.PlanRequest{Kept: k.Number}, &saved); err != nil {
			return none, err
		}
		if len(saved.Files) > 0 {
			return k, nil
		}
		if i+1 < len(list) {
			return list[i+1], nil
		}
	}
	return none, errors.New("no configuration is kept from before the one that serves: `fareway gateway history` lists " +
		"them")
}

func configurationNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is no number of a configuration: `fareway gateway history` lists them", text)
	}
	return n, nil
}

func diffCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "diff N M",
		Short:   "Shows what is different in the text of two configurations that were in force",
		Example: "  fareway gateway diff 11 12",
		Args:    exactly("N", "M"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var both [2]admin.Configuration
			for i, arg := range args {
				number, err := configurationNumber(arg)
				if err != nil {
					return err
				}
				if err := to.call(cmd, "GET", fmt.Sprintf("/fareway/configurations/%d", number), nil, &both[i]); err != nil {
					return err
				}
			}
			v := admin.DiffOf(both[0], both[1])
			return out.print(cmd, v, func(w io.Writer) {
				for _, f := range v.Files {
					fmt.Fprintf(w, "--- %s, configuration %d\n+++ %s, configuration %d\n%s", f.Path, v.From, f.Path, v.To, f.Diff)
				}
				if len(v.Files) == 0 {
					fmt.Fprintln(w, "Their texts are the same.")
				}
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
