package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/routing"
)

func writeExplanation(w io.Writer, v *admin.Explanation) {
	if v.Request != nil {
		writeDecided(w, v)
	}
	fmt.Fprintf(w, "%s request, profile %s: %d input tokens", v.Family, v.Profile.Name, v.InputTokens)
	if v.Allowance > 0 {
		fmt.Fprintf(w, ", an allowance of %d", v.Allowance)
	}
	if len(v.Needs) > 0 {
		fmt.Fprintf(w, ", needs %s", strings.Join(v.Needs, " and "))
	}
	if len(v.Specialties) > 0 {
		fmt.Fprintf(w, "; for routes kept for %s", strings.Join(v.Specialties, " and "))
	}
	fmt.Fprintln(w, ".")
	fmt.Fprintf(w, "Predicted by %s.\n", v.Model)
	writeClassifier(w, v)
	switch kinds := kindsText(v.Kinds); {
	case v.Request != nil && v.Request.OtherModel:
		fmt.Fprintf(w, "Another model has read it (signals %s): quality and output are what the file and usual requests let "+
			"expect.\n", v.Request.Signals)
	case kinds == "" && len(v.Candidates) > 0:
		fmt.Fprintln(w, "Nothing was predicted of it: quality and output are what the file and usual requests let expect.")
	case kinds != "":
		fmt.Fprintf(w, "It looks like %s, with a difficulty of %.2f; %.0f%% of what is known of such text counts.\n", kinds,
			v.Difficulty, 100*v.Trust)
	}
	switch {
	case v.KeepFrom > 0:
		fmt.Fprintf(w, "keep_quality = %g: the cheapest route of an expected quality of at least %.3f is first.\n",
			v.Profile.KeepQuality, v.KeepFrom)
	case v.Refusal == "":
		writeRate(w, v)
	}
	if text, ok := stays[v.Stay]; ok {
		fmt.Fprintln(w, text)
	}
	if v.Refusal != "" {
		fmt.Fprintf(w, "No route can take it: %s.\n", v.Refusal)
	}
	if v.NotCovered != nil {
		fmt.Fprintf(w, "The account does not cover the first choice, which can come to US$%s: it gets 402 "+
			"budget_exceeded.\n", inDollars(float64(*v.NotCovered)))
	}
	writeStrategies(w, v.Strategies)
	if h := v.Hedge; h != nil {
		fmt.Fprintf(w, "\nWhere %s has shown nothing after %s, %s is called beside it, for %g%% of the requests at most.\n",
			h.First, hedgeText(h.After), h.Second, 100*v.Profile.HedgeShare)
	}
	writeShadow(w, v)
	if len(v.Candidates) > 0 {
		fmt.Fprintln(w)
		table(w, func(w io.Writer) {
			fmt.Fprintln(w, "ROUTE\tQUALITY\tCODE\tMATH\tTOOLS\tWRITING\tINPUT\tOUTPUT\tCOST\tHOLD\tALLOWANCE\tUTILITY\t")
			for _, c := range v.Candidates {
				k := c.ByKind
				fmt.Fprintf(w, "%s\t%.3f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%.0f\t%s\t%s\t%d\t%.3f\t%s\n", c.Route, c.Quality,
					k[config.KindCode], k[config.KindMath], k[config.KindTools], k[config.KindWriting], v.InputTokens+c.Template,
					c.Output, inDollars(c.Cost), inDollars(float64(c.Hold)), c.Allowance, c.Utility, remarks(&c))
			}
		})
		fmt.Fprintln(w, "\nCost is what is expected, hold what is set aside until it is known, both in US dollars.")
		writeLost(w, v)
	}
	if len(v.Rejected) > 0 {
		fmt.Fprintln(w, "\nNot tried:")
		for _, r := range v.Rejected {
			fmt.Fprintf(w, "  %s: %s.\n", r.Route, r.Reason)
		}
		if len(v.Waits) > 0 {
			fmt.Fprintf(w, "A request that no other route can take waits for %s.\n", strings.Join(v.Waits, ", then "))
		}
	}
	if v.Request != nil && len(v.Request.Elsewhere) > 0 {
		fmt.Fprintln(w, "\nWhat it would have come to on each route, in US dollars:")
		table(w, func(w io.Writer) {
			fmt.Fprintln(w, "  ROUTE\tOUTPUT\tCHARGE\tCOST\t")
			for _, e := range v.Request.Elsewhere {
				there := ""
				if e.Route == answeredBy(v.Request) {
					there = "it was there"
				}
				fmt.Fprintf(w, "  %s\t%d\t%s\t%s\t%s\n", e.Route, e.Output, inDollars(float64(e.Microcents)),
					inDollars(float64(e.Cost)), there)
			}
		})
	}
}

