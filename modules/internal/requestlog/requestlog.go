// Package requestlog remembers for some days what became of requests that the ledger has nothing about, those that
// were refused and those that cost nothing, and why attempts failed. Support finds them by their ids (GAP-122). It is
// for the engine, and for commands that look for a request while no gateway runs (Find).
//
// It is no ledger: records are written behind the replies, the last second of them may be lost in a crash, and both
// their age and their size are bounded. Requests of known accounts, those of strangers, and attempts are kept apart,
// so that a flood of strangers, or an outage, drives out no customer's.
package requestlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// ErrNotFound: there is no such record, or there is none any more.
var ErrNotFound = errors.New("not in the request log")

// Record is what is kept of a request. Nothing in it was chosen by a client.
type Record struct {
	ID       string    `json:"id"`
	Time     time.Time `json:"time"` // of the request's first byte
	Endpoint string    `json:"endpoint,omitempty"`
	Status   int       `json:"status,omitempty"`  // HTTP; 0: the client left before there was one
	Code     string    `json:"code,omitempty"`    // of the error
	Limit    string    `json:"limit,omitempty"`   // what X-RateLimit-Reason said
	Account  string    `json:"account,omitempty"` // ids
	Key      string    `json:"key,omitempty"`
	// Refused is the arithmetic where Code is about money or a rate; nil of all others.
	Refused *Refused `json:"refused,omitempty"`
	// Failure is why an attempt failed, whose id ID is then and whose end Time, in the operator's words (GAP-96).
	Failure string `json:"failure,omitempty"`
}

// Refused is why a request was over what its account, its key or its address may: Limit less Used and Held leaves Left,
// and Needed is more.
type Refused struct {
	// By is what it was over: "balance", "spend_cap", "token_budget", "key_spend_cap", or what X-RateLimit-Reason said.
	By   string `json:"by"`
	Unit string `json:"unit"` // "microcents", "tokens" or "requests"
	// Needed is what the request could come to at most; 0 where it was not looked at.
	Needed int64 `json:"needed"`
	Limit  int64 `json:"limit"` // of the balance, that
	Used   int64 `json:"used"`  // of the balance, what is not debited yet
	Held   int64 `json:"held"`  // by requests that ran
	Left   int64 `json:"left"`  // of the balance in whole credits; not below 0
	// Allowance is the largest output allowance that fitted, in tokens; 0: none, or not known.
	Allowance int64 `json:"allowance,omitempty"`
	// Resets is when there is more by itself; nil where there is not, or nobody knows.
	Resets *time.Time `json:"resets"`
}

// refusedNames are what people call what a request was over.
var refusedNames = map[string]string{
	"balance": "balance", "spend_cap": "spend cap", "token_budget": "token budget",
	"key_spend_cap":              "spend cap of the key",
	"key_requests_per_minute":    "requests a minute of the key",
	"tenant_requests_per_minute": "requests a minute of the account",
	"ip_requests_per_minute":     "requests a minute of the address",
	"tenant_concurrent_requests": "requests at a time",
}

// Name is what people call what the request was over.
func (r *Refused) Name() string { return cmp.Or(refusedNames[r.By], "limit") }

// Options say where the log is and how much of it is kept.
type Options struct {
	// Dir is a folder of its own. It is made.
	Dir string
	// Keep is how long a record is found. It may change while the log is open.
	Keep func() time.Duration
	// Size bounds the files of each of the three kinds, in bytes. 0: 32 MiB, some 150,000 records.
	Size int64
	// Now is the clock. nil: time.Now.
	Now func() time.Time
	// Logger is told when the files cannot be written. nil: slog.Default.
	Logger *slog.Logger
	// Lost is told of records that could not be written, because of the disk or of too many at once. nil: nobody.
	Lost func(records int)
}

