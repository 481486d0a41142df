package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/config"
)

var begin = time.Date(2026, time.November, 27, 1, 0, 0, 0, time.UTC)

func everybody(string) bool { return true }

// step takes findings of one event, and returns what is told as "state subjects".
func step(w *watch, now time.Time, event string, subjects ...string) (told []string) {
	s := Seen{}
	for _, subject := range subjects {
		s.Findings = append(s.Findings, Finding{Subject: subject, Text: subject + " is so."})
	}
	w.take(now, map[string]Seen{event: s})
	for _, n := range w.tell(now, everybody) {
		text := string(n.state)
		for _, a := range n.alerts {
			text += " " + a.Subject
		}
		told = append(told, text)
	}
	return told
}

// TestAnAlertIsToldOnce: when it has held for as long as its event says, not before; again after a day; and its end.
func TestAnAlertIsToldOnce(t *testing.T) {
	t.Parallel()
	w, now := newWatch(), begin
	tick := func(d time.Duration, subjects ...string) []string {
		now = now.Add(d)
		return step(w, now, "provider_down", subjects...)
	}
	require.Empty(t, tick(0, "openai"))
	require.Empty(t, tick(110*time.Second, "openai"))
	require.Equal(t, []string{"raised openai"}, tick(10*time.Second, "openai"))
	for range 100 {
		require.Empty(t, tick(10*time.Second, "openai"))
	}
	require.Empty(t, tick(10*time.Second), "it may come back")
	require.Empty(t, tick(10*time.Second, "openai"), "what comes and goes lasts")
	require.Equal(t, []string{"lasts openai"}, tick(24*time.Hour, "openai"))
	require.Empty(t, tick(time.Hour, "openai"))
	require.Empty(t, tick(10*time.Second))
	require.Equal(t, []string{"resolved openai"}, tick(time.Minute))
	require.Empty(t, tick(time.Hour))
}

// TestABlipIsNotTold, and neither is one that comes and goes before it has held for long enough.
func TestABlipIsNotTold(t *testing.T) {
	t.Parallel()
	w, now := newWatch(), begin
	for range 10 {
		require.Empty(t, step(w, now, "provider_down", "openai"))
		require.Empty(t, step(w, now.Add(61*time.Second), "provider_down"))
		now = now.Add(2 * time.Hour)
	}
	require.Empty(t, w.alerts)
}

// TestWhatNobodyHearsStaysUntold until somebody does.
func TestWhatNobodyHearsStaysUntold(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.take(begin, map[string]Seen{"backup_failed": {Findings: []Finding{{Subject: "backup"}}}})
	require.Empty(t, w.tell(begin, func(string) bool { return false }))
	notes := w.tell(begin, everybody)
	require.Len(t, notes, 1)
	require.Equal(t, Raised, notes[0].state)
}

// TestWhatWasNotLookedAtStays: neither an event that was left out, nor a subject that was not examined, is over.
func TestWhatWasNotLookedAtStays(t *testing.T) {
	t.Parallel()
	w := newWatch()
	f := func(subject string) Finding { return Finding{Subject: subject} }
	w.take(begin, map[string]Seen{"balance_low": {Findings: []Finding{f("ann"), f("bob")}}})
	require.Len(t, w.tell(begin, everybody), 2)
	later := begin.Add(time.Hour)
	w.take(later, map[string]Seen{})
	w.take(later, map[string]Seen{"balance_low": {Examined: map[string]bool{"ann": true}}})
	notes := w.tell(later, everybody)
	require.Len(t, notes, 1)
	require.Equal(t, "ann", notes[0].alerts[0].Subject)
	require.Equal(t, Resolved, notes[0].state)
	require.Equal(t, []string{"bob"}, w.subjects("balance_low"))
}

// TestManyAreTogether: a storm is a few messages, and none of it is lost.
func TestManyAreTogether(t *testing.T) {
	t.Parallel()
	w := newWatch()
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("acct_%03d", i))
	}
	told := step(w, begin, "balance_low", many...)
	require.Len(t, told, 1)
	// From then on one each ten seconds: twenty in an hour are alone at most, then they are gathered.
	messages, now := 1, begin
	for i := range 300 {
		now = now.Add(10 * time.Second)
		many = append(many, fmt.Sprintf("more_%03d", i))
		messages += len(step(w, now, "balance_low", many...))
	}
	require.Less(t, messages, 20+6)
	now = now.Add(gatherFor)
	require.Len(t, step(w, now, "balance_low", many...), 1)
	for _, a := range w.alerts {
		require.NotNil(t, a.Told, a.Subject)
	}
	// There is a bound on what is remembered, and what is beyond is counted.
	for i := range 1000 {
		many = append(many, fmt.Sprintf("last_%04d", i))
	}
	step(w, now.Add(time.Second), "balance_low", many...)
	require.Len(t, w.alerts, maxSubjects)
	require.Equal(t, 600, w.beyond["balance_low"])
}

