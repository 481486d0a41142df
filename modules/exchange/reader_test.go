package exchange

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
)

// stalling is a connection whose client takes nothing until it is let.
type stalling struct {
	*httptest.ResponseRecorder
	mu       sync.Mutex
	takes    chan struct{} // closed when the client reads
	deadline chan struct{} // closed by a deadline that is over
}

func newStalling() *stalling {
	return &stalling{ResponseRecorder: httptest.NewRecorder(), takes: make(chan struct{}), deadline: make(chan struct{})}
}

func (s *stalling) Write(b []byte) (int, error) {
	select {
	case <-s.takes:
		return s.ResponseRecorder.Write(b)
	case <-s.deadline:
		return 0, os.ErrDeadlineExceeded
	}
}

func (s *stalling) SetWriteDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !at.After(time.Now()) && !isClosed(s.deadline) {
		close(s.deadline)
	}
	return nil
}

// scriptedStream is a stream of batches, each of which comes after a time.
type scriptedStream struct {
	batches []batch
	after   time.Duration
	err     error
	closed  chan struct{}
}

func (s *scriptedStream) Recv() ([]llm.Event, error) {
	if len(s.batches) == 0 {
		if s.err == nil {
			<-s.closed
			return nil, errors.New("closed")
		}
		return nil, s.err
	}
	pass(s.after) // on the bubble's clock
	b := s.batches[0]
	s.batches = s.batches[1:]
	return b.events, nil
}

func (s *scriptedStream) Cancel(context.Context) error { return nil }
func (s *scriptedStream) Close()                       {}

// stall is what happens to a reader and a delivery whose client takes nothing.
type stall struct {
	reader   *reader
	delivery *delivery
	conn     *stalling
	memory   *shared
	over     chan struct{} // closed when the route's time is
	hungUp   chan struct{}
	ended    chan struct{} // closed when the reader has ended
}

func newStall(t *testing.T, stream *scriptedStream, limit, patience time.Duration, changes ...func(*reader)) *stall {
	t.Helper()
	s := &stall{conn: newStalling(), memory: &shared{max: 256 << 20},
		over: make(chan struct{}), hungUp: make(chan struct{}), ended: make(chan struct{})}
	stream.closed = s.hungUp
	s.delivery = newDelivery(t.Context(), s.conn, true, time.Hour, patience)
	s.delivery.setEncoder(chat.Server{}.NewEncoder(&families.Request{LLM: &llm.Request{}}, families.Head{}))
	t.Cleanup(s.delivery.stopKeepAlives)
	s.reader = &reader{stream: stream, queue: newQueue(s.memory), delivery: s.delivery, hungUp: s.hungUp,
		flood: newFlood(1 << 30),
		time:  newRouteTime(limit, func() { close(s.over) }), ctx: t.Context()}
	for _, change := range changes {
		change(s.reader)
	}
	s.delivery.readAhead = func() {
		if s.reader.queue.begin() {
			go func() {
				defer close(s.ended)
				s.reader.runAhead()
			}()
		}
	}
	return s
}

// write shows a piece of text, and tells when that has returned.
func (s *stall) write() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.delivery.addEvent(llm.Event{Kind: llm.EventText, Text: "x"})
		s.delivery.flush()
	}()
	return done
}

// megabytes are batches of 100 KiB.
func batchesOf(n int) []batch {
	var all []batch
	for i := range n {
		all = append(all, textOf(100<<10, i))
	}
	return all
}

