// Package alerts tells operators, by webhook and by mail, of what somebody must hear of: it takes what the engine finds
// to be so, decides what is told and when (watch), keeps what is to be delivered in a file (outbox), and delivers it
// (courier). It is for the engine only, and knows nothing of what it tells of: neither the ledger nor a request waits
// for it, and it needs neither.
package alerts

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/fareway/fareway/config"
)

const (
	lookEvery = 10 * time.Second
	lockEvery = time.Second
	lockName  = "alerts.lock"
	// closeGrace is how long what is on its way has to get there when the process ends.
	closeGrace = 3 * time.Second
	// asideFor is how long looking elsewhere, and asking the other nodes, may take at a time.
	asideFor = 3 * time.Second
)

// ErrUnknown: no block of the configuration has that name, or there is none at all.
var ErrUnknown = errors.New("no such destination of alerts")

// Options are what a service is made with.
type Options struct {
	// Dir is the folder of its file: of this gateway alone.
	Dir string
	// Gateway is what messages call it: the machine's name.
	Gateway string
	// Config is what the configuration says at the moment.
	Config func() config.Alerts
	// Look finds what is so now, by event. An event that is missing was not looked at: what was so stays. known are the
	// subjects of an event that are alerts already, or may become ones.
	Look func(ctx context.Context, known func(event string) []string) map[string]Seen
	// LookAside is as Look, for what is read from elsewhere, which may take its time: nothing else waits for it. It ends
	// with ctx, after what it has found by then. It may be nil.
	LookAside func(ctx context.Context, known func(event string) []string) map[string]Seen
	// Claim makes telling of an alert this node's for a time, where several see it. nil: there is one.
	Claim func(ctx context.Context, name string, d time.Duration) (bool, error)
	Log   *slog.Logger
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
}

// Service is open from New to Close.
type Service struct {
	o Options

	stop    context.CancelFunc
	running sync.WaitGroup
	sending context.Context // of all attempts; it ends with the process
	abandon context.CancelFunc
	// destinations are those of a configuration; tests have others.
	destinations func(config.Alerts) []destination

	saving sync.Mutex // of whoever writes the file; before mu

	mu       sync.Mutex // of all that follows
	watch    *watch
	outbox   *outbox
	couriers map[string]*courier
	counts   map[Count]int64
	ours     bool                 // this process has the file
	begun    bool                 // or not to begin any more
	troubled map[string]time.Time // destinations whose attempts fail, since when
	rests    map[string]time.Time // by destination that fails, until when it is not tried
	failures map[string]int       // attempts in a row that failed
}

// Count counts deliveries: delivered, failed (and tried again), or given_up.
type Count struct{ Destination, Result string }

// New makes a service that begins with Start.
func New(o Options) *Service {
	s := &Service{o: o, watch: newWatch(), outbox: newOutbox(o.Dir), couriers: make(map[string]*courier),
		counts: make(map[Count]int64), troubled: make(map[string]time.Time), rests: make(map[string]time.Time),
		failures: make(map[string]int), stop: func() {}}
	s.watch.shared, s.destinations = o.Claim != nil, destinationsOf
	s.sending, s.abandon = context.WithCancel(context.Background())
	return s
}

// Start begins to look and to deliver, until ctx ends: then another process may (see lockName). The first call counts.
func (s *Service) Start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return
	}
	s.begun = true
	ctx, s.stop = context.WithCancel(ctx)
	s.running.Go(func() { s.run(ctx) })
}

// Close ends it. What is on its way has a moment to get there, and is sent again by the next process else.
func (s *Service) Close() {
	s.mu.Lock()
	s.begun = true
	stop := s.stop
	s.mu.Unlock()
	stop()
	last := time.AfterFunc(closeGrace, s.abandon)
	s.running.Wait()
	last.Stop()
	s.abandon()
}

func (s *Service) run(ctx context.Context) {
	lock := flock.New(filepath.Join(s.o.Dir, lockName))
	for said := false; ; {
		got, err := lock.TryLock()
		if got {
			break
		}
		if err != nil && !said {
			said = true
			s.o.Log.Error("alerts are told by nobody yet: their lock cannot be taken, which is tried again", "error", err)
		}
		if !s.pause(ctx, lockEvery) { // a process before this one drains
			return
		}
	}
	defer lock.Close()
	if !s.open(ctx) {
		return
	}
	var aside sync.WaitGroup
	aside.Go(func() { s.repeat(ctx, s.lookAside) })
	s.repeat(ctx, s.look)
	aside.Wait()
	s.leave()
}