// TestAMessageOfMany counts all and lists a hundred.
func TestAMessageOfMany(t *testing.T) {
	t.Parallel()
	n := note{event: &config.AlertEvents[0], state: Raised}
	for i := range 250 {
		n.alerts = append(n.alerts, Alert{Subject: fmt.Sprint(i), Since: begin, Text: "so"})
	}
	m, err := n.write("desk", begin)
	require.NoError(t, err)
	d, err := m.data()
	require.NoError(t, err)
	require.Equal(t, 250, d.Count)
	require.Len(t, d.Alerts, maxListed)
	require.Equal(t, "so", d.Alerts[0].Text)
	require.Equal(t, "no_route.raised", m.Type)
	var body map[string]any
	require.NoError(t, json.Unmarshal(m.Body, &body))
	require.Equal(t, "no_route.raised", body["type"])
	require.Equal(t, "2026-11-27T01:00:00Z", body["timestamp"])
	again, err := n.write("desk", begin.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, m.ID, again.ID, "the same occurrence has the same id")
	n.alerts[0].Since = begin.Add(time.Second)
	other, err := n.write("desk", begin)
	require.NoError(t, err)
	require.NotEqual(t, m.ID, other.ID)
}

// TestAClockThatJumps: turned back, nothing is over or raised by that; a year ahead, each alert is said once more.
func TestAClockThatJumps(t *testing.T) {
	t.Parallel()
	w := newWatch()
	require.Equal(t, []string{"raised a"}, step(w, begin, "backup_failed", "a"))
	require.Empty(t, step(w, begin.Add(-365*24*time.Hour), "backup_failed", "a"))
	require.Empty(t, step(w, begin.Add(-365*24*time.Hour+time.Hour), "backup_failed", "a"))
	require.Equal(t, []string{"lasts a"}, step(w, begin.Add(365*24*time.Hour), "backup_failed", "a"))
	require.Empty(t, step(w, begin.Add(365*24*time.Hour+time.Minute), "backup_failed", "a"))
}

// TestOneNodeTells of what several see: the one that has claimed it; another one takes over when that is gone.
func TestOneNodeTells(t *testing.T) {
	t.Parallel()
	nodes := []*watch{newWatch(), newWatch(), newWatch()}
	owner, expires := -1, time.Time{}
	step := func(now time.Time, living ...int) (told []int) {
		for _, i := range living {
			w := nodes[i]
			w.shared = true
			w.take(now, map[string]Seen{"balance_low": {Findings: []Finding{{Subject: "ann"}}}})
			for _, k := range w.unclaimed(now, everybody) {
				if owner == i || !now.Before(expires) {
					owner, expires = i, now.Add(claimFor)
				}
				w.claimed(k, owner == i, now)
			}
			for range w.tell(now, everybody) {
				told = append(told, i)
			}
		}
		return told
	}
	require.Equal(t, []int{0}, step(begin, 0, 1, 2))
	now := begin
	for range 360 {
		now = now.Add(10 * time.Second)
		require.Empty(t, step(now, 0, 1, 2))
	}
	var told []int
	for range 360 { // the first one is gone
		now = now.Add(10 * time.Second)
		told = append(told, step(now, 1, 2)...)
	}
	require.Len(t, told, 1)
	require.NotEqual(t, 0, told[0])
	// What nobody could claim is told by nobody yet.
	w := newWatch()
	w.shared = true
	w.take(begin, map[string]Seen{"balance_low": {Findings: []Finding{{Subject: "ann"}}}, "backup_failed": {
		Findings: []Finding{{Subject: "backup"}}}})
	notes := w.tell(begin, everybody)
	require.Len(t, notes, 1)
	require.Equal(t, "backup_failed", notes[0].event.Name, "which is this node's own")
}

// TestANodeThatTellsNobody claims nothing, and its claim lapses when it has nobody to tell any more.
func TestANodeThatTellsNobody(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.shared = true
	nobody := func(string) bool { return false }
	look := func(now time.Time, hears func(string) bool) []alertKey {
		w.take(now, map[string]Seen{"balance_low": {Findings: []Finding{{Subject: "ann"}}}})
		return w.unclaimed(now, hears)
	}
	require.Empty(t, look(begin, nobody))
	k := alertKey{"balance_low", "ann"}
	require.Equal(t, []alertKey{k}, look(begin, everybody))
	w.claimed(k, true, begin)
	require.Empty(t, look(begin.Add(claimEvery/2), everybody))
	require.Empty(t, look(begin.Add(claimEvery), nobody), "it is renewed for nobody")
	require.Empty(t, w.tell(begin.Add(claimEvery), nobody))
	now := begin.Add(claimEvery + time.Second)
	require.Equal(t, []alertKey{k}, look(now, everybody), "it may be another one's by now")
	w.claimed(k, false, now)
	require.Empty(t, w.tell(now, everybody))
}

