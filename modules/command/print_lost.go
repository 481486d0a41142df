package command

import (
	"fmt"
	"io"
	"math"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/routing"
)

// writeRate writes what the profile's rate is, and what it makes of the routes.
func writeRate(w io.Writer, v *admin.Explanation) {
	switch {
	case v.Rate == nil:
		fmt.Fprintln(w, "Only cost counts with this profile: the cheapest is first.")
	case *v.Rate == 0:
		fmt.Fprintln(w, "Cost does not count: the best is first, and of equal ones the cheapest.")
	default:
		fmt.Fprintf(w, "Rate %.3f: %s.\nUtility is quality less %.3f for each US$%s, which this request would cost there; "+
			"the largest is first.\n", *v.Rate, rateWords(v.Rate, v.Unit), *v.Rate, inDollars(v.UnitCost))
	}
}

// rateWords says what a rate means.
func rateWords(rate *float64, unit string) string {
	switch {
	case rate == nil:
		return "only cost counts"
	case *rate == 0:
		return "cost does not count"
	}
	if *rate < 1 {
		return fmt.Sprintf("the dearest route, %s, must bring %.3f more quality than a free one to be taken", unit, *rate)
	}
	return fmt.Sprintf("a tenth of the price of the dearest route, %s, must bring %.3f more quality to be paid; "+
		"its whole price no quality would bring", unit, *rate/10)
}

// writeLost writes what would have to change for another first choice.
func writeLost(w io.Writer, v *admin.Explanation) {
	if len(v.Candidates) < 2 {
		return
	}
	fmt.Fprintln(w, "\nWhat would have to change for this request, at this rate (a changed file has others, see `plan`):")
	for _, c := range v.Candidates {
		if c.Lost != nil {
			fmt.Fprintf(w, "  %s: %s.%s\n", c.Route, c.Lost.Reason, lostWords(c.Lost))
		}
	}
	for _, turn := range []struct {
		t    *routing.Turn
		word string
	}{{v.Harder, "harder"}, {v.Easier, "easier"}} {
		if turn.t != nil {
			fmt.Fprintf(w, "If the request were %.2f %s, %s would be first.\n", turn.t.By, turn.word, turn.t.Route)
		}
	}
}

// lostWords are what would make a candidate the first choice, "" where nothing by itself would.
func lostWords(l *routing.Lost) string {
	switch {
	case l.Better != nil && *l.Better == 0:
		return " It would be first if it were any better or cheaper."
	case l.Better != nil && l.Price != nil:
		return fmt.Sprintf(" It would be first if it were expected to be %s better, or at %s.", upTo(*l.Better),
			priceWords(*l.Price))
	case l.Better != nil:
		return fmt.Sprintf(" It would be first if it were expected to be %s better; at no price as it is.", upTo(*l.Better))
	case l.Price != nil:
		return fmt.Sprintf(" It would be first at %s.", priceWords(*l.Price))
	}
	return ""
}

// upTo is a quality, rounded up so that it is enough.
func upTo(quality float64) string { return fmt.Sprintf("%.3f", math.Ceil(quality*1000)/1000) }

// priceWords is a share of a price, in words where it is about one that has a name, and never more than the share.
func priceWords(share float64) string {
	for _, named := range []struct {
		share float64
		name  string
	}{{1. / 2, "half"}, {1. / 3, "a third of"}, {1. / 4, "a quarter of"}, {1. / 5, "a fifth of"}, {1. / 10, "a tenth of"},
		{1. / 20, "a twentieth of"}, {1. / 100, "a hundredth of"}} {
		if share >= named.share && share < 1.1*named.share {
			return named.name + " its price"
		}
	}
	if share < 0.01 {
		return "less than a hundredth of its price"
	}
	return fmt.Sprintf("%.0f%% of its price", math.Floor(100*share))
}