func TestReader(t *testing.T) {
	t.Parallel()
	const limit = time.Minute
	drain := func(s *stall) (batches int, end *batch) {
		for {
			b, _, ok := s.reader.queue.pop()
			if !ok {
				return batches, nil
			}
			if batches++; b.end {
				return batches, &b
			}
		}
	}
	t.Run("GAP-112 reads on while the client takes nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newStall(t, &scriptedStream{batches: batchesOf(10), err: io.EOF}, limit, time.Hour)
			done := s.write()
			<-s.ended
			require.False(t, isClosed(done))
			require.Less(t, s.memory.inUse(), int64(maxAhead))
			n, end := drain(s)
			require.Equal(t, 11, n)
			require.Nil(t, end.failure)
			<-time.After(2 * limit)
			require.False(t, isClosed(s.over), "the route was in time")
			close(s.conn.takes)
			<-done
			require.False(t, s.delivery.gone.Load())
			require.False(t, s.delivery.gaveUp())
		})
	})
	t.Run("GAP-112 what is full for five seconds and is not taken has nobody who reads it", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newStall(t, &scriptedStream{batches: batchesOf(30), err: io.EOF}, limit, time.Hour)
			begin := time.Now()
			<-s.write()
			require.Equal(t, readAheadAfter+roomWait, time.Since(begin))
			require.True(t, s.delivery.gone.Load())
			require.True(t, isClosed(s.delivery.broken))
			require.True(t, s.delivery.gaveUp())
			require.False(t, isClosed(s.ended))
			read := 0
			for !isClosed(s.ended) { // it is read to its end for nobody
				n, _ := drain(s)
				read += n
				synctest.Wait()
			}
			n, end := drain(s)
			require.Equal(t, 31, read+n)
			if end != nil {
				require.Nil(t, end.failure)
			}
			require.Zero(t, s.memory.inUse())
		})
	})
	t.Run("GAP-112 a short client_stall holds for that, too", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newStall(t, &scriptedStream{batches: batchesOf(30), err: io.EOF}, limit, 2*time.Second)
			begin := time.Now()
			<-s.write()
			require.Equal(t, 2*time.Second, time.Since(begin))
			close(s.hungUp)
			<-s.ended
		})
	})
	t.Run("GAP-112 nor has what is not full, after client_stall", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newStall(t, &scriptedStream{batches: batchesOf(1)}, limit, 20*time.Second)
			begin := time.Now()
			<-s.write()
			require.Equal(t, 20*time.Second, time.Since(begin))
			require.True(t, s.delivery.gaveUp())
			close(s.hungUp)
			<-s.ended
		})
	})
	t.Run("GAP-112 the time that a client holds up is not the route's", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			// 20 batches take the route 20 seconds, of 25. After 11 it has to wait for the client.
			s := newStall(t, &scriptedStream{batches: batchesOf(20), after: time.Second, err: io.EOF}, 25*time.Second, time.Hour)
			done := s.write()
			<-time.After(readAheadAfter + 12*time.Second + roomWait - time.Millisecond)
			require.False(t, isClosed(done), "it is slow, and has not left")
			pause := time.Now()
			for range 20 { // and slow it stays, for a minute
				_, _, _ = s.reader.queue.pop()
				<-time.After(3 * time.Second)
			}
			require.False(t, isClosed(s.over))
			require.Greater(t, time.Since(pause), 25*time.Second)
			<-s.ended
			require.GreaterOrEqual(t, time.Duration(s.reader.held.Load()), roomWait-time.Millisecond)
			close(s.conn.takes)
			<-done
			require.False(t, s.delivery.gaveUp())
		})
	})
	t.Run("GAP-113 and the rest of it is", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newStall(t, &scriptedStream{batches: batchesOf(12)}, 25*time.Second, time.Hour)
			begin := time.Now()
			done := s.write()
			<-time.After(readAheadAfter + 4*time.Second) // it waits for room
			for range 12 {
				_, _, _ = s.reader.queue.pop()
				synctest.Wait()
			}
			<-s.over
			require.Equal(t, 29*time.Second, time.Since(begin))
			require.Equal(t, 4*time.Second, time.Duration(s.reader.held.Load()))
			close(s.hungUp)
			<-s.ended
			close(s.conn.takes)
			<-done
		})
	})
	t.Run("a busy machine is nobody's fault", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newStall(t, &scriptedStream{batches: batchesOf(30), err: io.EOF}, limit, time.Hour)
			s.delivery.readAhead()
			<-time.After(10 * roomWait) // nothing is being written
			require.False(t, s.delivery.gaveUp())
			close(s.hungUp)
			<-s.ended
			n, _ := drain(s)
			require.Equal(t, 31, n, "what came in time is there")
		})
	})
	t.Run("an upstream that sends many times what it was allowed to is cut", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newStall(t, &scriptedStream{batches: batchesOf(8), after: time.Millisecond}, limit, time.Hour,
				func(r *reader) { r.flood.left = 250 << 10 })
			s.delivery.readAhead()
			<-s.ended
			n, end := drain(s)
			require.Equal(t, 3, n)
			require.Equal(t, llm.ErrUpstream, end.failure.kind)
			require.ErrorIs(t, end.failure.err, errFlood)
		})
	})
	t.Run("BILL-21 an end that is a failure", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newStall(t, &scriptedStream{batches: batchesOf(1), err: llm.Errorf(llm.ErrBroken, "broken")}, limit, time.Hour)
			s.delivery.readAhead()
			<-s.ended
			n, end := drain(s)
			require.Equal(t, 2, n)
			require.Equal(t, llm.ErrBroken, end.failure.kind)
			<-time.After(2 * limit)
			require.False(t, isClosed(s.over))
		})
	})
}

