package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// receiver is one of webhooks whose answers tests set.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	answer int
	got    []string // "id type", those that were taken
}

func openReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{answer: 204}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var p payload
		_ = json.Unmarshal(body, &p)
		r.mu.Lock()
		defer r.mu.Unlock()
		w.WriteHeader(r.answer)
		if r.answer < 300 {
			r.got = append(r.got, req.Header.Get("webhook-id")+" "+p.Type)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) says(answer int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) types() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.got {
		_, kind, _ := strings.Cut(g, " ")
		all = append(all, kind)
	}
	return all
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

// TestAReloadTakesUpEachAttribute: also the one by which a receiver's certificate is trusted.
func TestAReloadTakesUpEachAttribute(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *config.Webhook){
		"url":     func(w *config.Webhook) { w.URL += "/other" },
		"secret":  func(w *config.Webhook) { w.Secrets = append(w.Secrets, secret) },
		"timeout": func(w *config.Webhook) { w.Timeout++ },
		"ca":      func(w *config.Webhook) { w.CA = "another" },
		"events":  func(w *config.Webhook) { w.Events = []string{"disk_full"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hook("ops", "http://127.0.0.1:1")
			b := newBench(t, t.TempDir(), hooks(w))
			ctx, stop := context.WithCancel(t.Context())
			follow := func(w config.Webhook) *courier {
				b.follow(ctx, destinationsOf(hooks(w), nil))
				return b.couriers["webhook ops"]
			}
			first := follow(w)
			require.Same(t, first, follow(w))
			change(&w)
			second := follow(w)
			require.NotSame(t, first, second)
			stop()
			<-second.done
		})
	}
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

// TestTheNextProcessGoesOn: what one process has not delivered the next one does, under the same id; what was told is
// not told again; and while one has the file, another one waits.
func TestTheNextProcessGoesOn(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), openReceiver(t)
	r.says(500)
	first := newBench(t, dir, hooks(hook("ops", r.URL)))
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
		second.clock.Turn(time.Hour)
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

// TestTheNextProcessKnowsWhatFails: a restart does not begin the pauses anew.
func TestTheNextProcessKnowsWhatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o, m := newOutbox(dir), &Message{ID: "msg_1", Time: begin, Body: []byte("{}")}
	o.put(m, []string{"webhook ops", "webhook well"}, begin)
	m.To["webhook ops"].Attempts, m.To["webhook ops"].Error = 6, "it answered 500"
	content, err := o.encode(newWatch())
	require.NoError(t, err)
	require.NoError(t, writeFile(o.path, content))
	b := newBench(t, dir, hooks(hook("ops", "http://127.0.0.1:1"), hook("well", "http://127.0.0.1:1")))
	require.True(t, b.open(t.Context()))
	s := b.Standing()
	require.Equal(t, begin, *s.Destinations[0].Failing)
	require.Equal(t, "it answered 500", s.Destinations[0].Error)
	require.Nil(t, s.Destinations[1].Failing)
	require.Equal(t, 6, b.outbox.troubles["webhook ops"].failures)
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

// TestAFileThatCannotBeRead is not taken to be damaged: it is read when it can be.
func TestAFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), openReceiver(t)
	o := newOutbox(dir)
	o.put(&Message{ID: "msg_1", Type: "no_route.raised", Time: begin, Body: []byte("{}")}, []string{"webhook ops"}, begin)
	content, err := o.encode(newWatch())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(o.path, 0o700)) // reading a folder fails as a bad disk does
	b := newBench(t, dir, hooks(hook("ops", r.URL)))
	b.begin(t)
	for range 3 {
		b.clock.AwaitWaits(1)
		require.False(t, b.Standing().Active)
		b.clock.Turn(lockEvery)
	}
	require.NoError(t, os.Remove(o.path))
	require.NoError(t, writeFile(o.path, content))
	b.untilTrue(t, lockEvery, func() bool { return b.Standing().Active })
	require.NoFileExists(t, o.path+".unusable")
}

// TestAJumpOfTheClockGivesNothingUp that was not tried.
func TestAJumpOfTheClockGivesNothingUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, t.TempDir(), config.Alerts{})
	m := &Message{ID: "msg_1", Time: begin}
	b.outbox.put(m, []string{"webhook ops"}, begin)
	later := begin.Add(365 * 24 * time.Hour)
	require.Empty(t, b.outbox.expire(later))
	m.To["webhook ops"].Attempts = stuckAfter
	require.Len(t, b.outbox.expire(later), 1)
	require.Empty(t, b.outbox.messages)
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
