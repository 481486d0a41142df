package command

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/routing"
)

// printProspects writes a line for each profile: its rate, what it makes of the reference workload, and what the rate
// means.
func printProspects(w io.Writer, list []routing.Prospect) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\nOf usual requests (the reference workload), as expected:")
	table(w, func(w io.Writer) {
		names := sharedRoutes(list)
		fmt.Fprintf(w, "PROFILE\tRATE\tQUALITY\tUS$ FOR 1,000\t%s\n", strings.Join(names, "\t"))
		for i := range list {
			p := &list[i]
			fmt.Fprintf(w, "%s\t%s\t%.3f\t%s", p.Profile, rateText(p.Rate), p.Quality, forThousand(p.Microcents))
			for _, name := range names {
				fmt.Fprintf(w, "\t%s", shareOf(p.ShareOf(name)))
			}
			fmt.Fprintln(w)
		}
	})
	for i := range list {
		p := &list[i]
		fmt.Fprintf(w, "%s: %s.\n", p.Profile, prospectWords(p))
	}
}

// prospectWords says what a profile's rate means, and where it comes from if not from the weights.
func prospectWords(p *routing.Prospect) string {
	words := rateWords(p.Rate, p.Unit)
	switch {
	case len(p.Routes) == 1: // and nothing to weigh
		words = p.Why
	case p.Why != "":
		words += " (" + p.Why + ")"
	}
	if p.Refused > 0 {
		words += fmt.Sprintf("; no route can take %s of the requests", shareOf(p.Refused))
	}
	return words
}

// sharedRoutes are the routes and strategies that any profile sends requests to, or could.
func sharedRoutes(list []routing.Prospect) (names []string) {
	for i := range list {
		for _, r := range list[i].Routes {
			if !slices.Contains(names, r.Route) {
				names = append(names, r.Route)
			}
		}
	}
	return names
}

// printProfileChanges writes what would change of the profiles.
func printProfileChanges(w io.Writer, list []admin.ProfileChange) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\nOf usual requests (the reference workload), as expected:")
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "PROFILE\t\tRATE\tQUALITY\tUS$ FOR 1,000\tROUTES")
		for _, c := range list {
			for _, side := range [...]struct {
				word string
				p    *routing.Prospect
			}{{"serves", c.Before}, {"new", c.After}} {
				var shares []string
				for _, r := range side.p.Routes {
					if math.Round(1000*r.Share) > 0 {
						shares = append(shares, fmt.Sprintf("%s %s", r.Route, shareOf(r.Share)))
					}
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%.3f\t%s\t%s\n", c.Profile, side.word, rateText(side.p.Rate), side.p.Quality,
					forThousand(side.p.Microcents), strings.Join(shares, ", "))
			}
		}
	})
	for _, c := range list {
		fmt.Fprintf(w, "%s: %s.\n", c.Profile, prospectWords(c.After))
	}
	fmt.Fprintln(w)
}

// rateText is a rate in a table.
func rateText(rate *float64) string {
	if rate == nil {
		return "cost only"
	}
	return fmt.Sprintf("%.3f", *rate)
}
