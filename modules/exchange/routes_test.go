package exchange

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/health"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestWhichRoutesAreCalled: the routes that a request goes to, in their order, and what its client is told.
func TestWhichRoutesAreCalled(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxConcurrent = 1
		}
		c.Routes[2].ContextWindow = 400_000
	})
	const first, second, third = " first", " second", " third"
	broken, tooLong := upstream.Refuse(upstream.ServerError()), upstream.Refuse(upstream.ContextLength())
	tooMuch := upstream.Refuse(upstream.Error{Status: 429, Code: "rate_limit_exceeded", Type: "tokens", RetryAfter: "60",
		Message: "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389."})
	for name, tc := range map[string]struct {
		full     string // routes
		one, two upstream.Reply
		called   string
		status   int
		says     string
	}{
		"ERR-25 one after the other":   {"", broken, broken, first + second + third, 200, "Hello"},
		"GAP-39 one that is full":      {first, broken, broken, second + third, 200, "Hello"},
		"GAP-39 all but one are full":  {first + second, broken, broken, third, 200, "Hello"},
		"GAP-39 the next is full":      {second, broken, broken, first + third, 200, "Hello"},
		"GAP-39 the others are full":   {second + third, broken, broken, first, 502, "The model route failed."},
		"GAP-39 all full":              {first + second + third, broken, broken, "", 429, "All routes that can take"},
		"GAP-126 too long for two":     {"", tooLong, tooLong, first + second + third, 200, "Hello"},
		"GAP-126 not for an equal one": {"", tooLong, hello("stop"), first + second, 200, "Hello"},
		"GAP-126 a larger one is full": {third, tooLong, tooLong, first + second, 429, "All routes that can take"},
		"GAP-126 too large for now":    {"", tooMuch, hello("stop"), first + second, 200, "Hello"},
		"GAP-126 and no other is free": {second + third, tooMuch, broken, first, 503, "may send to its model route"},
		"POL-02 a decline":             {"", upstream.Refuse(upstream.ContentFilter()), broken, first, 400, "content policy"},
		"GAP-40 nothing to show":       {"", silent("stop"), broken, first, 502, "without a visible answer. Trying"},
		"GAP-40 the allowance":         {"", silent("length"), broken, first, 422, "The output allowance was used up"},
		"GAP-84 no JSON":               {"", upstream.Call("c", "f", "{"), broken, first, 502, "arguments that are not JSON"},
		"GAP-114 an unknown end":       {"", hello("odd"), broken, first + second + third, 200, "Hello"},
	} {
		t.Run(name, func(t *testing.T) {
			var full []engine.RoutePermit
			for _, r := range strings.Fields(tc.full) {
				permit, err := b.engine.Current().AcquireRoute(t.Context(), &config.Route{Name: r}, health.Call{})
				require.NoError(t, err)
				full = append(full, permit)
			}
			b.upstream.SetScript(upstream.Script{Models: map[string]upstream.Reply{
				"first": tc.one, "second": tc.two, "third": hello("stop")}})
			before := len(b.upstream.Records())
			w, call := httptest.NewRecorder(), saying(false, withTool)
			b.ask(t, t.Context(), w, call)
			called := b.called(t, before)
			require.Equal(t, strings.Fields(tc.called), append([]string{}, called...))
			require.Equal(t, tc.status, w.Code)
			require.Contains(t, w.Body.String(), tc.says)
			for i := range full {
				full[i].Release()
			}
			if called == nil {
				_, err := b.engine.Store().Request(t.Context(), call.ID)
				require.ErrorIs(t, err, ledger.ErrNotFound, "there is nothing to settle")
				return
			}
			r := b.record(t, call)
			require.Len(t, r.Attempts, len(called))
			for i, a := range r.Attempts {
				require.Equal(t, called[i], a.Route)
				require.Equal(t, ledger.AttemptID(call.ID, int64(i+1)), a.ID)
			}
			require.Equal(t, len(called), call.Record.Attempts)
			require.Equal(t, called[len(called)-1], call.Record.Route)
		})
	}
}

