package alerts

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
)

const (
	// clearFor is how long a finding has to be gone before it is taken to be over: what comes and goes meanwhile lasts.
	clearFor = time.Minute
	// flapsFor is within what time an alert that is raised again flaps: each time it has to be gone for twice as long,
	// up to longestClear.
	flapsFor     = time.Hour
	longestClear = 30 * time.Minute
	// remindEvery is how often it is said that an alert lasts.
	remindEvery = 24 * time.Hour
	// maxSubjects is how many subjects of one event are alerts at a time. Those beyond are counted.
	maxSubjects = 1000
	// alone is how many subjects that an event has at once are told of in messages of their own: more are in one.
	alone = 5
	// burst is how many messages of one event there are in an hour before those that follow are gathered, for
	// gatherFor each time.
	burst     = 20
	gatherFor = 10 * time.Minute
	// claimFor is for how long a node tells of an alert that others see as well, unless it says so again.
	claimFor   = 10 * time.Minute
	claimEvery = 4 * time.Minute
)

// Finding is something that is so at the moment, and that somebody must hear of if it stays so.
type Finding struct {
	Subject string         // what it is about, by a name that stays: a provider, an account's id; "" the gateway
	Name    string         // what people call that, where it is something else
	Text    string         // what is so, a sentence
	Next    string         // what to do first
	Data    map[string]any // in figures
	// Owner is what the owner of the account is told, where it is about one and that has an address.
	Owner *ForOwner
}

// Seen is what was found for one event.
type Seen struct {
	Findings []Finding
	// Examined are the subjects that were looked at: what is said of others stays. nil: all there are.
	Examined map[string]bool
	// Over is what owners are told where it is over for their account; one that is missing is told nothing.
	Over map[string]*ForOwner
}

// Alert is a finding with its time. One that has not held for long enough is none yet.
type Alert struct {
	Event     string         `json:"event"`
	Subject   string         `json:"subject,omitempty"`
	Name      string         `json:"name,omitempty"`
	Text      string         `json:"text"`
	Next      string         `json:"next,omitempty"`
	Data      map[string]any `json:"data,omitempty"`
	Since     time.Time      `json:"since"`           // when it was found first
	Raised    *time.Time     `json:"raised"`          // when it had held for long enough; nil: not yet
	Told      *time.Time     `json:"told"`            // when a message last said so; nil: none has
	Reminded  int            `json:"reminded"`        // how often it was said that it lasts
	Elsewhere bool           `json:"other,omitempty"` // another node tells of it
	// Owner is what the account's owner is told, and OwnerTold when that was; nil: not.
	Owner     *ForOwner  `json:"owner,omitempty"`
	OwnerTold *time.Time `json:"owner_told,omitempty"`

	last    time.Time     // when it was found last
	claimed time.Time     // when it was last asked who tells of it
	clear   time.Duration // how long it has to be gone to be over; 0: clearFor
}

// flap is how often an alert has come again lately.
type flap struct {
	raised time.Time // the last time
	clear  time.Duration
}

type alertKey struct{ event, subject string }

// note is a message to be written: of one alert, or of several of one event.
type note struct {
	event  *config.AlertEvent
	state  State
	alerts []Alert // copies
}

// State is what a message says of an alert.
type State string

// The states: it is so since; it is still so; and it is over.
const (
	Raised   State = "raised"
	Lasts    State = "lasts"
	Resolved State = "resolved"
)

// watch decides what is told, by what was found and when. It knows no clock.
type watch struct {
	alerts  map[alertKey]*Alert
	over    map[string][]Alert     // by event, that are told of as resolved when it is their turn
	sent    map[string][]time.Time // by event, the messages of the last hour
	beyond  map[string]int         // by event, subjects beyond maxSubjects
	flaps   map[alertKey]flap      // of what was raised within flapsFor, or still is
	shared  bool                   // several nodes see the same: it has to be claimed who tells of it
	changed bool                   // an alert was raised, or is over

	overForOwners []Alert                  // of which owners are told, whose words are Owner
	mailed        map[alertKey][]time.Time // mails to owners within the last day
}

