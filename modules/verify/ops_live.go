package verify

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// live is a stream that is read while its route still replies.
type live struct {
	*stream
	o     *ops
	shape shape
	lines *bufio.Reader
	leave context.CancelFunc // leaves as a client that closes its connection
}

// watch asks for a stream, and lets look read it from its first byte on. Members are an object's inside.
func (o *ops) watch(s shape, members string, look func(*live)) {
	ctx, leave := context.WithTimeout(o.ctx, o.limits.Timeout)
	defer leave()
	c := call{Path: s.Path, Body: o.body(s, members, `"stream":true`)}
	resp := o.begin(ctx, c)
	defer resp.Body.Close()
	o.Equal(http.StatusOK, resp.StatusCode, "the status of the stream")
	r := &stream{answer: &answer{call: c, Status: resp.StatusCode, Header: resp.Header}}
	look(&live{stream: r, o: o, shape: s, lines: bufio.NewReader(resp.Body), leave: leave})
}

// begin sends a request and returns when its reply begins. That none does is a failure: the gateway is the run's own.
func (o *ops) begin(ctx context.Context, c call) *http.Response {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case ending:
			o.Fatalf("%s", e.detail)
		default:
			panic(e)
		}
	}()
	return o.open(ctx, c)
}

// next waits for a frame; false at the end of the stream.
func (l *live) next() (frame, bool) {
	var block strings.Builder
	for {
		line, err := l.lines.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" && block.Len() == 0 {
			return frame{}, false
		}
		if err != nil {
			l.o.Fatalf("after the text %q, the stream broke off, or nothing more came: %v", l.Text, err)
		}
		if line == "\n" {
			break
		}
		block.WriteString(line)
	}
	f := wire.ReadFrame(l.o, strings.TrimSuffix(block.String(), "\n"))
	l.take(l.shape, f)
	return f, true
}

// reads waits for text, and checks that all of it so far is this.
func (l *live) reads(text string) {
	for len(l.Text) < len(text) {
		if _, ok := l.next(); !ok {
			l.o.Fatalf("the stream ended after %q instead of %q", l.Text, text)
		}
	}
	l.o.Equal(text, l.Text, "the text so far")
}

// keptAlive waits for n frames that must all be keep-alives.
func (l *live) keptAlive(n int) {
	for range n {
		f, ok := l.next()
		l.o.True(ok && f.IsKeepAlive(), "instead of a keep-alive came %s", brief(f))
	}
}

// ends reads the rest.
func (l *live) ends() {
	for ok := true; ok; {
		_, ok = l.next()
	}
}

// opsLiveChecks look at when something is sent, not only at what (E24).
func opsLiveChecks() []opsCheck {
	return []opsCheck{
		onEach("SSE-43 SSE-44 SSE-45", "the status waits for a route that refuses", standardGate, requireStatusWaits),
		onEach("SSE-43 SSE-21 SSE-22 SSE-23 SSE-24", "the 200 is there before the reply", standardGate, requireEarlyStart),
		onEach("SSE-46 SSE-45 SSE-50", "the route refuses after the first keep-alive", singleGate, requireLateRefusal),
		onEach("SSE-26 SSE-27", "the route accepts after two keep-alives", singleGate, requireLateAcceptance),
		onEach("SSE-28 SSE-26 SSE-27", "the route accepts, and then is quiet", singleGate, requireKeptAlive),
		onEach("BILL-22", "a client that leaves pays for the route's work", standardGate, requireLeaverPays),
	}
}

// refusesAt is a route that fails before it accepts, once it may.
func refusesAt(wait string) upstream.Reply {
	return upstream.Reply{Steps: []upstream.Step{upstream.Wait(wait), upstream.Fail(upstream.ServerError())}}
}

func requireStatusWaits(o *ops, s shape) {
	refuse := o.newWait()
	o.answers(refusesAt(refuse))
	before := o.balance()
	refused := make(chan *answer, 1)
	go func() {
		defer close(refused)
		defer func() { _ = recover() }() // it could not be sent; awaitRoute tells
		refused <- o.ask(s, `"stream":true`)
	}()
	o.awaitRoute(refuse)
	o.True(o.balance().Reserved > before.Reserved, "nothing is held")
	o.gate.up.Open(refuse)
	a := <-refused
	o.True(a != nil, "the request that the route refuses got no reply")
	o.requireStatus(s, a, 502, "upstream_error")
	o.Equal(before, o.balance(), "the account")
}