// TestTooLongForAll: that no window is large enough is said only where every route that might take it was asked.
func TestTooLongForAll(t *testing.T) {
	t.Parallel()
	tooLong, broken := upstream.Refuse(upstream.ContextLength()), upstream.Refuse(upstream.ServerError())
	tooMuch := upstream.Refuse(upstream.Error{Status: 413,
		Message: "Request too large for model `m` on tokens per minute"})
	for name, tc := range map[string]struct {
		one, two, three upstream.Reply
		called          string
		status          int
		final           bool
	}{
		"GAP-126 all":                         {tooLong, tooLong, tooLong, "first second third", 503, true},
		"GAP-126 one may take it later":       {tooMuch, tooLong, tooLong, "first second third", 503, false},
		"GAP-126 one of a larger window, too": {tooLong, tooMuch, tooLong, "first second third", 503, false},
		"GAP-126 a smaller one is not asked":  {tooLong, broken, hello("stop"), "first second", 502, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "plain", func(c *config.Config) {
				if tc.status == 502 {
					c.Routes[2].ContextWindow = c.Routes[0].ContextWindow - 1
				}
			})
			b.upstream.SetScript(upstream.Script{Models: map[string]upstream.Reply{
				"first": tc.one, "second": tc.two, "third": tc.three}})
			w, call := httptest.NewRecorder(), saying(false, withTool)
			b.ask(t, t.Context(), w, call)
			require.Equal(t, strings.Fields(tc.called), b.called(t, 0))
			require.Equal(t, tc.status, w.Code)
			require.Equal(t, tc.final, strings.Contains(w.Body.String(), `"feature_unavailable"`), w.Body.String())
		})
	}
}

// silent makes a reply that thinks and says nothing.
func silent(finish string) upstream.Reply {
	return upstream.Reply{Steps: []upstream.Step{upstream.Reasoning("hm"), upstream.Finish(finish),
		upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: 2}), upstream.Done()}}
}

// withTool makes the gateway ask its upstream for a stream, also where the client asks for a reply in one piece.
const withTool = `"max_tokens":100,"tools":[{"type":"function","function":{"name":"f"}}]`

const withUsage = `"max_tokens":100,"stream_options":{"include_usage":true}`

// TestStreams: what a client sees of streams, and that another route is tried as long as it sees nothing of the reply.
func TestStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) {
		c.Routes[0].FinishReasons = map[string]llm.FinishReason{"odd": llm.FinishStop}
	})
	stream := func(t *testing.T, first upstream.Reply) (body string, r ledger.RequestRecord) {
		b.upstream.SetModel("first", first)
		b.upstream.SetModel("second", hello("stop"))
		w, call := httptest.NewRecorder(), saying(true, withUsage)
		b.ask(t, t.Context(), w, call)
		require.Equal(t, 200, w.Code)
		require.Equal(t, "text/event-stream; charset=utf-8", w.Header().Get("Content-Type"))
		require.Equal(t, "no-cache, no-transform", w.Header().Get("Cache-Control"), "nothing may delay it")
		require.Equal(t, "no", w.Header().Get("X-Accel-Buffering"))
		require.Nil(t, call.Body, "it is forgotten when something was shown")
		return w.Body.String(), b.record(t, call)
	}
	for name, first := range map[string]upstream.Reply{
		"SSE-43 whole":                   hello("stop"),
		"GAP-39 nothing was shown yet":   {Steps: []upstream.Step{upstream.Headers(), upstream.Cut()}},
		"GAP-114 the route's own reason": hello("Odd"),
	} {
		t.Run(name, func(t *testing.T) {
			body, _ := stream(t, first)
			require.Regexp(t, `(?s)^data: .*"role":"assistant".*"content":"Hel".*"content":"lo".*`+
				`"finish_reason":"stop".*data: \[DONE\]\n\n$`, body)
			require.Contains(t, body, `"prompt_tokens":10`)
		})
	}
	t.Run("SSE-30 SSE-50 something was shown", func(t *testing.T) {
		body, r := stream(t, upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Cut()}})
		require.Contains(t, body, `"content":"Hel"`)
		require.Contains(t, body, `"code":"stream_error"`)
		require.NotContains(t, body, "[DONE]")
		require.Equal(t, []ledger.Outcome{ledger.Unproven}, outcomes(r))
		require.Equal(t, string(llm.ErrBroken), r.Reason)
	})
	t.Run("GAP-57 what nobody proves is no reply", func(t *testing.T) {
		body, r := stream(t, upstream.Reply{
			Steps: []upstream.Step{upstream.Text("Hel"), upstream.Finish("stop"), upstream.Done()}})
		require.Contains(t, body, "did not report what the reply used")
		require.NotContains(t, body, "[DONE]")
		require.Equal(t, string(noUsage), r.Reason)
		require.Len(t, b.log.about("kind=no_usage"), 1, "the operator is told")
	})
	t.Run("GAP-111 half of the usage is none", func(t *testing.T) {
		_, r := stream(t, upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Finish("stop"),
			upstream.ReportRaw(`{"prompt_tokens":10}`), upstream.Done()}})
		require.Equal(t, string(noUsage), r.Reason)
		require.Len(t, b.log.about("the upstream's usage is no usage"), 1)
	})
}

