package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/human"
)

// askReplan asks the gateway what a configuration would have made of requests since a time.
func askReplan(cmd *cobra.Command, to *target, file string, from time.Time) (*decisions.Comparison, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the new configuration: %w", err)
	}
	c, err := to.client()
	if err != nil {
		return nil, err
	}
	bar := io.Discard
	if human.IsTerminal(cmd.ErrOrStderr()) {
		bar = cmd.ErrOrStderr()
	}
	var last *decisions.Comparison
	err = c.PostLines(cmd.Context(), "/fareway/replay", admin.ReplayRequest{Text: string(text), Since: from},
		func(line []byte) error {
			var v admin.Replay
			if err := json.Unmarshal(line, &v); err != nil {
				return fmt.Errorf("reading the gateway's answer: %w", err)
			}
			if last = v.Comparison; last == nil {
				_, err = io.WriteString(bar, progress(v.Done, v.Of, "request"))
			}
			return err
		})
	_, _ = io.WriteString(bar, clearLine) // the bar is for as long as it lasts
	if err == nil && last == nil {
		err = errors.New("the gateway did not say what came of it: is it of another version?")
	}
	return last, err
}

// clearLine takes a bar away.
const clearLine = "\r\x1b[K"

// progress is a bar of things, in place of the one before it.
func progress(done, of int64, thing string) string {
	const width = 30
	full := 0
	if of > 0 {
		full = int(width * min(done, of) / of)
	}
	return fmt.Sprintf("\r[%s%s] %s of %s", strings.Repeat("=", full), strings.Repeat(" ", width-full),
		human.Thousands(done), human.Count(of, thing))
}

// printReplay shows people what two configurations make of the same requests.
func printReplay(w io.Writer, c *decisions.Comparison) {
	fmt.Fprintln(w)
	if c.Requests == 0 {
		fmt.Fprintf(w, "Of requests since %s nothing is remembered: see decision_log.\n", human.Moment(c.Since))
		return
	}
	fmt.Fprintf(w, "%s since %s, routed again by what serves and by this:\n\n", human.Count(c.Requests, "request"),
		human.Moment(c.Since))
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "\tSERVES\tNEW\t")
		line := func(what, before, after, change string) {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", what, before, after, change)
		}
		money := func(what string, before, after int64) {
			line(what, inUSD(before), inUSD(after), percent(float64(before), float64(after)))
		}
		money("expected charges, US$", c.Before.Charged, c.After.Charged)
		money("expected cost, US$", c.Before.Cost, c.After.Cost)
		money("expected margin, US$", c.Before.Margin, c.After.Margin)
		if c.Before.ShadowCost+c.After.ShadowCost > 0 {
			money("shadows besides, US$", c.Before.ShadowCost, c.After.ShadowCost)
			line("shadow calls", human.Thousands(c.Before.Shadows), human.Thousands(c.After.Shadows), "")
		}
		line("expected quality", fmt.Sprintf("%.4f", c.Before.Quality), fmt.Sprintf("%.4f", c.After.Quality),
			percent(c.Before.Quality, c.After.Quality))
		line("refused", human.Thousands(refusals(&c.Before)), human.Thousands(refusals(&c.After)), "")
	})
	fmt.Fprintln(w)
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "ROUTE\tSERVES\tNEW\t")
		for _, name := range routesOf(c) {
			fmt.Fprintf(w, "%s\t%s\t%s\t\n", name, human.Thousands(sharedTo(&c.Before, name)),
				human.Thousands(sharedTo(&c.After, name)))
		}
	})
	if len(c.Shifts) > 0 {
		fmt.Fprintln(w, "\nRequests that would go elsewhere:")
		for _, s := range c.Shifts {
			fmt.Fprintf(w, "  %s -> %s: %s\n", orRefused(s.From), orRefused(s.To), human.Thousands(s.Requests))
		}
	}
	for _, r := range c.After.Refused {
		fmt.Fprintf(w, "\nRefused by this, %s: %s.\n", human.Count(r.Requests, "request"), r.Reason)
	}
	for _, u := range c.After.Unjudged {
		fmt.Fprintf(w, "\nStrategy %s was passed over for %s: its `when` asks what is not recorded (%s).\n", u.Strategy,
			human.Count(u.Requests, "request"), u.Why)
	}
	fmt.Fprintf(w, "\nReally they were charged US$%s and cost US$%s. Expected is what the tokens that were used come to "+
		"by today's prices.\n", inUSD(c.Charged), inUSD(c.Cost))
	if c.Unread > 0 {
		fmt.Fprintf(w, "Judged by what the file says of routes alone: %s, for which no quality was predicted.\n",
			human.Count(c.Unread, "request"))
	}
	if more := c.After.Unread - c.Unread; more > 0 {
		fmt.Fprintf(w, "Left out of what %s predicts: %s more, which another model has read. There, what the file says of "+
			"routes counts alone, so that the two sides do not compare.\n", c.After.Model, human.Count(more, "request"))
	}
	if more := c.Before.Unread - c.Unread; more > 0 {
		fmt.Fprintf(w, "Left out of what %s predicts: %s more, which another model has read.\n", c.Before.Model,
			human.Count(more, "request"))
	}
	if c.Unpaid > 0 {
		fmt.Fprintf(w, "Left out: %s that credits or limits refused.\n", human.Count(c.Unpaid, "request"))
	}
}

// inUSD writes microcents as dollars.
func inUSD(microcents int64) string { return inDollars(float64(microcents)) }

// percent is how much more the second is, "" where that says nothing.
func percent(before, after float64) string {
	if before == 0 || before == after {
		return ""
	}
	return fmt.Sprintf("%+.1f%%", 100*(after/before-1))
}

func refusals(s *decisions.Side) (n int64) {
	for _, r := range s.Refused {
		n += r.Requests
	}
	return n
}

func sharedTo(s *decisions.Side, route string) int64 {
	for _, r := range s.Routes {
		if r.Route == route {
			return r.Requests
		}
	}
	return 0
}

// routesOf are the routes of both sides, those of the new one first.
func routesOf(c *decisions.Comparison) (names []string) {
	for _, side := range [...]*decisions.Side{&c.After, &c.Before} {
		for _, r := range side.Routes {
			if side == &c.After || sharedTo(&c.After, r.Route) == 0 {
				names = append(names, r.Route)
			}
		}
	}
	return names
}

func orRefused(route string) string {
	if route == "" {
		return "refused"
	}
	return route
}
