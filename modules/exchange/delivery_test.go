package exchange

import (
	"net/http/httptest"
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
	d := newDelivery(w, true, interval, time.Minute)
	d.encoder = chat.Server{}.NewEncoder(&families.Request{LLM: &llm.Request{}}, families.Head{})
	return d, w
}

// TestKeepAliveInterval runs on a clock of its own, with the default interval.
func TestKeepAliveInterval(t *testing.T) {
	t.Parallel()
	const interval = 15 * time.Second
	t.Run("SSE-25 three in fifty seconds of silence", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, w := testDelivery(t, interval)
			begin := time.Now()
			var at []time.Duration
			for end := time.After(50 * time.Second); len(at) < 10; {
				select {
				case <-d.silence():
					d.keepAlive()
					at = append(at, time.Since(begin))
					continue
				case <-end:
				}
				break
			}
			require.Equal(t, []time.Duration{interval, 2 * interval, 3 * interval}, at)
			require.Equal(t, ": keepalive\n\n: keepalive\n\n: keepalive\n\n", w.Body.String())
		})
	})
	t.Run("SSE-25 none while text flows", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, _ := testDelivery(t, interval)
			for range 20 {
				select {
				case <-d.silence():
					require.Fail(t, "a keep-alive between two pieces of text")
				case <-time.After(5 * time.Second):
				}
				d.event(llm.Event{Kind: llm.EventText, Text: "x"})
				d.flush()
			}
		})
	})
	t.Run("GAP-65 again one interval after the last text", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d, _ := testDelivery(t, interval)
			<-time.After(10 * time.Second)
			d.event(llm.Event{Kind: llm.EventText, Text: "x"})
			d.flush()
			begin := time.Now()
			<-d.silence()
			require.Equal(t, interval, time.Since(begin))
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
	d.giveUp()
	free()
	require.False(t, d.stuck(), "no write waits")
	free()
	d.setWriting(true)
	free()
	d.giveUp()
	require.True(t, d.stuck(), "GAP-112")
	free()
}