// TestTheOperatorIsToldOfFailures: the log and a metric have every failed attempt.
// TestAQuietUpstream: the client is told that its stream is alive, for as long as nothing comes.
func TestAQuietUpstream(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) { c.Gateway.Keepalive = 10 * time.Millisecond })
	seen := make(chan struct{})
	reply := hello("stop")
	reply.Steps = slices.Insert(reply.Steps, 1, upstream.WaitFor(seen))
	b.upstream.SetModel("first", reply)
	alive := 0
	w, call := &watched{httptest.NewRecorder(), func(text string) {
		if alive += strings.Count(text, ": keepalive"); alive >= 3 && seen != nil {
			close(seen)
			seen = nil
		}
	}}, generating(true)
	b.ask(t, t.Context(), w, call)
	require.Contains(t, w.Body.String(), "[DONE]")
	require.Equal(t, "ok", b.record(t, call).Reason)
}

func TestTheOperatorIsToldOfFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain")
	b.upstream.SetModel("first", upstream.Refuse(upstream.InvalidKey()))
	b.upstream.SetModel("second", upstream.Refuse(upstream.RateLimited("7")))
	b.upstream.SetModel("third", hello("stop"))
	w := httptest.NewRecorder()
	b.ask(t, t.Context(), w, generating(false))
	require.Equal(t, 200, w.Code)
	told := b.log.about("attempt failed")
	require.Len(t, told, 2)
	require.Contains(t, told[0], "level=ERROR", "he alone can mend it")
	require.Contains(t, told[0], "route=first")
	require.NotContains(t, told[0], "retry_after")
	require.Contains(t, told[1], "level=WARN")
	require.Contains(t, told[1], "retry_after=7s")
	require.InDelta(t, 2, gaugeOf(t, b.engine, "fareway_upstream_errors_total"), 0)
	require.Empty(t, b.log.about("no usage"))
	require.Empty(t, b.log.about("more than was held"))
	require.InDelta(t, 12, gaugeOf(t, b.engine, "fareway_tokens_total"), 0)
	require.InDelta(t, helloCost, gaugeOf(t, b.engine, "fareway_charged_microcents_total"), 0)
}

