package verify

import (
	"strconv"
	"strings"
)

func opsSpecialChecks() []opsCheck {
	ask := func(o *ops, s shape, text, route string, given, sent int) {
		body := o.without(s, s.Allowance, quote(s.Input)+":"+s.Said(text))
		if given > 0 {
			body = o.body(s, quote(s.Input)+":"+s.Said(text), quote(s.Allowance)+":"+strconv.Itoa(given))
		}
		o.ok(s, o.do(call{Path: s.Path, Body: body}))
		o.Equal(route, o.sent().Model, "the route")
		o.Equal(int64(sent), o.sent().MaxTokens, "the allowance that was sent")
	}
	const drawing, scene = "Draw a pelican on a bicycle as SVG.", "Build a 3D scene with a spinning cube."
	long := strings.Repeat("some words ", 12_000) // about 24,000 tokens
	return []opsCheck{
		onEach("ALLOW-13 ALLOW-15", "a long request", specialGate, func(o *ops, s shape) {
			ask(o, s, long, "long", 100, 4096)
			ask(o, s, long, "long", 4096, 4096)
			ask(o, s, long, "long", 6000, 6000)
		}),
		onEach("ALLOW-14 ALLOW-15", "graphics", specialGate, func(o *ops, s shape) {
			ask(o, s, drawing, "graphics", 200, 4096)
			ask(o, s, scene, "graphics", 200, 4096)
			ask(o, s, drawing, "graphics", 6000, 6000)
		}),
		onEach("ALLOW-16 ALLOW-07", "an ordinary request", specialGate, func(o *ops, s shape) {
			ask(o, s, "Hello.", "small", 100, 100)
			ask(o, s, "Hello.", "small", 0, 8192)
		}),
		onEach("ALLOW-18 ALLOW-19", "the charge and the hold of a raised allowance", specialGate, func(o *ops, s shape) {
			body := o.body(s, quote(s.Input)+":"+s.Said(drawing), quote(s.Allowance)+":100")
			c, b := o.liveBlocked(s, body)
			hold := o.balance().Reserved * microcentsPerCredit
			a := o.release(c, b)
			o.True(hold >= 4096*outputPrice && hold < 5096*outputPrice, "the hold is %d microcents", hold)
			o.Equal(int64(helloCost), o.billed(at(a.JSON(o.T), "usage")), "billed_microcents")
		}),
	}
}