func newWatch() *watch {
	return &watch{alerts: make(map[alertKey]*Alert), over: make(map[string][]Alert), sent: make(map[string][]time.Time),
		beyond: make(map[string]int), flaps: make(map[alertKey]flap), mailed: make(map[alertKey][]time.Time)}
}

// subjects are those of an event that are alerts, or may become ones.
func (w *watch) subjects(event string) (all []string) {
	for k := range w.alerts {
		if k.event == event {
			all = append(all, k.subject)
		}
	}
	slices.Sort(all)
	return all
}

// take takes what was found now. An event that seen has not was not looked at. beyond are the subjects, by event, for
// which there is no room.
func (w *watch) take(now time.Time, seen map[string]Seen) (beyond map[string][]string) {
	for i := range config.AlertEvents {
		event := &config.AlertEvents[i]
		s, ok := seen[event.Name]
		if !ok {
			continue
		}
		left := w.takeEvent(now, event, s)
		if w.beyond[event.Name] = len(left); len(left) > 0 {
			if beyond == nil {
				beyond = make(map[string][]string)
			}
			beyond[event.Name] = left
		}
	}
	maps.DeleteFunc(w.flaps, func(k alertKey, f flap) bool { return w.alerts[k] == nil && now.Sub(f.raised) >= flapsFor })
	return beyond
}

// takeEvent brings an event's alerts up to date, and returns the subjects for which there is no room.
func (w *watch) takeEvent(now time.Time, event *config.AlertEvent, s Seen) (beyond []string) {
	count := len(w.subjects(event.Name))
	for _, f := range s.Findings {
		k := alertKey{event.Name, f.Subject}
		a := w.alerts[k]
		if a == nil {
			if count >= maxSubjects {
				beyond = append(beyond, f.Subject)
				continue
			}
			a = &Alert{Event: event.Name, Subject: f.Subject, Since: now}
			w.alerts[k] = a
			count++
		}
		a.turnBack(now)
		a.Name, a.Text, a.Next = plain(f.Name, maxText), plain(f.Text, maxText), plain(f.Next, maxText)
		a.Data, a.last, a.Owner = f.Data, now, f.Owner.plain()
		if a.Raised == nil && now.Sub(a.Since) >= event.For {
			a.Raised, w.changed = &now, true
			a.clear = w.countFlap(k, now)
		}
	}
	for k, a := range w.alerts {
		if k.event != event.Name || a.last.Equal(now) || s.Examined != nil && !s.Examined[k.subject] {
			continue
		}
		if a.turnBack(now); now.Sub(a.last) < max(a.clear, clearFor) {
			continue
		}
		delete(w.alerts, k)
		w.changed = w.changed || a.Raised != nil
		if a.Told != nil {
			w.over[event.Name] = append(w.over[event.Name], *a)
		}
		if words := s.Over[k.subject]; a.OwnerTold != nil && words != nil {
			over := *a
			over.Owner = words.plain()
			w.overForOwners = append(w.overForOwners, over)
		}
	}
	return beyond
}

// countFlap counts that an alert is raised, and returns how long it has to be gone to be over.
func (w *watch) countFlap(k alertKey, now time.Time) time.Duration {
	f := w.flaps[k]
	if since := now.Sub(f.raised); f.clear > 0 && since >= 0 && since < flapsFor {
		f.clear = min(2*f.clear, longestClear)
	} else {
		f.clear = clearFor
	}
	f.raised = now
	w.flaps[k] = f
	return f.clear
}

// plain is the same in plain text; nil of nil.
func (o *ForOwner) plain() *ForOwner {
	if o == nil {
		return nil
	}
	return &ForOwner{plain(o.Title, maxText), plain(o.Text, maxText), plain(o.Next, maxText)}
}

// turnBack follows a clock that was turned back: nothing was later than now.
func (a *Alert) turnBack(now time.Time) {
	for _, t := range [...]*time.Time{&a.Since, &a.last, &a.claimed, a.Told, a.OwnerTold} {
		if t != nil && t.After(now) {
			*t = now
		}
	}
}