func requireEarlyStart(o *ops, s shape) {
	accepted := o.newWait()
	o.answers(script(five, "stop", upstream.Headers(), upstream.Wait(accepted), upstream.Text("Hel")))
	o.watch(s, "", func(l *live) { // the 200 is here while the route says nothing
		l.starts()
		o.gate.up.Open(accepted)
		l.ends()
		o.Equal("Hel", s.Judge(o, l.Frames).Text, "the text")
	})
}

// starts waits for the first events, which say that the request was admitted.
func (l *live) starts() {
	first := map[string][]string{"chat": {""}, "responses": {"response.created", "response.in_progress"},
		"messages": {"message_start"}}[l.shape.Name]
	for _, event := range first {
		f, ok := l.next()
		for ok && f.IsKeepAlive() {
			f, ok = l.next()
		}
		l.o.True(ok && f.Event == event, "instead of the first event came %s", f)
	}
}

// requireLateRefusal: nothing is made up before the error frame.
func requireLateRefusal(o *ops, s shape) {
	refuse := o.newWait()
	o.answers(refusesAt(refuse))
	before := o.balance()
	o.watch(s, "", func(l *live) {
		l.keptAlive(1)
		o.gate.up.Open(refuse)
		l.ends()
		v := s.Judge(o, l.Frames)
		o.True(!v.Started && v.Error != nil, "the stream is %s", brief(v))
		o.Equal("upstream_error", v.Error.Code, "the code of the frame")
		o.Equal(any(false), o.record(l.answer)["pending"], "whether the record's charge is pending")
	})
	o.Equal(before, o.balance(), "the account")
}

func requireLateAcceptance(o *ops, s shape) {
	accept := o.newWait()
	reply := hello
	reply.Steps = append([]upstream.Step{upstream.Wait(accept)}, reply.Steps...)
	o.answers(reply)
	o.watch(s, "", func(l *live) {
		l.keptAlive(2)
		o.gate.up.Open(accept)
		l.starts()
		l.ends()
		v := s.Judge(o, l.Frames)
		o.True(v.Complete && v.Text == "Hello", "the stream is %s", brief(v))
	})
}

// requireKeptAlive: keep-alives come before the text and in its middle (GAP-65).
func requireKeptAlive(o *ops, s shape) {
	first, second := o.newWait(), o.newWait()
	o.answers(script(five, "stop", upstream.Headers(), upstream.Wait(first), upstream.Text("Hel"), upstream.Wait(second),
		upstream.Text("lo")))
	o.watch(s, "", func(l *live) {
		l.starts()
		l.keptAlive(3)
		o.gate.up.Open(first)
		l.reads("Hel")
		l.keptAlive(1)
		o.gate.up.Open(second)
		l.ends()
		o.Equal("Hello", s.Judge(o, l.Frames).Text, "the text")
	})
}

func requireLeaverPays(o *ops, s shape) {
	left := o.newWait()
	// The route says more for a while: the service has the time to notice.
	more := upstream.Step{Do: upstream.StepText, Text: " and so on", Times: 300,
		Every: upstream.Duration(time.Millisecond)}
	o.answers(script(upstream.Usage{Prompt: 10, Completion: 500}, "stop", upstream.Text("Hel"), upstream.Text("lo"),
		upstream.Wait(left), more))
	before := o.balance()
	var a *answer
	o.watch(s, "", func(l *live) {
		l.reads("Hello")
		o.True(o.balance().Reserved > before.Reserved, "nothing is held")
		l.leave()
		a = l.answer
	})
	o.gate.up.Open(left)
	r := o.record(a)
	const cost = 10*inputPrice + 500*outputPrice
	o.Equal("client_left", str(r["reason"]), "the reason of the record")
	o.Equal(any(float64(cost)), r["microcents"], "the charge of the record")
	after := o.balance()
	o.Equal(int64(cost), before.net()-after.net(), "what NET fell by")
	o.Equal(before.Reserved, after.Reserved, "reserved_credits")
	o.Equal(1, len(o.calls()), "the number of calls to the route")
}

// joined puts members together that may be empty.
func joined(members ...string) string {
	return strings.Join(slices.DeleteFunc(members, func(m string) bool { return m == "" }), ",")
}
