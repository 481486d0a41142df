package verify

// microcentsPerCredit: one credit is US$0.01 (BILL-01).
const microcentsPerCredit = 1_000_000

// balance is what the account summary says of money.
type balance struct{ Balance, Reserved, Available, Accrued int64 }

// net is the net balance (GEN-00): the account's money in microcents, but for its holds.
func (b balance) net() int64 { return b.Balance*microcentsPerCredit - b.Accrued }

// balance reads the account.
func (t *T) balance() balance {
	return t.balanceOf(t.ok(lookups, t.do(call{Path: "/v1/account"})))
}

func (t *T) balanceOf(v map[string]any) balance {
	n := func(name string) int64 {
		i, ok := integer(at(v, "credits", name))
		t.True(ok, "credits.%s is %s instead of an integer", name, brief(at(v, "credits", name)))
		return i
	}
	return balance{n("balance_credits"), n("reserved_credits"), n("available_credits"), n("accrued_usage_microcents")}
}

// idle reads the account, of which nothing else may be using the credits.
func (t *T) idle() balance {
	b := t.balance()
	if b.Reserved != 0 {
		t.Pendingf("the account has requests of others in progress: use one that nothing else uses")
	}
	return b
}

// billed reads what a reply says it cost.
func (t *T) billed(usage any) int64 {
	n, ok := integer(at(usage, "billed_microcents"))
	t.True(ok, "usage.billed_microcents is %s instead of an integer", brief(at(usage, "billed_microcents")))
	return n
}

// paid is a charged request with the account before and after it.
type paid struct {
	Reply         map[string]any // of a JSON reply
	Stream        *stream        // of a streamed one
	Header        *answer
	Usage         map[string]any
	Billed        int64
	Pending       any
	Before, After balance
}

// paid is the shape's smallest request, sent once a run while nothing else runs. Only Quiet checks may be the
// first to ask for it: they run before the others.
func (t *T) paid(s shape) paid {
	return memo(t, "paid "+s.Name, func() paid {
		p := paid{Before: t.idle()}
		p.Header = t.ask(s)
		p.Reply = t.ok(s, p.Header)
		p.Usage, _ = p.Reply["usage"].(map[string]any)
		return p.settled(t)
	})
}

// paidStream is paid for a stream.
func (t *T) paidStream(s shape) paid {
	return memo(t, "paid stream "+s.Name, func() paid {
		p := paid{Before: t.idle()}
		p.Stream = t.stream(s, includeUsage(s))
		p.Header = p.Stream.answer
		p.Usage = p.Stream.usage(t, s)
		return p.settled(t)
	})
}

// includeUsage is the member that asks for usage in a stream, where it must be asked for.
func includeUsage(s shape) string {
	if s.Name == "chat" {
		return `"stream_options":{"include_usage":true}`
	}
	return ""
}

func (p paid) settled(t *T) paid {
	p.Billed, p.Pending, p.After = t.billed(p.Usage), p.Usage["billing_pending"], t.balance()
	if p.Pending == true {
		t.Pendingf("the deployment's route proves its usage later (billing_pending)")
	}
	return p
}

// allPaid are all the requests of this kind, in the order in which they are made.
func (t *T) allPaid() []paid {
	var all []paid
	for _, s := range shapes {
		all = append(all, t.paid(s), t.paidStream(s))
	}
	return all
}
