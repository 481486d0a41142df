//go:build linux && (nemesis || soak)

package nemesis

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// awaitCalm waits until the ledger has everything: no request holds anything, and no spool has anything.
func (n *nemesis) awaitCalm(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := n.checkCalm(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil { // otherwise that is all it says
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.NoError(t, last, "waiting for holds to be released and spools to be empty")
		}
	}
}

func (n *nemesis) checkCalm(ctx context.Context) error {
	for _, g := range n.Gateways {
		var report struct {
			Spool struct{ Waiting, Undecided int64 }
		}
		if err := n.Command(ctx, g, &report, "status"); err != nil {
			return err
		}
		if report.Spool.Waiting+report.Spool.Undecided > 0 {
			return fmt.Errorf("the spool of %s has %+v", g.Name, report.Spool)
		}
	}
	db, err := n.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	var holds, held int64
	err = db.QueryRow(ctx, `SELECT (SELECT count(*) FROM holds), (SELECT sum(held) FROM balances)::bigint`).
		Scan(&holds, &held)
	if err == nil && (holds != 0 || held != 0) {
		err = fmt.Errorf("%d holds, and %d microcents are held", holds, held)
	}
	return err
}

func (n *nemesis) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, n.DatabaseURL("fareway", "fareway"))
}

// charged is what the ledger's rows say of a request.
type charged struct {
	id, account         string
	charge, over, worth int64 // worth: of what its attempts have used, by the prices of gateway.hcl
	pending             bool
	entries             int64 // the sum of its entries
	used                []upstream.Usage
	estimated           bool
}

// book is what the rows say in all.
type book struct {
	requests map[string]*charged
	balance  map[string]int64 // by account
	topUps   map[string]bool  // by reference
	problems []string
}

// readBook reads the rows that requests and money have left. It knows nothing of the ledger's code.
func (n *nemesis) readBook(ctx context.Context, t *testing.T, since time.Time) *book {
	t.Helper()
	db, err := n.connect(ctx)
	require.NoError(t, err)
	defer db.Close(context.WithoutCancel(ctx))
	b := &book{requests: map[string]*charged{}, balance: map[string]int64{}, topUps: map[string]bool{}}
	from := since.Add(-2 * time.Hour).UnixNano() // a clock may have been an hour behind
	query(ctx, t, db, func(rows pgx.Rows) error {
		r := &charged{}
		err := rows.Scan(&r.id, &r.account, &r.charge, &r.over, &r.pending)
		b.requests[r.id] = r
		return err
	}, `SELECT request, account, charge, over, pending FROM requests WHERE created >= $1`, from)
	query(ctx, t, db, func(rows pgx.Rows) error {
		var id string
		var input, output *int64
		var estimated bool
		if err := rows.Scan(&id, &input, &output, &estimated); err != nil {
			return err
		}
		r := b.requests[id]
		if r == nil || input == nil || output == nil {
			return nil // a request of before, or nobody knows what it has used
		}
		r.used, r.estimated = append(r.used, upstream.Usage{Prompt: *input, Completion: *output}), r.estimated || estimated
		r.worth += unitInput**input + unitReply**output
		return nil
	}, `SELECT request, input, output, estimated FROM attempts WHERE created >= $1`, from)
	running := map[string]int64{}
	query(ctx, t, db, func(rows pgx.Rows) error {
		var account, request, reference string
		var microcents, credits, accrued int64
		if err := rows.Scan(&account, &request, &reference, &microcents, &credits, &accrued); err != nil {
			return err
		}
		b.topUps[reference] = true
		running[account] += microcents
		if running[account] < 0 || running[account] != credits*1_000_000-accrued {
			b.complain("after an entry of %s account %s has %d by the sum of its entries, and %d by what the entry says",
				request, account, running[account], credits*1_000_000-accrued)
		}
		if r := b.requests[request]; r != nil {
			r.entries -= microcents
		}
		return nil
	}, `SELECT account, coalesce(request, ''), coalesce(reference, ''), microcents, credits, accrued FROM entries
		ORDER BY account, seq`)
	query(ctx, t, db, func(rows pgx.Rows) error {
		var account string
		var credits, accrued int64
		err := rows.Scan(&account, &credits, &accrued)
		if b.balance[account] = credits*1_000_000 - accrued; b.balance[account] != running[account] {
			b.complain("account %s has %d, and its entries come to %d", account, b.balance[account], running[account])
		}
		return err
	}, `SELECT account, credits, accrued FROM balances`)
	return b
}

