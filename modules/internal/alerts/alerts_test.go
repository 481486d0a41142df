package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
)

// receiver is one of webhooks whose answers tests set.
type receiver struct {
	*httptest.Server

	mu       sync.Mutex
	answer   int
	header   http.Header
	got      []string // "id type", those that were taken
	attempts []time.Time
	clock    *clock
}

func openReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{answer: 204, header: http.Header{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var p payload
		_ = json.Unmarshal(body, &p)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.clock != nil {
			r.attempts = append(r.attempts, r.clock.Now())
		}
		for name, values := range r.header {
			w.Header()[name] = values
		}
		w.WriteHeader(r.answer)
		if r.answer < 300 {
			r.got = append(r.got, req.Header.Get("webhook-id")+" "+p.Type)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) says(answer int, header ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer, r.header = answer, http.Header{}
	if len(header) == 2 {
		r.header.Set(header[0], header[1])
	}
}

func (r *receiver) types() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.got {
		_, kind, _ := cutID(g)
		all = append(all, kind)
	}
	return all
}

func cutID(got string) (id, kind string, ok bool) {
	for i := range got {
		if got[i] == ' ' {
			return got[:i], got[i+1:], true
		}
	}
	return got, "", false
}

func (r *receiver) tried() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.attempts)
}

func hooks(all ...config.Webhook) config.Alerts { return config.Alerts{Webhooks: all} }

// TestAnAlertArrives: raised, and over.
func TestAnAlertArrives(t *testing.T) {
	t.Parallel()
	r := openReceiver(t)
	b := newBench(t, t.TempDir(), hooks(hook("ops", r.URL)))
	b.finds("provider_down", Finding{Subject: "openai", Text: "It is down."})
	b.begin(t)
	b.untilTrue(t, lookEvery, func() bool { return len(r.types()) == 1 })
	require.GreaterOrEqual(t, b.clock.Now().Sub(begin), 2*time.Minute)
	s := b.Standing()
	require.True(t, s.Active)
	require.Len(t, s.Alerts, 1)
	require.Equal(t, "openai", s.Alerts[0].Subject)
	b.finds("provider_down")
	b.untilTrue(t, lookEvery, func() bool { return len(r.types()) == 2 })
	require.Equal(t, []string{"provider_down.raised", "provider_down.resolved"}, r.types())
	require.Eventually(t, func() bool {
		s := b.Standing()
		return len(s.Alerts) == 0 && s.Counts[Count{"webhook ops", "delivered"}] == 2 && s.Destinations[0].Waiting == 0
	}, 10*time.Second, 5*time.Millisecond)
}

// TestADestinationHearsItsEvents only, and the others go to the others.
func TestADestinationHearsItsEvents(t *testing.T) {
	t.Parallel()
	one, other := openReceiver(t), openReceiver(t)
	some := hook("some", other.URL)
	some.Events = []string{"ledger_loss"}
	b := newBench(t, t.TempDir(), hooks(hook("all", one.URL), some))
	b.finds("ledger_loss", Finding{})
	b.finds("backup_failed", Finding{Subject: "backup"})
	b.begin(t)
	require.Eventually(t, func() bool { return len(one.types()) == 2 && len(other.types()) == 1 }, 10*time.Second,
		5*time.Millisecond)
	require.Equal(t, []string{"ledger_loss.raised"}, other.types())
}

// TestRetries: an attempt that fails is repeated for three days at growing pauses under one id, in order; then it is
// given up, which the others hear of, and all of that is seen.
func TestRetries(t *testing.T) {
	t.Parallel()
	bad, good := openReceiver(t), openReceiver(t)
	b := newBench(t, t.TempDir(), hooks(hook("bad", bad.URL), hook("good", good.URL)))
	bad.clock = b.clock
	bad.says(500)
	b.finds("backup_failed", Finding{Subject: "backup"})
	b.begin(t)
	require.Eventually(t, func() bool { return bad.tried() == 1 && len(good.types()) == 1 }, 10*time.Second, 5*time.Millisecond)
	b.untilTrue(t, lookEvery, func() bool { return slices.Contains(good.types(), "alerts_undelivered.raised") })
	d := b.Standing().Destinations[0]
	require.Equal(t, "webhook bad", d.Key)
	require.NotNil(t, d.Failing)
	require.Contains(t, d.Error, "it answered 500")
	b.untilTrue(t, time.Hour, func() bool { return len(b.Standing().GivenUp) >= 1 })
	lost := b.Standing().GivenUp[0]
	require.Equal(t, "backup_failed.raised", lost.Type)
	require.Equal(t, "webhook bad", lost.Destination)
	require.Contains(t, lost.Why, "three days")
	require.InDelta(t, keepFor.Hours(), lost.At.Sub(lost.Written).Hours(), 10)
	bad.mu.Lock()
	require.GreaterOrEqual(t, len(bad.attempts), 6)
	require.LessOrEqual(t, len(bad.attempts), 40)
	for i := range bad.attempts[1:] { // the clock turns in steps
		require.GreaterOrEqual(t, bad.attempts[i+1].Sub(bad.attempts[i]), pauses[0])
	}
	bad.mu.Unlock()
	// It is back: what waits comes, in order.
	bad.says(204)
	b.untilTrue(t, time.Hour, func() bool { return len(bad.types()) > 0 && b.Standing().Destinations[0].Waiting == 0 })
	require.Positive(t, b.Standing().Counts[Count{"webhook bad", "given_up"}])
}

