package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/verify/testbed"
	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// gate is a gateway of the run's own over a scripted upstream. Checks use it one at a time.
type gate struct {
	*testbed.Gateway
	up        *upstream.Server
	desk      *testbed.Desk // of laterGate, nil for all others
	customers int           // accounts that were made
	waits     int           // gates of the upstream that were used

	mu    sync.Mutex
	reply func(*upstream.Request) upstream.Reply
	calls []*upstream.Request
}

func startGate(ctx context.Context, kind gateKind) (*gate, error) {
	g := new(gate)
	var err error
	if g.up, err = upstream.Listen("127.0.0.1:0", upstream.Options{Script: g.answer, Keep: 1}); err != nil {
		return nil, err
	}
	provider, files := kind.upProvider(g.up.BaseURL()), map[string]string(nil)
	if kind == laterGate {
		if g.desk, err = testbed.OpenDesk(); err == nil {
			provider, files, err = g.desk.Provider(g.up.BaseURL())
		}
	}
	if err == nil {
		g.Gateway, err = testbed.Start(ctx, []byte(kind.hcl(provider)), files)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *gate) close() {
	if g.Gateway != nil {
		g.Gateway.Close()
	}
	if g.desk != nil {
		g.desk.Close()
	}
	g.up.Close()
}

func (g *gate) answer(r *upstream.Request) upstream.Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = append(g.calls, r)
	return g.reply(r)
}

// script makes a reply of these steps that reports this usage.
func script(u upstream.Usage, finish string, steps ...upstream.Step) upstream.Reply {
	return upstream.Reply{Steps: append(steps, upstream.Finish(finish), upstream.ReportTokens(u), upstream.Done())}
}

// hello is what the upstream says when a check wants nothing else: 10 tokens in and 2 out.
var hello = script(upstream.Usage{Prompt: 10, Completion: 2}, "stop", upstream.Text("Hel"), upstream.Text("lo"))

const helloCost = 10*inputPrice + 2*outputPrice

// ops is a T whose deployment is a gateway of the run's own: the check says what the upstream answers, sees
// what it was asked, and is the operator.
type ops struct {
	*T
	gate    *gate
	account testbed.Account
}

// answers sets what the upstream says from now on.
func (o *ops) answers(r upstream.Reply) {
	o.answersBy(func(*upstream.Request) upstream.Reply { return r })
}

// answersBy sets how what it says is found; f runs with the gate locked, and its calls include the request.
func (o *ops) answersBy(f func(*upstream.Request) upstream.Reply) {
	o.gate.mu.Lock()
	defer o.gate.mu.Unlock()
	o.gate.reply = f
}

// calls are the requests that the upstream got during the check.
func (o *ops) calls() []*upstream.Request {
	o.gate.mu.Lock()
	defer o.gate.mu.Unlock()
	return slices.Clone(o.gate.calls)
}

// sent is the latest of them.
func (o *ops) sent() *upstream.Request {
	calls := o.calls()
	o.True(len(calls) > 0, "the route was not called")
	return calls[len(calls)-1]
}

// sentBody is its body.
func (o *ops) sentBody() map[string]any {
	v, err := wire.Decode(o.sent().Body)
	o.True(err == nil, "the route got %s", brief(string(o.sent().Body)))
	return v
}

// untouched checks that nothing reached the route, and nothing was held or charged.
func (o *ops) untouched(before balance) {
	o.Equal(0, len(o.calls()), "the number of calls to the route")
	o.Equal(before, o.balance(), "the account")
}

// refusedFree checks that a request is refused, streamed and not, and reaches neither route nor money.
func (o *ops) refusedFree(s shape, status int, code string, members ...string) {
	before, calls := o.balance(), len(o.calls())
	for _, mode := range modes {
		o.refused(s, o.ask(s, append(members, mode)...), status, code)
	}
	o.Equal(calls, len(o.calls()), "the number of calls to the route")
	o.Equal(before, o.balance(), "the account")
}

// count is the token count of the smallest request with these members.
func (o *ops) count(members ...string) int64 {
	n, ok := integer(o.ok(count, o.ask(count, members...))["input_tokens"])
	o.True(ok, "the count is no integer")
	return n
}

// as is the operator's action on the account.
func (o *ops) as(method, path string, in any) {
	var v map[string]any
	if err := o.gate.Admin.Call(o.ctx, method, path, in, &v); err != nil {
		o.Fatalf("as the operator, %s %s: %v", method, path, err)
	}
}