// repeat looks again and again.
func (s *Service) repeat(ctx context.Context, look func(ctx context.Context)) {
	for {
		look(ctx)
		if !s.pause(ctx, lookEvery) {
			return
		}
	}
}

func (s *Service) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.o.After(d):
		return true
	}
}

// open takes up what an earlier process has left, and reports whether ctx has let it. A file that cannot be read is
// neither put aside nor written over: it is read again until it can.
func (s *Service) open(ctx context.Context) bool {
	for said := false; ; said = true {
		err := s.load()
		if !errors.Is(err, errUnread) {
			if err != nil {
				s.o.Log.Error("the outbox of alerts begins anew", "error", err)
			}
			return true
		}
		if !said {
			s.o.Log.Error("alerts are told by nobody yet: their outbox cannot be read, which is tried again", "error", err)
		}
		if !s.pause(ctx, lockEvery) {
			return false
		}
	}
}

func (s *Service) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.outbox.load(s.watch, s.o.Now())
	if errors.Is(err, errUnread) {
		return err
	}
	s.ours = true
	for _, m := range s.outbox.messages { // destinations that failed before go on from there
		for key, d := range m.To {
			if _, known := s.troubled[key]; !known && d.Attempts > 0 {
				s.troubled[key], s.failures[key] = m.Time, d.Attempts
			}
		}
	}
	return err
}

// leave ends the couriers, and leaves the rest to the next process.
func (s *Service) leave() {
	s.mu.Lock()
	couriers := slices.Collect(maps.Values(s.couriers))
	clear(s.couriers)
	s.mu.Unlock()
	for _, c := range couriers {
		c.stop()
	}
	for _, c := range couriers {
		<-c.done
	}
	s.save()
	s.saving.Lock() // whoever writes has ended, and nobody begins
	defer s.saving.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ours = false
}

// look looks once, and writes what is to be told.
func (s *Service) look(ctx context.Context) {
	s.follow(ctx, s.destinations(s.o.Config()))
	seen := s.o.Look(ctx, s.known)
	if ctx.Err() != nil {
		return // what was found may be the end of it
	}
	s.take(seen)
	s.pass()
}

// lookAside is look for what may take its time, and asks who tells of what other nodes see as well.
func (s *Service) lookAside(ctx context.Context) {
	if s.o.LookAside != nil {
		bounded, cancel := context.WithTimeout(ctx, asideFor)
		seen := s.o.LookAside(bounded, s.known)
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.watch.take(s.o.Now(), seen)
		s.mu.Unlock()
	}
	s.claim(ctx)
	s.pass()
}

func (s *Service) known(event string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch.subjects(event)
}

// pass passes what is to be told to the couriers.
func (s *Service) pass() {
	if s.tellAll() {
		s.save()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.couriers {
		c.wakeUp()
	}
}

// take takes what was found.
func (s *Service) take(seen map[string]Seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]Seen, len(seen)+1)
	maps.Copy(all, seen)
	all[undelivered] = s.findTroubled()
	s.watch.take(s.o.Now(), all)
}

// claim asks for the alerts that other nodes see as well who tells of them. Nobody waits for that.
func (s *Service) claim(ctx context.Context) {
	if s.o.Claim == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, asideFor)
	defer cancel()
	s.mu.Lock()
	unclaimed := s.watch.unclaimed(s.o.Now(), s.isHeard)
	s.mu.Unlock()
	for _, k := range unclaimed {
		ours, err := s.o.Claim(ctx, "alert "+k.event+" "+k.subject, claimFor)
		if err != nil {
			return // whoever knows is away; it is asked again
		}
		s.mu.Lock()
		s.watch.claimed(k, ours, s.o.Now())
		s.mu.Unlock()
	}
}

// tellAll writes what is to be told, and reports whether the file is to be written.
func (s *Service) tellAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	notes := s.watch.tell(now, s.isHeard)
	for i := range notes {
		s.tell(&notes[i], now)
	}
	lost := s.expire(now)
	changed := len(notes) > 0 || lost || s.watch.changed || s.outbox.unsaved != nil
	s.watch.changed = false
	return changed
}