// TestMoreThanWasHeld: the operator pays for it, and is told which setting is wrong.
func TestMoreThanWasHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain")
	var over int64
	for name, tc := range map[string]struct {
		usage   upstream.Usage
		setting string
	}{
		"a longer reply":               {upstream.Usage{Prompt: 10, Completion: 200}, "bills_past_allowance"},
		"the longest reply":            {upstream.Usage{Prompt: 10, Completion: 64_000}, "bills_past_allowance"},
		"more than the route can have": {upstream.Usage{Prompt: 10, Completion: 64_001}, "max_output"},
		"a prompt that is not so long": {upstream.Usage{Prompt: 100_000, Completion: 100}, "template_tokens"},
	} {
		t.Run("GAP-110 "+name, func(t *testing.T) {
			reply := hello("stop")
			reply.Steps[3] = upstream.ReportTokens(tc.usage)
			b.upstream.SetModel("first", upstream.Refuse(upstream.ServerError()))
			b.upstream.SetModel("second", reply)
			call := generating(false)
			b.ask(t, t.Context(), httptest.NewRecorder(), call)
			r := b.record(t, call)
			require.Equal(t, r.Held, r.Microcents)
			require.Equal(t, tc.usage.Prompt*300+tc.usage.Completion*1_500-r.Held, r.Over)
			over += r.Over
			require.InDelta(t, over, gaugeOf(t, b.engine, "fareway_over_microcents_total"), 0)
			told := b.log.about(call.ID)
			require.Contains(t, told[len(told)-1], "an upstream reported more than was held")
			require.Regexp(t, `setting="?`+tc.setting, told[len(told)-1])
			require.Contains(t, told[len(told)-1], "route=second")
		})
	}
	t.Run("GAP-110 exactly that is not more", func(t *testing.T) {
		b.upstream.SetModel("second", hello("stop"))
		before := len(b.log.about("more than was held"))
		b.ask(t, t.Context(), httptest.NewRecorder(), generating(false))
		require.Len(t, b.log.about("more than was held"), before)
	})
}

// TestCreditsForAnotherAttempt: the next attempt is not made on credit.
func TestCreditsForAnotherAttempt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain")
	worked := hello("odd")
	worked.Steps[3] = upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: 300})
	b.upstream.SetModel("first", worked)
	b.upstream.SetModel("second", hello("stop"))
	call := saying(false, `"max_tokens":500,"tools":[{"type":"function","function":{"name":"f"}}]`)
	call.Principal = b.account(t, "poor", 1)
	w := httptest.NewRecorder()
	b.ask(t, t.Context(), w, call)
	require.Equal(t, 402, w.Code, "GAP-49")
	require.Contains(t, w.Body.String(), "do not cover")
	require.Equal(t, []string{"first"}, b.called(t, 0))
	r := b.record(t, call)
	require.Equal(t, []ledger.Outcome{ledger.Failed}, outcomes(r), "what was not begun is not in the books")
	require.EqualValues(t, 10*300+300*1_500, r.Microcents, "BILL-23")
	require.Equal(t, string(overBudget), r.Reason)
	require.Equal(t, "first", call.Record.Route)

	again := saying(false, `"max_tokens":500`)
	again.Principal = call.Principal
	w = httptest.NewRecorder()
	b.ask(t, t.Context(), w, again)
	require.Equal(t, 402, w.Code)
	require.False(t, again.Record.Held)
	_, err := b.engine.Store().Request(t.Context(), again.ID)
	require.ErrorIs(t, err, ledger.ErrNotFound)
}

// TestTheTimeOfARoute and of the request.
func TestTheTimeOfARoute(t *testing.T) {
	t.Parallel()
	b := newBench(t, "plain", func(c *config.Config) { c.Routes[0].Timeout = 50 * time.Millisecond })
	b.upstream.SetModel("first", upstream.Reply{Steps: []upstream.Step{upstream.Silence()}})
	b.upstream.SetModel("second", hello("stop"))
	w, call := httptest.NewRecorder(), generating(false)
	b.ask(t, t.Context(), w, call)
	require.Equal(t, 200, w.Code, "another route may be faster")
	require.Equal(t, []ledger.Outcome{ledger.Failed, ledger.Finished}, outcomes(b.record(t, call)))
	require.Len(t, b.log.about("kind=attempt_timeout"), 1)
}

