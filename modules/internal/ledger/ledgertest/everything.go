package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	crowdWorkers = 8
	crowdRounds  = 40 // of each worker
)

// crowd is workers that do everything at once on shared accounts. What each is told is noted, and has to make the
// journal when they are done, to the microcent.
type crowd struct {
	*fixture
	payers []payer

	mu       sync.Mutex
	net      map[string]int64 // of each account, by what its operations answered
	settled  map[string]ledger.Settlement
	payer    map[string]string    // account by request
	unproven map[string]bool      // attempts, until somebody was told that their receipt was taken
	receipts map[string]llm.Usage // those that were taken
	closed   int64
}

type payer struct {
	account ledger.Account
	key     ledger.Key
}

// testEverythingAtOnce lets goroutines do random operations on shared accounts, and then compares what each of them
// was told with the journal, the balances and the records.
func testEverythingAtOnce(t *testing.T, open Open) {
	t.Run("what everyone saw is what the journal says", func(t *testing.T) {
		t.Parallel()
		c, seed := newCrowd(t, open)
		errs := make(chan error, crowdWorkers+1)
		var wg sync.WaitGroup
		for w := range crowdWorkers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(w)))
				for n := range crowdRounds {
					if err := c.round(random, fmt.Sprintf("%d-%d", w, n)); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Go(func() {
			if err := c.watch(); err != nil {
				errs <- err
			}
		})
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		c.reconcile()
	})
}

func newCrowd(t *testing.T, open Open) (c *crowd, seed uint64) {
	c = &crowd{
		fixture: newFixture(t, open, 100_000, ledger.Terms{MonthlyCredits: 2, FairUse: 40_000}),
		net:     map[string]int64{}, settled: map[string]ledger.Settlement{}, payer: map[string]string{},
		unproven: map[string]bool{}, receipts: map[string]llm.Usage{},
	}
	for i := range 3 {
		if i > 0 {
			c.newAccount(100_000)
		}
		c.payers = append(c.payers, payer{c.account, c.key})
		c.net[c.account.ID] = 100_000_000_000
	}
	seed = rand.Uint64()
	t.Logf("seed %d", seed)
	return c, seed
}

// Walk takes random steps, a hundred thousand of them in 20,000 rounds, one after the other, and verifies the ledger
// at four moments and in the end: what the rules do the audit finds right. It returns the store.
func Walk(t *testing.T, open Open, rounds int) ledger.Store {
	c, seed := newCrowd(t, open)
	return c.walk(t, seed, rounds)
}

// WalkFrom is Walk with the steps of a seed.
func WalkFrom(t *testing.T, open Open, rounds int, seed uint64) ledger.Store {
	c, _ := newCrowd(t, open)
	return c.walk(t, seed, rounds)
}

func (c *crowd) walk(t *testing.T, seed uint64, rounds int) ledger.Store {
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range rounds {
		require.NoError(t, c.round(random, fmt.Sprintf("%06d", n)))
		if n%(rounds/4+1) == 0 {
			c.verify()
		}
	}
	c.reconcile()
	return c.store
}

// round is one request with its company.
func (c *crowd) round(random *rand.Rand, id string) error {
	ctx := context.Background()
	p := c.payers[random.IntN(len(c.payers))]
	account := p.account
	if err := c.request(ctx, random, p, "request-"+id); err != nil {
		return err
	}
	switch random.IntN(8) {
	case 0: // the same references everywhere
		credit := ledger.Credit{Account: account.ID, Credits: 1, Reference: fmt.Sprint("ref ", random.IntN(20))}
		_, applied, err := c.store.AddCredit(ctx, credit)
		c.told(account.ID, 1_000_000, applied)
		return err
	case 1:
		amount := random.Int64N(2_000) - 1_000
		if amount == 0 {
			return nil
		}
		_, applied, err := c.store.Correct(ctx, ledger.Correction{Account: account.ID, Microcents: amount, Reason: "r"})
		c.told(account.ID, amount, applied)
		return err
	case 2:
		c.clock.add(time.Duration(random.IntN(15*24)) * time.Hour)
		_, err := c.store.EndPeriods(ctx)
		return err
	case 3:
		_, err := c.store.MakeCheckpoint(ctx)
		return err
	case 4:
		closed, err := c.store.CloseUnproven(ctx, c.clock.now().AddDate(0, -2, 0))
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed += closed.Attempts
		return err
	case 5:
		spendCap := random.Int64N(2) << 40
		k, err := c.store.CreateKey(ctx, account.ID, "key "+id, hashOf(id), "", ledger.KeyChange{SpendCap: &spendCap})
		if err == nil {
			_, _, err = c.store.RotateKey(ctx, k.ID, hashOf("fresh "+id), "", 0)
		}
		return err
	case 6:
		_, err := c.store.SetState(ctx, account.ID, []ledger.State{ledger.Active, ledger.Suspended}[random.IntN(2)])
		return err
	}
	return c.receipt(ctx, random)
}

func (c *crowd) told(account string, microcents int64, applied bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if applied {
		c.net[account] += microcents
	}
}

