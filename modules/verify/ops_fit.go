package verify

import (
	"fmt"
	"strings"
)

// tokensOf makes a conversation that the gateway counts as exactly so many tokens, as the shape's member.
func (o *ops) tokensOf(s shape, tokens int64) string {
	counted := func(text string) int64 {
		n, _ := integer(o.ok(count, o.ask(count, quote(count.Input)+":"+count.Said(text)))["input_tokens"])
		return n
	}
	least := counted("a")
	o.True(least > 0 && least < tokens, "a letter is counted as %d tokens", least)
	text := "a" + strings.Repeat(" a", int(tokens-least))
	o.Equal(tokens, counted(text), "the count of a text of one token a letter")
	return quote(s.Input) + ":" + s.Said(text)
}

// opsFitChecks look at which routes an allowance fits.
func opsFitChecks() []opsCheck {
	// fits checks which route gets a request, and with which allowance; given 0 is none.
	fits := func(o *ops, s shape, input int64, given int, route string, sent int64) {
		members := o.tokensOf(s, input)
		body := o.without(s, s.Allowance, members)
		if given > 0 {
			body = o.body(s, members, fmt.Sprintf("%q:%d", s.Allowance, given))
		}
		for _, mode := range modes {
			a := o.do(call{Path: s.Path, Body: object(strings.TrimSuffix(strings.TrimPrefix(body, "{"), "}"), mode)})
			if a.Status != 200 {
				o.unserved(s, a)
			}
			o.Equal(route, o.sent().Model, fmt.Sprintf("the route of %d tokens with %d", input, given))
			o.Equal(sent, o.sent().MaxTokens, "the allowance that was sent")
		}
	}
	return []opsCheck{
		onEach("ALLOW-04", "input and allowance just fit, or are one token more", windowGate, func(o *ops, s shape) {
			fits(o, s, 4000, narrowWindow-4000, "narrow", narrowWindow-4000)
			fits(o, s, 4000, narrowWindow-4000+1, "wide", narrowWindow-4000+1)
		}),
		onEach("ALLOW-08", "the default is what the window leaves", windowGate, func(o *ops, s shape) {
			fits(o, s, 30_000, 0, "wide", wideWindow-30_000)
			fits(o, s, 4000, 0, "narrow", narrowWindow-4000)
		}),
		onEach("ALLOW-09", "the default needs room for one token", windowGate, func(o *ops, s shape) {
			fits(o, s, wideWindow-1, 0, "wide", 1)
			full := o.tokensOf(s, wideWindow)
			calls := len(o.calls())
			before := o.balance()
			o.refused(s, o.do(call{Path: s.Path, Body: o.without(s, s.Allowance, full)}), 503, featureUnavailable)
			o.Equal(calls, len(o.calls()), "the number of calls to the routes")
			o.Equal(before, o.balance(), "the account")
		}),
		onEach("ALLOW-17", "a long request without an allowance", specialGate, func(o *ops, s shape) {
			fits(o, s, 99_000, 0, "long", 1000)
			fits(o, s, 99_000, 1000, "long", 1000)
		}),
	}
}