// TestWatchIsSound: whatever is found and when, raised and resolved take turns for each subject, a reminder stands
// between them, and no more is told than the bound allows.
func TestWatchIsSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w, now := newWatch(), begin
		raised, events := map[string]bool{}, []string{"provider_down", "backup_failed"}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(-20, 600).Draw(t, "seconds")) * time.Second)
			seen := make(map[string]Seen)
			for _, event := range events {
				s := Seen{}
				for i := range 8 {
					if rapid.Bool().Draw(t, "found") {
						s.Findings = append(s.Findings, Finding{Subject: fmt.Sprint(i)})
					}
				}
				if rapid.IntRange(0, 4).Draw(t, "looked") > 0 {
					seen[event] = s
				}
			}
			w.take(now, seen)
			for _, n := range w.tell(now, everybody) {
				for _, a := range n.alerts {
					k := a.Event + a.Subject
					if want := n.state != Raised; raised[k] != want {
						t.Fatalf("%s of %s, which was told of as raised: %v", n.state, k, raised[k])
					}
					raised[k] = n.state != Resolved
				}
			}
			for _, event := range events {
				if n := len(w.sent[event]); n > 200 {
					t.Fatalf("%d messages of %s in an hour", n, event)
				}
			}
		}
	})
}

// TestWhatFlapsLasts: an alert that comes and goes has to be gone for twice as long each time, up to half an hour; one
// that comes again an hour later begins anew.
func TestWhatFlapsLasts(t *testing.T) {
	t.Parallel()
	w, now := newWatch(), begin
	var cleared []time.Duration
	for range 8 {
		require.Equal(t, []string{"raised a"}, step(w, now, "backup_failed", "a"))
		gone := now
		for {
			now = now.Add(10 * time.Second)
			if told := step(w, now, "backup_failed"); len(told) > 0 {
				require.Equal(t, []string{"resolved a"}, told)
				break
			}
		}
		cleared = append(cleared, now.Sub(gone))
	}
	minutes := time.Minute
	require.Equal(t, []time.Duration{minutes, 2 * minutes, 4 * minutes, 8 * minutes, 16 * minutes, 30 * minutes,
		30 * minutes, 30 * minutes}, cleared)
	now = now.Add(flapsFor)
	step(w, now, "backup_failed")
	require.Empty(t, w.flaps, "nothing is remembered of it")
	step(w, now, "backup_failed", "a")
	require.Equal(t, []string{"resolved a"}, step(w, now.Add(clearFor), "backup_failed"))
}

// TestAPageIsNotGathered where it is told for the first time; what comes again waits with the others.
func TestAPageIsNotGathered(t *testing.T) {
	t.Parallel()
	w, now := newWatch(), begin
	found := func(subjects ...string) []string {
		w.take(now, map[string]Seen{"certificate_expiring": seenAs(subjects...)})
		now = now.Add(time.Minute) // it has to hold for that
		w.take(now, map[string]Seen{"certificate_expiring": seenAs(subjects...)})
		var told []string
		for _, n := range w.tell(now, everybody) {
			for i := range n.alerts {
				told = append(told, string(n.state)+" "+n.alerts[i].Subject)
			}
		}
		return told
	}
	all := []string{}
	for i := range burst {
		all = append(all, fmt.Sprintf("host%02d", i))
		require.Equal(t, []string{fmt.Sprintf("raised host%02d", i)}, found(all...))
	}
	require.Equal(t, []string{"raised fresh"}, found(append(all, "fresh")...))
	require.Empty(t, found(all...))
	require.Empty(t, found(all...), "what is over waits")
	require.Empty(t, found(append(all, "fresh")...), "and so does what comes again")
	now = now.Add(gatherFor)
	require.ElementsMatch(t, []string{"resolved fresh", "raised fresh"}, found(append(all, "fresh")...))
}

func seenAs(subjects ...string) (s Seen) {
	for _, subject := range subjects {
		s.Findings = append(s.Findings, Finding{Subject: subject, Text: "so"})
	}
	return s
}

// TestWhatIsBeyondIsGivenBack, so that it is found again when there is room.
func TestWhatIsBeyondIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWatch()
	var all []string
	for i := range maxSubjects + 3 {
		all = append(all, fmt.Sprintf("acct_%04d", i))
	}
	beyond := w.take(begin, map[string]Seen{"balance_low": seenAs(all...), "cap_near": seenAs("acct_0000")})
	require.Equal(t, map[string][]string{"balance_low": all[maxSubjects:]}, beyond)
	require.Equal(t, 3, w.beyond["balance_low"])
	later := begin.Add(clearFor)
	examined := map[string]bool{all[0]: true, all[1]: true, all[2]: true}
	require.Nil(t, w.take(later, map[string]Seen{"balance_low": {Examined: examined}}))
	require.Nil(t, w.take(later, map[string]Seen{"balance_low": {Examined: examined, Findings: seenAs(
		all[maxSubjects:]...).Findings}}))
	require.Len(t, w.subjects("balance_low"), maxSubjects)

	b := newBench(t, t.TempDir(), config.Alerts{})
	var given map[string][]string
	b.o.GiveBack = func(beyond map[string][]string) { given = beyond }
	b.o.LookAside = func(context.Context, func(string) []string) map[string]Seen {
		return map[string]Seen{"balance_low": seenAs(all...)}
	}
	b.lookAside(t.Context())
	require.Equal(t, map[string][]string{"balance_low": all[maxSubjects:]}, given)
}
