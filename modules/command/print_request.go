package command

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// printRequest writes the record of a request with every step of its arithmetic, for somebody who wants to do it again
// by hand.
func printRequest(w io.Writer, v admin.Request) error {
	var b bytes.Buffer
	if v.Logged {
		printLogged(&b, v)
		_, err := b.WriteTo(w)
		return err
	}
	printRequestHead(&b, v)
	for i, a := range v.Attempts {
		printAttempt(&b, i+1, a, v.Endpoint)
	}
	if len(v.Attempts) == 0 {
		fmt.Fprintf(&b, "\nNo call was made to a route.\n")
	}
	if v.Running {
		fmt.Fprintf(&b, "\nIt is running: what it is charged is known when it is settled.\n")
	} else {
		printCharge(&b, v)
		printEntries(&b, v.Entries)
	}
	printShadow(&b, v.Shadow)
	_, err := b.WriteTo(w)
	return err
}

// printLogged writes what the request log has of a request.
func printLogged(b *bytes.Buffer, v admin.Request) {
	table(b, func(w io.Writer) {
		fmt.Fprintf(w, "request\t%s\n", v.ID)
		if v.AccountID == "" {
			fmt.Fprintf(w, "account\tunknown: the request came without a good key, or was refused before it was looked at\n")
		} else {
			fmt.Fprintf(w, "account\t%s (%s)\n", v.Account, v.AccountID)
			fmt.Fprintf(w, "key\t%s (%s)\n", v.Key, v.KeyID)
		}
		fmt.Fprintf(w, "endpoint\t%s\n", v.Endpoint)
		fmt.Fprintf(w, "came\t%s\n", human.Moment(v.Created))
		switch {
		case v.Status == 0:
			fmt.Fprintf(w, "status\tnone: the client left\n")
		case v.Code == "":
			fmt.Fprintf(w, "status\t%d\n", v.Status)
		default:
			fmt.Fprintf(w, "status\t%d, %s\n", v.Status, v.Code)
		}
		if v.Limit != "" {
			fmt.Fprintf(w, "limit\t%s\n", v.Limit)
		}
	})
	printRefused(b, v.Refused)
	fmt.Fprintf(b, "\nIt was not admitted, or is of a kind that costs nothing: no credits were held or charged.\n")
}

func printRequestHead(b *bytes.Buffer, v admin.Request) {
	table(b, func(w io.Writer) {
		fmt.Fprintf(w, "request\t%s\n", v.ID)
		fmt.Fprintf(w, "account\t%s (%s)\n", v.Account, v.AccountID)
		fmt.Fprintf(w, "key\t%s (%s)\n", v.Key, v.KeyID)
		fmt.Fprintf(w, "endpoint\t%s, profile %s\n", v.Endpoint, orDash(v.Profile))
		fmt.Fprintf(w, "admitted\t%s\n", human.Moment(v.Created))
		if v.Running || v.Settled == nil {
			fmt.Fprintf(w, "held\t%s\n", human.Amount(v.Held))
			return
		}
		fmt.Fprintf(w, "settled\t%s, status %d, %s\n", human.Moment(*v.Settled), v.Status, orDash(v.Reason))
		fmt.Fprintf(w, "held\t%s, until it was settled\n", human.Amount(v.Held))
	})
}

// printShadow writes of a call for comparison what came of it.
func printShadow(b *bytes.Buffer, v *admin.Request) {
	if v == nil || len(v.Attempts) == 0 {
		return
	}
	a := v.Attempts[0]
	fmt.Fprintf(b, gateway.Own("\nFor comparison, route %s was called as well (%s): %s in, %s out. It cost the operator "+
		"%s, and nobody was charged.\n`fareway gateway usage %s` shows it.\n"), a.Route, comparedText(a),
		human.Count(llm.Tokens(a.Tokens.Input)+llm.Tokens(a.Tokens.CacheRead)+llm.Tokens(a.Tokens.CacheWrite), "token"),
		human.Thousands(llm.Tokens(a.Tokens.Output)), human.Amount(v.Cost), v.ID)
}

// comparedText says how a call for comparison ended.
func comparedText(a admin.Attempt) string {
	if a.Outcome == "" {
		return "it is running"
	}
	return "it has " + a.Outcome
}

// providerOf is who made an attempt, with the key where the provider has several.
func providerOf(a admin.Attempt) string {
	if a.Key == "" {
		return a.Provider
	}
	return a.Provider + " with its key " + a.Key
}

