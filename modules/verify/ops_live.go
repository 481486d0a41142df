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

// opsLiveChecks look at when something is sent, not only at what.
func opsLiveChecks() []opsCheck {
	return []opsCheck{
		onEach("SSE-43", "the 200 waits for the route", standardGate, func(o *ops, s shape) {
			// The status can still be another when the route has let the client wait.
			refuse := o.newWait()
			o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Wait(refuse), upstream.Fail(upstream.ServerError())}})
			refused := make(chan *answer, 1)
			go func() {
				defer close(refused)
				defer func() { _ = recover() }() // it could not be sent; awaitRoute tells
				refused <- o.ask(s, `"stream":true`)
			}()
			o.awaitRoute(refuse)
			o.gate.up.Open(refuse)
			a := <-refused
			o.True(a != nil, "the request that the route refuses got no reply")
			o.Equal(502, a.Status, "the status when the route refuses late")
			o.errorForm(s, a, "upstream_error")

			accepted := o.newWait()
			o.answers(upstream.Reply{Steps: slices.Concat([]upstream.Step{upstream.Headers(), upstream.Wait(accepted)},
				hello.Steps)})
			o.watch(s, "", func(l *live) { // the 200 is here while the route says nothing
				o.gate.up.Open(accepted)
				l.ends()
				o.Equal("Hello", l.Text, "the text")
				l.requireEnd(o.T, s)
			})
		}),
		onEach("SSE-46", "the route refuses after the first keep-alive", singleGate, func(o *ops, s shape) {
			refuse := o.newWait()
			o.answers(upstream.Reply{Steps: []upstream.Step{upstream.Wait(refuse), upstream.Fail(upstream.ServerError())}})
			before := o.balance()
			o.watch(s, "", func(l *live) {
				l.keptAlive(1)
				o.gate.up.Open(refuse)
				l.ends()
				loud := l.loud()
				o.True(len(loud) > 0, "no error frame came")
				f := loud[0]
				code := str(at(f.JSON, "error", "code"))
				switch s.Name {
				case "responses":
					code = str(f.JSON["code"])
				case "messages":
					code = str(at(f.JSON, "error", "type"))
				}
				o.Equal("upstream_error", code, "the code of the first frame that is no keep-alive")
				for _, f := range l.Frames {
					o.True(f.Data != "[DONE]" && f.Event != "message_stop", "the stream has an end marker")
				}
			})
			o.Equal(before, o.balance(), "the account")
		}),
		onEach("BILL-22", "a client that leaves pays for the route's work", standardGate, func(o *ops, s shape) {
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
		}),
	}
}

// joined puts members together that may be empty.
func joined(members ...string) string {
	return strings.Join(slices.DeleteFunc(members, func(m string) bool { return m == "" }), ",")
}
