package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/routing"
)

func routeShowCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "show [ROUTE]",
		Short: "Shows what was learned of routes, and what profiles make of them",
		Long: `Shows what was learned of the routes of the gateway that runs, by kind of work:

  QUALITY   as the configuration says
  WORKED    replies that were what they should, as far as that shows
  FAILED    those that were not: calls of tools that were no JSON or did not fit,
            refusals by the upstream's content policy, empty replies; and for less,
            failures of the upstream, tools that failed, prompts asked again
  GOOD BAD  what ` + "`gateway route feedback`" + ` was told
  EXPECTED  the quality that is reckoned with now. It follows the counts once a
            minute, in steps of 0.02

What was seen counts half after a day, and at most as 100 replies; what people said
half after 30 days, and at most as 40. At worst a quality is halved by what was seen.
WORKED and FAILED are what counts: of four accounts and more, each for a quarter at most,
two or three alike. What a client can bring about by itself (calls that do not fit,
refusals, empty replies, tools that failed, prompts asked again) counts only beside
outcomes of another account.
` + "`learn = false`" + ` in a route's quality block turns it off.

Then it says how attempts went on this node since its process began: how many there were,
how many failed and of what, and the median and the 95th percentile of the seconds to the
first token and of whole attempts.

Below it, without a ROUTE, is what each profile makes of usual requests (the reference
workload of the model that predicts): its rate, the mean of the expected quality, what
1,000 requests are expected to cost, and which share of them each route gets. A route's
utility for a request is its expected quality less the rate for each time the price that
the request has on the dearest route; the largest is taken. The rate follows from the
profile's weights and the routes, when the configuration is loaded: it is the largest
one at which quality / (cost + quality) of the way from the cheapest choices' mean
quality to the best is reached, within 0.025 and 5.`,
		Example: "  fareway gateway route show\n  fareway gateway route show small --json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("one ROUTE, or none for all of them: %q is too much", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var list []admin.LearnedRoute
			if err := to.call(cmd, "GET", "/fareway/routes", nil, &list); err != nil {
				return err
			}
			if len(args) == 1 {
				at := slices.IndexFunc(list, func(r admin.LearnedRoute) bool { return r.Name == args[0] })
				if at < 0 {
					return noRoute(args[0], list)
				}
				list = list[at : at+1]
			}
			v := shownRoutes{Routes: list}
			if len(args) == 0 {
				if err := to.call(cmd, "GET", "/fareway/profiles", nil, &v.Profiles); err != nil {
					return err
				}
			}
			return out.print(cmd, v, func(w io.Writer) {
				printRoutes(w, v.Routes)
				printProspects(w, v.Profiles)
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// shownRoutes are routes with what was learned of them and, where all are asked for, what profiles make of them.
type shownRoutes struct {
	Routes   []admin.LearnedRoute `json:"routes"`
	Profiles []routing.Prospect   `json:"profiles,omitempty"`
}

func noRoute(name string, list []admin.LearnedRoute) error {
	var names []string
	for _, r := range list {
		names = append(names, r.Name)
	}
	if near := config.Nearest(name, names); near != "" {
		return fmt.Errorf("there is no route %q: did you mean %q?", name, near)
	}
	return fmt.Errorf("there is no route %q: `fareway gateway route show` lists them", name)
}

func printRoutes(w io.Writer, list []admin.LearnedRoute) {
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "ROUTE\tMODEL\tKIND\tQUALITY\tWORKED\tFAILED\tGOOD\tBAD\tEXPECTED")
		for _, r := range list {
			for _, k := range r.Kinds {
				fmt.Fprintf(w, "%s\t%s\t%s\t%.3f\t%.1f\t%.1f\t%.1f\t%.1f\t%.3f\n", r.Name, r.Model, k.Kind, k.Quality,
					k.Worked, k.Failed, k.Good, k.Bad, k.Expected)
			}
		}
	})
	printCounted(w, list)
	var known []string
	for _, r := range list {
		if r.Known {
			known = append(known, r.Name)
		}
	}
	if len(list) > 0 {
		fmt.Fprintf(w, "Predicted by %s, which has seen answers of the models of: %s.\n", list[0].Predicted,
			orDash(strings.Join(known, ", ")))
	}
	for _, r := range list {
		if !r.Learns {
			fmt.Fprintf(w, "Route %s does not learn: learn = false in its quality block.\n", r.Name)
		}
	}
}

// printCounted writes how the attempts on routes went.
func printCounted(w io.Writer, list []admin.LearnedRoute) {
	tried := slices.DeleteFunc(slices.Clone(list), func(r admin.LearnedRoute) bool { return r.Counted.Attempts == 0 })
	if len(tried) == 0 {
		return
	}
	fmt.Fprintf(w, "\nAttempts since %s:\n", human.Moment(tried[0].Counted.Since))
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "ROUTE\tATTEMPTS\tFIRST TOKEN p50\tp95\tTOOK p50\tp95\tFAILED")
		for _, r := range tried {
			c := r.Counted
			var failed []string
			for _, kind := range slices.Sorted(maps.Keys(c.Failed)) {
				failed = append(failed, fmt.Sprintf("%d %s", c.Failed[kind], kind))
			}
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", r.Name, c.Attempts, secondsText(c.FirstTokenP50),
				secondsText(c.FirstTokenP95), secondsText(c.TookP50), secondsText(c.TookP95), orDash(strings.Join(failed, ", ")))
		}
	})
	fmt.Fprintln(w)
}

// secondsText is a time in seconds, nil where there is none.
func secondsText(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f s", *v)
}

func routeFeedbackCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "feedback REQUEST_ID good|bad",
		Short: "Says whether the reply to a request was good, for routes to be chosen by",
		Long: `Says whether the reply to a request was good. It counts for the route that answered, at
the kinds of work that the request was of: those are remembered for a day, of the last
8,192 requests; of an older one all kinds count alike. The last word about a request
counts. ` + "`gateway route show`" + ` shows what came of it, within a minute. It is on the audit
trail.`,
		Example: "  fareway gateway route feedback req_0123456789abcdef0123456789abcdef bad",
		Args:    exactly("REQUEST_ID", "good|bad"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var v admin.Learned
			in := admin.Feedback{Request: args[0], Verdict: args[1]}
			if err := to.call(cmd, "POST", "/fareway/routes/feedback", in, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "The reply to %s was %s: that counts for route %s.\n", v.Request, v.Verdict, v.Route)
			})
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}