// tell returns what is to be told. hears reports whether anybody is told of an event: what nobody is told of stays
// untold.
func (w *watch) tell(now time.Time, hears func(event string) bool) (notes []note) {
	for i := range config.AlertEvents {
		event := &config.AlertEvents[i]
		if hears(event.Name) {
			notes = append(notes, w.tellEvent(now, event)...)
		} else {
			delete(w.over, event.Name)
		}
	}
	return notes
}

// tellEvent returns what is to be told of an event.
func (w *watch) tellEvent(now time.Time, event *config.AlertEvent) (notes []note) {
	sent := slices.DeleteFunc(w.sent[event.Name], func(t time.Time) bool {
		return t.After(now) || now.Sub(t) >= time.Hour
	})
	w.sent[event.Name] = sent
	// What is gathered waits, but for a page of what was not told of lately: it is no repetition.
	gathers := len(sent) >= burst && now.Sub(sent[len(sent)-1]) < gatherFor
	if gathers && event.Severity != config.AlertPage {
		return nil
	}
	var raised, lasting []*Alert
	for _, subject := range w.subjects(event.Name) {
		a := w.alerts[alertKey{event.Name, subject}]
		if !w.isOurs(a, event) || gathers && (a.Told != nil || a.clear > clearFor) {
			continue
		}
		switch {
		case a.Told == nil:
			raised = append(raised, a)
		case now.Sub(*a.Told) >= remindEvery:
			a.Reminded++
			lasting = append(lasting, a)
		}
	}
	var over []Alert
	if !gathers {
		over = w.over[event.Name]
		delete(w.over, event.Name)
	}
	slices.SortFunc(over, func(a, b Alert) int { return cmp.Compare(a.Subject, b.Subject) })
	add := func(state State, alerts []Alert) {
		if len(alerts) > alone || len(alerts) > 0 && len(sent) >= burst {
			notes = append(notes, note{event, state, alerts})
			return
		}
		for i := range alerts {
			notes = append(notes, note{event, state, alerts[i : i+1]})
		}
	}
	add(Resolved, over)
	add(Raised, copied(raised, now))
	add(Lasts, copied(lasting, now))
	for range notes {
		w.sent[event.Name] = append(w.sent[event.Name], now)
	}
	return notes
}

// isOurs reports whether an alert is raised, and this node tells of it.
func (w *watch) isOurs(a *Alert, event *config.AlertEvent) bool {
	return a.Raised != nil && !a.Elsewhere && !(w.shared && event.Shared && a.claimed.IsZero())
}

// copied are alerts as they are told of now.
func copied(alerts []*Alert, now time.Time) (all []Alert) {
	for _, a := range alerts {
		a.Told = &now
		all = append(all, *a)
	}
	return all
}

// unclaimed are the alerts of which it has to be asked who tells of them. What nobody is told of here (hears) is not
// claimed, and a claim to it lapses: another node may have somebody to tell.
func (w *watch) unclaimed(now time.Time, hears func(event string) bool) (keys []alertKey) {
	for i := range config.AlertEvents {
		event := &config.AlertEvents[i]
		if !event.Shared {
			continue
		}
		heard := hears(event.Name)
		for _, subject := range w.subjects(event.Name) {
			k := alertKey{event.Name, subject}
			a := w.alerts[k]
			if !heard {
				a.claimed, a.Elsewhere = time.Time{}, false
				continue
			}
			var wait time.Duration // 0: it has told of it under another id, of a process before, and comes first
			switch {
			case a.Elsewhere && a.Told == nil:
				wait = claimFor
			case !a.Elsewhere:
				wait = claimEvery
			}
			if a.Raised != nil && (a.claimed.IsZero() || now.Sub(a.claimed) >= wait) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// claimed notes whether this node tells of an alert.
func (w *watch) claimed(k alertKey, ours bool, now time.Time) {
	if a := w.alerts[k]; a != nil {
		a.claimed, a.Elsewhere = now, !ours
	}
}