// TestTheTimeOfARequest ends it, and a provider that can prove what was used is heard out.
func TestTheTimeOfARequest(t *testing.T) {
	t.Parallel()
	for plugin, used := range map[string]int64{"plain": 0, "prover": 10*300 + 7*1_500} {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			b, r := outOfTime(t, plugin, 300*time.Millisecond)
			require.Equal(t, string(timeLimit), r.Reason)
			require.True(t, r.ServiceLimit, "GAP-113")
			require.Equal(t, used, r.Waived)
			require.Equal(t, []string{"first"}, b.called(t, 0), "no other route has time")
		})
	}
}

// outOfTime has a request end by its time, while its first route says nothing; on a busy machine it takes more time to
// come so far.
func outOfTime(t *testing.T, plugin string, limit time.Duration) (*bench, ledger.RequestRecord) {
	t.Helper()
	for ; ; limit *= 4 {
		b := newBench(t, plugin, func(c *config.Config) { c.Gateway.RequestTimeout = limit })
		b.upstream.SetModel("first", upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Silence()}})
		w, call := httptest.NewRecorder(), saying(false, withTool)
		b.ask(t, t.Context(), w, call)
		require.Equal(t, 504, w.Code)
		require.Contains(t, w.Body.String(), "ran past its time limit")
		if called := b.called(t, 0); len(called) > 0 && called[0] != "" { // it has read it, too
			return b, b.record(t, call)
		}
		require.Less(t, limit, time.Minute, "the route is not called")
	}
}

// TestTheServiceShutsDown: what runs then is told so, and is free.
func TestTheServiceShutsDown(t *testing.T) {
	t.Parallel()
	b := newBench(t, "prover", func(c *config.Config) { c.Gateway.DrainTimeout = time.Millisecond })
	b.upstream.SetModel("first", upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Silence()}})
	w := &watched{httptest.NewRecorder(), func(string) { go b.engine.Drain() }}
	call := generating(true)
	b.ask(t, t.Context(), w, call)
	require.Contains(t, w.Body.String(), "The service is shutting down")
	require.Contains(t, w.Body.String(), `"code":"stream_error"`)
	r := b.record(t, call)
	require.True(t, r.Free, "BILL-25")
	require.False(t, r.ServiceLimit)
	require.Equal(t, string(shutdown), r.Reason)
	require.Len(t, r.Attempts, 1)
	require.Equal(t, llm.Usage{}, r.Attempts[0].Usage, "nobody waits for a proof that changes nothing")
}

// TestAProviderDies: whether it can say later what became of the attempt decides whether somebody asks.
func TestAProviderDies(t *testing.T) {
	t.Parallel()
	for plugin, outcome := range map[string]ledger.Outcome{"plain": ledger.Failed, "later": ledger.Unproven} {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, plugin, func(c *config.Config) {
				c.Routes = c.Routes[:1]
				c.Routes[0].Model = "deadly"
				c.Providers[0].Carry = config.CarryProcess
			})
			w, call := httptest.NewRecorder(), generating(false)
			b.ask(t, t.Context(), w, call)
			require.Equal(t, 502, w.Code)
			require.Contains(t, w.Body.String(), "The model route stopped working")
			r := b.record(t, call)
			require.True(t, r.Free)
			require.Equal(t, []ledger.Outcome{outcome}, outcomes(r))
		})
	}
}