func (o *Options) fill() {
	if o.Size == 0 {
		o.Size = 32 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Lost == nil {
		o.Lost = func(int) {}
	}
}

const (
	// waiting is how many records may wait for the disk; more are lost.
	waiting = 8192
	// flushEvery bounds what a crash can lose.
	flushEvery = time.Second
	purgeEvery = time.Minute
)

// Log writes records in a goroutine of its own, from Open to Close.
type Log struct {
	opts    Options
	records chan Record
	flushes chan chan struct{}
	reopens chan chan struct{}
	stop    chan struct{}
	done    chan struct{}
	kinds   [len(kindNames)]*files
	failing bool
}

// Open continues the log in a folder. One process writes it at a time, which is the caller's to see to.
func Open(o Options) (*Log, error) {
	o.fill()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the request log's folder: %w", err)
	}
	l := &Log{
		opts: o, records: make(chan Record, waiting), flushes: make(chan chan struct{}),
		reopens: make(chan chan struct{}),
		stop:    make(chan struct{}), done: make(chan struct{}),
	}
	for i, name := range kindNames {
		l.kinds[i] = &files{dir: o.Dir, kind: name, size: o.Size}
	}
	go l.run()
	return l, nil
}

// Add notes a request. It never waits.
func (l *Log) Add(r Record) {
	select {
	case l.records <- r:
	default:
		l.opts.Lost(1)
	}
}

// Find returns the record of a request that was added before. ErrNotFound when there is none, or it is too old.
func (l *Log) Find(ctx context.Context, id string) (Record, error) {
	flushed := make(chan struct{})
	select {
	case l.flushes <- flushed:
		<-flushed
	case <-l.done:
	case <-ctx.Done():
		return Record{}, fmt.Errorf("looking into the request log: %w", context.Cause(ctx))
	}
	return Find(l.opts.Dir, id, l.opts.Now().Add(-l.opts.Keep()))
}

// Reopen writes what was added before, and begins new files. It returns when that is done.
func (l *Log) Reopen(ctx context.Context) {
	reopened := make(chan struct{})
	select {
	case l.reopens <- reopened:
		<-reopened
	case <-l.done:
	case <-ctx.Done():
	}
}

// Close writes what waits. Nothing may be added after it.
func (l *Log) Close() {
	close(l.stop)
	<-l.done
}

func (l *Log) run() {
	defer close(l.done)
	tick, purge := time.NewTicker(flushEvery), time.NewTicker(purgeEvery)
	defer tick.Stop()
	defer purge.Stop()
	for {
		select {
		case r := <-l.records:
			l.write(r)
		case flushed := <-l.flushes:
			l.drain()
			close(flushed)
		case reopened := <-l.reopens:
			l.drain()
			l.close()
			close(reopened)
		case <-tick.C:
			l.drain()
		case <-purge.C:
			for _, f := range l.kinds {
				l.logStreak(func() (int, error) { return 0, f.purge(l.opts.Now(), l.opts.Keep()) })
			}
		case <-l.stop:
			l.drain()
			l.close()
			return
		}
	}
}

// close ends the files at hand.
func (l *Log) close() {
	for _, f := range l.kinds {
		l.logStreak(f.close)
	}
}

// drain writes everything that waits through to the files.
func (l *Log) drain() {
	for len(l.records) > 0 {
		l.write(<-l.records)
	}
	for _, f := range l.kinds {
		l.logStreak(f.flush)
	}
}

func (l *Log) write(r Record) {
	f := l.kinds[strangers]
	switch {
	case r.Failure != "":
		f = l.kinds[attempts]
	case r.Account != "":
		f = l.kinds[known]
	}
	l.logStreak(func() (int, error) { return f.write(r, l.opts.Now(), l.opts.Keep()) })
}

// logStreak does something with the files and logs the first error of a streak, and its end. Records say what was
// lost with the error, or was written through without one.
func (l *Log) logStreak(do func() (records int, err error)) {
	records, err := do()
	switch {
	case err != nil:
		l.opts.Lost(records)
		if !l.failing {
			l.opts.Logger.Error("the request log cannot be written; refused requests are not found by their ids", "error", err)
		}
		l.failing = true
	case l.failing && records > 0:
		l.failing = false
		l.opts.Logger.Info("the request log can be written again")
	}
}
