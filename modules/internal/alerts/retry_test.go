package alerts

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// scripted is a destination that answers as a test says, in the time of a synctest bubble.
type scripted struct {
	name    string
	outcome Outcome
	minds   string // the type of message that it does not take, however it answers others

	mu       sync.Mutex
	digest   string
	gone     bool // from the configuration
	attempts []time.Time
	got      []string // types
	ids      map[string]int
}

// set changes it.
func (s *scripted) set(change func(s *scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// takes has it take messages from now on.
func (s *scripted) takes() { s.set(func(s *scripted) { s.outcome = taken }) }

// types are those of the messages that it took, and tried when it was asked to.
func (s *scripted) types() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *scripted) tried() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.attempts)
}

func (s *scripted) batch() int           { return 1 }
func (s *scripted) pause() time.Duration { return 0 }

func (s *scripted) send(_ context.Context, messages []*Message, _ time.Time) Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts = append(s.attempts, time.Now())
	s.ids[messages[0].ID]++
	if s.minds == messages[0].Type {
		return Outcome{Status: 403, Error: "it answered 403"}
	}
	if s.outcome.Delivered {
		s.got = append(s.got, messages[0].Type)
	}
	return s.outcome
}

var taken = Outcome{Delivered: true, Status: 204}

// inBubble runs a service with such destinations, for which nothing is found but what finds says, until the test ends.
func inBubble(t *testing.T, test func(t *testing.T, s *Service, finds func(event string, f ...Finding)),
	to ...*scripted) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		found := make(map[string]Seen)
		for _, event := range config.AlertEventNames() {
			if event != undelivered {
				found[event] = Seen{}
			}
		}
		s := New(Options{Dir: dir, Gateway: "desk", Now: time.Now, After: time.After, Log: slog.New(slog.DiscardHandler),
			Config: func() config.Alerts { return config.Alerts{} },
			Look: func(context.Context, func(string) []string) map[string]Seen {
				mu.Lock()
				defer mu.Unlock()
				return maps.Clone(found)
			}})
		s.destinations = func(config.Alerts) (all []destination) {
			for _, d := range to {
				d.set(func(d *scripted) {
					if !d.gone {
						all = append(all, destination{key: d.name, name: d.name, digest: d.digest, hears: everybody,
							timeout: time.Second, sender: d})
					}
				})
			}
			return all
		}
		for _, d := range to {
			d.ids = make(map[string]int)
		}
		s.Start(t.Context())
		defer s.Close()
		pass(0)
		test(t, s, func(event string, f ...Finding) {
			mu.Lock()
			defer mu.Unlock()
			found[event] = Seen{Findings: f}
		})
	})
}

// pass lets the time pass, until everybody waits again.
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
	synctest.Wait()
}

// TestRetries: an attempt that fails is repeated for three days at the pauses of the specification, under one id; then
// the message is given up. The others hear of it meanwhile, and all of it is seen.
func TestRetries(t *testing.T) {
	t.Parallel()
	bad := &scripted{name: "bad", outcome: Outcome{Status: 500, Error: "it answered 500"}}
	good := &scripted{name: "good", outcome: taken}
	inBubble(t, func(t *testing.T, s *Service, finds func(string, ...Finding)) {
		finds("backup_failed", Finding{Subject: "backup"})
		pass(lookEvery)
		require.Len(t, bad.tried(), 1)
		require.Equal(t, []string{"backup_failed.raised"}, good.types())
		require.Equal(t, "it answered 500", s.Standing().Destinations[0].Error)
		require.NotNil(t, s.Standing().Destinations[0].Failing)
		pass(event(undelivered).For + lookEvery)
		require.Equal(t, []string{"backup_failed.raised", "alerts_undelivered.raised"}, good.types())
		pass(23 * time.Hour) // before the reminder, which would be tried soon
		bad.set(func(d *scripted) { require.Len(t, d.ids, 1) })
		require.Len(t, bad.tried(), 7)
		tried := bad.tried()
		for i := range tried[1:] {
			pause := tried[i+1].Sub(tried[i])
			require.GreaterOrEqual(t, pause, pauses[i])
			require.Less(t, pause, pauses[i]*13/10)
		}
		pass(keepFor - 23*time.Hour)
		lost := s.Standing().GivenUp
		require.Len(t, lost, 1)
		require.Equal(t, "backup_failed.raised", lost[0].Type)
		require.Equal(t, "bad", lost[0].Destination)
		require.Equal(t, "it was tried for three days: it answered 500", lost[0].Why)
		require.InDelta(t, keepFor.Hours(), lost[0].At.Sub(lost[0].Written).Hours(), 0.1)
		bad.takes()
		pass(30 * time.Hour)
		require.NotEmpty(t, bad.types(), "what was written since")
		require.Zero(t, s.Standing().Destinations[0].Waiting)
		require.Nil(t, s.Standing().Destinations[0].Failing)
		require.EqualValues(t, 1, s.Standing().Counts[Count{"bad", "given_up"}])
		pass(2 * clearFor)
		require.Contains(t, good.types(), "alerts_undelivered.resolved")
	}, bad, good)
}

