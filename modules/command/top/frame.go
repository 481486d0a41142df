package top

import (
	"cmp"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
)

const (
	// rateSpan is over what rates are, moneySpan what amounts a minute are, and longSpan how long is looked back: for
	// who spends, and for quantiles of what came seldom.
	rateSpan  = 10 * time.Second
	moneySpan = time.Minute
	longSpan  = 5 * time.Minute
	// keptEnded is how many requests are remembered.
	keptEnded = 20_000
	// ShownAccounts is of how many accounts, those that spend most, the balance is asked for.
	ShownAccounts = 24
	// restartShown is for how long it is said that counters began anew.
	restartShown = time.Minute
)

// Snapshot is what the gateway says at a moment.
type Snapshot struct {
	At       time.Time
	Status   admin.Status
	Plugins  []admin.Plugin
	Recent   admin.Recent
	Metrics  map[string]*dto.MetricFamily
	Accounts map[string]admin.Account // those that were asked for, by id
}

// Watch remembers what was read.
type Watch struct {
	readings []*reading // oldest first, within longSpan
	snapshot *Snapshot  // the newest
	ended    []admin.EndedRequest
	last     uint64
	covered  time.Time // from when on all requests are in ended, but for those that were missed
	missed   []missed  // within longSpan
	accounts map[string]admin.Account
	restart  time.Time
}

// missed are requests that had ended and were no longer kept when they were asked for.
type missed struct {
	at time.Time
	n  uint64
}

// Last is the number of the newest request that was seen.
func (w *Watch) Last() uint64 { return w.last }

// Take adds what was read.
func (w *Watch) Take(s *Snapshot) {
	now := readMetrics(s.Metrics, s.At, s.Recent.Since)
	if before := w.newest(); before != nil && (!before.since.Equal(now.since) || now.answered < before.answered) {
		*w = Watch{restart: s.At, accounts: w.accounts}
	}
	if w.accounts == nil {
		w.accounts = map[string]admin.Account{}
	}
	w.takeEnded(s)
	for id, a := range s.Accounts {
		w.accounts[id] = a
	}
	w.snapshot = s
	w.readings = append(w.readings, now)
	for len(w.readings) > 2 && s.At.Sub(w.readings[1].at) >= longSpan {
		w.readings = w.readings[1:]
	}
}

func (w *Watch) takeEnded(s *Snapshot) {
	first := w.snapshot == nil
	fresh := slices.DeleteFunc(slices.Clone(s.Recent.Requests), func(r admin.EndedRequest) bool { return r.N <= w.last })
	switch {
	case !first:
		if s.Recent.Missed > 0 {
			w.missed = append(w.missed, missed{s.At, s.Recent.Missed})
		}
	case s.Recent.Missed == 0:
		w.covered = s.Recent.Since
	case len(fresh) > 0: // what is kept of each kind begins elsewhere: of customers' with the oldest that went well
		w.covered = s.At
		for i := range fresh {
			if served(&fresh[i]) && fresh[i].Time.Before(w.covered) {
				w.covered = fresh[i].Time
			}
		}
	}
	w.ended = append(fresh, w.ended...)
	if len(w.ended) > keptEnded {
		w.ended = w.ended[:keptEnded]
		if oldest := w.ended[keptEnded-1].Time; oldest.After(w.covered) {
			w.covered = oldest
		}
	}
	w.last = max(w.last, s.Recent.Last)
	w.missed = slices.DeleteFunc(w.missed, func(m missed) bool { return s.At.Sub(m.at) > longSpan })
}

// missedLately is how many requests were missed in the time that accounts are summed up over.
func (w *Watch) missedLately() (sum uint64) {
	for _, m := range w.missed {
		sum += m.n
	}
	return sum
}

func served(r *admin.EndedRequest) bool { return r.AccountID != "" && !failed(r) }

// failed reports whether a request failed for what was no fault of its client's.
func failed(r *admin.EndedRequest) bool { return r.Status >= 500 || r.Aborted }

func (w *Watch) newest() *reading {
	if len(w.readings) == 0 {
		return nil
	}
	return w.readings[len(w.readings)-1]
}

// before is the reading that the newest is compared with to see what came within a span; nil with less than two.
func (w *Watch) before(span time.Duration) *reading {
	n := len(w.readings)
	if n < 2 {
		return nil
	}
	i := n - 2
	for i > 0 && w.readings[n-1].at.Sub(w.readings[i].at) < span {
		i--
	}
	return w.readings[i]
}

