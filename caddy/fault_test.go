//go:build linux

package main_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestLedgerFaults takes the ledger of a gateway away while requests run; see takeAway for what must hold.
func TestLedgerFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range ledgerFaults(t) {
		t.Run("GAP-45 GAP-99 "+fault.name, func(t *testing.T) {
			t.Parallel()
			takeAway(t, fault, 1)
		})
	}
}

// takeAway takes the ledger of a gateway away, twice; for the second time the gateway is killed before the ledger is
// back. Each time a crowd asks so many times. From when the gateway has found that the
// ledger is away
//
//   - every charged call is told to come back, and nothing of it is sent upstream;
//   - what is not charged is answered;
//   - what ran before ends as if nothing had happened;
//   - nothing grows by the number of those who ask.
//
// Afterwards every microcent is where it belongs, and the gateway is as large as it was.
func takeAway(t *testing.T, fault ledgerFault, turns int) {
	t.Helper()
	f := startFaulty(t, fault)
	for round := range 2 {
		requests := f.open(t, round)
		end := fault.begin(t, f.gateway)
		before := f.findAway(t)
		refused := later(func() map[string]int { return f.crowd(t, turns) })
		f.finishes(t, requests, round, before)
		f.answersTheRest(t)
		require.Equal(t, map[string]int{away: crowd * turns}, <-refused)
		require.NoError(t, f.up.Idle(withTimeout(t)))
		require.Len(t, f.up.Records(), f.served, "nothing was sent upstream")
		f.isAsBefore(t)
		if round == 1 {
			f.kill()
		}
		end()
		if round == 1 {
			f.gateway = runGateway(t, f.Dir)
		}
		f.recovers(t)
	}
	f.terminate(t) // on stderr are the errors of the time without a ledger
	<-f.ended
	require.NoError(t, f.err)
	report := verifyOffline(t, f.Dir)
	require.True(t, report.OK, report.Problem)
	require.Zero(t, report.Holds)
	require.Zero(t, report.Spool.Waiting)
}

// faulty is a gateway whose ledger is going to be away.
type faulty struct {
	*gateway
	up     *upstream.Server
	client *http.Client
	key    string // of an account with faultyCredits
	served int    // requests that the service has answered
	due    int64  // microcents that the account has been charged
	before size
}

const faultyCredits = 1_000_000

func startFaulty(t *testing.T, fault ledgerFault) *faulty {
	f := &faulty{up: upstream.Start(t, upstream.Options{Script: gated}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * len(shapes)}}}
	dir := fault.dir(t)
	files{"gateway.hcl": hcl(f.up)}.write(t, dir)
	f.gateway = runGateway(t, dir)
	f.key = f.account(t, faultyCredits)
	for _, s := range shapes {
		for _, stream := range []bool{false, true} {
			s.send(t, f.client, f.URL, f.key, "hello", stream).all(t)
		}
	}
	f.pay(2*len(shapes), price(2, 1))
	f.settled(t)
	f.before = f.size(t)
	return f
}

// pay notes that so many requests were served and charged.
func (f *faulty) pay(requests int, microcents int64) {
	f.served += requests
	f.due += int64(requests) * microcents
}

// open starts requests of all shapes, streamed and not, that wait halfway at a gate.
func (f *faulty) open(t *testing.T, round int) []*inFlight {
	t.Helper()
	gate := fmt.Sprint("round", round)
	var all []*inFlight
	for _, s := range shapes {
		for _, stream := range []bool{true, false} {
			req := s.request(t, f.URL, f.key, "wait at "+gate, stream)
			r := &inFlight{shape: s, stream: stream, reply: make(chan reply, 1)}
			go func() { r.reply <- fetch(f.client, req) }()
			all = append(all, r)
		}
	}
	require.NoError(t, f.up.AtGate(withTimeout(t), gate, len(all)))
	return all
}

// inFlight is a request that waits for its reply.
type inFlight struct {
	shape
	stream bool
	reply  chan reply
}

// reply is what came back, up to an error.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// fetch does a request to its end.
func fetch(client *http.Client, req *http.Request) (r reply) {
	resp, err := client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

const away = "503 upstream_error, Retry-After: 5"

// findAway asks until the gateway has found that its ledger is away, which is when it has something to write, and
// returns how many were answered, and are charged, before (GAP-132).
func (f *faulty) findAway(t *testing.T) (answered int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); answered++ {
		<-tick.C
		r := fetch(f.client, shapes[0].request(t, f.URL, f.key, "hello", false))
		if r.status != http.StatusOK {
			require.Equal(t, away, r.refusal(shapes[0]))
			f.pay(answered, price(2, 1))
			return answered
		}
	}
	require.Fail(t, "nobody is told that the ledger is away")
	return answered
}

// crowd is how many clients ask at once while the ledger is away.
const crowd = 120