// TestRetryAfterIsHonoured, up to a day.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, time.Millisecond: pauses[0],
		1000 * time.Hour: longestWish} {
		d := &scripted{name: "ops", outcome: Outcome{Status: 429, Error: "it answered 429", After: after}}
		inBubble(t, func(t *testing.T, _ *Service, finds func(string, ...Finding)) {
			finds("backup_failed", Finding{Subject: "backup"})
			pass(lookEvery)
			require.Len(t, d.tried(), 1)
			pass(want)
			require.Len(t, d.tried(), 2)
			require.Equal(t, want, d.tried()[1].Sub(d.tried()[0]))
		}, d)
	}
}

// TestWhatIsNewIsTriedSoon, also with a destination that has failed for long, and a page before what failed.
func TestWhatIsNewIsTriedSoon(t *testing.T) {
	t.Parallel()
	d := &scripted{name: "ops", outcome: Outcome{Status: 500, Error: "it answered 500"}}
	inBubble(t, func(t *testing.T, _ *Service, finds func(string, ...Finding)) {
		finds("backup_failed", Finding{Subject: "backup"})
		pass(4 * time.Hour) // the next attempt would be in an hour at least
		tried := len(d.tried())
		d.takes()
		finds("ledger_loss", Finding{})
		pass(freshly + lookEvery)
		require.Len(t, d.tried(), tried+2)
		require.Equal(t, []string{"ledger_loss.raised", "backup_failed.raised"}, d.types())
	}, d)
}

// TestGone: a destination that says so is told nothing, until its block changes or a test succeeds.
func TestGone(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(t *testing.T, s *Service, d *scripted){
		"its block changes": func(_ *testing.T, _ *Service, d *scripted) {
			d.set(func(d *scripted) { d.digest = "another" })
		},
		"a test succeeds": func(t *testing.T, s *Service, _ *scripted) {
			tested, err := s.Test(t.Context(), TestOf{})
			require.NoError(t, err)
			require.True(t, tested[0].Delivered)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &scripted{name: "ops", outcome: Outcome{Status: 410, Error: "it answered 410", Gone: true}}
			inBubble(t, func(t *testing.T, s *Service, finds func(string, ...Finding)) {
				finds("backup_failed", Finding{Subject: "backup"})
				pass(lookEvery)
				require.NotNil(t, s.Standing().Destinations[0].Disabled)
				d.takes()
				finds("ledger_loss", Finding{})
				pass(70 * time.Hour)
				require.Len(t, d.tried(), 1)
				back(t, s, d)
				pass(lookEvery)
				require.Contains(t, d.types(), "backup_failed.raised", "what waited")
				require.Contains(t, d.types(), "ledger_loss.raised", "what nobody was told")
				require.Nil(t, s.Standing().Destinations[0].Disabled)
			}, d)
		})
	}
}