// TestPauses are those of the specification, with jitter, and the last one for ever.
func TestPauses(t *testing.T) {
	t.Parallel()
	var sum time.Duration
	for n := 1; n <= len(pauses); n++ {
		require.Equal(t, pauses[n-1], pauseAfter(n, func() float64 { return 0 }))
		require.Equal(t, pauses[n-1]*12/10, pauseAfter(n, func() float64 { return 1 }))
		sum += pauses[n-1]
	}
	require.InDelta(t, 75, sum.Hours(), 1)
	require.Equal(t, pauses[8], pauseAfter(1000, func() float64 { return 0 }))
	require.Equal(t, pauses[0], pauseAfter(0, func() float64 { return 0 }))
}

// TestRetryAfterIsHonoured.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	r := openReceiver(t)
	b := newBench(t, t.TempDir(), hooks(hook("ops", r.URL)))
	r.clock = b.clock
	r.says(429, "Retry-After", "3600")
	b.finds("backup_failed", Finding{Subject: "backup"})
	b.begin(t)
	require.Eventually(t, func() bool { return r.tried() == 1 }, 10*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { return b.Standing().Destinations[0].Attempts == 1 }, 10*time.Second, 5*time.Millisecond)
	require.Equal(t, begin.Add(time.Hour), b.Standing().Destinations[0].Next.Add(0))
	r.says(204)
	b.untilTrue(t, time.Minute, func() bool { return len(r.types()) > 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	require.GreaterOrEqual(t, r.attempts[1].Sub(r.attempts[0]), time.Hour)
}

// TestWhatIsNewIsTriedSoon, also with a destination that has failed for long.
func TestWhatIsNewIsTriedSoon(t *testing.T) {
	t.Parallel()
	r := openReceiver(t)
	b := newBench(t, t.TempDir(), hooks(hook("ops", r.URL)))
	r.clock = b.clock
	r.says(500)
	b.finds("backup_failed", Finding{Subject: "backup"})
	b.begin(t)
	b.untilTrue(t, time.Minute, func() bool { return b.Standing().Destinations[0].Attempts >= 4 })
	r.says(204)
	now := b.clock.Now()
	b.finds("ledger_loss", Finding{})
	b.untilTrue(t, lookEvery, func() bool { return len(r.types()) == 2 })
	require.Less(t, b.clock.Now().Sub(now), time.Hour, "and not the two or five that the pause is")
	require.Equal(t, []string{"backup_failed.raised", "ledger_loss.raised"}, r.types())
}

// TestGone: a destination that says so is told nothing, until its block changes or a test succeeds.
func TestGone(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(t *testing.T, b *bench, r *receiver){
		"its block changes": func(_ *testing.T, b *bench, r *receiver) { b.configure(hooks(hook("ops", r.URL+"/new"))) },
		"a test succeeds": func(t *testing.T, b *bench, _ *receiver) {
			tested, err := b.Test(t.Context(), "")
			require.NoError(t, err)
			require.True(t, tested[0].Delivered)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openReceiver(t)
			dir := t.TempDir()
			b := newBench(t, dir, hooks(hook("ops", r.URL)))
			r.clock = b.clock
			r.says(410)
			b.finds("backup_failed", Finding{Subject: "backup"})
			b.begin(t)
			require.Eventually(t, func() bool { return b.Standing().Destinations[0].Disabled != nil }, 10*time.Second,
				5*time.Millisecond)
			r.says(204)
			tried := r.tried()
			b.finds("ledger_loss", Finding{})
			for range 200 {
				b.clock.turn(time.Hour)
			}
			require.Equal(t, tried, r.tried())
			back(t, b, r)
			b.untilTrue(t, lookEvery, func() bool { return slices.Contains(r.types(), "ledger_loss.raised") })
			require.Nil(t, b.Standing().Destinations[0].Disabled)
		})
	}
}