func (o *ops) setState(state string) {
	o.as("POST", "/fareway/accounts/"+o.account.Name+"/state", map[string]any{"state": state})
}

func (o *ops) topUp(credits int64) {
	if err := o.gate.TopUp(o.ctx, o.account.Name, credits); err != nil {
		o.Fatalf("%v", err)
	}
}

// customer makes another account on the gate, and is its client.
func (o *ops) customer(credits int64) *ops {
	c, err := o.gate.customer(o.ctx, credits)
	if err != nil {
		o.Fatalf("%v", err)
	}
	return c
}

func (g *gate) customer(ctx context.Context, credits int64) (*ops, error) {
	g.customers++
	a, err := g.NewAccount(ctx, fmt.Sprintf("customer-%d", g.customers), credits)
	if err != nil {
		return nil, err
	}
	limits := DefaultLimits
	limits.Credits, limits.Timeout = 1_000_000, 20*time.Second
	target, err := NewTarget(g.URL, a.Key, limits)
	if err != nil {
		return nil, err
	}
	target.own = true
	return &ops{T: &T{Target: target, ctx: ctx}, gate: g, account: a}, nil
}

// record waits for the ledger's and the log's record of a request: its access line.
func (o *ops) record(a *answer) map[string]any {
	id := a.Header.Get("X-Request-Id")
	var found map[string]any
	o.await("the log's record of "+id, func() bool {
		for _, v := range o.logged(id) {
			if v["msg"] == "request" {
				found = v
			}
		}
		return found != nil
	})
	return found
}

// logged are the lines of the gateway's log that hold a text.
func (o *ops) logged(text string) []map[string]any {
	b, err := os.ReadFile(filepath.Join(o.gate.Dir, "fareway.log"))
	if err != nil {
		return nil // there is none before its first line
	}
	var found []map[string]any
	for line := range bytes.Lines(b) {
		var v map[string]any
		if bytes.HasSuffix(line, []byte("\n")) && bytes.Contains(line, []byte(text)) && json.Unmarshal(line, &v) == nil {
			found = append(found, v)
		}
	}
	return found
}

// await waits until there is what can only be looked for.
func (o *ops) await(what string, there func() bool) {
	ctx, cancel := context.WithTimeout(o.ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			o.Fatalf("waited in vain for %s", what)
		}
	}
}

// failedStream asks for a stream that must end with an error frame.
func (o *ops) failedStream(s shape, members ...string) (wire.Verdict, *answer) {
	a := o.ask(s, append([]string{`"stream":true`}, members...)...)
	o.Equal(200, a.Status, "the status of the stream")
	v := s.Judge(o, o.frames(a))
	o.True(v.Error != nil, "the stream has no error frame: %s", brief(string(a.Raw)))
	return v, a
}

// failed is failedStream for the code of the frame, and all that came before it.
func (o *ops) failed(s shape, members ...string) (code string, a *answer, before []frame) {
	v, a := o.failedStream(s, members...)
	frames := o.frames(a)
	first := slices.IndexFunc(frames, func(f frame) bool { return f.Event == "error" || f.JSON["error"] != nil })
	return v.Error.Code, a, frames[:first]
}

// both asks for a reply in JSON and as a stream, which must say the same, and returns the stream.
func (o *ops) both(s shape, members ...string) wire.Verdict {
	a := o.ask(s, append([]string{`"stream":true`, includeUsage(s)}, members...)...)
	o.Equal(200, a.Status, "the status of "+a.call.String())
	streamed := s.Judge(o, o.frames(a))
	o.True(streamed.Complete, "the stream failed: %s", brief(streamed.Error))
	a = o.ask(s, members...)
	o.Equal(s.OutcomeOf(o, a.Status, a.Header, a.Raw), streamed.Outcome, "the stream, beside the reply in JSON,")
	return streamed
}

// opsCheck is a check on a gateway of the run's own.
type opsCheck struct {
	ids  string
	does string
	gate gateKind
	run  func(*ops)
}

// onEach makes a check that runs in each shape.
func onEach(ids, does string, kind gateKind, run func(*ops, shape)) opsCheck {
	return opsCheck{ids, does, kind, func(o *ops) {
		for _, s := range shapes {
			c := o.customer(1_000_000)
			c.forget()
			run(c, s)
			o.notes = c.notes // the same in each shape
		}
	}}
}

