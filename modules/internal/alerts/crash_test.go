package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
)

// mortal is a service whose process dies at its writes, and begins again with what the file has. Its turns are taken
// by the test, one after the other.
type mortal struct {
	*rapid.T
	*Service
	dir   string
	now   time.Time
	found map[string]bool // subjects
	dies  bool            // at writes, if it is drawn so
	dead  bool
	// By destination: the messages that the file has had, and those that it was sent, each when that was first.
	durable, got map[string][]string
	bodies       map[string]Data
}

// both are its destinations: webhooks take one message at a time, mails several.
var both = []string{"webhook a", "mail b"}

type together struct {
	sender
	n int
}

func (s together) batch() int { return s.n }

func (m *mortal) begin() {
	m.dead = false
	m.Service = New(Options{Dir: m.dir, Gateway: "desk", Now: func() time.Time { return m.now },
		Log: slog.New(slog.DiscardHandler), Config: func() config.Alerts { return config.Alerts{} }})
	m.outbox.write = m.write
	if err := m.load(); err != nil {
		m.Fatal(err)
	}
	for i, key := range both {
		m.couriers[key] = &courier{destination: destination{key: key, hears: everybody, sender: together{n: 1 + 2*i}},
			s: m.Service, wake: make(chan struct{}, 1)}
	}
}

var errDead = errors.New("the process has died")

// write may be the last that it does, before the file has its name or behind.
func (m *mortal) write(path string, content []byte) error {
	end := 2
	if m.dies {
		end = rapid.IntRange(0, 7).Draw(m.T, "write")
	}
	if m.dead = m.dead || end < 2; end == 0 {
		return errDead
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	for _, message := range m.outbox.messages {
		for key := range message.To { // one is not told of its own failures
			m.note(key, m.durable, message)
		}
	}
	if end == 1 {
		return errDead
	}
	return nil
}

func (m *mortal) note(key string, in map[string][]string, message *Message) {
	if !slices.Contains(in[key], message.ID) {
		in[key] = append(in[key], message.ID)
	}
	d, err := message.data()
	if err != nil {
		m.Fatal(err)
	}
	m.bodies[message.ID] = d
}

// look looks once.
func (m *mortal) look() {
	var s Seen
	for _, subject := range []string{"a", "b", "c"} {
		if m.found[subject] {
			s.Findings = append(s.Findings, Finding{Subject: subject, Text: "so"})
		}
	}
	m.take(map[string]Seen{"backup_failed": s})
	m.pass()
}

// deliver has a courier make one attempt, and reports whether it did.
func (m *mortal) deliver(key string, outcomes ...Outcome) bool {
	c := m.couriers[key]
	messages, _ := m.due(c)
	if len(messages) == 0 {
		return false
	}
	out := rapid.SampledFrom(outcomes).Draw(m.T, "outcome")
	if out.Delivered {
		for _, message := range messages {
			m.note(key, m.got, message)
		}
	}
	if m.dies && rapid.IntRange(0, 9).Draw(m.T, "dies before it is noted") == 0 {
		m.dead = true
		return true
	}
	m.conclude(c, messages, out)
	return true
}

// bySubject are the messages about each, in their order.
func (m *mortal) bySubject(ids []string) map[string][]string {
	all := make(map[string][]string)
	for _, id := range ids {
		for _, item := range m.bodies[id].Alerts {
			k := m.bodies[id].Event + " " + item.Subject
			all[k] = append(all[k], id+" "+string(m.bodies[id].State))
		}
	}
	return all
}

// TestNothingIsLostByACrash: whatever is found, delivered and not, and at which write the process dies, each
// destination gets each message that was ever on the disk, those about one subject in their order, and none that was
// not; and in the end it knows of each subject how that is.
func TestNothingIsLostByACrash(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		m := &mortal{T: t, dir: filepath.Join(dir, fmt.Sprint(n)), now: begin, found: make(map[string]bool), dies: true,
			durable: make(map[string][]string), got: make(map[string][]string), bodies: make(map[string]Data)}
		if err := os.Mkdir(m.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		m.begin()
		failed := Outcome{Status: 500, Error: "it answered 500"}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch subject := rapid.SampledFrom([]string{"a", "b", "c", "", ""}).Draw(t, "what"); subject {
			case "":
				m.deliver(rapid.SampledFrom(both).Draw(t, "to"), taken, taken, failed)
			default:
				m.found[subject] = !m.found[subject]
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 1200).Draw(t, "seconds")) * time.Second)
				m.look()
			}
			if m.dead {
				m.begin()
			}
		}
		m.dies = false
		for range 6 { // as it is now, it stays for hours
			m.now = m.now.Add(longestClear + gatherFor)
			m.look()
			for _, key := range both {
				for m.deliver(key, taken) {
				}
			}
		}
		for _, key := range both {
			if got, want := m.bySubject(m.got[key]), m.bySubject(m.durable[key]); !maps.EqualFunc(got, want, slices.Equal) {
				t.Fatalf("%s got %v, and on the disk were %v", key, got, want)
			}
			last := make(map[string]State)
			for _, id := range m.got[key] {
				d := m.bodies[id]
				if d.Event == undelivered {
					continue
				}
				for _, item := range d.Alerts {
					if d.State == Resolved && last[item.Subject] == "" {
						t.Fatalf("%s hears that %s is over, and never heard that it was so", key, item.Subject)
					}
					last[item.Subject] = d.State
				}
			}
			for subject, is := range m.found {
				if is && last[subject] != Raised && last[subject] != Lasts || !is && last[subject] == Raised {
					t.Fatalf("of %s, %s knows %q last", subject, key, last[subject])
				}
			}
		}
	})
}