// Frame is what is shown of a gateway at a moment, and what --json prints. Money is in microcents, and times are in
// seconds; null where nothing is known yet.
type Frame struct {
	Time     time.Time            `json:"time"`
	Gateway  Gateway              `json:"gateway"`
	Rates    Rates                `json:"rates"`
	Routes   []Route              `json:"routes"`
	Accounts []Account            `json:"accounts"` // that used it lately, who spent most first
	Requests []admin.EndedRequest `json:"requests"` // the newest first
	Plugins  []Plugin             `json:"plugins"`
	Problems []Problem            `json:"problems"`

	// AccountsSince is from when on requests were looked at to see who spends. Seen of Ended requests in this time were
	// seen: with very many requests a second the gateway does not keep all until they are asked for.
	AccountsSince time.Time `json:"accounts_since"`
	Seen          uint64    `json:"requests_seen"`
	Missed        uint64    `json:"requests_missed"`
}

// Gateway is the process.
type Gateway struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	Since     time.Time `json:"since"` // when its counters began
	Ready     bool      `json:"ready"`
	Reason    string    `json:"reason,omitempty"`
	Nodes     int       `json:"nodes,omitempty"` // that share the ledger; this view is of one
	Restarted bool      `json:"restarted,omitempty"`
	Memory    float64   `json:"memory_bytes"`
	CPU       *float64  `json:"cpu"` // of one processor: 1 is all of it
	Files     float64   `json:"open_files"`
	MaxFiles  float64   `json:"max_files"`
}

// Rates are those of all together.
type Rates struct {
	Requests      *float64 `json:"requests_per_second"`
	Failed        *float64 `json:"failed_per_second"`  // with 5xx, or broken off after another status
	Refused       *float64 `json:"refused_per_second"` // with 4xx
	Limited       *float64 `json:"limited_per_second"` // of these, for a limit
	Running       float64  `json:"running"`            // charged requests in progress
	Connections   float64  `json:"connections"`
	FirstTokenP50 *float64 `json:"first_token_p50_seconds"`
	FirstTokenP95 *float64 `json:"first_token_p95_seconds"`
	LedgerP95     *float64 `json:"settlement_p95_seconds"`
	Charged       *float64 `json:"charged_microcents_per_minute"`
	Cost          *float64 `json:"cost_microcents_per_minute"`
	Lost          *float64 `json:"over_microcents_per_minute"` // beyond what was held: the operator pays it
	Held          float64  `json:"held_microcents"`
}

// Margin is what is left of what was charged.
func (r *Rates) Margin() *float64 { return less(r.Charged, r.Cost) }

func less(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a - *b)
}

// Route is a route of the configuration that serves.
type Route struct {
	Name          string     `json:"name"`
	Provider      string     `json:"provider"`
	Model         string     `json:"model"`
	State         string     `json:"state"`
	Reason        string     `json:"reason,omitempty"`
	Until         *time.Time `json:"until,omitempty"`
	LastFailure   string     `json:"last_failure,omitempty"`
	FailedAt      *time.Time `json:"last_failure_at,omitempty"`
	Running       float64    `json:"running"`
	Waiting       int64      `json:"waiting"`
	Attempts      *float64   `json:"attempts_per_second"`
	Failed        *float64   `json:"failed_per_second"`
	FailedShare   *float64   `json:"failed_share"` // of the attempts of a minute
	FirstTokenP50 *float64   `json:"first_token_p50_seconds"`
	FirstTokenP95 *float64   `json:"first_token_p95_seconds"`
	TookP95       *float64   `json:"attempt_p95_seconds"`
	OutputTokens  *float64   `json:"output_tokens_per_second"`
	Charged       *float64   `json:"charged_microcents_per_minute"`
	Margin        *float64   `json:"margin_microcents_per_minute"`
}

// Account is an account that used the gateway lately.
type Account struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	State      string `json:"state,omitempty"` // "" where nobody has asked
	Requests   int64  `json:"requests"`
	Failed     int64  `json:"failed"`
	Refused    int64  `json:"refused"`
	Tokens     int64  `json:"tokens"`
	Microcents int64  `json:"microcents"`
	Balance    *int64 `json:"balance_credits"`
	Available  *int64 `json:"available_credits"`
	Held       *int64 `json:"held_microcents"`
}

// Plugin is a provider with its process.
type Plugin struct {
	Provider  string     `json:"provider"`
	Plugin    string     `json:"plugin"`
	State     string     `json:"state"`
	Ready     bool       `json:"ready"`
	Problem   string     `json:"problem,omitempty"`
	Carry     string     `json:"carry"`
	PID       int        `json:"pid"`
	Started   *time.Time `json:"started"`
	Memory    int64      `json:"memory_bytes"`
	MaxMemory int64      `json:"max_memory_bytes,omitempty"`
	Streams   int        `json:"streams"`
	Restarts  int        `json:"restarts"`
	LastCrash string     `json:"last_crash,omitempty"`
}