// request holds, tries once more, and settles from two goroutines.
func (c *crowd) request(ctx context.Context, random *rand.Rand, p payer, id string) error {
	routes := []string{"unit", "fraction", "cached", "tiered"}
	h := ledger.Hold{
		Request: id, Account: p.account.ID, Key: p.key.ID, Endpoint: "chat", Profile: "max",
		Microcents: random.Int64N(100_000), WriteBehind: random.IntN(2) == 0,
	}
	first := c.attempt(id, 1, routes[random.IntN(len(routes))])
	late := random.IntN(2) == 0
	if !late {
		h.Attempt = first
	}
	if _, err := c.store.Hold(ctx, h); err != nil {
		return err
	}
	if late {
		if err := c.store.Begin(ctx, ledger.Next{Request: id, Attempt: first, Microcents: h.Microcents}); err != nil {
			return err
		}
	}
	next := ledger.Next{Request: id, Attempt: c.attempt(id, 2, routes[random.IntN(len(routes))]),
		Microcents: random.Int64N(200_000), WriteBehind: random.IntN(2) == 0}
	if err := c.store.Begin(ctx, next); err != nil {
		return err
	}
	s := ledger.Settlement{
		Request: id, Status: 200, Reason: "ok", Free: random.IntN(9) == 0, ServiceLimit: random.IntN(3) == 0,
		Surcharge: random.Int64N(3),
	}
	for _, attempt := range []string{first.ID, next.Attempt.ID} {
		result := ledger.Result{Attempt: attempt, Outcome: ledger.Finished,
			Usage: usage(random.Int64N(20_000), random.Int64N(20_000))}
		if random.IntN(3) == 0 {
			result.Outcome, result.Usage = ledger.Unproven, nil
		}
		s.Results = append(s.Results, result)
	}
	answers := make(chan ledger.Charge, 2)
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			charge, err := c.store.Settle(ctx, s)
			answers <- charge
			errs <- err
		}()
	}
	one, two := <-answers, <-answers
	if err := errors.Join(<-errs, <-errs); err != nil {
		return err
	}
	same := one.Microcents == two.Microcents && one.Waived == two.Waived
	if same && one.Pending != two.Pending { // what waited was closed in between
		r, err := c.store.Request(ctx, id)
		same = err == nil && !r.Pending && slices.ContainsFunc(r.Attempts, func(a ledger.AttemptRecord) bool {
			return a.Outcome == ledger.Closed
		})
	}
	if !same {
		return fmt.Errorf("settling %s twice: %v and %v", id, one, two)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled[id] = s
	c.payer[id] = p.account.ID
	for _, result := range s.Results {
		if result.Usage == nil && !s.Free {
			c.unproven[result.Attempt] = true
		}
	}
	return nil
}

// receipt delivers one that may be delivered by others at the same time, or closed.
func (c *crowd) receipt(ctx context.Context, random *rand.Rand) error {
	c.mu.Lock()
	ids := sortedKeys(c.unproven)
	c.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	id := ids[random.IntN(len(ids))]
	u := usage(random.Int64N(20_000), random.Int64N(20_000))
	_, applied, err := c.store.AddReceipt(ctx, id, *u)
	if err != nil || !applied {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.receipts[id]; twice {
		return fmt.Errorf("the receipt of %s was taken twice", id)
	}
	c.receipts[id] = *u
	delete(c.unproven, id)
	return nil
}

// watch reads the books while the others write: at any moment they are in order.
func (c *crowd) watch() error {
	ctx := context.Background()
	for range 5 {
		r, err := c.store.Verify(ctx)
		if err != nil {
			return err
		}
		if !r.OK {
			return fmt.Errorf("verifying meanwhile: %s: %s", r.Entry, r.Problem)
		}
		seqs := map[string]int64{}
		err = c.store.Entries(ctx, ledger.Query{}, func(e ledger.Entry) error {
			if seqs[e.Account]++; e.Seq != seqs[e.Account] {
				return fmt.Errorf("entry %d of %s in the place of %d", e.Seq, e.Account, seqs[e.Account])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// late are the attempts of a request that were proven after its hold was gone.
func (c *crowd) late(r ledger.RequestRecord) (ids []string) {
	for _, a := range r.Attempts {
		if _, ok := c.receipts[a.ID]; ok {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// reconcile compares the records with what the workers asked for, and the balances with what they were told.
func (c *crowd) reconcile() {
	_, err := c.store.EndPeriods(context.Background())
	require.NoError(c.t, err)
	closed := int64(0)
	for _, id := range sortedKeys(c.settled) {
		s, r := c.settled[id], c.record(id)
		exact := new(big.Rat)
		for i, a := range r.Attempts {
			want := llm.Usage{}
			if proven := s.Results[i].Usage; proven != nil {
				want = *proven
			}
			if taken, ok := c.receipts[a.ID]; ok {
				want = taken
				require.False(c.t, a.Receipt.IsZero())
			}
			require.Equal(c.t, want, a.Usage, "%s", a.ID)
			exact.Add(exact, exactly(a.Usage, a.Price))
			if a.Outcome == ledger.Closed {
				closed++
			}
		}
		want := floor(exact) + s.Surcharge
		if s.Free {
			want = 0
		}
		require.Equal(c.t, want, r.Microcents+r.Waived+r.Over, "%s", id)
		if len(c.late(r)) == 0 {
			require.LessOrEqual(c.t, r.Microcents, r.Held, "%s", id)
		}
		if !s.ServiceLimit {
			require.Zero(c.t, r.Waived)
		}
		c.net[c.payer[id]] -= r.Microcents
	}
	require.Equal(c.t, c.closed, closed)

	months := int64(0)
	for !monthEnd(start, int(months)+1).After(c.clock.now()) {
		months++
	}
	for _, p := range c.payers {
		c.account = p.account
		require.Equal(c.t, c.net[p.account.ID]+(1+months)*2_000_000, c.now().Balance.Net(), "%s after %d periods",
			p.account.Name, months)
		var spent int64
		for _, k := range c.keys(p.account.ID) {
			spent += k.Spent
		}
		require.Equal(c.t, c.now().Period.Spent, spent, "the keys spent what their account did")
		require.True(c.t, c.now().Period.End.Equal(monthEnd(start, int(months)+1)))
	}
	c.reconciled()
	c.waiting = int64(len(c.unproven)) - c.closed
	c.verify(c.checkpoints()...)
}