func query(ctx context.Context, t *testing.T, db *pgx.Conn, row func(pgx.Rows) error, sql string, args ...any) {
	t.Helper()
	rows, err := db.Query(ctx, sql, args...)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		require.NoError(t, row(rows))
	}
	require.NoError(t, rows.Err())
}

// compareCycle compares the books with the requests of a cycle.
func (n *nemesis) compareCycle(t *testing.T, c cycle) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b := n.readBook(ctx, t, c.began)
	b.checkAnswers(n, c)
	b.checkCharges(n, n.readServed(t), c)
	b.checkBalances(n, c)
	for _, problem := range b.problems { // what comes next may tell more
		t.Errorf("%s: %s", c.name, problem)
	}
}

func (b *book) complain(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// checkAnswers: what clients were told is in the books, and no answer is a wrong one.
func (b *book) checkAnswers(n *nemesis, c cycle) {
	for _, s := range n.clients.sentIn(c.began, c.ended) {
		r := b.requests[s.id]
		switch {
		case s.final && r == nil:
			b.complain("%s was told that it costs %d, and the ledger does not know it", s, s.billed)
		case s.final && (r.pending || r.charge != s.billed):
			b.complain("%s was told that it costs %d, and the ledger says %d (pending: %v)", s, s.billed, r.charge, r.pending)
		case s.whole && s.billed != unitInput*s.input+unitReply*s.output:
			b.complain("%s was told that it costs %d", s, s.billed)
		}
		switch s.status {
		case 0, http.StatusOK:
		case http.StatusPaymentRequired:
			if !s.payer.poor {
				b.complain("%s was refused for want of credits: %s", s, s.failure)
			}
		case http.StatusServiceUnavailable, http.StatusTooManyRequests:
			if s.retryAfter == "" && !c.breaks("upstream", "providers") { // "no route works" says no time
				b.complain("%s was told %d without a time to try again: %s", s, s.status, s.failure)
			}
		case http.StatusBadGateway, http.StatusGatewayTimeout:
			if s.id == "" && c.breaks("gateway") || s.id != "" && c.breaks("upstream", "providers", s.gateway) {
				continue // HAProxy's word of a gateway that broke off, or a gateway's that could not hear the model service
			}
			b.complain("%s was told %d: %s", s, s.status, s.failure)
		default:
			b.complain("%s was told %d: %s", s, s.status, s.failure)
		}
	}
}

// breaks reports whether one of these machines or programs is in a cycle's name.
func (c cycle) breaks(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(c.name, name) })
}

// checkCharges: each request is charged at most once, and by what the model service says it has served.
func (b *book) checkCharges(n *nemesis, served map[int64][]upstream.Record, c cycle) {
	numbers := map[[2]int64]*sent{}
	for _, s := range n.clients.sentIn(c.began, c.ended) {
		numbers[[2]int64{s.input, s.output}] = s
	}
	once := map[int64]string{}
	for id, r := range b.requests {
		if r.charge != r.entries {
			b.complain("request %s is charged %d, and its entries come to %d", id, r.charge, r.entries)
		}
		if r.over != 0 || r.charge > r.worth {
			b.complain("request %s is charged %d, what it has used is worth %d, and %d were over its hold", id, r.charge,
				r.worth, r.over)
		}
		if r.charge == 0 {
			continue
		}
		var s *sent
		for _, u := range r.used {
			if s = numbers[[2]int64{u.Prompt, u.Completion}]; s != nil {
				break
			}
		}
		if s == nil {
			continue // of another cycle, or estimated
		}
		if first := once[s.n]; first != "" {
			b.complain("%s is charged twice, as %s and %s", s, first, id)
		}
		once[s.n] = id
		if s.id != "" && s.id != id {
			b.complain("%s is charged as %s", s, id)
		}
		if r.charge != unitInput*s.input+unitReply*s.output {
			b.complain("%s is charged %d", s, r.charge)
		}
		if !wasServed(served[s.n], s) && !n.upstreamDied(s) {
			b.complain("%s is charged, and the model service has not served it: %+v", s, served[s.n])
		}
	}
	for _, s := range n.clients.sentIn(c.began, c.ended) {
		if r := b.requests[s.id]; r != nil && r.charge > 0 && once[s.n] == "" && !r.estimated {
			b.complain("%s is charged %d for %v, which it has not used", s, r.charge, r.used)
		}
	}
}