// TestAPoisonedMessage does not keep those behind it.
func TestAPoisonedMessage(t *testing.T) {
	t.Parallel()
	r := openReceiver(t)
	b := newBench(t, t.TempDir(), hooks(hook("ops", r.URL)))
	r.clock = b.clock
	r.says(422)
	b.finds("backup_failed", Finding{Subject: "backup"})
	b.begin(t)
	b.untilTrue(t, time.Minute, func() bool { return len(b.Standing().GivenUp) == 1 })
	r.says(204)
	b.finds("ledger_loss", Finding{})
	b.untilTrue(t, time.Minute, func() bool { return slices.Contains(r.types(), "ledger_loss.raised") })
}

// TestARemovedDestination: what waits for it is given up, and said; the others get theirs.
func TestARemovedDestination(t *testing.T) {
	t.Parallel()
	bad, good := openReceiver(t), openReceiver(t)
	b := newBench(t, t.TempDir(), hooks(hook("bad", bad.URL), hook("good", good.URL)))
	bad.says(500)
	b.finds("backup_failed", Finding{Subject: "backup"})
	b.begin(t)
	require.Eventually(t, func() bool { return b.Standing().Destinations[0].Attempts == 1 && len(good.types()) == 1 },
		10*time.Second, 5*time.Millisecond)
	b.configure(hooks(hook("good", good.URL)))
	b.untilTrue(t, lookEvery, func() bool { return len(b.Standing().GivenUp) == 1 })
	require.Equal(t, "webhook bad", b.Standing().GivenUp[0].Destination)
	require.Contains(t, b.Standing().GivenUp[0].Why, "does not have its destination any more")
	b.finds("ledger_loss", Finding{})
	b.untilTrue(t, lookEvery, func() bool { return slices.Contains(good.types(), "ledger_loss.raised") })
}

// TestTheNextProcessGoesOn: what one process has not delivered the next one does, under the same id; what was told is
// not told again; and while one has the file, another one waits.
func TestTheNextProcessGoesOn(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), openReceiver(t)
	r.says(500)
	first := newBench(t, dir, hooks(hook("ops", r.URL)))
	r.clock = first.clock
	first.finds("backup_failed", Finding{Subject: "backup"})
	ctx, drain := context.WithCancel(t.Context())
	first.Start(ctx)
	require.Eventually(t, func() bool { return first.Standing().Destinations[0].Attempts == 1 }, 10*time.Second,
		5*time.Millisecond)
	r.says(204)

	second := newBench(t, dir, hooks(hook("ops", r.URL)))
	second.finds("backup_failed", Finding{Subject: "backup"})
	second.begin(t)
	for range 20 {
		second.clock.turn(time.Hour)
	}
	require.False(t, second.Standing().Active)
	require.Empty(t, r.types())
	drain()
	first.Close()
	require.False(t, first.Standing().Active)
	second.untilTrue(t, time.Second, func() bool { return len(r.types()) == 1 })
	require.Equal(t, []string{"backup_failed.raised"}, r.types())
	second.finds("backup_failed")
	second.untilTrue(t, lookEvery, func() bool { return len(r.types()) == 2 })
	require.Equal(t, []string{"backup_failed.raised", "backup_failed.resolved"}, r.types())
}

// TestTheDiskIsFull: what somebody must hear of that is told nevertheless.
func TestTheDiskIsFull(t *testing.T) {
	t.Parallel()
	r := openReceiver(t)
	b := newBench(t, t.TempDir(), hooks(hook("ops", r.URL)))
	var full, written = true, 0
	var mu sync.Mutex
	b.outbox.write = func(path string, content []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if full {
			return fmt.Errorf("creating %s: %w", path, syscall.ENOSPC)
		}
		written++
		return writeFile(path, content)
	}
	b.finds("backup_failed", Finding{Subject: "backup"})
	b.begin(t)
	require.Eventually(t, func() bool { return len(r.types()) == 1 }, 10*time.Second, 5*time.Millisecond)
	require.Eventually(t, func() bool { return b.Standing().Problem != "" }, 10*time.Second, 5*time.Millisecond)
	require.Contains(t, b.Standing().Problem, "no space left")
	mu.Lock()
	full = false
	mu.Unlock()
	b.untilTrue(t, lookEvery, func() bool { return b.Standing().Problem == "" })
	mu.Lock()
	defer mu.Unlock()
	require.Positive(t, written)
}