// writeClassifier says what part the provider has that predicts.
func writeClassifier(w io.Writer, v *admin.Explanation) {
	said := slices.ContainsFunc(v.Candidates, func(c routing.Explained) bool { return c.Classified })
	switch {
	case v.Classifier == "":
	case v.Request != nil:
		fmt.Fprintf(w, "What provider %q said of it is not kept: the qualities are what the model alone lets expect.\n",
			v.Classifier)
	case v.Unclassified != "":
		fmt.Fprintf(w, "Provider %q has not predicted: %s.\n", v.Classifier, strings.TrimSuffix(v.Unclassified, "."))
	case said:
		fmt.Fprintf(w, "The qualities of routes with the remark \"classified\" are what provider %q says.\n", v.Classifier)
	default:
		fmt.Fprintf(w, "Provider %q knows nothing of it.\n", v.Classifier)
	}
}

// writeStrategies writes the strategies, and which one it goes through.
func writeStrategies(w io.Writer, list []routing.ExplainedStrategy) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "\nStrategies:")
	for _, s := range list {
		fmt.Fprintf(w, "  %s: %s", s.Strategy, s.What)
		if s.Hold > 0 {
			fmt.Fprintf(w, "; quality %.3f, cost %s, hold %s", s.Quality, inDollars(s.Cost), inDollars(float64(s.Hold)))
		}
		if s.Utility != nil {
			fmt.Fprintf(w, ", utility %.3f", *s.Utility)
		}
		if s.Chosen {
			fmt.Fprintln(w, ".\n    It goes through this one; the routes below are what is fallen back on.")
		} else {
			fmt.Fprintf(w, ".\n    Not used: %s.\n", s.Reason)
		}
	}
}

// writeShadow writes which route it is compared with, or what came of that.
func writeShadow(w io.Writer, v *admin.Explanation) {
	if v.Request != nil {
		s := v.Request.Shadow
		switch {
		case s == nil:
		case s.Result != "answered":
			fmt.Fprintf(w, "Shadow: no reply of %s is there for comparison (%s); it cost US$%s.\n", s.Route, s.Result,
				inDollars(float64(s.Cost)))
		default:
			output := int64(0)
			if s.Usage != nil {
				output = s.Usage.Output
			}
			fmt.Fprintf(w, "Shadow: for comparison %s answered as well, with %d tokens out, in %d ms (the first after %d) "+
				"where the reply took %d (%d), finish %s where the reply had %s. It cost you US$%s and nobody else anything.\n",
				s.Route, output, s.Took, s.First, s.Reply.Took, s.Reply.First, s.Finish, s.Reply.Finish, inDollars(float64(s.Cost)))
		}
		return
	}
	switch s := v.Shadow; {
	case s == nil:
	case s.Reason != "":
		fmt.Fprintf(w, "Shadow: it is not compared with %s: %s.\n", s.Route, s.Reason)
	default:
		fmt.Fprintf(w, "Shadow: %g%% of such requests are sent to %s as well, for comparison and at your cost.\n",
			100*s.Share, s.Route)
	}
}

// hedgeText is when a call is late, in words.
func hedgeText(h config.Hedge) string {
	if h.Quantile > 0 {
		return fmt.Sprintf("the time in which %.0f%% of its first tokens come", 100*h.Quantile)
	}
	return h.String()
}

