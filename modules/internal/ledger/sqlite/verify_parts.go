package sqlite

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	// maxVerifiers bounds the connections of a verification, each with a cache of its own.
	maxVerifiers = 8
	// partsEach is in how many parts the journal and the requests are for each connection, and partLeast how many entries
	// a part has at the least.
	partsEach, partLeast = 4, 1 << 12
	// oneMoment is how often connections are begun anew until all see the same moment.
	oneMoment = 100
	// progressEvery is how often progress is told.
	progressEvery = 200 * time.Millisecond
)

// verifiers is how many connections verify.
func verifiers() int { return min(runtime.GOMAXPROCS(0), maxVerifiers) }

// moment of a ledger, as far as the parts read it: what they look at changes with an entry or a pruning only.
const selectMoment = `SELECT (SELECT coalesce(max(n), 0) FROM entries) || ' ' || pruned_before || ' '
	|| (SELECT coalesce(sum(requests), 0) FROM pruned) || ' ' || (SELECT count(*) FROM owners) FROM meta`

func momentOf(conn *sqlite.Conn) (at string, err error) {
	err = run(conn, selectMoment, func(row *sqlite.Stmt) error {
		at = row.ColumnText(0)
		return nil
	})
	return at, err
}

// beside opens up to n connections that see what conn sees; fewer, or none, where the ledger never stands still.
// conn and they are begun anew until they do.
func (b *books) beside(ctx context.Context, conn *sqlite.Conn, n int) (readers []*sqlite.Conn, err error) {
	defer func() {
		if err != nil {
			for _, reader := range readers {
				err = errors.Join(err, reader.Close())
			}
			readers = nil
		}
	}()
	for range n {
		reader, err := openReader(b.path, b.busy)
		if err != nil {
			return readers, err
		}
		reader.SetInterrupt(ctx.Done())
		readers = append(readers, reader)
		if err := run(reader, `BEGIN`, nil); err != nil {
			return readers, err
		}
	}
	for range oneMoment {
		at, err := momentOf(conn)
		if err != nil {
			return readers, err
		}
		same := true
		for _, reader := range readers {
			is, err := momentOf(reader)
			if err != nil {
				return readers, err
			}
			same = same && is == at
		}
		if same {
			return readers, nil
		}
		for _, c := range append([]*sqlite.Conn{conn}, readers...) {
			for _, again := range []string{`ROLLBACK`, `BEGIN`} {
				if err := run(c, again, nil); err != nil {
					return readers, err
				}
			}
		}
	}
	for _, reader := range readers {
		err = errors.Join(err, reader.Close())
	}
	return nil, err
}

// piece is a part of the journal or of the requests, or all pages, as one connection looks at it.
type piece struct {
	*verification
	look  func(v *verification) error
	pages bool
	err   error
}

// verifyParts looks at the journal, at the requests, and at the file's pages, in parts on all connections. What they
// find comes together in the order of the parts, as if one had looked at all.
func (v *verification) verifyParts() error {
	parts, err := v.parts()
	if err != nil {
		return err
	}
	shared := new(sync.Mutex)
	conns := v.readers
	if len(conns) == 0 {
		conns = []*sqlite.Conn{v.conn}
	}
	queue := make(chan *piece, len(parts))
	for _, p := range slices.Backward(parts) { // the pages first, which take long
		queue <- p
	}
	close(queue)
	var wg sync.WaitGroup
	for _, conn := range conns {
		wg.Go(func() {
			for p := range queue {
				p.verification = v.part(conn, shared)
				p.err = p.look(p.verification)
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

// part is a verification of a part on a connection.
func (v *verification) part(conn *sqlite.Conn, shared sync.Locker) *verification {
	p := newVerification(conn)
	p.how, p.from, p.pruned, p.summed, p.done = v.how, v.from, v.pruned, v.summed, v.done
	p.days = newCells(v.conn) // its table is the one that is compared
	p.days.prices, p.days.most, p.days.shared = p.prices, maxGroups, shared
	return p
}

// take adds what a part has found. A finding is noted; every other error is returned.
func (v *verification) take(p *piece) error {
	if p.pages {
		var f *finding
		if errors.As(p.err, &f) {
			v.damage, p.err = p.err, nil
		}
	}
	if p.first != nil {
		_ = v.note(p.first)
	}
	v.report.Entries += p.report.Entries
	v.report.Requests += p.report.Requests
	v.waiting += p.waiting
	v.attempts += p.attempts
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

// parts are the journal from its beginning to its end, the requests, and the pages.
func (v *verification) parts() (parts []*piece, err error) {
	var last int64
	err = run(v.conn, `SELECT coalesce(max(n), 0), (SELECT coalesce(sum(requests), 0) FROM balances) FROM entries`,
		func(row *sqlite.Stmt) error {
			last = row.ColumnInt64(0)
			v.all = last - v.from + row.ColumnInt64(1)
			return nil
		})
	if err != nil {
		return nil, err
	}
	if v.from > 0 {
		v.all = 2 * (last - v.from)
		err := run(v.conn, `SELECT book, -sum(microcents) FROM entries WHERE n <= ? GROUP BY book`,
			func(row *sqlite.Stmt) error {
				v.report.Sums[row.ColumnText(0)] += row.ColumnInt64(1)
				return nil
			}, v.from)
		if err != nil {
			return nil, err
		}
	}
	n := max(1, min(int64(partsEach*len(v.readers)), (last-v.from)/partLeast))
	bounds := make([]string, 0, n)
	for i := range n {
		begin, end := v.from+(last-v.from)*i/n+1, v.from+(last-v.from)*(i+1)/n
		if i > 0 {
			err := run(v.conn, `SELECT request FROM entries WHERE n >= ? AND kind = 'charge' AND request IS NOT NULL LIMIT 1`,
				func(row *sqlite.Stmt) error {
					bounds = append(bounds, row.ColumnText(0))
					return nil
				}, begin)
			if err != nil {
				return nil, err
			}
		} else if v.from == 0 {
			begin = math.MinInt64
		}
		if i == n-1 {
			end = math.MaxInt64
		}
		parts = append(parts, &piece{look: func(v *verification) error { return v.verifyJournal(begin, end) }})
	}
	slices.Sort(bounds)
	bounds = append(append([]string{""}, slices.Compact(bounds)...), "")
	for i := range bounds[1:] {
		parts = append(parts, &piece{look: func(v *verification) error {
			return errors.Join(v.verifyRequests(bounds[i], bounds[i+1]), v.days.flush())
		}})
	}
	if v.from == 0 {
		parts = append(parts, &piece{pages: true, look: (*verification).verifyPages})
	}
	return parts, nil
}