// TestAPoisonedMessage does not keep those behind it.
func TestAPoisonedMessage(t *testing.T) {
	t.Parallel()
	d := &scripted{name: "ops", outcome: Outcome{Status: 422, Error: "it answered 422", Refused: true}}
	inBubble(t, func(t *testing.T, s *Service, finds func(string, ...Finding)) {
		finds("backup_failed", Finding{Subject: "backup"})
		pass(time.Hour)
		require.Len(t, d.tried(), maxRefused)
		require.Len(t, s.Standing().GivenUp, 1)
		require.Equal(t, "it answered 422", s.Standing().GivenUp[0].Why)
		d.takes()
		finds("ledger_loss", Finding{})
		pass(lookEvery)
		require.Equal(t, []string{"ledger_loss.raised"}, d.types())
	}, d)
}

// TestOneThatFailsDoesNotSilenceOthers: those behind a message that is not taken get through soon, pages first;
// but none about the same passes it.
func TestOneThatFailsDoesNotSilenceOthers(t *testing.T) {
	t.Parallel()
	d := &scripted{name: "ops", outcome: taken, minds: "backup_failed.raised"}
	inBubble(t, func(t *testing.T, s *Service, finds func(string, ...Finding)) {
		finds("backup_failed", Finding{Subject: "backup"})
		pass(lookEvery)
		finds("config_refused", Finding{})
		finds("ledger_loss", Finding{})
		pass(event("config_refused").For + time.Minute)
		require.Equal(t, []string{"ledger_loss.raised", "config_refused.raised"}, d.types())
		finds("backup_failed")
		pass(time.Hour)
		require.Len(t, d.types(), 2, "the end of an alert before its beginning")
		require.Equal(t, 2, s.Standing().Destinations[0].Waiting)
		d.set(func(d *scripted) { d.minds = "" })
		pass(6 * time.Hour)
		require.Equal(t, []string{"backup_failed.raised", "backup_failed.resolved"}, d.types()[2:])
	}, d)
}

// TestManyThatFailAreTriedInTurns: a destination that takes nothing is tried once in freshly, however much waits.
func TestManyThatFailAreTriedInTurns(t *testing.T) {
	t.Parallel()
	d := &scripted{name: "ops", outcome: Outcome{Status: 500, Error: "it answered 500"}}
	inBubble(t, func(t *testing.T, s *Service, _ func(string, ...Finding)) {
		s.mu.Lock()
		for i := range 200 {
			n := note{event("backup_failed"), Raised, []Alert{{Event: "backup_failed", Subject: string(rune('a' + i))}}}
			m, err := n.write("desk", time.Now())
			require.NoError(t, err)
			s.outbox.put(m, []string{"ops"}, time.Now())
		}
		s.mu.Unlock()
		s.save()
		pass(10 * time.Hour)
		require.InDelta(t, 10*time.Hour/freshly, len(d.tried()), 5)
		d.set(func(d *scripted) { require.Greater(t, len(d.ids), 20) })
		d.takes()
		pass(freshly + lookEvery)
		require.Len(t, d.types(), 200)
	}, d)
}

// TestARemovedDestination: what waits for it is given up, and said; the others get theirs, and one that is added hears
// of what is new.
func TestARemovedDestination(t *testing.T) {
	t.Parallel()
	bad, good := &scripted{name: "bad", outcome: Outcome{Status: 500}}, &scripted{name: "good", outcome: taken}
	inBubble(t, func(t *testing.T, s *Service, finds func(string, ...Finding)) {
		finds("backup_failed", Finding{Subject: "backup"})
		pass(lookEvery)
		bad.set(func(d *scripted) { d.gone = true })
		pass(lookEvery)
		require.Len(t, s.Standing().GivenUp, 1)
		require.Equal(t, "bad", s.Standing().GivenUp[0].Destination)
		require.Contains(t, s.Standing().GivenUp[0].Why, "does not have its destination any more")
		require.Len(t, s.Standing().Destinations, 1)
		bad.set(func(d *scripted) { d.gone, d.outcome = false, taken })
		finds("ledger_loss", Finding{})
		pass(2 * lookEvery)
		require.Equal(t, []string{"ledger_loss.raised"}, bad.types())
		require.Equal(t, []string{"backup_failed.raised", "ledger_loss.raised"}, good.types())
	}, bad, good)
}