// printAttempt writes what an attempt used and what each class of it comes to.
func printAttempt(b *bytes.Buffer, n int, a admin.Attempt, endpoint string) {
	fmt.Fprintf(b, "\nAttempt %d: route %s at its price version %d, provider %s, upstream model %s, %s.\n",
		n, a.Route, a.PriceVersion, providerOf(a), a.Model, human.Moment(a.Created))
	fmt.Fprintf(b, "%s\n", outcomeText(a, endpoint))
	if a.Failure != "" {
		fmt.Fprintf(b, "Why: %s.\n", a.Failure)
	}
	if a.Tier > 0 {
		fmt.Fprintf(b, "Its prices are those from %s of input on.\n", human.Count(a.Tier, "token"))
	}
	fmt.Fprintln(b)
	l := newListing(b, column{title: "  CLASS"}, column{"TOKENS", right}, column{"MICROCENTS PER MILLION", right},
		column{"PRODUCT", right})
	for _, c := range [...]struct {
		name   string
		tokens *int64
		price  int64
	}{
		{"input", a.Tokens.Input, a.Price.Input}, {"cache read", a.Tokens.CacheRead, a.Price.CacheRead},
		{"cache write", a.Tokens.CacheWrite, a.Price.CacheWrite}, {"output", a.Tokens.Output, a.Price.Output},
	} {
		row(l, "  "+c.name, tokens(c.tokens), human.Thousands(c.price),
			human.Grouped(admin.ClassProduct(c.tokens, c.price).String()))
	}
	row(l, "  sum", "", "", human.Grouped(a.Product))
	finish(l)
	if n := llm.Tokens(a.Tokens.Reasoning); n > 0 {
		fmt.Fprintf(b, "  Of the output %s were reasoning; they are not counted again.\n", human.Count(n, "token"))
	}
	if a.Tokens.Estimated && a.Estimate == nil {
		fmt.Fprintf(b, "  The provider counted the tokens itself: its upstream reports none.\n")
	}
}

// outcomeText says how an attempt ended.
func outcomeText(a admin.Attempt, endpoint string) string {
	if endpoint == ledger.Shadow {
		return "It was made for comparison: what it is proven to have used is the operator's, and not charged."
	}
	if a.Receipt != nil {
		return fmt.Sprintf("It ended without usage, which a receipt of %s proved.", human.Moment(*a.Receipt))
	}
	if a.Operator {
		return "Another attempt beside it was faster: what it is proven to have used is the operator's, and not charged."
	}
	switch ledger.Outcome(a.Outcome) {
	case "":
		return "It is running."
	case ledger.Finished:
		return "It finished."
	case ledger.Failed:
		return "It failed; what it is proven to have used counts."
	case ledger.Unproven:
		if a.Estimate != nil {
			return fmt.Sprintf("It ended without usage: a later receipt may prove it, where its provider gives any. "+
				"If none comes, it is charged for %s of input and %d of output.",
				human.Count(llm.Tokens(a.Estimate.Input), "token"), llm.Tokens(a.Estimate.Output))
		}
		return "It ended without usage: a later receipt may prove it, where its provider gives any."
	case ledger.NotMade:
		return "The call was not made."
	case ledger.Closed:
		if a.Estimate != nil {
			return "It ended without usage, and is closed at what it was taken to have used: no receipt is taken any more."
		}
		return "It ended without usage, and is closed at 0: no receipt is taken any more."
	}
	return "It ended as " + a.Outcome + "."
}

// printCharge writes what the attempts come to together, down to the margin.
func printCharge(b *bytes.Buffer, v admin.Request) {
	fmt.Fprintln(b)
	l := newListing(b, column{title: "CHARGE"}, column{"MICROCENTS", right}, column{"CREDITS", right})
	money := func(what string, microcents int64) {
		row(l, what, human.Thousands(microcents), human.Exact(microcents))
	}
	row(l, "sum of the attempts", human.Grouped(v.Sum), "")
	money("divided by 1,000,000, rounded down", v.Divided)
	money("surcharge, for screening", v.Surcharge)
	charged := v.Divided + v.Surcharge - v.Waived - v.Over
	switch {
	case v.Endpoint == ledger.Shadow:
	case v.Free:
		money("free: a failure of the service", -charged)
		charged = 0
	case v.ServiceLimit:
		money("left free by fair use: a limit of the service", -v.Waived)
	}
	if v.Over > 0 {
		money("beyond what was held: the operator's", -v.Over)
	}
	money("charged", charged)
	money("refunded", -v.Refunded)
	money("cost to the operator", -v.Cost)
	money("margin", v.Margin)
	finish(l)
	if charged != v.Microcents {
		fmt.Fprintf(b, gateway.Own("\nThe ledger says that %s were charged, which is something else: `fareway gateway "+
			"ledger verify` tells more.\n"), human.Count(v.Microcents, "microcent"))
	}
	if v.Pending {
		fmt.Fprintf(b, "\nPart of it is not proven: a receipt may add to the charge, where its provider gives any. "+
			"After receipt_age it is closed, at the estimate if there is one and else at 0.\n")
	}
}

// row and finish write a table into a buffer, which cannot fail.
func row(l *listing, cells ...string) { _ = l.add(cells...) }
func finish(l *listing)               { _ = l.end() }

// tokens writes a count that may not have been reported.
func tokens(n *int64) string {
	if n == nil {
		return "-"
	}
	return human.Thousands(*n)
}

func printEntries(b *bytes.Buffer, entries []admin.Entry) {
	if len(entries) == 0 {
		fmt.Fprintf(b, "\nIt moved no money.\n")
		return
	}
	fmt.Fprintln(b)
	l := newListing(b, column{"MOVEMENT", right}, column{title: "TIME"}, column{title: "KIND"},
		column{"MICROCENTS", right}, column{"WORTH AFTER", right}, column{title: "PRICES OR REASON"})
	for _, e := range entries {
		worth := ledger.Balance{Credits: e.Credits, Accrued: e.Accrued}.Net()
		row(l, human.Thousands(e.Seq), human.Moment(e.Created), string(e.Kind), human.Thousands(e.Microcents),
			human.Exact(worth),
			strings.TrimSpace(e.Prices+" "+e.Reason))
	}
	finish(l)
}
