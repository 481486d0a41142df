package verify

// opsLaterChecks are about charges that are proven after the reply.
func opsLaterChecks() []opsCheck {
	return []opsCheck{
		atOnce("USE-03 BILL-28 BILL-29", "a receipt that comes later, and again", laterGate, func(o *ops, s shape) {
			before := o.balance()
			a := o.ask(s)
			usage := o.ok(s, a)["usage"]
			o.Equal(any(true), at(usage, "billing_pending"), "billing_pending before the receipt")
			o.Equal(int64(0), o.billed(usage), "billed_microcents before the receipt")
			o.Equal(before, o.balance(), "the account before the receipt")
			attempt := a.Header.Get("X-Request-Id") + ".1"
			o.gate.desk.HandOut(attempt)
			o.await("the charge of the receipt", func() bool { return o.balance() != before })
			o.Equal(int64(helloCost), before.net()-o.balance().net(), "what NET fell by")

			// The desk has the receipt as before. The charge of another request comes with a later look.
			charged := o.balance()
			again := o.ask(s).Header.Get("X-Request-Id") + ".1"
			o.gate.desk.HandOut(again)
			o.await("the charge of another receipt", func() bool { return o.balance() != charged })
			o.Equal(int64(2*helloCost), before.net()-o.balance().net(), "what NET fell by for two receipts")
		}),
		onEach("USE-03 SSE-48", "the end of a stream waits for the receipt", laterGate, func(o *ops, s shape) {
			before := o.balance()
			o.watch(s, includeUsage(s), func(l *live) {
				l.reads("Hello")
				l.keptAlive(1)
				o.gate.desk.HandOut(l.Header.Get("X-Request-Id") + ".1")
				l.ends()
				l.requireEnd(o.T, s)
				usage := l.usage(o.T, s)
				o.Equal(any(false), at(usage, "billing_pending"), "billing_pending")
				o.Equal(int64(helloCost), o.billed(usage), "billed_microcents")
			})
			o.Equal(int64(helloCost), before.net()-o.balance().net(), "what NET fell by")
		}),
	}
}