// TestNothingWaitsForTheLedger: what is read from there, and asking the other nodes, keeps no page, and is bounded.
func TestNothingWaitsForTheLedger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{name: "ops", outcome: taken, ids: make(map[string]int)}
		var looked, claimed []time.Duration
		stall := func(ctx context.Context, took *[]time.Duration) {
			start := time.Now()
			<-ctx.Done()
			*took = append(*took, time.Since(start))
		}
		s := New(Options{Dir: dir, Gateway: "desk", Now: time.Now, After: time.After, Log: slog.New(slog.DiscardHandler),
			Config: func() config.Alerts { return config.Alerts{} },
			Look: func(context.Context, func(string) []string) map[string]Seen {
				return map[string]Seen{"ledger_loss": {Findings: []Finding{{}}}}
			},
			LookAside: func(ctx context.Context, _ func(string) []string) map[string]Seen {
				if len(looked) < 3 {
					stall(ctx, &looked)
				}
				return map[string]Seen{"balance_low": {Findings: []Finding{{Subject: "ann"}}}}
			},
			Claim: func(ctx context.Context, _ string, _ time.Duration) (bool, error) {
				if len(claimed) < 3 {
					stall(ctx, &claimed)
					return false, ctx.Err()
				}
				return true, nil
			}})
		s.destinations = func(config.Alerts) []destination {
			return []destination{{key: d.name, name: d.name, hears: everybody, timeout: time.Second, sender: d}}
		}
		start := time.Now()
		s.Start(t.Context())
		defer s.Close()
		pass(0)
		require.Equal(t, []string{"ledger_loss.raised"}, d.types())
		require.Zero(t, d.tried()[0].Sub(start))
		pass(2 * time.Minute)
		require.Equal(t, []string{"ledger_loss.raised", "balance_low.raised"}, d.types())
		require.Equal(t, []time.Duration{asideFor, asideFor, asideFor}, looked)
		require.Len(t, claimed, 3)
		for _, took := range claimed {
			require.LessOrEqual(t, took, asideFor)
		}
	})
}

// TestNothingGoesOutBeforeItIsOnTheDisk, however long that takes.
func TestNothingGoesOutBeforeItIsOnTheDisk(t *testing.T) {
	t.Parallel()
	d := &scripted{name: "ops", outcome: taken}
	inBubble(t, func(t *testing.T, s *Service, finds func(string, ...Finding)) {
		written := make(chan struct{})
		s.saving.Lock()
		s.outbox.write = func(path string, content []byte) error {
			<-written
			return writeFile(path, content)
		}
		s.saving.Unlock()
		finds("ledger_loss", Finding{})
		pass(lookEvery)
		s.mu.Lock()
		require.Equal(t, 1, s.outbox.count("ops"))
		s.couriers["ops"].wakeUp() // as whatever else may
		s.mu.Unlock()
		pass(time.Minute)
		require.Empty(t, d.tried())
		close(written)
		pass(lookEvery)
		require.Equal(t, []string{"ledger_loss.raised"}, d.types())
	}, d)
}

// TestTheClockIsTurnedBack: what waits does not wait until the old time comes again. (The bubble's clock cannot be
// turned, but a message that was written by one that was ahead can be there.)
func TestTheClockIsTurnedBack(t *testing.T) {
	t.Parallel()
	d := &scripted{name: "ops", outcome: taken}
	inBubble(t, func(t *testing.T, s *Service, _ func(string, ...Finding)) {
		ahead := time.Now().Add(365 * 24 * time.Hour)
		s.mu.Lock()
		s.outbox.put(&Message{ID: "msg_ahead", Type: "no_route.raised", Time: ahead, Body: []byte("{}")}, []string{"ops"},
			ahead)
		s.mu.Unlock()
		s.save()
		pass(lookEvery)
		require.Equal(t, []string{"no_route.raised"}, d.types())
	}, d)
}

