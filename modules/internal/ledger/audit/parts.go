package audit

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	// partsEach is in how many parts the journal and the requests are for each of Ledger.Beside, and PartLeast how many
	// entries a part has at the least.
	partsEach = 4
	PartLeast = 1 << 12
	// progressEvery is how often progress is told.
	progressEvery = 200 * time.Millisecond
)

// piece is a part of the journal or of the requests, or the storage, as it is looked at on some rows.
type piece struct {
	*verification
	look    func(v *verification) error
	storage bool
	err     error
}

// run looks at the part. A panic is its error: it would end the process, which may be a gateway.
func (p *piece) run() {
	defer func() {
		if fault := recover(); fault != nil {
			p.err = fmt.Errorf("verifying a part of the ledger: %v\n%s", fault, debug.Stack())
		}
	}()
	p.err = p.look(p.verification)
}

// verifyParts looks at the journal, at the requests, and at the storage, in parts. What they find comes together in
// the order of the parts, as if one had looked at all.
func (v *verification) verifyParts() error {
	parts, err := v.parts()
	if err != nil {
		return err
	}
	readers := v.of.Beside
	if len(readers) == 0 {
		readers = []Rows{v.Rows}
	}
	queue := make(chan *piece, len(parts))
	for _, p := range slices.Backward(parts) { // the storage first, which takes long
		queue <- p
	}
	close(queue)
	var wg sync.WaitGroup
	for _, rows := range readers {
		wg.Go(func() {
			for p := range queue {
				p.verification = v.part(rows)
				p.run()
			}
		})
	}
	v.await(&wg)
	for _, p := range parts {
		if err := v.take(p); err != nil {
			return err
		}
	}
	return nil
}

// await waits for the parts and tells how far they are.
func (v *verification) await(wg *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-tick.C:
		}
		if done := v.done.Load(); v.how.Progress != nil {
			v.how.Progress(done, max(done, v.all))
		}
	}
}

// part is a verification of a part on some rows.
func (v *verification) part(rows Rows) *verification {
	p := newVerification(rows)
	p.of, p.how, p.from, p.head, p.pruned, p.done = v.of, v.how, v.from, v.head, v.pruned, v.done
	p.prices, p.owners, p.days = v.prices, v.owners, v.days.part()
	return p
}

// take adds what a part has found. A finding is noted; every other error is returned.
func (v *verification) take(p *piece) error {
	if p.storage {
		p.err = keep(&v.storage, p.err)
	}
	if p.first != nil {
		_ = v.note(p.first)
	}
	v.report.Entries += p.report.Entries
	v.report.Requests += p.report.Requests
	v.waiting += p.waiting
	v.attempts += p.attempts
	v.days.add(p.days)
	for book, microcents := range p.report.Sums {
		v.report.Sums[book] += microcents
	}
	for _, both := range []struct{ to, from map[ledger.EntryKind]tally }{
		{v.counted, p.counted}, {v.found, p.found},
	} {
		for kind, t := range both.from {
			was := both.to[kind]
			both.to[kind] = tally{was.all + t.all, was.young + t.young}
		}
	}
	for len(v.looked) < len(p.looked) {
		v.looked = append(v.looked, 0)
	}
	for i, accounts := range p.looked {
		v.looked[i] |= accounts
	}
	return v.note(p.err)
}

// parts are the journal from its beginning to its end, the requests, and the storage.
func (v *verification) parts() (parts []*piece, err error) {
	last := v.head.LastEntry
	v.all = last + v.head.Requests
	if v.from > 0 {
		v.all = 2 * (last - v.from)
		err := each(v.Books(v.from), func(s BookSum) error {
			v.report.Sums[string(s.Book)] -= s.Microcents
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	n := max(1, min(int64(partsEach*len(v.of.Beside)), (last-v.from)/PartLeast))
	bounds := make([]string, 0, n+1)
	for i := range n {
		begin, end := v.from+share(last-v.from, i, n)+1, v.from+share(last-v.from, i+1, n)
		if i > 0 {
			request, err := v.ChargeFrom(begin)
			if err != nil {
				return nil, err
			}
			bounds = append(bounds, request)
		} else if v.from == 0 {
			begin = math.MinInt64
		}
		if i == n-1 {
			end = math.MaxInt64
		}
		parts = append(parts, &piece{look: func(v *verification) error { return v.verifyJournal(begin, end) }})
	}
	slices.Sort(bounds)
	bounds = append(slices.Compact(append([]string{""}, bounds...)), "")
	for i := range bounds[1:] {
		parts = append(parts, &piece{look: func(v *verification) error { return v.verifyRequests(bounds[i], bounds[i+1]) }})
	}
	if v.from == 0 && v.of.Storage != nil {
		parts = append(parts, &piece{storage: true, look: func(p *verification) error { return v.of.Storage(p.Rows) }})
	}
	return parts, nil
}

// share is i n-ths of all, however large that is.
func share(all, i, n int64) int64 { return all/n*i + all%n*i/n }
