package exchange

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
)

// keepAliveOfTests is an interval that no test waits for.
const keepAliveOfTests = time.Hour

func testDelivery(t *testing.T, interval time.Duration) (*delivery, *httptest.ResponseRecorder) {
	t.Helper()
	w := httptest.NewRecorder()
	d := newDelivery(t.Context(), w, true, interval, time.Minute)
	d.setEncoder(chat.Server{}.NewEncoder(&families.Request{LLM: &llm.Request{}}, families.Head{}))
	t.Cleanup(d.stopKeepAlives)
	return d, w
}

// requestOf is a request of nothing.
func requestOf(stream bool) *request {
	return &request{Request: &families.Request{Stream: stream, LLM: new(llm.Request)}}
}

// TestKeepAliveInterval runs on a clock of its own, with the default interval.
func TestKeepAliveInterval(t *testing.T) {
	t.Parallel()
	const interval = 15 * time.Second
	const alive = ": keepalive\n\n"
	// written is what was, which a timer may have done.
	written := func(d *delivery, w *httptest.ResponseRecorder) string {
		synctest.Wait()
		d.turn <- struct{}{}
		defer func() { <-d.turn }()
		return w.Body.String()
	}
	t.Run("SSE-25 three in fifty seconds of silence", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, w := testDelivery(t, interval)
			for _, seconds := range []int{0, 14, 15, 29, 30, 44, 45, 50} {
				pass(time.Until(d.begun.Add(time.Duration(seconds) * time.Second)))
				require.Equal(t, strings.Repeat(alive, seconds/15), written(d, w))
			}
		})
	})
	t.Run("SSE-25 none while text flows", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, w := testDelivery(t, interval)
			for range 20 {
				<-time.After(5 * time.Second)
				d.addEvent(llm.Event{Kind: llm.EventText, Text: "x"})
				d.flush()
			}
			require.NotContains(t, written(d, w), alive)
		})
	})
	t.Run("GAP-65 again one interval after the last text", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, w := testDelivery(t, interval)
			<-time.After(10 * time.Second)
			d.addEvent(llm.Event{Kind: llm.EventText, Text: "x"})
			d.flush()
			<-time.After(interval - 1)
			require.NotContains(t, written(d, w), alive)
			<-time.After(1)
			require.Contains(t, written(d, w), alive)
		})
	})
	t.Run("GAP-64 the interval begins with the request", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := httptest.NewRecorder()
			d := newDelivery(t.Context(), w, true, interval, time.Minute)
			<-time.After(interval - time.Second) // a slow ledger
			require.Nil(t, d.quiet)
			d.setEncoder(chat.Server{}.NewEncoder(&families.Request{LLM: &llm.Request{}}, families.Head{}))
			<-time.After(time.Second)
			require.Equal(t, alive, written(d, w))
			d.stopKeepAlives()
			<-time.After(time.Hour)
			require.Equal(t, alive, written(d, w), "SSE-30 nothing comes after the end")
		})
	})
	t.Run("SSE-25 none beside a write, and none to who has left", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, w := testDelivery(t, interval)
			d.turn <- struct{}{}
			<-time.After(interval)
			synctest.Wait()
			<-d.turn
			require.Empty(t, written(d, w))
			d.gone.Store(true)
			d.keepAlive()
			require.Empty(t, written(d, w))
			require.Empty(t, d.turn)
		})
	})
	t.Run("GAP-112 a keep-alive that its client does not take", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			conn := newStalling()
			d := newDelivery(t.Context(), conn, true, interval, time.Minute)
			d.setEncoder(chat.Server{}.NewEncoder(&families.Request{LLM: &llm.Request{}}, families.Head{}))
			ahead := 0
			d.readAhead = func() { ahead++ }
			<-time.After(interval + time.Second)
			require.Zero(t, ahead, "the exchange reads its upstream")
			d.addEvent(llm.Event{Kind: llm.EventText, Text: "x"})
			d.flush()
			require.Equal(t, 1, ahead, "it waits for its turn")
			require.Equal(t, interval+time.Minute, time.Since(d.begun))
			require.True(t, d.gone.Load())
			require.True(t, d.gaveUp())
			require.True(t, isClosed(d.broken))
			require.PanicsWithValue(t, http.ErrAbortHandler, d.writeEnd)
		})
	})
}

// TestGivenUpOnlyWhileWriting: whoever asks whether a client is stuck leaves nothing locked behind.
func TestGivenUpOnlyWhileWriting(t *testing.T) {
	t.Parallel()
	d, _ := testDelivery(t, keepAliveOfTests)
	free := func() {
		t.Helper()
		require.True(t, d.mu.TryLock())
		d.mu.Unlock()
	}
	d.giveUpClient()
	free()
	require.False(t, d.gaveUp(), "no write waits")
	free()
	d.noteWrite(theExchange)
	free()
	d.checkWrite()
	free()
	require.False(t, d.gaveUp(), "not for long")
	d.giveUpClient()
	require.True(t, d.gaveUp(), "GAP-112")
	free()
}