// atOnce is onEach with all shapes at the same time, for what takes long. The upstream's reply must be the same
// for all of them.
func atOnce(ids, does string, kind gateKind, run func(*ops, shape)) opsCheck {
	return opsCheck{ids, does, kind, func(o *ops) {
		ends := make([]any, len(shapes))
		var group sync.WaitGroup
		for i, s := range shapes {
			c := o.customer(1_000_000)
			group.Go(func() {
				defer func() { ends[i] = recover() }()
				run(c, s)
			})
		}
		group.Wait()
		for _, end := range ends {
			if end != nil {
				panic(end)
			}
		}
	}}
}

// forget forgets the upstream's requests and takes its reply back to hello.
func (o *ops) forget() {
	o.answers(hello)
	o.gate.mu.Lock()
	defer o.gate.mu.Unlock()
	o.gate.calls = nil
}

// opsChecks are all checks on gateways of the run's own.
func opsChecks() []opsCheck {
	return slices.Concat(opsServiceChecks(), opsProfileChecks(), opsHTTPChecks(), opsAccountChecks(), opsMoneyChecks(),
		opsExactChecks(),
		opsCountChecks(),
		opsFieldRows(), opsFieldChecks(), opsToolChecks(), opsStructChecks(), opsStopChecks(), opsErrorChecks(),
		opsEndingChecks(),
		opsFitChecks(), opsLiveChecks(), opsCapsChecks(), opsLaterChecks(), opsLimitChecks(),
		opsSlowChecks(), opsAwayChecks(), opsPolicyChecks(), opsStepsChecks())
}

// checksOfAGate is for how many checks there is another gateway: it waits for the disk most of the time.
const checksOfAGate = 200

// performOps starts the gateways that the checks need, all at the same time, and runs the checks of each one by
// one.
func performOps(ctx context.Context, checks []opsCheck) ([]finding, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	byGate := make(map[gateKind][]opsCheck)
	for _, c := range checks {
		byGate[c.gate] = append(byGate[c.gate], c)
	}
	var (
		group    sync.WaitGroup
		mu       sync.Mutex
		findings []finding
		failure  error // the first
	)
	for kind, all := range byGate {
		for checks := range slices.Chunk(all, checksOfAGate) {
			group.Go(func() {
				found, err := performOn(ctx, kind, checks)
				mu.Lock()
				defer mu.Unlock()
				findings = append(findings, found...)
				if err != nil && failure == nil {
					failure = err
					cancel()
				}
			})
		}
	}
	group.Wait()
	// Details are put together in the order of the findings: the same in every run.
	slices.SortStableFunc(findings, func(a, b finding) int { return strings.Compare(a.check.Does, b.check.Does) })
	return findings, failure
}

// performOn starts one gateway and runs its checks, each with a customer of its own.
func performOn(ctx context.Context, kind gateKind, checks []opsCheck) ([]finding, error) {
	g, err := startGate(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("preparing what --ops needs: %w", err)
	}
	defer g.close()
	var findings []finding
	for _, oc := range checks {
		o, err := g.customer(ctx, 1_000_000)
		if err != nil {
			return nil, fmt.Errorf("preparing what --ops needs: %w", err)
		}
		o.forget()
		c := check(oc.ids, oc.does, func(t *T) {
			o.T = t
			oc.run(o)
		})
		findings = append(findings, c.run(ctx, o.Target))
		g.openWaits()
	}
	last, err := g.customer(ctx, 0)
	if err != nil {
		return nil, fmt.Errorf("preparing what --ops needs: %w", err)
	}
	whole := check("BILL-08", "the ledger of the gateway "+string(kind)+" when all is over", func(t *T) {
		last.T = t
		last.requireWholeLedger()
	})
	return append(findings, whole.run(ctx, last.Target)), nil
}

// requireWholeLedger checks that what all checks have done leaves nothing on hold, and a ledger whose entries make what
// accounts have.
func (o *ops) requireWholeLedger() {
	var v admin.Verified
	o.await("all holds to be released", func() bool {
		if err := o.gate.Admin.Call(o.ctx, "POST", "/fareway/ledger/verify", admin.Verification{}, &v); err != nil {
			o.Fatalf("verifying the ledger: %v", err)
		}
		return v.Holds == 0
	})
	o.True(v.OK, "the ledger is wrong: %s: %s", v.Entry, v.Problem)
}