// TestReceiptsOfStreams: the end of a stream waits for what the provider says of it (GAP-57).
func TestReceiptsOfStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t, "later", func(c *config.Config) { c.Gateway.Keepalive = 20 * time.Millisecond })
	b.upstream.SetModel("first", hello("stop"))
	next := func() string { return ledger.AttemptID(fmt.Sprintf("req_%032x", b.asked.Load()+1), 1) }
	t.Run("GAP-57 it comes", func(t *testing.T) {
		attempt, handed := next(), false
		w := &watched{ResponseRecorder: httptest.NewRecorder()}
		w.got = func(text string) {
			if text == ": keepalive\n\n" && !handed && strings.Contains(w.Body.String(), `"content":"lo"`) { // while it waits
				handed = true
				b.desk.HandOut(attempt)
			}
		}
		call := saying(true, withUsage)
		b.ask(t, t.Context(), w, call)
		require.True(t, handed)
		require.Regexp(t, `(?s)"content":"lo".*: keepalive.*"billing_pending":false.*\[DONE\]`, w.Body.String())
		r := b.record(t, call)
		require.EqualValues(t, helloCost, r.Microcents)
		require.False(t, r.Pending)
	})
	t.Run("GAP-57 a reply in one piece does not wait", func(t *testing.T) {
		w, call := httptest.NewRecorder(), generating(false)
		b.ask(t, t.Context(), w, call)
		require.Contains(t, w.Body.String(), `"billing_pending":true`)
		require.True(t, b.record(t, call).Pending)
	})
	t.Run("GAP-47 nor one that nobody reads", func(t *testing.T) {
		attempt := next()
		ctx, leave := contextThatIsLeft(t)
		go func() {
			_ = b.desk.Asked(t.Context(), attempt, 1)
			leave()
		}()
		w, call := httptest.NewRecorder(), generating(true)
		require.Panics(t, func() { b.ask(t, ctx, w, call) })
		r := b.record(t, call)
		require.True(t, r.Pending)
		require.Equal(t, gateway.ReasonLeft, r.Reason)
		require.Equal(t, []ledger.Outcome{ledger.Unproven}, outcomes(r))
		require.NotContains(t, w.Body.String(), "[DONE]")
	})
	t.Run("BILL-25 nor when the service shuts down", func(t *testing.T) {
		attempt := next()
		b.engine.Current().Config.Gateway.DrainTimeout = time.Millisecond
		go func() {
			_ = b.desk.Asked(t.Context(), attempt, 1)
			b.engine.Drain()
		}()
		w, call := httptest.NewRecorder(), generating(true)
		b.ask(t, t.Context(), w, call)
		require.Contains(t, w.Body.String(), "The service is shutting down")
		require.Equal(t, string(shutdown), b.record(t, call).Reason)
	})
}

// TestWhatIsEstimated: an attempt that a limit of the service ended after text was delivered, and that proved nothing,
// counts by what was delivered, or where a receipt can come falls back on that.
func TestWhatIsEstimated(t *testing.T) {
	t.Parallel()
	for _, plugin := range []string{"plain", "later"} {
		t.Run("GAP-113 "+plugin, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, plugin)
			a := &attempt{route: &config.Route{Provider: "up", MaxOutput: 10}, allowance: 10, outcome: ledger.Failed}
			a.output.Add(llm.Event{Kind: llm.EventText, Text: "one two three"})
			x := (&exchange{scope: scope{gen: b.engine.Current()}, delivery: &delivery{shown: true},
				prompt: prompt{input: input{estimate: 5}}, work: work{current: a}}).connect()
			estimate := x.work.estimateUnproven(&failure{kind: timeLimit})
			counted := a.usage
			if plugin == "later" {
				require.Nil(t, a.usage)
				counted = estimate
			} else {
				require.Nil(t, estimate)
			}
			require.True(t, counted.Estimated)
			require.EqualValues(t, 5, *counted.Input)
			require.Positive(t, *counted.Output)
			require.LessOrEqual(t, *counted.Output, int64(10))
		})
	}
}

// TestFailuresOfAttempts: an attempt whose time is over ended for that reason, whatever its stream says.
func TestFailuresOfAttempts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		cause error
		kind  failureKind
		free  bool
	}{{engine.ErrShutdown, shutdown, true}, {errTimeLimit, timeLimit, false}, {errAttemptTimeout, attemptTimeout, false}} {
		ctx, end := contextThatEnds(tc.cause)
		end()
		f := failureOf(ctx, errors.New("the stream broke"))
		require.Equal(t, tc.kind, f.kind)
		require.ErrorIs(t, f.err, tc.cause)
		require.Equal(t, tc.free, f.isFree())
	}
	f := failureOf(t.Context(), llm.Errorf(llm.ErrCapacity, "busy"))
	require.Equal(t, llm.ErrCapacity, f.kind)
}