// stays say why a conversation is where it is.
var stays = map[routing.Stay]string{
	routing.StayLoop:  "It answers tool calls, and stays on the route that made them.",
	routing.StayHome:  "Its conversation stays on its route: no other one gains what a cold cache costs.",
	routing.StayMoved: "Its conversation moves: the first one gains more than its cold cache costs.",
	routing.StayGone:  "Its conversation's route cannot serve it.",
}

// writeDecided writes what became of a request.
func writeDecided(w io.Writer, v *admin.Explanation) {
	r := v.Request
	fmt.Fprintf(w, "Request %s, %s: ", r.ID, human.Moment(r.Time))
	switch {
	case r.Refused != "":
		fmt.Fprintf(w, "refused with %d %s.\n", r.Status, r.Refused)
	case len(r.Attempts) == 0:
		fmt.Fprintf(w, "ended with %d %s.\n", r.Status, r.Reason)
	default:
		var tried []string
		for _, a := range r.Attempts {
			text := a.Route + " " + a.Outcome
			if u := a.Usage; u != nil {
				text += fmt.Sprintf(" with %d tokens in", u.Input+u.CacheRead+u.CacheWrite)
				if u.CacheRead > 0 {
					text += fmt.Sprintf(" (%d of them cached)", u.CacheRead)
				}
				text += fmt.Sprintf(" and %d out", u.Output)
			}
			if a.Failure != "" {
				text += " (" + a.Failure + ")"
			}
			tried = append(tried, text)
		}
		fmt.Fprintf(w, "%s. It was charged US$%s.\n", strings.Join(tried, ", then "), inDollars(float64(r.Charged)))
	}
	if r.Waited > 0 {
		fmt.Fprintf(w, "It waited %d ms for a route whose upstream had said when it takes more.\n", r.Waited)
	}
	if r.Pending {
		fmt.Fprintln(w, "Part of what it used is not proven yet: a receipt may add to that.")
	}
	switch {
	case r.OtherFile:
		fmt.Fprintf(w, "Another configuration served then, and %s was planned first: what follows is by the one of now.\n",
			orDash(r.Choice))
	case r.Choice != "" && len(v.Candidates) > 0 && r.Choice != v.Candidates[0].Route:
		fmt.Fprintf(w, "%s was planned first then: what follows is by what has been learned of the routes since.\n", r.Choice)
	}
}

// answeredBy is the route whose usage counts, "" for none.
func answeredBy(r *admin.Decided) string {
	for _, a := range slices.Backward(r.Attempts) {
		if a.Usage != nil && a.Outcome != decisions.Outrun {
			return a.Route
		}
	}
	return ""
}

// kindsText names the kinds of work that a request is likely of, the likeliest first.
func kindsText(kinds map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		if d := kinds[b] - kinds[a]; d != 0 {
			return int(max(min(d*1e6, 1), -1))
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		const worth = 0.05
		if kinds[name] < worth {
			continue
		}
		label := name
		if name == "default" {
			label = "anything else"
		}
		parts = append(parts, fmt.Sprintf("%s (%.0f%%)", label, 100*kinds[name]))
	}
	return strings.Join(parts, ", ")
}

func inDollars(microcents float64) string { return fmt.Sprintf("%.6f", microcents/1e8) }

func remarks(c *routing.Explained) string {
	var list []string
	if c.Specialty > 0 {
		list = append(list, "kept for such requests")
	}
	if c.Keeps {
		list = append(list, "keeps")
	}
	if c.Classified {
		list = append(list, "classified")
	}
	if c.Cached > 0 {
		list = append(list, fmt.Sprintf("%d tokens in its cache", c.Cached))
	}
	if c.Template > 0 {
		list = append(list, fmt.Sprintf("its template adds %d tokens", c.Template))
	}
	if c.Behind != "" {
		list = append(list, "last: "+c.Behind)
	}
	if c.Cramped {
		list = append(list, "reasons, and the allowance is tiny")
	}
	return strings.Join(list, ", ")
}