func event(name string) *config.AlertEvent {
	i := slices.IndexFunc(config.AlertEvents, func(e config.AlertEvent) bool { return e.Name == name })
	return &config.AlertEvents[i]
}

// TestATroubleIsForgotten where nothing waits for a destination that has failed: with the next message it is known.
func TestATroubleIsForgotten(t *testing.T) {
	t.Parallel()
	o := newOutbox(t.TempDir())
	m := &Message{ID: "msg_1", Time: begin, Type: "backup_failed.raised", Body: []byte(`{}`)}
	o.put(m, []string{"webhook ops"}, begin)
	refused := Outcome{Status: 413, Error: "it answered 413", Refused: true}
	var lost []GivenUp
	now := begin
	for range maxRefused {
		lost = o.settle("webhook ops", "", []*Message{m}, &refused, now)
		now = now.Add(time.Hour)
	}
	require.Len(t, lost, 1)
	found := o.findTroubled(now)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Text, "the last message for it was given up")
	require.Len(t, o.findTroubled(now.Add(forgetAfter-2*time.Hour)), 1)
	require.Empty(t, o.findTroubled(now.Add(forgetAfter)))
	require.Empty(t, o.troubles)
}

// TestWhatIsNewerWaits for an older message about the same that is not tried yet, also where that has failed once only.
func TestWhatIsNewerWaits(t *testing.T) {
	t.Parallel()
	o := newOutbox(t.TempDir())
	write := func(state State, subject string) *Message {
		n := note{event: &config.AlertEvents[0], state: state, alerts: []Alert{{Subject: subject}}}
		m, err := n.write("desk", begin)
		require.NoError(t, err)
		m.onDisk = true
		o.put(m, []string{"mail ops"}, begin)
		return m
	}
	first, second, other := write(Raised, "a"), write(Resolved, "a"), write(Raised, "b")
	first.To["mail ops"].Next, first.To["mail ops"].Attempts = begin.Add(time.Minute), 1
	messages, _ := o.due("mail ops", 10, begin)
	require.Equal(t, []*Message{other}, messages)
	messages, _ = o.due("mail ops", 10, begin.Add(time.Minute))
	require.Equal(t, []*Message{first, second, other}, messages)
	messages, _ = o.due("mail ops", 1, begin.Add(time.Minute))
	require.Equal(t, []*Message{first}, messages)
	first.onDisk = false
	messages, _ = o.due("mail ops", 10, begin.Add(time.Minute))
	require.Equal(t, []*Message{other}, messages)
}

// TestAnIdleServiceSaysSo: the lock of the outbox, or the outbox, cannot be had for too long.
func TestAnIdleServiceSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := newBench(t, dir, config.Alerts{})
	first.begin(t)
	first.untilTrue(t, 0, func() bool { return first.Standing().Active })
	second := newBench(t, dir, config.Alerts{})
	second.begin(t)
	second.clock.AwaitWaits(1)
	require.Empty(t, second.Standing().Idle, "the one before it may drain")
	for range int(drainPatience/time.Minute) - 1 {
		second.clock.Turn(time.Minute)
		second.clock.AwaitWaits(1)
	}
	require.Empty(t, second.Standing().Idle)
	second.clock.Turn(time.Minute)
	require.Contains(t, second.Standing().Idle, "Another process has the outbox of alerts since 2026-11-27T01:00:00Z")
	first.Close()
	second.untilTrue(t, lockEvery, func() bool { return second.Standing().Active })
	require.Empty(t, second.Standing().Idle)

	unread := newBench(t, filepath.Join(dir, "nowhere"), config.Alerts{})
	unread.begin(t)
	unread.clock.AwaitWaits(1)
	require.Empty(t, unread.Standing().Idle)
	unread.clock.Turn(accessPatience)
	require.Contains(t, unread.Standing().Idle, "no such file or directory")
}