// Frame is what there is to show now; nil while nothing was read.
func (w *Watch) Frame() *Frame {
	if w.snapshot == nil {
		return nil
	}
	s, now := w.snapshot, w.newest()
	f := &Frame{Time: s.At, Requests: w.ended, Missed: w.missedLately(),
		Gateway: Gateway{Version: s.Status.Version, PID: s.Status.PID, Since: s.Recent.Since, Ready: s.Status.Ready,
			Reason: s.Status.Reason, Memory: now.memory, Files: now.files, MaxFiles: now.maxFiles,
			Restarted: !w.restart.IsZero() && s.At.Sub(w.restart) < restartShown}}
	if s.Status.Ledger != nil {
		f.Gateway.Nodes = s.Status.Ledger.Nodes
	}
	w.fillRates(f, now)
	w.fillRoutes(f, now)
	w.fillAccounts(f)
	for _, p := range s.Plugins {
		f.Plugins = append(f.Plugins, plugins(&p)...)
	}
	sortLike(f.Plugins, s.Status.Providers)
	f.Problems = findProblems(s, f)
	return f
}

// per is how much came in a second of the time between two readings.
func per(now, before *reading, of func(*reading) float64) *float64 {
	if before == nil {
		return nil
	}
	took := now.at.Sub(before.at).Seconds()
	if took <= 0 {
		return nil
	}
	return new(max(0, of(now)-of(before)) / took)
}

func times(v *float64, n float64) *float64 {
	if v == nil {
		return nil
	}
	return new(*v * n)
}

// quantileOf is of what came in the last minute or, where nothing did, in all that is remembered.
func (w *Watch) quantileOf(q float64, of func(*reading) engine.Histogram) *float64 {
	for _, span := range []time.Duration{moneySpan, longSpan} {
		before := w.before(span)
		if before == nil {
			return nil
		}
		if v := of(w.newest()).Minus(of(before)).Quantile(q); v != nil {
			return v
		}
	}
	return nil
}

func (w *Watch) fillRates(f *Frame, now *reading) {
	short, minute := w.before(rateSpan), w.before(moneySpan)
	all := func(of func(*routeReading) float64) func(*reading) float64 {
		return func(r *reading) (sum float64) {
			for _, route := range r.routes {
				sum += of(route)
			}
			return sum
		}
	}
	first := func(r *reading) (sum engine.Histogram) {
		for _, route := range r.routes {
			sum = sum.Plus(route.firstTokens)
		}
		return sum
	}
	failures := per(now, short, func(r *reading) float64 { return r.failed })
	if failures != nil {
		*failures += float64(w.brokenOff(short.at)) / now.at.Sub(short.at).Seconds()
	}
	f.Gateway.CPU = per(now, short, func(r *reading) float64 { return r.cpu })
	f.Rates = Rates{
		Requests: per(now, short, func(r *reading) float64 { return r.answered }),
		Failed:   failures,
		Refused:  per(now, short, func(r *reading) float64 { return r.refused }),
		Limited:  per(now, short, func(r *reading) float64 { return r.limited }),
		Running:  now.running, Connections: now.connections, Held: now.held,
		Charged:       times(per(now, minute, all(func(r *routeReading) float64 { return r.charged })), 60),
		Cost:          times(per(now, minute, all(func(r *routeReading) float64 { return r.cost })), 60),
		Lost:          times(per(now, minute, func(r *reading) float64 { return r.overs }), 60),
		FirstTokenP50: w.quantileOf(0.5, first), FirstTokenP95: w.quantileOf(0.95, first),
		LedgerP95: w.quantileOf(0.95, func(r *reading) engine.Histogram { return r.ledger }),
	}
}

// brokenOff is how many replies have broken off since then that had a good status, which is all that metrics count them
// by. With so many requests that some were missed there are more.
func (w *Watch) brokenOff(since time.Time) (n int) {
	for i := range w.ended {
		if r := &w.ended[i]; r.Aborted && r.Status < 500 && r.Time.After(since) {
			n++
		}
	}
	return n
}

