package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Destination is how a destination does.
type Destination struct {
	Key     string   `json:"destination"` // "webhook ops"
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Address string   `json:"address"`
	Events  []string `json:"events,omitempty"` // of which it hears; absent: of all
	Waiting int      `json:"waiting"`
	// Failing is since when attempts fail, and Error why the last one did.
	Failing  *time.Time `json:"failing,omitempty"`
	Attempts int        `json:"attempts,omitempty"` // of the message that waits first
	Next     *time.Time `json:"next,omitempty"`     // when that is tried
	Error    string     `json:"error,omitempty"`
	Disabled *Disabled  `json:"disabled,omitempty"`
}

// Hears reports whether it is told of an event.
func (d *Destination) Hears(event string) bool {
	return len(d.Events) == 0 || slices.Contains(d.Events, event)
}

// Standing is how all of it stands.
type Standing struct {
	// Active: this process looks and tells; else one before it still does.
	Active bool `json:"active"`
	// Idle is why nobody may look and tell, "" where somebody does, or it is too early to say.
	Idle         string          `json:"idle,omitempty"`
	Destinations []Destination   `json:"destinations"`
	Alerts       []Alert         `json:"alerts"` // those that are raised
	Beyond       map[string]int  `json:"beyond,omitempty"`
	GivenUp      []GivenUp       `json:"given_up"`
	Problem      string          `json:"problem,omitempty"` // why the outbox cannot be written
	Counts       map[Count]int64 `json:"-"`
}

// Standing says how it stands.
func (s *Service) Standing() Standing {
	all := s.destinations(s.o.Config())
	s.mu.Lock()
	defer s.mu.Unlock()
	v := Standing{Active: s.ours, Destinations: []Destination{}, Alerts: []Alert{}, GivenUp: []GivenUp{},
		Beyond: make(map[string]int), Counts: maps.Clone(s.counts)}
	v.Idle = s.idle()
	if s.outbox.unsaved != nil {
		v.Problem = "The outbox cannot be written: " + s.outbox.unsaved.Error()
	}
	for _, d := range all {
		to := Destination{Key: d.key, Kind: d.kind, Name: d.name, Address: d.address, Events: d.events,
			Waiting: s.outbox.count(d.key)}
		if t := s.outbox.troubles[d.key]; t != nil {
			to.Failing = new(t.since)
		}
		if waiting := s.outbox.waiting(d.key, 1); len(waiting) > 0 {
			first := waiting[0].To[d.key]
			next := first.Next
			to.Attempts, to.Next, to.Error = first.Attempts, &next, first.Error
		}
		if gone, ok := s.outbox.disabled[d.key]; ok {
			to.Disabled = &gone
		}
		v.Destinations = append(v.Destinations, to)
	}
	for _, a := range s.watch.alerts {
		if a.Raised != nil {
			v.Alerts = append(v.Alerts, *a)
		}
	}
	slices.SortFunc(v.Alerts, func(a, b Alert) int { return compareAlerts(&a, &b) })
	for event, n := range s.watch.beyond {
		if n > 0 {
			v.Beyond[event] = n
		}
	}
	v.GivenUp = append(v.GivenUp, s.outbox.givenUp...)
	return v
}

const (
	// A process before this one has the outbox while it drains, which may take long; what else keeps it away is wrong.
	drainPatience  = 15 * time.Minute
	accessPatience = time.Minute
)

// idle says why nobody may look and tell.
func (s *Service) idle() string {
	waited := s.o.Now().Sub(s.waits)
	switch since := s.waits.UTC().Format(time.RFC3339); {
	case s.waits.IsZero():
	case s.why != nil && waited >= accessPatience:
		return fmt.Sprintf("Alerts are told by nobody since %s: %v", since, s.why)
	case s.why == nil && waited >= drainPatience:
		return fmt.Sprintf("Another process has the outbox of alerts since %s, and does not end: this one tells nothing. Is "+
			"there a second gateway, or one that was to end?", since)
	}
	return ""
}

// compareAlerts orders alerts by when they were raised.
func compareAlerts(a, b *Alert) int {
	return cmp.Or(a.Raised.Compare(*b.Raised), cmp.Compare(a.Event, b.Event), cmp.Compare(a.Subject, b.Subject))
}
