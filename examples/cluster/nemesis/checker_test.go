//go:build linux && (nemesis || soak)

package nemesis

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// story is a cycle in which all went well: two requests and a balance that was read after them.
type story struct {
	n      *nemesis
	c      cycle
	b      *book
	served map[int64][]upstream.Record
	first  *sent
	second *sent
}

func tell() *story {
	start := time.Now().Add(-time.Hour)
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	p := &payer{name: "account-0", id: "acc"}
	s := &story{
		n: &nemesis{seen: map[string]bool{}, clients: &clients{payers: []*payer{p}}},
		c: cycle{name: "nothing", began: start, ended: after(60), broken: after(50), mended: after(51)},
		b: &book{requests: map[string]*charged{}, balance: map[string]int64{}, topUps: map[string]bool{}},
	}
	s.served = map[int64][]upstream.Record{}
	spent := int64(0)
	request := func(n int64, from, to int) *sent {
		input, output := lengths(n)
		one := &sent{n: n, payer: p, input: input, output: output, start: after(from), end: after(to),
			id: string(rune('a' + n)), status: http.StatusOK, billed: unitInput*input + unitReply*output, final: true,
			whole: true}
		used := upstream.Usage{Prompt: input, Completion: output}
		s.b.requests[one.id] = &charged{id: one.id, account: p.id, charge: one.billed, worth: one.billed, entries: one.billed,
			used: []upstream.Usage{used}}
		s.served[n] = []upstream.Record{{Reported: &used}}
		s.n.clients.sent = append(s.n.clients.sent, one)
		spent += one.billed
		return one
	}
	s.first, s.second = request(1, 1, 3), request(2, 2, 4)
	left := int64(plenty)*1_000_000 - spent
	s.n.clients.reads = []read{{p, after(5), after(6), left}}
	s.c.calm = map[string]int64{p.name: left}
	s.n.cycles = []cycle{s.c}
	return s
}

func (s *story) check() []string {
	s.b.checkAnswers(s.n, s.c)
	s.b.checkCharges(s.n, s.served, s.c)
	s.b.checkBalances(s.n, s.c)
	return s.b.problems
}

// TestCheckerFinds: a checker that finds nothing has to be able to.
func TestCheckerFinds(t *testing.T) {
	t.Parallel()
	require.Empty(t, tell().check())
	for name, c := range map[string]struct {
		change func(*story)
		says   string
	}{
		"a settled charge is lost":  {func(s *story) { delete(s.b.requests, s.first.id) }, "the ledger does not know it"},
		"a charge is another one":   {func(s *story) { s.b.requests[s.first.id].charge++ }, "and the ledger says"},
		"a charge is pending again": {func(s *story) { s.b.requests[s.first.id].pending = true }, "pending: true"},
		"a request is charged twice": {func(s *story) {
			again := *s.b.requests[s.first.id]
			again.id = "again"
			s.b.requests["again"] = &again
		}, "is charged twice"},
		"it was not served":  {func(s *story) { delete(s.served, s.first.n) }, "has not served it"},
		"it was served less": {func(s *story) { s.served[s.first.n][0].Reported.Completion-- }, "is charged"},
		"its bill is wrong": {func(s *story) {
			s.first.billed--
			s.b.requests[s.first.id].charge--
			s.b.requests[s.first.id].entries--
		}, "was told that it costs"},
		"entries are others":           {func(s *story) { s.b.requests[s.first.id].entries-- }, "its entries come to"},
		"more than was held":           {func(s *story) { s.b.requests[s.first.id].over = 1 }, "were over its hold"},
		"a balance of before a charge": {func(s *story) { s.n.clients.reads[0].balance += s.first.billed }, "cannot be"},
		"a balance that is lost":       {func(s *story) { s.c.calm["account-0"]++ }, "cannot be"},
		"no time to try again": {
			func(s *story) { s.first.status = http.StatusServiceUnavailable }, "without a time to try again",
		},
		"an error of its own": {func(s *story) { s.first.status = http.StatusInternalServerError }, "was told 500"},
		"refused for nothing": {func(s *story) { s.first.status = http.StatusPaymentRequired }, "want of credits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tell()
			c.change(s)
			require.Contains(t, strings.Join(s.check(), "\n"), c.says)
		})
	}
}