func TestFloodMeter(t *testing.T) {
	t.Parallel()
	text := func(n int) []llm.Event { return textOf(n-1, 0).events } // an event counts for a byte
	for name, tc := range map[string]struct {
		allowance int64
		most      int
	}{
		"a small allowance": {50, 64 << 10},
		"at the floor":      {1024, 64 << 10},
		"a large one":       {10_000, 640_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlood(tc.allowance)
			require.False(t, f.countEvents(text(tc.most/2)))
			require.False(t, f.countEvents(text(tc.most-tc.most/2)))
			require.True(t, f.countEvents(text(1)), "however little more")
		})
	}
	t.Run("calls and empty events count", func(t *testing.T) {
		t.Parallel()
		f := newFlood(1)
		f.left = 12
		require.False(t, f.countEvents([]llm.Event{{Kind: llm.EventToolCall, ID: "12345", Name: "12345"},
			{Kind: llm.EventText}}))
		require.True(t, f.countEvents([]llm.Event{{Kind: llm.EventReasoning}}))
	})
	t.Run("GAP-117 states count, also in what is read ahead", func(t *testing.T) {
		t.Parallel()
		call := llm.Event{Kind: llm.EventToolCall, ID: "1", Name: "2", State: make([]byte, 100)}
		f := flood{left: 103}
		require.False(t, f.countEvents([]llm.Event{call}))
		require.True(t, f.countEvents([]llm.Event{{Kind: llm.EventText}}))
		with := (&batch{events: []llm.Event{call}}).size()
		call.State = nil
		require.Equal(t, with-100, (&batch{events: []llm.Event{call}}).size())
	})
	t.Run("an allowance beyond all numbers", func(t *testing.T) {
		t.Parallel()
		f := newFlood(1 << 62)
		require.False(t, f.countEvents(text(1<<20)))
	})
}

// TestDeliveryBody: a whole reply, too, is not written for ever to a client that takes nothing.
func TestDeliveryBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := newStalling()
		d := newDelivery(t.Context(), conn, false, time.Hour, 3*time.Second)
		begin := time.Now()
		require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { d.writeBody([]byte("{}")) })
		require.Equal(t, 3*time.Second, time.Since(begin))
		conn = newStalling()
		close(conn.takes)
		d = newDelivery(t.Context(), conn, false, time.Hour, 3*time.Second)
		whole := make([]byte, 5*maxWrite+1)
		d.writeBody(whole)
		require.Len(t, conn.Body.Bytes(), len(whole))
		require.Equal(t, "81921", conn.Header().Get("Content-Length"))
		<-time.After(time.Minute)
		require.False(t, d.gaveUp(), "nothing is watched any more")
	})
}

// TestRouteTime stands still while the client keeps the attempt waiting, and ends once.
func TestRouteTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin, ended := time.Now(), make(chan time.Duration, 2)
		limit := newRouteTime(10*time.Second, func() { ended <- time.Since(begin) })
		for range 3 {
			<-time.After(time.Second)
			limit.pause()
			limit.pause()
			<-time.After(time.Minute)
			limit.resume()
			limit.resume()
		}
		require.Equal(t, 3*time.Minute+10*time.Second, <-ended)
		limit.pause() // it is over
		limit.resume()
		<-time.After(time.Hour)
		require.Empty(t, ended)
		limit = newRouteTime(10*time.Second, func() { ended <- 0 })
		limit.pause()
		limit.end()
		limit.resume()
		<-time.After(time.Hour)
		require.Empty(t, ended)
	})
}