// undelivered is the event of a destination that takes nothing.
const undelivered = "alerts_undelivered"

// findTroubled finds the destinations that take nothing.
func (s *Service) findTroubled() (seen Seen) {
	for key, d := range s.outbox.disabled {
		seen.Findings = append(seen.Findings, Finding{Subject: key, Text: "The destination " + key +
			" of alerts is told nothing any more: " + d.Why + ".", Next: "`fareway gateway hook test` tries it again."})
	}
	for key := range s.troubled {
		if _, disabled := s.outbox.disabled[key]; disabled {
			continue
		}
		why := ""
		if m := s.outbox.waiting(key, 1); len(m) > 0 {
			why = m[0].To[key].Error
		}
		seen.Findings = append(seen.Findings, Finding{Subject: key, Text: fmt.Sprintf("The destination %s of alerts takes "+
			"no messages: %s.", key, why), Data: map[string]any{"waiting": s.outbox.count(key)},
			Next: "`fareway gateway hook test` tries it now, and says what comes back."})
	}
	return seen
}

// isHeard reports whether anybody is told of an event.
func (s *Service) isHeard(event string) bool { return len(s.hearers(event, nil)) > 0 }

// hearers are the destinations that are told of an event; about are those whom it is about, which are not told.
func (s *Service) hearers(event string, about []Alert) (keys []string) {
	for key, c := range s.couriers {
		if _, disabled := s.outbox.disabled[key]; disabled || !c.hears(event) {
			continue
		}
		if event == undelivered && slices.ContainsFunc(about, func(a Alert) bool { return a.Subject == key }) {
			continue
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// tell writes a note's message into the outbox.
func (s *Service) tell(n *note, now time.Time) {
	m, err := n.write(s.o.Gateway, now)
	if err != nil {
		s.o.Log.Error("an alert is not told", "event", n.event.Name, "error", err)
		return
	}
	to := s.hearers(n.event.Name, n.alerts)
	for i := range n.alerts {
		a := &n.alerts[i]
		log := s.o.Log.Warn
		if n.state == Resolved {
			log = s.o.Log.Info
		}
		if i < alone {
			log("alert "+string(n.state)+": "+n.event.Name, "subject", a.Subject, "name", a.Name, "text", a.Text, "told", to,
				"alerts", len(n.alerts))
		}
	}
	s.lose(s.outbox.put(m, to, now))
}

// expire gives up what was tried for too long, and reports whether there was something.
func (s *Service) expire(now time.Time) bool {
	var lost []GivenUp
	for _, m := range slices.Clone(s.outbox.messages) {
		if now.Sub(m.Time) < keepFor {
			continue
		}
		for key, d := range m.To {
			if _, disabled := s.outbox.disabled[key]; !disabled && d.Attempts < stuckAfter {
				continue // the clock has jumped, or the gateway was away
			}
			lost = append(lost, s.outbox.giveUp(m, key, now, "it was tried for three days: "+cmp.Or(d.Error, "never")))
		}
	}
	s.lose(lost)
	return len(lost) > 0
}

// lose counts what was given up, and logs it.
func (s *Service) lose(lost []GivenUp) {
	for _, g := range lost {
		s.counts[Count{g.Destination, "given_up"}]++
		s.o.Log.Error("a message of alerts is given up", "type", g.Type, "id", g.ID, "destination", g.Destination,
			"why", g.Why)
	}
}

// save writes the file. What it has not is told nevertheless, and written with the next change or look. The lock is not
// held: a disk may take its time.
func (s *Service) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	ours, before := s.ours, s.outbox.unsaved
	content, err := s.outbox.encode(s.watch)
	messages := slices.Clone(s.outbox.messages)
	s.mu.Unlock()
	if !ours {
		return
	}
	if err == nil {
		err = s.outbox.write(s.outbox.path, content)
	}
	s.mu.Lock()
	if s.outbox.unsaved = err; err == nil {
		for _, m := range messages {
			m.onDisk = true
		}
	}
	s.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.o.Log.Error("the outbox of alerts cannot be written, which is tried again: messages are sent, and a restart may "+
			"repeat or lose some", "error", err)
	case err == nil && before != nil:
		s.o.Log.Info("the outbox of alerts is written again")
	}
}

// follow makes the couriers those of the configuration.
func (s *Service) follow(ctx context.Context, all []destination) {
	s.mu.Lock()
	known := make(map[string]bool, len(all))
	for _, d := range all {
		known[d.key] = true
		if gone, ok := s.outbox.disabled[d.key]; ok && gone.Digest != d.digest {
			delete(s.outbox.disabled, d.key)
		}
		before := s.couriers[d.key]
		if before != nil && before.digest == d.digest {
			continue
		}
		c := &courier{destination: d, s: s, wake: make(chan struct{}, 1), done: make(chan struct{})}
		var own context.Context
		own, c.stop = context.WithCancel(ctx)
		s.couriers[d.key] = c
		if before != nil {
			before.stop()
			s.forgive(d.key)
		}
		go c.run(own, before)
	}
	for key, c := range s.couriers {
		if !known[key] {
			c.stop()
			delete(s.couriers, key)
			s.recover(key)
		}
	}
	lost := s.outbox.keepOnly(func(key string) bool { return known[key] }, s.o.Now())
	s.lose(lost)
	s.mu.Unlock()
	if len(lost) > 0 {
		s.save()
	}
}

// forgive has a destination tried at once.
func (s *Service) forgive(key string) {
	s.recover(key)
	delete(s.outbox.disabled, key)
}

// recover forgets that a destination has failed: what waits for it is tried at once.
func (s *Service) recover(key string) {
	delete(s.troubled, key)
	delete(s.failures, key)
	delete(s.rests, key)
	now := s.o.Now()
	for _, m := range s.outbox.messages {
		if d := m.To[key]; d != nil && d.Next.After(now) {
			d.Next = now
		}
	}
}

// due are the messages that a courier is to deliver now. Where there are none, wait is when there may be; 0: when it is
// woken.
func (s *Service) due(c *courier) (messages []*Message, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, disabled := s.outbox.disabled[c.key]; disabled || s.couriers[c.key] != c {
		return nil, 0
	}
	now := s.o.Now()
	until := func(t time.Time, longest time.Duration) time.Duration {
		if d := t.Sub(now); d <= 2*longest {
			return max(d, 0)
		}
		return 0 // the clock was turned back
	}
	if rest := until(s.rests[c.key], freshly); rest > 0 {
		return nil, rest
	}
	for _, m := range s.outbox.inTurn(c.key) {
		if !m.onDisk && s.outbox.unsaved == nil {
			continue // a crash would forget it, and tell it again under another id
		}
		switch pause := until(m.To[c.key].Next, pauses[len(pauses)-1]); {
		case pause > 0:
			if wait == 0 || pause < wait {
				wait = pause
			}
		case len(messages) > 0 && (m.To[c.key].Refused > 0 || messages[0].To[c.key].Refused > 0):
			// One that was refused goes alone: it may be what those with it were refused for.
		case len(messages) < c.batch():
			messages = append(messages, m)
		}
	}
	if len(messages) > 0 {
		return messages, 0
	}
	return nil, wait
}

// conclude notes what came of an attempt.
func (s *Service) conclude(c *courier, messages []*Message, out Outcome) {
	s.note(c, messages, out)
	s.save()
}

func (s *Service) note(c *courier, messages []*Message, out Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	if out.Delivered {
		if s.failures[c.key] > 0 {
			s.o.Log.Info("a destination of alerts takes messages again", "destination", c.key)
			s.recover(c.key)
		}
		if out.Error != "" {
			s.o.Log.Warn("a destination of alerts has taken messages in part", "destination", c.key, "error", out.Error)
		}
		for _, m := range messages {
			s.outbox.done(m, c.key)
			s.counts[Count{c.key, "delivered"}]++
		}
		return
	}
	s.counts[Count{c.key, "failed"}]++
	if s.failures[c.key]++; s.failures[c.key] == 1 {
		s.o.Log.Warn("a destination of alerts takes no messages; it is tried again and again", "destination", c.key,
			"address", c.address, "error", out.Error)
		s.troubled[c.key] = now
	}
	rest := pauses[0]
	if s.failures[c.key] > stuckAfter { // it is not the one message
		rest = freshly
	}
	s.rests[c.key] = now.Add(min(max(out.After, rest), freshly))
	if out.Gone {
		s.o.Log.Error("a destination of alerts says that it is gone: it is told nothing until its block changes, or "+
			"`fareway gateway hook test` succeeds", "destination", c.key, "address", c.address)
		s.outbox.disabled[c.key] = Disabled{Why: "it answered that it is gone (410)", Since: now.UTC(), Digest: c.digest}
	}
	for _, m := range messages {
		s.noteFailed(m, m.To[c.key], c.key, &out, len(messages) == 1, now)
	}
}

// noteFailed notes of a message that an attempt has failed, of it alone or of several. d is nil when it was given up
// meanwhile.
func (s *Service) noteFailed(m *Message, d *Delivery, key string, out *Outcome, single bool, now time.Time) {
	if d == nil {
		return
	}
	d.Attempts++
	d.Error = plain(out.Error, maxError)
	pause := pauseAfter(d.Attempts, jitter)
	switch {
	case out.After > 0:
		pause = min(max(out.After, pauses[0]), longestWish)
	case out.Refused && !single:
		pause = 0 // alone
	}
	d.Next = now.Add(pause)
	if !out.Refused {
		return
	}
	if d.Refused++; single && d.Refused >= maxRefused {
		s.lose([]GivenUp{s.outbox.giveUp(m, key, now, out.Error)})
	}
}

// Tested is what came of a test of a destination.
type Tested struct {
	Destination string `json:"destination"`
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Address     string `json:"address"`
	MessageID   string `json:"message_id"`
	TookMS      int64  `json:"took_ms"`
	Outcome
}

// Test sends a message of type "test" to the destinations with a name, "" for all, at once and beside the outbox. One
// that takes it is told again of what it waits for.
func (s *Service) Test(ctx context.Context, name string) ([]Tested, error) {
	all := s.destinations(s.o.Config())
	known := len(all)
	if name != "" {
		all = slices.DeleteFunc(all, func(d destination) bool { return d.name != name && d.key != name })
	}
	switch {
	case known == 0:
		return nil, fmt.Errorf("%w: the configuration has no block alerts with a webhook or mail in it", ErrUnknown)
	case len(all) == 0:
		return nil, fmt.Errorf("%w: the configuration has no webhook and no mail %q in its block alerts", ErrUnknown, name)
	}
	results := make([]Tested, len(all))
	var testing sync.WaitGroup
	for i := range all {
		testing.Go(func() { results[i] = s.test(ctx, &all[i]) })
	}
	testing.Wait()
	return results, nil
}

func (s *Service) test(ctx context.Context, d *destination) Tested {
	var random [15]byte
	_, _ = rand.Read(random[:]) // it never fails
	now := s.o.Now().UTC()
	t := Tested{Destination: d.key, Kind: d.kind, Name: d.name, Address: d.address}
	m, err := newMessage(idOf(random[:]), now, Data{Event: "test", Severity: string(config.AlertTicket), About: "operator",
		Gateway: plain(s.o.Gateway, maxText), Count: 1, Alerts: []Item{{Since: now,
			Text: "This is a test: somebody has run `fareway gateway hook test`.", Next: "There is nothing to do."}}})
	if err != nil {
		t.Error = err.Error()
		return t
	}
	t.MessageID = m.ID
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	t.Outcome = d.send(ctx, []*Message{m}, s.o.Now())
	t.TookMS = t.Took.Milliseconds()
	if t.Delivered {
		s.mu.Lock()
		s.forgive(d.key)
		if c := s.couriers[d.key]; c != nil {
			c.wakeUp()
		}
		s.mu.Unlock()
		s.save()
	}
	return t
}

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
	Active       bool            `json:"active"`
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
	if s.outbox.unsaved != nil {
		v.Problem = "The outbox cannot be written: " + s.outbox.unsaved.Error()
	}
	for _, d := range all {
		to := Destination{Key: d.key, Kind: d.kind, Name: d.name, Address: d.address, Events: d.events,
			Waiting: s.outbox.count(d.key)}
		if since, ok := s.troubled[d.key]; ok {
			to.Failing = &since
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

// compareAlerts orders alerts by when they were raised.
func compareAlerts(a, b *Alert) int {
	return cmp.Or(a.Raised.Compare(*b.Raised), cmp.Compare(a.Event, b.Event), cmp.Compare(a.Subject, b.Subject))
}