// TestAnUnusableFile is put aside, and what is so is told again.
func TestAnUnusableFile(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"damaged": `{"version":1,`, "of another version": `{"version":99}`,
		"empty": "", "of nothing": `{"version":1,"alerts":[null],"messages":[null,{"to":{"x":null}},{}]}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, r := t.TempDir(), openReceiver(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, fileName), []byte(content), 0o600))
			b := newBench(t, dir, hooks(hook("ops", r.URL)))
			b.finds("backup_failed", Finding{Subject: "backup"})
			b.begin(t)
			require.Eventually(t, func() bool { return len(r.types()) == 1 }, 10*time.Second, 5*time.Millisecond)
			if name != "of nothing" {
				require.FileExists(t, filepath.Join(dir, fileName+".unusable"))
			}
		})
	}
}

// TestTheOutboxIsBounded: the oldest is given up, and said.
func TestTheOutboxIsBounded(t *testing.T) {
	t.Parallel()
	o := newOutbox(t.TempDir())
	for i := range maxMessages + 20 {
		lost := o.put(&Message{ID: fmt.Sprint(i)}, []string{"webhook ops"}, begin)
		require.Len(t, lost, max(0, min(1, i-maxMessages+1)))
	}
	require.Len(t, o.messages, maxMessages)
	require.Equal(t, "20", o.messages[0].ID)
	require.Len(t, o.givenUp, 20)
}

// TestNothingIsLostByACrash: whatever is told, delivered and not, and at which write of the file the process dies, each
// destination gets every message whose write succeeded, in the order of their writing; one that it gets again has the
// same id.
func TestNothingIsLostByACrash(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var disk []byte // what the file has
		destinations := []string{"webhook a", "mail b"}
		delivered := map[string][]string{}
		durable := map[string]bool{} // messages that the file has had
		crash := errors.New("the process dies")
		var o *outbox
		w := newWatch()
		open := func() {
			o = newOutbox("/nowhere")
			o.messages = nil
			if disk != nil {
				var k kept
				if err := json.Unmarshal(disk, &k); err != nil {
					t.Fatal(err)
				}
				o.messages = k.Messages
			}
		}
		open()
		save := func() error {
			content, err := o.encode(w)
			if err != nil {
				t.Fatal(err)
			}
			switch rapid.IntRange(0, 5).Draw(t, "write") {
			case 0: // it dies before the file has its name
				return crash
			case 1: // and after
				disk = content
				err = crash
			default:
				disk = content
			}
			for _, m := range o.messages {
				durable[m.ID] = true
			}
			return err
		}
		deliver := func(to string) bool {
			waiting := o.waiting(to, 1)
			if len(waiting) == 0 {
				return false
			}
			delivered[to] = append(delivered[to], waiting[0].ID)
			o.done(waiting[0], to)
			return true
		}
		next := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "put") {
				o.put(&Message{ID: fmt.Sprintf("%04d", next), Body: []byte("{}")}, destinations, begin)
				next++
			} else {
				deliver(rapid.SampledFrom(destinations).Draw(t, "to"))
			}
			if errors.Is(save(), crash) {
				open()
			}
		}
		for _, to := range destinations {
			for deliver(to) {
			}
			var first []string
			for _, id := range delivered[to] {
				if !slices.Contains(first, id) {
					first = append(first, id)
				}
			}
			if !slices.IsSorted(first) {
				t.Fatalf("%s got them out of order: %v", to, first)
			}
			for id := range durable {
				if !slices.Contains(first, id) {
					t.Fatalf("%s has not got %s", to, id)
				}
			}
		}
	})
}

// TestTheFileHasNoSecret.
func TestTheFileHasNoSecret(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), openReceiver(t)
	r.says(500)
	w := hook("ops", r.URL+"/secret-path")
	b := newBench(t, dir, hooks(w))
	b.finds("backup_failed", Finding{Subject: "backup"})
	b.begin(t)
	require.Eventually(t, func() bool { return b.Standing().Destinations[0].Attempts == 1 }, 10*time.Second,
		5*time.Millisecond)
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(filepath.Join(dir, fileName))
		return err == nil && len(content) > 100
	}, 10*time.Second, 5*time.Millisecond)
	content, err := os.ReadFile(filepath.Join(dir, fileName))
	require.NoError(t, err)
	require.NotContains(t, string(content), "secret-path")
	require.NotContains(t, string(content), secret[6:])
	info, err := os.Stat(filepath.Join(dir, fileName))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	standing, err := json.Marshal(b.Standing())
	require.NoError(t, err)
	require.NotContains(t, string(standing), "secret-path")
}