func (w *Watch) fillRoutes(f *Frame, now *reading) {
	short, minute := w.before(rateSpan), w.before(moneySpan)
	for _, r := range w.snapshot.Status.Routes {
		of := func(get func(*routeReading) float64) func(*reading) float64 {
			return func(at *reading) float64 {
				if v := at.routes[r.Name]; v != nil {
					return get(v)
				}
				return 0
			}
		}
		firsts := func(at *reading) (h engine.Histogram) {
			if v := at.routes[r.Name]; v != nil {
				h = v.firstTokens
			}
			return h
		}
		took := func(at *reading) (h engine.Histogram) {
			if v := at.routes[r.Name]; v != nil {
				h = v.took
			}
			return h
		}
		attempts := of(func(v *routeReading) float64 { return v.took.Total() })
		failures := of(func(v *routeReading) float64 { return v.failed })
		charged := times(per(now, minute, of(func(v *routeReading) float64 { return v.charged })), 60)
		cost := times(per(now, minute, of(func(v *routeReading) float64 { return v.cost })), 60)
		v := Route{Name: r.Name, Provider: r.Provider, Model: r.Model, State: r.State, Reason: r.Reason, Until: r.Until,
			Running: of(func(v *routeReading) float64 { return v.running })(now), Waiting: r.Waiting,
			Attempts: per(now, short, attempts), Failed: per(now, short, failures),
			FirstTokenP50: w.quantileOf(0.5, firsts), FirstTokenP95: w.quantileOf(0.95, firsts),
			TookP95:      w.quantileOf(0.95, took),
			OutputTokens: per(now, short, of(func(v *routeReading) float64 { return v.output })),
			Charged:      charged, Margin: less(charged, cost)}
		if n := per(now, minute, attempts); n != nil && *n > 0 {
			v.FailedShare = new(min(1, *per(now, minute, failures) / *n))
		}
		if r.LastFailure != nil {
			v.LastFailure, v.FailedAt = r.LastFailure.Text, &r.LastFailure.At
		}
		f.Routes = append(f.Routes, v)
	}
}

// fillAccounts sums up who used the gateway lately.
func (w *Watch) fillAccounts(f *Frame) {
	from := f.Time.Add(-longSpan)
	if w.covered.After(from) {
		from = w.covered
	}
	at := map[string]int{}
	for i := range w.ended {
		r := &w.ended[i]
		if r.Time.Before(from) {
			continue
		}
		f.Seen++
		if r.AccountID == "" {
			continue
		}
		n, ok := at[r.AccountID]
		if !ok {
			n = len(f.Accounts)
			at[r.AccountID] = n
			f.Accounts = append(f.Accounts, Account{ID: r.AccountID, Name: r.Account})
		}
		a := &f.Accounts[n]
		a.Requests++
		a.Tokens += r.Input + r.Output
		a.Microcents += r.Microcents
		switch {
		case failed(r):
			a.Failed++
		case r.Status >= 400 && r.Status != clientLeft:
			a.Refused++
		}
	}
	f.AccountsSince = from
	slices.SortStableFunc(f.Accounts, func(a, b Account) int {
		return cmp.Or(cmp.Compare(b.Microcents, a.Microcents), cmp.Compare(b.Requests, a.Requests))
	})
	for i := range f.Accounts {
		a := &f.Accounts[i]
		if known, ok := w.accounts[a.ID]; ok {
			a.Name, a.State = known.Name, known.State
			a.Balance, a.Available, a.Held = &known.BalanceCredits, &known.AvailableCredits, &known.HeldMicrocents
		}
	}
}

// Spenders are the accounts whose balances are worth asking for, by id.
func (f *Frame) Spenders() (ids []string) {
	for i := range min(len(f.Accounts), ShownAccounts) {
		ids = append(ids, f.Accounts[i].ID)
	}
	return ids
}

func plugins(p *admin.Plugin) (list []Plugin) {
	for _, one := range p.Providers {
		v := Plugin{Provider: one.Name, Plugin: p.Name, State: one.State, Ready: one.Ready, Problem: one.Problem,
			Carry: one.Carry, PID: one.PID, Started: one.Started, Memory: one.MemoryBytes, MaxMemory: one.MaxMemoryBytes,
			Streams: one.Streams, Restarts: one.Restarts}
		if one.LastCrash != nil {
			v.LastCrash = one.LastCrash.Cause + ": " + one.LastCrash.Why
		}
		list = append(list, v)
	}
	return list
}

// sortLike puts plugins into the order that the file has their providers in.
func sortLike(list []Plugin, order []admin.Provider) {
	place := make(map[string]int, len(order))
	for i, p := range order {
		place[p.Name] = i
	}
	slices.SortStableFunc(list, func(a, b Plugin) int { return cmp.Compare(place[a.Provider], place[b.Provider]) })
}
