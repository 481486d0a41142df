// Package alerts tells operators, by webhook and by mail, and the owners of accounts, by mail, of what they must hear
// of: it takes what the engine finds to be so, decides what is told and when (watch), keeps what is to be delivered in
// a file (outbox), and delivers it (courier). It is for the engine only, and knows nothing of what it tells of: neither
// the ledger nor a request waits for it, and it needs neither, but for the addresses of owners.
package alerts

import (
	"context"
	"errors"
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
	// GiveBack gives back the subjects, by event, of what LookAside has found and what there is no room for: they are to
	// be found again. It may be nil.
	GiveBack func(beyond map[string][]string)
	// Owners are the addresses of an account's owners, none where it has none. nil: nobody mails owners.
	Owners func(ctx context.Context, account string) ([]string, error)
	Log    *slog.Logger
	Now    func() time.Time
	After  func(time.Duration) <-chan time.Time
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
	letters      chan struct{} // one for each that is being mailed

	saving sync.Mutex // of whoever writes the file; before mu

	mu       sync.Mutex // of all that follows
	watch    *watch
	outbox   *outbox
	couriers map[string]*courier
	counts   map[Count]int64
	ours     bool      // this process has the file
	begun    bool      // or not to begin any more
	waits    time.Time // since when it waits for the file; zero: it does not
	why      error     // why it does, nil: another process has it
}

// Count counts deliveries: delivered, failed (and tried again), or given_up.
type Count struct{ Destination, Result string }

// New makes a service that begins with Start.
func New(o Options) *Service {
	s := &Service{o: o, watch: newWatch(), outbox: newOutbox(o.Dir), couriers: make(map[string]*courier),
		counts: make(map[Count]int64), stop: func() {}}
	s.watch.shared, s.letters = o.Claim != nil, make(chan struct{}, maxLetters)
	s.destinations = func(a config.Alerts) []destination { return destinationsOf(a, o.Owners) }
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
		s.noteWait(err)
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
		s.noteWait(err)
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
	s.ours, s.waits, s.why = true, time.Time{}, nil
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
		beyond := s.watch.take(s.o.Now(), seen)
		s.mu.Unlock()
		if len(beyond) > 0 && s.o.GiveBack != nil {
			s.o.GiveBack(beyond)
		}
	}
	s.claim(ctx)
	s.pass()
}

func (s *Service) known(event string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watch.subjects(event)
}

// noteWait notes that the file cannot be had yet, and why; nil: another process has it.
func (s *Service) noteWait(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why = err; s.waits.IsZero() {
		s.waits = s.o.Now()
	}
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
	all[undelivered] = Seen{Findings: s.outbox.findTroubled(s.o.Now())}
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
	unclaimed := s.watch.unclaimed(s.o.Now(), s.isTold)
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
	forOwners := s.watch.tellOwners(now, func(event string) bool { return s.mailsOwners(event) != "" })
	for i := range forOwners {
		s.tellOwner(&forOwners[i], now)
	}
	lost := s.outbox.expire(now)
	s.lose(lost)
	changed := len(notes)+len(forOwners)+len(lost) > 0 || s.watch.changed || s.outbox.unsaved != nil
	s.watch.changed = false
	return changed
}

// isHeard reports whether anybody is told of an event.
func (s *Service) isHeard(event string) bool { return len(s.hearers(event, nil)) > 0 }

// isTold is isHeard, or that owners of accounts are told of it.
func (s *Service) isTold(event string) bool { return s.isHeard(event) || s.mailsOwners(event) != "" }

// mailsOwners is the destination that tells the owners of accounts of an event, "" for none.
func (s *Service) mailsOwners(event string) string {
	for key, c := range s.couriers {
		if _, disabled := s.outbox.disabled[key]; c.owners && !disabled && c.hears(event) {
			return key
		}
	}
	return ""
}

// hearers are the destinations that are told of an event; about are those whom it is about, which are not told.
func (s *Service) hearers(event string, about []Alert) (keys []string) {
	for key, c := range s.couriers {
		if _, disabled := s.outbox.disabled[key]; disabled || c.owners || !c.hears(event) {
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

// tellOwner writes an owner's message into the outbox.
func (s *Service) tellOwner(n *note, now time.Time) {
	a := &n.alerts[0]
	m, err := n.writeForOwner(s.o.Gateway, now)
	if err != nil {
		s.o.Log.Error("an account's owner is not told", "event", n.event.Name, "account_id", a.Subject, "error", err)
		return
	}
	s.o.Log.Info("an account's owner is told", "event", n.event.Name, "state", n.state, "account_id", a.Subject)
	s.lose(s.outbox.put(m, []string{s.mailsOwners(n.event.Name)}, now))
}

// lose counts what was given up, and logs it.
func (s *Service) lose(lost []GivenUp) {
	for _, g := range lost {
		s.counts[Count{g.Destination, "given_up"}]++
		log := s.o.Log.With("type", g.Type, "id", g.ID, "destination", g.Destination, "why", g.Why)
		if g.Account != "" {
			log = log.With("account_id", g.Account)
		}
		log.Error("a message of alerts is given up")
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
			s.outbox.forgive(d.key, s.o.Now())
		}
		go c.run(own, before)
	}
	for key, c := range s.couriers {
		if !known[key] {
			c.stop()
			delete(s.couriers, key)
			s.outbox.recover(key, s.o.Now())
		}
	}
	lost := s.outbox.keepOnly(func(key string) bool { return known[key] }, s.o.Now())
	s.lose(lost)
	s.mu.Unlock()
	if len(lost) > 0 {
		s.save()
	}
}
