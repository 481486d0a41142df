//go:build linux && (nemesis || soak)

package nemesis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fareway/fareway/examples/cluster"
)

// movement is an operation on an account's balance: it adds (less than zero for a charge), or reads.
type movement struct {
	adds  int64
	reads bool
	said  int64
}

// balances is what an account's balance does: each movement at one moment between its beginning and its end, and a
// read sees all that were before it.
var balances = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		m, now := input.(movement), state.(int64)
		if m.reads {
			return now == m.said, now
		}
		return now+m.adds >= 0, now + m.adds
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// checkBalances: there is an order of a cycle's movements of each account, in which each reads what it read. What was
// charged by a gateway whose database was away may have been in its spool until all was calm.
func (b *book) checkBalances(n *nemesis, c cycle) {
	calm := time.Now()
	for _, p := range n.clients.payers {
		before := int64(plenty) * 1_000_000
		if p.poor {
			before = little * 1_000_000
		}
		if k := len(n.cycles); k > 1 {
			before = n.cycles[k-2].calm[p.name]
		}
		history := []porcupine.Operation{
			operation(movement{adds: before}, c.began.Add(-time.Hour), c.began.Add(-time.Minute)),
			operation(movement{reads: true, said: c.calm[p.name]}, calm.Add(time.Second), calm.Add(2*time.Second)),
		}
		history = append(history, b.movements(n, c, p, calm)...)
		history = append(history, n.clients.readsOf(c, p)...)
		switch porcupine.CheckOperationsTimeout(balances, history, time.Minute) {
		case porcupine.Illegal:
			b.complain("the balances of %s that were read cannot be, in any order of what was charged and added:%s", p.name,
				describe(history))
		case porcupine.Unknown:
			b.complain("whether the balances of %s can be: %v", p.name, errUnknown)
		case porcupine.Ok:
		}
	}
	for id := range b.requests {
		n.seen[id] = true
	}
}

// describe lists a history in the order of its ends.
func describe(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	var b strings.Builder
	for _, o := range history {
		fmt.Fprintf(&b, "\n  %s to %s: %+v", time.Unix(0, o.Call).Format("15:04:05.000"),
			time.Unix(0, o.Return).Format("15:04:05.000"), o.Input)
	}
	return b.String()
}

func operation(m movement, from, to time.Time) porcupine.Operation {
	return porcupine.Operation{Input: m, Call: from.UnixNano(), Return: to.UnixNano()}
}

// movements are those of an account in a cycle that changed its balance.
func (b *book) movements(n *nemesis, c cycle, p *payer, calm time.Time) []porcupine.Operation {
	var all []porcupine.Operation
	for _, top := range n.clients.topUps { // nobody sends any when all is calm
		if top.payer != p || top.counted || !b.topUps[top.reference] {
			continue
		}
		end := top.end
		if end.IsZero() {
			end = calm
		}
		top.counted = true
		all = append(all, operation(movement{adds: little * 1_000_000}, top.start, end))
	}
	known := map[string]bool{}
	for _, s := range n.clients.sentIn(c.began, c.ended) {
		known[s.id] = true
		r := b.requests[s.id]
		if s.payer != p || r == nil || r.charge == 0 {
			continue
		}
		end := s.end
		if !s.final || c.mayWait(s) {
			end = calm
		}
		all = append(all, operation(movement{adds: -r.charge}, s.start, end))
	}
	for id, r := range b.requests {
		if r.account == p.id && r.charge > 0 && !known[id] && !n.seen[id] { // its client was told no id
			all = append(all, operation(movement{adds: -r.charge}, c.began, calm))
		}
	}
	return all
}

// mayWait reports whether a settlement may have waited in a spool after its client was told of it.
func (c cycle) mayWait(s *sent) bool {
	return s.end.After(c.broken) && s.end.Before(c.mended.Add(10*time.Second)) &&
		slices.ContainsFunc(c.affected, func(g *cluster.Node) bool { return g.Name == s.gateway })
}

// readsOf are the balances of an account that were read in a cycle.
func (c *clients) readsOf(in cycle, p *payer) []porcupine.Operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []porcupine.Operation
	for _, r := range c.reads {
		if r.payer == p && r.start.After(in.began) && r.start.Before(in.ended) {
			all = append(all, operation(movement{reads: true, said: r.balance}, r.start, r.end))
		}
	}
	return all
}
