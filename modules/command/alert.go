package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/human"
)

func alertCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "alert",
		Short:   "Shows what somebody must hear of, and whether they do",
		Example: "  fareway gateway alert list",
	}
	cmd.AddCommand(alertListCommand())
	return group(cmd)
}

func alertListCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Lists the alerts that are raised, the destinations and the events",
		Long: `Lists what is raised now and since when, the destinations of the block alerts with
what waits for them and why, what was given up, and the events: when each is told,
and whom. What is raised is shown also where nobody is told.`,
		Example: "  fareway gateway alert list\n  fareway gateway alert list --json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var v admin.Alerts
			if err := to.call(cmd, "GET", "/fareway/alerts", nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printAlerts(w, v) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// alertLabel is what people call what an alert is about.
func alertLabel(a *alerts.Alert) string { return orDash(cmp.Or(a.Name, a.Subject)) }

func printAlerts(w io.Writer, v admin.Alerts) {
	if v.Idle != "" {
		fmt.Fprintf(w, "%s\n\n", sentence(v.Idle))
	} else if !v.Active {
		fmt.Fprint(w, "This process does not look yet: one before it still has the outbox, or its lock cannot be taken.\n\n")
	}
	if v.Problem != "" {
		fmt.Fprintf(w, "%s\n\n", sentence(v.Problem))
	}
	if len(v.Alerts) == 0 {
		fmt.Fprintln(w, "Nothing is raised.")
	} else {
		table(w, func(w io.Writer) {
			fmt.Fprintln(w, "RAISED\tABOUT\tSINCE\tTOLD\tWHAT")
			for i := range v.Alerts {
				a := &v.Alerts[i]
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", a.Event, alertLabel(a), human.Moment(a.Since), toldText(a), a.Text)
			}
		})
	}
	for event, n := range v.Beyond {
		fmt.Fprintf(w, "%s of %s are not listed.\n", human.Count(n, "more alert"), event)
	}
	fmt.Fprintln(w)
	if len(v.Destinations) == 0 {
		fmt.Fprintln(w, "Nobody is told: the configuration has no block alerts with a webhook or mail in it.")
	} else {
		table(w, func(w io.Writer) {
			fmt.Fprintln(w, "DESTINATION\tADDRESS\tWAITING\tSTATE")
			for i := range v.Destinations {
				d := &v.Destinations[i]
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", d.Key, d.Address, d.Waiting, destinationState(d))
			}
		})
	}
	if len(v.GivenUp) > 0 {
		fmt.Fprintln(w)
		table(w, func(w io.Writer) {
			fmt.Fprintln(w, "GIVEN UP\tDESTINATION\tWRITTEN\tWHY")
			for _, g := range v.GivenUp {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g.Type, g.Destination, human.Moment(g.Written), g.Why)
			}
		})
	}
	fmt.Fprintln(w)
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "EVENT\tSEVERITY\tABOUT\tHOLDS FOR\tTOLD TO")
		for _, e := range v.Events {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Name, e.Severity, e.About, e.For,
				orDash(strings.Join(e.Destinations, ", ")))
		}
	})
}

// toldText says whether somebody was told of an alert.
func toldText(a *alerts.Alert) string {
	switch {
	case a.Elsewhere:
		return "by another node"
	case a.Told == nil && a.OwnerTold == nil:
		return "no"
	case a.Told == nil:
		return "its owner, " + human.Moment(*a.OwnerTold)
	case a.OwnerTold != nil:
		return human.Moment(*a.Told) + ", and its owner"
	}
	return human.Moment(*a.Told)
}

// destinationState says how a destination does.
func destinationState(d *alerts.Destination) string {
	switch {
	case d.Disabled != nil:
		return fmt.Sprintf("TOLD NOTHING since %s: %s; `%s` tries it", human.Moment(d.Disabled.Since), d.Disabled.Why,
			gateway.Own("fareway gateway hook test "+d.Name))
	case d.Failing != nil:
		text := fmt.Sprintf("FAILING since %s: %s", human.Moment(*d.Failing), orDash(d.Error))
		if d.Next != nil {
			text += "; tried again at " + human.Moment(*d.Next)
		}
		return text
	case d.Waiting > 0:
		return "on its way"
	}
	return "nothing waits"
}

func hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "hook",
		Short:   "Tests the destinations of alerts",
		Example: "  fareway gateway hook test",
	}
	cmd.AddCommand(hookTestCommand())
	return group(cmd)
}

func hookTestCommand() *cobra.Command {
	var (
		to  target
		out output
		in  admin.HookTest
	)
	cmd := &cobra.Command{
		Use:   "test [NAME]",
		Short: "Sends a test to the destinations of alerts, and says what comes back",
		Long: `Sends a message of type "test" to the webhooks and mails of the block alerts, or to
those of a name, from the gateway that runs: by its network, with its secrets. It
says what came back, and fails where one did not take the message. A destination
that takes it is told again of what waits for it, also where it had said that it is
gone. With --account the test goes to that account's own addresses instead, by the
mail that has accounts = true. Tests are on the audit trail.`,
		Example: "  fareway gateway hook test\n  fareway gateway hook test ops\n  fareway gateway hook test --account ann",
		Args: func(cmd *cobra.Command, args []string) error {
			return exactly([]string{"NAME"}[:min(len(args), 1)]...)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				in.Name = args[0]
			}
			var v admin.HooksTested
			if err := to.call(cmd, "POST", "/fareway/hooks/test", in, &v); err != nil {
				return err
			}
			if err := out.print(cmd, v, func(w io.Writer) { printTested(w, v) }); err != nil {
				return err
			}
			failed := 0
			for _, r := range v.Results {
				if !r.Delivered {
					failed++
				}
			}
			if failed > 0 {
				return fmt.Errorf("%d of %s did not take the test", failed, human.Count(len(v.Results), "destination"))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&in.Account, "account", "", "the `ACCOUNT` whose owner is sent the test, by name or id")
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func printTested(w io.Writer, v admin.HooksTested) {
	for _, r := range v.Results {
		text := "NOT DELIVERED"
		if r.Delivered {
			text = "delivered"
		}
		text += fmt.Sprintf(" after %d ms", r.TookMS)
		if r.Status > 0 {
			text += fmt.Sprintf(", status %d", r.Status)
		}
		if r.TLS != "" {
			text += ", " + r.TLS
		} else if r.Delivered {
			text += ", without TLS"
		}
		if r.Error != "" {
			text += ": " + r.Error
		}
		fmt.Fprintf(w, "%s (%s): %s\n", r.Destination, r.Address, text)
	}
}
