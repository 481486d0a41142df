package verify

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

func accountChecks() []*Check {
	account := func(t *T) map[string]any { v, _ := t.visit(placeOf("/v1/account")); return v }
	text := func(ids string, note string, path ...any) *Check {
		return check(ids, fmt.Sprint("the account's ", path), func(t *T) {
			t.True(str(at(account(t), path...)) != "", "it is %s instead of a text", brief(at(account(t), path...)))
			if note != "" {
				t.Notef("%s", note)
			}
		})
	}
	return []*Check{
		text("ACCT-01", "seen from one key", "tenant", "id"),
		text("ACCT-02", "the name that the account should have is not known here", "tenant", "name"),
		text("ACCT-12", "the name that the key should have is not known here", "key", "name"),
		check("ACCT-03", "tenant.key_mode", func(t *T) {
			t.Equal("managed", str(at(account(t), "tenant", "key_mode")), "tenant.key_mode")
		}),
		check("ACCT-04 ACCT-05 ACCT-07 ACCT-10 ACCT-14", "the types of the account's numbers", func(t *T) {
			t.balanceOf(account(t))
			n, ok := integer(at(account(t), "credits", "monthly_allotment_credits"))
			t.True(ok && n >= 0, "monthly_allotment_credits is %s",
				brief(at(account(t), "credits", "monthly_allotment_credits")))
		}),
		check("ACCT-09", "current_period_end", func(t *T) {
			credits, _ := account(t)["credits"].(map[string]any)
			end, ok := credits["current_period_end"]
			t.True(ok, "it is missing")
			if end == nil {
				return
			}
			when, err := time.Parse(time.RFC3339, str(end))
			t.True(err == nil, "it is %s", brief(end))
			t.True(when.After(time.Now()), "it is over: %s", when)
		}),
		check("ACCT-13", "key.last4", func(t *T) {
			v, a := t.visit(placeOf("/v1/account"))
			t.Equal(t.key[max(0, len(t.key)-4):], str(at(v, "key", "last4")), "key.last4")
			t.True(!a.Leaked, "the body holds the key")
		}),
		quiet("ACCT-06 ACCT-11", "the arithmetic of every account summary", func(t *T) {
			for _, p := range t.allPaid() {
				for _, b := range []balance{p.Before, p.After} {
					t.requireSums(b)
				}
			}
		}),
		quiet("ACCT-05", "a hold while a stream runs", func(t *T) { t.holdWhileStreaming() }),
	}
}

// holdWhileStreaming looks at the account between a stream's first event and its end.
func (t *T) holdWhileStreaming() {
	before := t.idle()
	for range 3 {
		during := t.duringStream()
		t.requireSums(during)
		t.Equal(before.Reserved, t.balance().Reserved, "reserved_credits after the stream")
		if during.Reserved > 0 {
			return
		}
	}
	t.Pendingf("each reply was over before the account could be asked")
}

func (t *T) duringStream() balance {
	ctx, cancel := context.WithTimeout(t.ctx, t.limits.Timeout)
	defer cancel()
	text := strings.Repeat(longPrompt+". Go on. ", 8)
	c := call{Path: chat.Path, Body: t.body(chat,
		`"stream":true,"stream_options":{"include_usage":true},"messages":`+chat.Said(text))}
	resp := t.open(ctx, c)
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Pendingf("the stream got %d", resp.StatusCode)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Pendingf("the stream broke off: %v", err)
	}
	during := t.balance()
	t.read(c, resp)
	return during
}

// requireSums checks the arithmetic of one account summary.
func (t *T) requireSums(b balance) {
	less := int64(0)
	if b.Accrued > 0 {
		less = 1
	}
	t.Equal(b.Balance-b.Reserved-less, b.Available, "available_credits")
	t.True(b.Accrued >= 0 && b.Accrued < microcentsPerCredit, "accrued_usage_microcents is %d", b.Accrued)
}