// deadlines are those that a connection was given.
type deadlines struct {
	*httptest.ResponseRecorder
	set chan time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set <- at
	return nil
}

// TestNoWriteOutlivesTheExchange: when its time is over a few seconds are left for the last frame, and the connection
// is as good as before for the next request.
func TestNoWriteOutlivesTheExchange(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, stops := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				conn := &deadlines{httptest.NewRecorder(), make(chan time.Time, 2)}
				d := newDelivery(t.Context(), conn, stream, time.Hour, time.Minute)
				stopping, stop := context.WithCancel(t.Context())
				defer stop()
				_, release := lifetime(t.Context(), stopping, time.Now().Add(time.Minute), d)
				d.setEncoder(chat.Server{}.NewEncoder(&families.Request{LLM: &llm.Request{}}, families.Head{}))
				<-time.After(time.Minute - 1)
				require.Empty(t, conn.set)
				if stops {
					stop()
				} else {
					<-time.After(1)
				}
				require.Equal(t, time.Now().Add(5*time.Second), <-conn.set)
				release()
				require.Zero(t, <-conn.set)
				d.setLastDeadline()
				require.Empty(t, conn.set, "it is another request's")

				d = newDelivery(t.Context(), conn, stream, time.Minute, time.Minute)
				_, release = lifetime(t.Context(), stopping, time.Now().Add(time.Minute), d)
				if !stops {
					d.setEncoder(nil)
					release()
					<-time.After(time.Hour)
					require.Empty(t, conn.set)
					if stream {
						require.False(t, d.quiet.Stop(), "no keep-alive is asked for any more")
					}
					return
				}
				release()
			})
		}
	}
}

// TestFramesOfAStream: they are written together, once, and to nobody who has left.
func TestFramesOfAStream(t *testing.T) {
	t.Parallel()
	d, w := testDelivery(t, keepAliveOfTests)
	d.flush()
	require.False(t, d.opened, "there is nothing to write")
	require.False(t, d.isFull())
	d.addStart()
	d.addStart()
	require.False(t, d.shown, "nothing of the reply itself")
	text := func(n int) { d.addEvent(llm.Event{Kind: llm.EventText, Text: strings.Repeat("x", n)}) }
	text(1)
	require.True(t, d.shown)
	require.Empty(t, w.Body.String())
	require.False(t, d.isFull())
	text(maxWrite)
	require.True(t, d.isFull())
	d.flush()
	require.Equal(t, 1, strings.Count(w.Body.String(), "assistant"))
	require.Equal(t, http.StatusOK, w.Code)
	require.True(t, w.Flushed)
	written := w.Body.Len()
	require.Nil(t, d.frames)
	d.flush()
	require.Equal(t, written, w.Body.Len())
	d.addFrames(func([]byte) []byte { return make([]byte, maxWrite-1) })
	require.False(t, d.isFull())
	d.addFrames(func(b []byte) []byte { return append(b, 0) })
	require.True(t, d.isFull())
	d.dropFrames()
	text(2)
	d.flush()
	require.Less(t, w.Body.Len(), written+1000, "what was dropped is not written")
	written = w.Body.Len()

	d.gone.Store(true)
	text(1)
	d.flush()
	require.Equal(t, written, w.Body.Len())
	require.PanicsWithValue(t, http.ErrAbortHandler, d.writeEnd, "it must not look as if it were whole")

	whole, _ := testDelivery(t, keepAliveOfTests)
	whole.stream = false
	whole.addStart()
	require.False(t, whole.started)
	gone, _ := testDelivery(t, keepAliveOfTests)
	gone.gone.Store(true)
	gone.addEvent(llm.Event{Kind: llm.EventText, Text: "x"})
	require.False(t, gone.shown)
}

// TestABrokenConnection is a client that has left.
func TestABrokenConnection(t *testing.T) {
	t.Parallel()
	d, _ := testDelivery(t, keepAliveOfTests)
	conn := newStalling()
	close(conn.deadline)
	d.w = conn
	d.addEvent(llm.Event{Kind: llm.EventText, Text: "x"})
	written := d.frames
	d.flush()
	require.True(t, d.gone.Load())
	require.True(t, isClosed(d.broken))
	require.Nil(t, d.frames)
	require.NotEmpty(t, written.b, "nobody gets them, for the connection may be reading from them")
	whole := newDelivery(t.Context(), conn, false, time.Minute, time.Minute)
	whole.writeBody([]byte("{}")) // which nobody gets, and nobody held up
	require.Equal(t, "2", conn.Header().Get("Content-Length"))
	require.False(t, whole.gaveUp())
}
