package exchange

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
)

// alone fails when two do at once what one may do at a time.
type alone struct{ busy atomic.Bool }

func (a *alone) do(what string, f func()) {
	if a.busy.Swap(true) {
		panic("two at a time: " + what)
	}
	f()
	a.busy.Store(false)
}

// pass lets time pass. Of none it waits for none: Go 1.26's race detector crashes where a timer of a synctest bubble
// is over when it is made (runtime.(*timer).maybeRunChan calls it on the system stack).
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// paced is a stream that sends numbers, each after a time.
type paced struct {
	scriptedStream
	alone
	pauses []time.Duration
	sent   int
}

func (p *paced) Recv() (events []llm.Event, err error) {
	p.do("Recv", func() {
		if p.sent == len(p.pauses) {
			err = io.EOF
			return
		}
		pass(p.pauses[p.sent])
		events = []llm.Event{{Kind: llm.EventText, Text: fmt.Sprintf("[%d]", p.sent)}}
		p.sent++
	})
	return events, err
}

// dawdling is a client that takes its time for each write.
type dawdling struct {
	*httptest.ResponseRecorder
	alone
	pauses []time.Duration
	writes int
}

func (d *dawdling) Write(b []byte) (n int, err error) {
	d.do("Write", func() {
		pass(d.pauses[d.writes%len(d.pauses)])
		d.writes++
		n, err = d.ResponseRecorder.Write(b)
	})
	return n, err
}

// TestHandOver: whatever the paces of an upstream and of a client, and however many keep-alives go between, one
// goroutine at a time reads and one writes, and all that came is written once, in order, in whole frames.
func TestHandOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(draw *rapid.T) {
		pause := rapid.SliceOfN(rapid.Map(rapid.IntRange(-20, 60), func(ms int) time.Duration {
			return time.Duration(max(ms, 0)) * time.Millisecond
		}), 1, 40)
		stream := &paced{pauses: pause.Draw(draw, "upstream")}
		conn := &dawdling{ResponseRecorder: httptest.NewRecorder(), pauses: pause.Draw(draw, "client")}
		m := &shared{max: rapid.Int64Range(0, 2000).Draw(draw, "memory")}
		interval := time.Duration(rapid.IntRange(1, 80).Draw(draw, "interval")) * time.Millisecond
		synctest.Test(t, func(t *testing.T) { handOver(t, stream, conn, m, interval) })
	})
}

func handOver(t *testing.T, stream *paced, conn *dawdling, m *shared, interval time.Duration) {
	d := newDelivery(t.Context(), conn, true, interval, time.Hour)
	d.setEncoder(chat.Server{}.NewEncoder(&families.Request{LLM: &llm.Request{}}, families.Head{}))
	r := &reader{stream: stream, memory: m, delivery: d, hungUp: make(chan struct{}), flood: newFlood(1 << 20),
		time: newRouteTime(time.Hour, func() { panic("the route was in time") })}
	d.readAhead = r.readAhead
	for {
		b, more := r.next()
		for _, ev := range b.events {
			d.addEvent(ev)
		}
		if !more || b.end {
			d.flush()
		}
		if b.end {
			require.Nil(t, b.failure)
			break
		}
	}
	d.addFrames(func(b []byte) []byte { return d.encoder.AppendEnd(b, families.End{}) })
	d.writeEnd()
	r.close()
	<-time.After(2 * time.Hour)

	body := conn.Body.String()
	require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"), "nothing comes after the end")
	next := 0
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		if strings.Contains(frame, `"content":"[`) {
			require.Contains(t, frame, fmt.Sprintf("[%d]", next))
			next++
		}
		require.True(t, strings.HasPrefix(frame, "data: ") || frame == ": keepalive", frame)
	}
	require.Len(t, stream.pauses, next)
	require.Zero(t, m.inUse())
}
