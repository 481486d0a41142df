//go:build linux

package main_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// The numbers of the race: each request holds 5 credits, exactly.
const (
	racers       = 1000
	raceCredits  = 50
	raceAdmitted = 10
	raceTokens   = 100
)

// raceHCL has a route on which only output costs: US$500 for a million tokens, 50,000 microcents each.
func raceHCL(up *upstream.Server) string {
	return strings.NewReplacer("input  = 3", "input  = 0", "output = 15", "output = 500").Replace(hcl(up))
}

// TestRaceToTheLastCredit has 1,000 requests come at the same time on a balance that pays for 10 of them, right after
// the gateway's start and later. The service says nothing until all others have their answer.
func TestRaceToTheLastCredit(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: func(req *upstream.Request) upstream.Reply {
		return upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Wait(req.LastUser()), upstream.Text("done"),
			upstream.Finish("stop"), upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: raceTokens}), upstream.Done()}}
	}})
	dir := t.TempDir()
	files{"gateway.hcl": raceHCL(up)}.write(t, dir)
	g := runGateway(t, dir)
	cold, warm := g.account(t, raceCredits), g.account(t, raceCredits+5)
	g.stop(t)

	g = runGateway(t, dir)
	t.Run("BILL-12 BILL-13 BILL-14 GAP-49 cold", func(t *testing.T) { race(t, g, up, cold, "cold") })
	up.Open("before")
	for _, s := range shapes[:1] { // it pays for one before
		got := fetch(http.DefaultClient, raceRequest(t, s, g, warm, "before", true))
		require.Contains(t, got.body, `"billed_microcents":5000000`)
	}
	t.Run("BILL-12 BILL-13 BILL-14 GAP-49 warm", func(t *testing.T) { race(t, g, up, warm, "warm") })
	require.True(t, g.verify(t).OK)
	g.stop(t)
	require.True(t, verifyOffline(t, dir).OK)
}

// raceRequest asks for a reply that comes when a gate opens, and holds 5 credits.
func raceRequest(t testing.TB, s shape, g *gateway, key, gate string, stream bool) *http.Request {
	t.Helper()
	allowance := map[string]string{"chat": "max_tokens", "responses": "max_output_tokens",
		"messages": "max_tokens"}[s.name]
	limited := shape{s.name, s.path, func(prompt string) map[string]any {
		body := s.body(prompt)
		body[allowance] = raceTokens
		return body
	}, s.end}
	return limited.request(t, g.URL, key, gate, stream)
}

// race sends the requests of all racers at once.
func race(t *testing.T, g *gateway, up *upstream.Server, key, gate string) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: racers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	requests := make([]*http.Request, racers)
	for i := range requests {
		requests[i] = raceRequest(t, shapes[i%len(shapes)], g, key, gate, i%2 == 0)
	}
	replies := make(chan reply, racers)
	for _, req := range requests {
		go func() { replies <- fetch(client, req) }()
	}
	counts := map[int]int{}
	answers := func(n int) {
		for range n {
			got := <-replies // in the end with an error, for requests have a deadline
			require.NoError(t, got.err, "after %v", counts)
			counts[got.status]++
		}
	}
	answers(racers - raceAdmitted)
	require.NoError(t, up.AtGate(withTimeout(t), gate, raceAdmitted))
	credits := summary(t, g, key).Credits
	require.EqualValues(t, raceCredits, credits.Balance)
	require.EqualValues(t, raceCredits, credits.Reserved)
	up.Open(gate)
	answers(raceAdmitted)
	require.Equal(t, map[int]int{http.StatusOK: raceAdmitted, http.StatusPaymentRequired: racers - raceAdmitted}, counts)
	require.Zero(t, worth(t, g, key))
}