// crowd has clients ask for replies, each so many times in a row, and counts what they are told.
func (f *faulty) crowd(t *testing.T, turns int) map[string]int {
	transport := &http.Transport{MaxIdleConnsPerHost: crowd}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		told   = map[string]int{}
	)
	for i := range crowd {
		asking.Go(func() {
			for turn := range turns {
				s := shapes[(i+turn)%len(shapes)]
				req, err := s.newRequest(t.Context(), f.URL, f.key, "hello", i%2 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				said := fetch(client, req).refusal(s)
				mu.Lock()
				told[said]++
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return told
}

// answersTheRest: what is not charged is answered.
func (f *faulty) answersTheRest(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/v1/models", "/v1/models/service/auto", "/v1/account"} {
		require.Equal(t, http.StatusOK, f.get(t, path), path)
	}
	req := shapes[2].request(t, f.URL, f.key, "hello", false)
	req.URL.Path += "/count_tokens"
	require.Equal(t, http.StatusOK, fetch(f.client, req).status)
}

// refusal is what a refusal says, in short.
func (r reply) refusal(s shape) string {
	code := "?"
	if s.name == "messages" && strings.Contains(r.body, `"type":"error"`) {
		// Its errors have a type only, which is less exact.
		code = "upstream_error"
	} else if strings.Contains(r.body, `"code":"upstream_error"`) {
		code = "upstream_error"
	}
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%d %s, Retry-After: %s", r.status, code, r.header.Get("Retry-After"))
}

// get asks what is not charged.
func (f *faulty) get(t *testing.T, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(withTimeout(t), http.MethodGet, f.URL+path, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+f.key)
	r := fetch(f.client, req)
	require.NoError(t, r.err)
	return r.status
}

// finishes: requests that ran when the ledger went away end as if nothing had happened, and what they say of their
// charge is final.
// In the log are those, and such as were answered before.
func (f *faulty) finishes(t *testing.T, all []*inFlight, round, before int) {
	t.Helper()
	f.up.Open(fmt.Sprint("round", round))
	for _, r := range all {
		got := <-r.reply
		require.NoError(t, got.err)
		require.Equal(t, http.StatusOK, got.status)
		require.Equal(t, !r.stream, !strings.HasSuffix(got.body, r.end), "%s", got.body)
		bill, ok := billIn(got.body)
		require.True(t, ok, "%s", got.body)
		require.Equal(t, billing{Microcents: price(4, 2)}, bill)
	}
	f.pay(len(all), price(4, 2))
	spooled := int(f.metrics(t)["fareway_spooled_settlements"])
	require.GreaterOrEqual(t, spooled, len(all))
	require.LessOrEqual(t, spooled, len(all)+before)
}

// recovers: when the ledger is back, all settlements come into it, once, and nothing of that time is left.
func (f *faulty) recovers(t *testing.T) {
	t.Helper()
	eventually(t, func() (bool, string) {
		return f.metrics(t)["fareway_spooled_settlements"] == 0, "the spool is not applied"
	})
	f.settled(t)
	for _, s := range shapes {
		require.Equal(t, billing{Microcents: price(2, 1)}, s.send(t, f.client, f.URL, f.key, "hello", true).whole(t, s))
	}
	f.pay(len(shapes), price(2, 1))
	require.Equal(t, faultyCredits*1_000_000-f.due, worth(t, f.gateway, f.key))
	require.NoError(t, f.up.Idle(withTimeout(t))) // a call is written down when its upstream is done with it
	require.Len(t, f.up.Records(), f.served)
	report := f.verify(t)
	require.True(t, report.OK, report.Problem)
	f.isAsBefore(t)
}

// isAsBefore waits until the gateway is about as large as it was before its ledger went away.
func (f *faulty) isAsBefore(t *testing.T) {
	t.Helper()
	f.client.CloseIdleConnections()
	eventually(t, func() (bool, string) {
		now := f.size(t)
		return now.goroutines <= f.before.goroutines+20 && now.heap < f.before.heap+8<<20 && now.files < f.before.files+20,
			fmt.Sprintf("%s, and before %s", now, f.before)
	})
}

// TestSlowLedger has another process take the ledger's lock again and again, so that everything takes its time.
func TestSlowLedger(t *testing.T) {
	t.Parallel()
	const askers, turns = 12, 4
	up := upstream.Start(t, upstream.Options{Script: gated})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	key := g.account(t, faultyCredits)
	lock := lockLedger(t, g.Dir)
	replies := make(chan reply, askers*turns)
	var asking sync.WaitGroup
	for i := range askers {
		asking.Go(func() {
			for turn := range turns {
				req, err := shapes[i%len(shapes)].newRequest(t.Context(), g.URL, key, "hello", turn%2 == 0)
				if err != nil {
					t.Error(err)
					return
				}
				replies <- fetch(http.DefaultClient, req)
			}
		})
	}
	asked := later(func() bool { asking.Wait(); return true })
	for more := true; more; {
		<-time.After(100 * time.Millisecond)
		lock.leave(t)
		select {
		case <-asked:
			more = false
		case <-time.After(50 * time.Millisecond):
			lock.take(t)
		}
	}
	require.NoError(t, lock.conn.Close())
	close(replies)
	for r := range replies {
		require.NoError(t, r.err)
		require.Equal(t, http.StatusOK, r.status, "%s", r.body)
		bill, ok := billIn(r.body)
		require.True(t, ok, "%s", r.body)
		require.Equal(t, billing{Microcents: price(2, 1)}, bill)
	}
	g.settled(t)
	require.Len(t, up.Records(), askers*turns)
	require.Equal(t, faultyCredits*1_000_000-askers*turns*price(2, 1), worth(t, g, key))
}