func wasServed(records []upstream.Record, s *sent) bool {
	for _, r := range records {
		if r.Reported != nil && r.Reported.Prompt == s.input && r.Reported.Completion == s.output {
			return true
		}
	}
	return false
}

// upstreamDied reports whether the model service was killed during a request: it had no time to write it down then.
func (n *nemesis) upstreamDied(s *sent) bool {
	for _, c := range n.cycles {
		if strings.HasPrefix(c.name, "kill -9 of the model service") && s.start.Before(c.broken.Add(time.Second)) &&
			s.end.After(c.broken.Add(-time.Second)) {
			return true
		}
	}
	return false
}

// readServed is what the model service has written down, by the number that clients put into their prompts.
func (n *nemesis) readServed(t *testing.T) map[int64][]upstream.Record {
	t.Helper()
	f, err := os.Open(n.UpstreamLog())
	require.NoError(t, err)
	defer f.Close()
	all := map[int64][]upstream.Record{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r upstream.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // it was killed in the middle of a line
		}
		_, after, ok := strings.Cut(string(r.Body), "number-")
		if !ok {
			continue
		}
		var number int64
		_, err := fmt.Sscanf(after, "%d", &number)
		require.NoError(t, err, "%s", r.Body)
		all[number] = append(all[number], r)
	}
	require.NoError(t, lines.Err())
	return all
}

// String implements fmt.Stringer.
func (s *sent) String() string {
	return fmt.Sprintf("request %d (%s, %s, %d to %d tokens, status %d by %s at %s)", s.n, s.id, s.payer.name, s.input,
		s.output, s.status, s.gateway, s.end.Format(time.TimeOnly))
}

// compare looks at the whole run, when all is calm.
func (n *nemesis) compare(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, g := range n.Gateways {
		var report struct {
			OK      bool
			Holds   int64
			Problem string
		}
		require.NoError(t, n.Command(ctx, g, &report, "ledger", "verify"))
		require.True(t, report.OK, "%s", report.Problem)
		require.Zero(t, report.Holds)
	}
	n.compareAll(ctx, t)
}

// compareAll compares each account's balance with what was added and what was charged, over the whole run, and
// requests of all cycles with one another.
func (n *nemesis) compareAll(ctx context.Context, t *testing.T) {
	t.Helper()
	began := n.cycles[0].began
	b := n.readBook(ctx, t, began)
	all := cycle{name: "all", began: began, ended: time.Now()}
	b.checkCharges(n, n.readServed(t), all)
	require.Empty(t, b.problems)
	spent, whole := map[string]int64{}, 0
	for _, r := range b.requests {
		spent[r.account] += r.charge
		if r.charge > 0 {
			whole++
		}
	}
	added := map[string]int64{}
	for _, top := range n.clients.topUps {
		if b.topUps[top.reference] {
			added[top.payer.name] += little * 1_000_000
		} else {
			require.Zero(t, top.end, "%s was acknowledged, and is not there", top.reference)
		}
	}
	for _, p := range n.clients.payers {
		credits := int64(plenty)
		if p.poor {
			credits = little
		}
		require.Equal(t, credits*1_000_000+added[p.name]-spent[p.id], b.balance[p.id], p.name)
	}
	answered := n.clients.answeredIn(began, all.ended)
	require.Positive(t, answered)
	t.Logf("%d cycles: %d requests sent, %d answered, %d charged, %d served by the model service, %d balances read, "+
		"%d top-ups",
		len(n.cycles), len(n.clients.sentIn(began, all.ended)), answered, whole, len(n.readServed(t)), len(n.clients.reads),
		len(n.clients.topUps))
}

var errUnknown = errors.New("the checker of histories has found no answer in time")