// claims are who tells of what, in a database that nodes share.
type claims struct {
	mu    sync.Mutex
	by    map[string]string
	until map[string]time.Time
}

func (c *claims) of(node string) func(context.Context, string, time.Duration) (bool, error) {
	return func(_ context.Context, name string, d time.Duration) (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := time.Now()
		if c.by[name] != node && now.Before(c.until[name]) {
			return false, nil
		}
		c.by[name], c.until[name] = node, now.Add(d)
		return true, nil
	}
}

// TestTheDeathOfWhoTells: of the nodes that see the same one tells of it, and never one that has nobody to tell. When
// it dies another one takes its place, and says when it is over.
func TestTheDeathOfWhoTells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		shared := &claims{by: make(map[string]string), until: make(map[string]time.Time)}
		var mu sync.Mutex
		seen := map[string]Seen{"balance_low": {Findings: []Finding{{Subject: "ann"}}}}
		hears := make(map[string]*scripted)
		nodes := make(map[string]*Service)
		for _, name := range []string{"deaf", "one", "two"} { // deaf looks first
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			s := New(Options{Dir: filepath.Join(dir, name), Gateway: name, Now: time.Now, After: time.After,
				Log: slog.New(slog.DiscardHandler), Config: func() config.Alerts { return config.Alerts{} },
				Claim: shared.of(name), Look: func(context.Context, func(string) []string) map[string]Seen { return nil },
				LookAside: func(context.Context, func(string) []string) map[string]Seen {
					mu.Lock()
					defer mu.Unlock()
					return seen
				}})
			d := &scripted{name: "webhook " + name, outcome: taken, ids: make(map[string]int)}
			s.destinations = func(config.Alerts) []destination {
				if name == "deaf" {
					return nil
				}
				return []destination{{key: d.name, name: d.name, hears: everybody, timeout: time.Second, sender: d}}
			}
			nodes[name], hears[name] = s, d
			s.Start(t.Context())
			defer s.Close()
			pass(0)
		}
		pass(time.Minute)
		require.Empty(t, hears["deaf"].types())
		require.Nil(t, nodes["deaf"].Standing().Alerts[0].Told)
		teller, other := "one", "two"
		if len(hears["two"].types()) > 0 {
			teller, other = "two", "one"
		}
		require.Equal(t, []string{"balance_low.raised"}, hears[teller].types())
		require.Empty(t, hears[other].types())
		require.True(t, nodes[other].Standing().Alerts[0].Elsewhere)

		nodes[teller].Close()
		pass(claimFor + claimFor + time.Minute)
		require.Equal(t, []string{"balance_low.raised"}, hears[other].types(), "nobody else knows that it was told")
		mu.Lock()
		seen = map[string]Seen{"balance_low": {}}
		mu.Unlock()
		pass(clearFor + 2*lookEvery)
		require.Equal(t, []string{"balance_low.raised", "balance_low.resolved"}, hears[other].types())
		require.Len(t, hears[teller].types(), 1)
		require.Empty(t, hears["deaf"].types())
	})
}
