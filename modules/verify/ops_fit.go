package verify

import (
	"fmt"
	"strings"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// Texts that make a request one for graphics.
const drawing, scene = "Draw a pelican on a bicycle as SVG.", "Build a 3D scene with a spinning cube."

// fitCase is a request of a size with an allowance, and what becomes of it (E06, E27).
type fitCase struct {
	clauses string
	gate    gateKind
	text    string // "" for one of input tokens
	input   int64
	given   int64  // the allowance; 0 for none
	route   string // "" where it fits none
	sent    int64  // the allowance that the route gets
}

var fitCases = []fitCase{
	{"ALLOW-04", windowGate, "", 4000, narrowWindow - 4000, "narrow", narrowWindow - 4000},
	{"ALLOW-04", windowGate, "", 4000, narrowWindow - 4000 + 1, "wide", narrowWindow - 4000 + 1},
	{"ALLOW-04 ALLOW-05 ERR-30", windowGate, "", 4000, wideWindow - 4000 + 1, "", 0},
	{"ALLOW-05 ERR-30", windowGate, "", wideWindow + 1, 1, "", 0},
	{"ALLOW-05 ERR-30", standardGate, "Hello.", 0, 10_000_000, "", 0}, // GAP-34
	{"ALLOW-05 ERR-30", standardGate, "Hello.", 0, 2 * standardWindow, "", 0},
	{"ALLOW-06 ALLOW-10", standardGate, "Hello.", 0, 0, "standard", 32_768},
	{"ALLOW-07 ALLOW-10", specialGate, "Hello.", 0, 0, "small", 8192}, // GAP-36
	{"ALLOW-08 ALLOW-10", windowGate, "", 4000, 0, "narrow", narrowWindow - 4000},
	{"ALLOW-08 ALLOW-09 ALLOW-10", windowGate, "", 30_000, 0, "wide", wideWindow - 30_000},
	{"ALLOW-08 ALLOW-09", windowGate, "", wideWindow - 1, 0, "wide", 1},
	{"ALLOW-05 ALLOW-09 ERR-30", windowGate, "", wideWindow, 0, "", 0},
	{"ALLOW-12", standardGate, "Hello.", 0, 100_000, "standard", standardLimit},
	{"ALLOW-12", standardGate, "", 1000, standardWindow - 1000, "standard", standardLimit},
	{"ALLOW-12 ALLOW-16", standardGate, "Hello.", 0, 5000, "standard", 5000},
	{"ALLOW-12 ALLOW-16", standardGate, "Hello.", 0, 100, "standard", 100},
	{"ALLOW-13", specialGate, "", 24_000, 100, "long", 4096},
	{"ALLOW-13", specialGate, "", 24_000, 4095, "long", 4096},
	{"ALLOW-13", specialGate, "", 24_000, 4096, "long", 4096},
	{"ALLOW-15", specialGate, "", 24_000, 6000, "long", 6000},
	{"ALLOW-14", specialGate, drawing, 0, 200, "graphics", 4096},
	{"ALLOW-14", specialGate, drawing, 0, 4095, "graphics", 4096},
	{"ALLOW-14", specialGate, scene, 0, 200, "graphics", 4096},
	{"ALLOW-15", specialGate, drawing, 0, 6000, "graphics", 6000},
	{"ALLOW-15", specialGate, drawing, 0, 70_000, "graphics", 8192},
	{"ALLOW-16", specialGate, "Hello.", 0, 100, "small", 100},
	{"ALLOW-17", specialGate, "", 99_000, 0, "long", 1000},
	{"ALLOW-17", specialGate, "", 99_000, 1000, "long", 1000},
}

func (c fitCase) run(o *ops, s shape) {
	members := quote(s.Input) + ":" + s.Said(c.text)
	if c.text == "" {
		members = o.tokensOf(s, c.input)
	}
	if c.given > 0 {
		members += fmt.Sprintf(",%q:%d", s.Allowance, c.given)
	}
	before, calls := o.balance(), len(o.calls())
	for _, mode := range modes {
		a := o.do(call{Path: s.Path, Body: s.Body("", members, mode)})
		if c.route == "" {
			o.refused(s, a, 503, featureUnavailable)
			continue
		}
		s.OutcomeOf(o, a.Status, a.Header, a.Raw)
		o.Equal(c.route, o.sent().Model, "the route")
		o.Equal(c.sent, o.sent().MaxTokens, "the allowance that was sent")
	}
	if c.route == "" {
		o.Equal(calls, len(o.calls()), "the number of calls to the routes")
		o.Equal(before, o.balance(), "the account")
	}
}

// tokensOf makes a conversation that the gateway counts as exactly so many tokens, as the shape's member.
func (o *ops) tokensOf(s shape, tokens int64) string {
	counted := func(text string) int64 { return o.count(quote(count.Input) + ":" + count.Said(text)) }
	least := counted("a")
	o.True(least > 0 && least < tokens, "a letter is counted as %d tokens", least)
	text := "a" + strings.Repeat(" a", int(tokens-least))
	o.Equal(tokens, counted(text), "the count of a text of one token a letter")
	return quote(s.Input) + ":" + s.Said(text)
}

// opsFitChecks look at which routes an allowance fits, and what it does.
func opsFitChecks() []opsCheck {
	checks := []opsCheck{
		onEach("ALLOW-10 ALLOW-11 ALLOW-12 ALLOW-16", "an allowance cuts the reply", standardGate, requireCutReply),
		onEach("ALLOW-18 ALLOW-19", "the charge and the hold of a raised allowance", specialGate, requireRaisedHold),
	}
	for _, c := range fitCases {
		does := fmt.Sprintf("%d tokens %s with an allowance of %d, on %s", c.input, c.text, c.given, c.gate)
		checks = append(checks, onEach(c.clauses, does, c.gate, c.run))
	}
	return checks
}

// requireCutReply has a route that keeps to the limit that it is sent, and would say more words than that.
func requireCutReply(o *ops, s shape) {
	wordy := upstream.Say(strings.Repeat("word ", 100))
	wordy.Honour.MaxTokens = true
	o.answers(wordy)
	v := o.both(s, quote(s.Allowance)+":7")
	o.Equal(s.Ended("length"), v.Finish, "the end of the reply")
	o.Equal(7, len(strings.Fields(v.Text)), "the number of words")
	o.answers(script(upstream.Usage{Prompt: 10, Completion: 32_768}, "length", upstream.Text("long")))
	o.Equal(s.Ended("length"), s.Finish(o.ok(s, o.do(call{Path: s.Path, Body: s.Body(prompt)}))),
		"the end of a reply that the default cuts")
}

func requireRaisedHold(o *ops, s shape) {
	c, b := o.liveBlocked(s, o.body(s, quote(s.Input)+":"+s.Said(drawing), quote(s.Allowance)+":100"))
	hold := o.balance().Reserved * microcentsPerCredit
	a := o.release(c, b)
	o.True(hold >= 4096*outputPrice && hold < 5096*outputPrice, "the hold is %d microcents", hold)
	o.Equal(int64(helloCost), o.billed(at(a.JSON(o.T), "usage")), "billed_microcents")
}