func moneyChecks() []*Check {
	checks := []*Check{
		quiet("BILL-02", "a whole credit is debited at 1,000,000 microcents", func(t *T) {
			for _, p := range t.allPaid() {
				if p.After.Balance != p.Before.Balance {
					t.requireCharged(p)
					return
				}
			}
			t.Pendingf("the run's charges have filled no whole credit")
		}),
		quiet("BILL-04 BILL-05 ACCT-10 ACCT-04", "charges, whole credits and remainders", func(t *T) {
			for _, p := range t.allPaid() {
				t.requireCharged(p)
			}
		}),
		quiet("BILL-06", "a fraction of a credit", func(t *T) {
			for _, p := range t.allPaid() {
				if p.Billed > 0 && p.Before.Accrued+p.Billed < microcentsPerCredit {
					t.Equal(p.Before.Balance, p.After.Balance, "balance_credits")
					t.Equal(p.Before.Accrued+p.Billed, p.After.Accrued, "accrued_usage_microcents")
					return
				}
			}
			t.Pendingf("every charge of the run has filled a whole credit")
		}),
		quiet("BILL-08", "the hold after a request", func(t *T) {
			for _, p := range t.allPaid() {
				t.Equal(int64(0), p.After.Reserved, "reserved_credits")
				t.Equal(p.Billed, p.Before.net()-p.After.net(), "what NET fell by")
			}
		}),
		quiet("GEN-12", "metering", func(t *T) {
			for _, p := range t.allPaid() {
				t.Equal(p.Billed, p.Before.net()-p.After.net(), "what NET fell by")
			}
		}),
		quiet("BILL-35 EP-13 EP-14 CNT-05 AUTH-19", "calls that are free", func(t *T) {
			before := t.idle()
			for range 5 {
				for _, path := range []string{"/v1/models", "/models", "/v1/models/service/auto", "/v1/account"} {
					t.ok(lookups, t.do(call{Path: path}))
				}
			}
			for range 20 {
				t.ok(count, t.ask(count))
			}
			bad := t.do(call{Path: "/v1/account", Header: map[string][]string{"Authorization": {"Bearer wrong"}}})
			t.refused(lookups, bad, 401, authentication)
			t.Equal(before, t.balance(), "the account")
		}),
		quiet("MODEL-20 MEDIA-14 PROF-20 CHAT-23 RESP-23 EP-04", "refusals that are free", func(t *T) {
			before := t.idle()
			for _, s := range shapes {
				t.refused(s, t.ask(s, `"model":"service/nope"`), 404, modelNotFound)
				t.refused(s, t.ask(s, quote(s.Input)+`:[{"role":"user","content":[`+imagePart(s)+"]}]"), 400, unsupportedContent)
				bad := call{Path: s.Path, Body: t.body(s), Header: map[string][]string{"X-Service-Profile": {"cheap"}}}
				t.refused(s, t.do(bad), 400, invalid)
			}
			t.refused(chat, t.ask(chat, `"n":2`), 400, unsupported)
			t.refused(responses, t.ask(responses, `"store":true`), 400, unsupported)
			t.do(call{Path: "/responses", Body: t.body(responses)})
			t.Equal(before, t.balance(), "the account")
		}),
		quiet("ALLOW-05 ERR-30", "an allowance beyond every window", func(t *T) {
			before := t.idle()
			for _, s := range shapes {
				member := fmt.Sprintf("%q:1000000000", s.Allowance)
				t.refused(s, t.ask(s, member), 503, featureUnavailable)
				t.refused(s, t.ask(s, member, `"stream":true`), 503, featureUnavailable)
			}
			t.Equal(before, t.balance(), "the account")
		}),
	}
	for i, s := range shapes {
		checks = append(checks,
			quiet([]string{"EP-01", "EP-03", "EP-05"}[i]+" USE-01", "what a request in the "+s.Name+" shape costs", func(t *T) {
				p := t.paid(s)
				t.True(p.Billed > 0, "billed_microcents is %d", p.Billed)
				t.Equal(p.Billed, p.Before.net()-p.After.net(), "what NET fell by")
			}),
			quiet("USE-02", "billing_pending on "+s.Name, func(t *T) {
				_, ok := t.paid(s).Pending.(bool)
				t.True(ok, "it is %s", brief(t.paid(s).Pending))
			}),
			quiet("SSE-48", "the final usage of a stream on "+s.Name, func(t *T) {
				p := t.paidStream(s)
				t.Equal(any(false), p.Pending, "billing_pending")
				t.Equal(p.Billed, p.Before.net()-p.After.net(), "what NET fell by")
			}))
	}
	return checks
}

// requireCharged checks what a charge has done to balance and accrued usage.
func (t *T) requireCharged(p paid) {
	total := p.Before.Accrued + p.Billed
	t.Equal(p.Before.Balance-total/microcentsPerCredit, p.After.Balance, "balance_credits")
	t.Equal(total%microcentsPerCredit, p.After.Accrued, "accrued_usage_microcents")
}

func countChecks() []*Check {
	const full = `"stream":true,"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user",` +
		`"content":"What is the weather?"},{"role":"assistant","content":[{"type":"text","text":"I look."},` +
		`{"type":"tool_use","id":"c1","name":"get_weather","input":{"city":"Oslo"}}]},{"role":"user",` +
		`"content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"rain"}]}]}]`
	checks := []*Check{
		check("CNT-01 CNT-03 SSE-02", "the count of a whole messages body", func(t *T) {
			a := t.ask(count, full, weatherTool(messages))
			n, ok := integer(t.ok(count, a)["input_tokens"])
			t.True(ok && n > 0, "the body is %s", brief(string(a.Raw)))
			t.True(a.Header.Get("Content-Type") == "application/json", "the Content-Type is %q", a.Header.Get("Content-Type"))
		}),
		check("CNT-03", "a count without messages", func(t *T) {
			t.refused(count, t.do(call{Path: count.Path, Body: t.without(count, "messages")}), 400, invalid)
		}),
		check("CNT-04 VER-02", "both paths of the count", func(t *T) {
			a, b := t.do(call{Path: "/v1/messages/count_tokens", Body: t.body(count, full)}),
				t.do(call{Path: "/messages/count_tokens", Body: t.body(count, full)})
			t.Equal(any(t.ok(count, a)), any(t.ok(count, b)), "the count at the short path")
		}),
	}
	return checks
}
