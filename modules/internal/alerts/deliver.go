package alerts

import (
	"context"
	"math/rand/v2"
	"time"
)

// pauses are those between attempts, by Standard Webhooks' specification: about three days in all.
var pauses = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}

const (
	// freshly is how long a destination that takes nothing rests before it is tried with another message, whatever the
	// pause of those that it was tried with.
	freshly = 5 * time.Minute
	// stuckAfter is after how many attempts that failed a message lets others pass it.
	stuckAfter = 2
	// longestWish bounds what a receiver asks for by Retry-After.
	longestWish = 24 * time.Hour
	// maxRefused is after how many refusals of the message itself it is given up, so that those behind it get through.
	maxRefused = 3
)

// pauseAfter is how long is waited after so many attempts that failed, with jitter: receivers that come back are not
// asked by everybody at once.
func pauseAfter(attempts int, random func() float64) time.Duration {
	d := pauses[min(max(attempts, 1), len(pauses))-1]
	return d + time.Duration(float64(d)*0.2*random())
}

// Outcome is what came of an attempt.
type Outcome struct {
	Delivered bool          `json:"delivered"`
	Status    int           `json:"status,omitempty"` // of HTTP, or of SMTP
	TLS       string        `json:"tls,omitempty"`    // which version, "" for none
	Took      time.Duration `json:"-"`
	Error     string        `json:"error,omitempty"` // why it was not delivered, without a secret
	// Gone: the destination says that it is none any more. Refused: what it said is about the message.
	Gone    bool `json:"gone,omitempty"`
	Refused bool `json:"-"`
	// Alone: it is about who the one message is for, and the destination takes others. Refused, it is given up at once.
	Alone bool          `json:"-"`
	After time.Duration `json:"-"` // when it wants to be asked again; 0: it did not say
}

// sender delivers messages to a destination, all of them together or none.
type sender interface {
	send(ctx context.Context, messages []*Message, now time.Time) Outcome
	// batch is how many it takes together, and pause how long is waited after it has taken or refused some.
	batch() int
	pause() time.Duration
}

// destination is somebody who is told, by a block of the configuration.
type destination struct {
	key     string // "webhook ops"
	kind    string
	name    string
	address string // for people
	digest  string // of the block
	events  []string
	hears   func(event string) bool
	owners  bool // it is the owner of the account that a message is about
	timeout time.Duration
	sender
}

// courier delivers a destination's messages one after the other.
type courier struct {
	destination
	s    *Service
	stop context.CancelFunc
	wake chan struct{} // capacity 1: there is something new
	done chan struct{}
}

func (c *courier) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run delivers until ctx ends. before is the one whose place it takes, nil for none.
func (c *courier) run(ctx context.Context, before *courier) {
	defer close(c.done)
	if before != nil {
		<-before.done
	}
	for {
		messages, wait := c.s.due(c)
		if len(messages) == 0 {
			var timer <-chan time.Time
			if wait > 0 {
				timer = c.s.o.After(wait)
			}
			select {
			case <-ctx.Done():
				return
			case <-c.wake:
			case <-timer:
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		// One that is on its way gets there, also when ctx ends: it would be sent twice else.
		sending, cancel := context.WithTimeout(c.s.sending, c.timeout)
		out := c.send(sending, messages, c.s.o.Now())
		cancel()
		c.s.conclude(c, messages, out)
		if (out.Delivered || out.Alone) && c.pause() > 0 {
			select {
			case <-ctx.Done():
				return
			case <-c.s.o.After(c.pause()):
			}
		}
	}
}

// due are the messages that a courier is to deliver now (outbox.due).
func (s *Service) due(c *courier) (messages []*Message, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.couriers[c.key] != c {
		return nil, 0
	}
	return s.outbox.due(c.key, c.batch(), s.o.Now())
}

// conclude notes what came of an attempt.
func (s *Service) conclude(c *courier, messages []*Message, out Outcome) {
	s.note(c, messages, &out)
	s.save()
}

func (s *Service) note(c *courier, messages []*Message, out *Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := s.outbox.troubles[c.key] != nil
	lost := s.outbox.settle(c.key, c.digest, messages, out, s.o.Now())
	if out.Delivered {
		s.counts[Count{c.key, "delivered"}] += int64(len(messages))
	} else {
		s.counts[Count{c.key, "failed"}]++
	}
	log := s.o.Log.With("destination", c.key)
	switch {
	case out.Delivered && failed:
		log.Info("a destination of alerts takes messages again")
	case out.Gone:
		log.Error("a destination of alerts says that it is gone: it is told nothing until its block changes, or "+
			"`fareway gateway hook test` succeeds", "address", c.address)
	case !out.Delivered && !out.Alone && !failed:
		log.Warn("a destination of alerts takes no messages; it is tried again and again", "address", c.address, "error",
			out.Error)
	}
	if out.Delivered && out.Error != "" {
		log.Warn("a destination of alerts has taken messages in part", "error", out.Error)
	}
	s.lose(lost)
}

func jitter() float64 { return rand.Float64() }
