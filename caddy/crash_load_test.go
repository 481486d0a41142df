//go:build linux

package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// clients is how many there are at once.
const clients = 12

// work lets the clients loose on a gateway and ends it in the middle of their requests.
func (c *crash) work(t testing.TB, g *gateway, end func()) {
	t.Helper()
	arrived := int64(len(c.up.Records()))
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	ctx, stop := context.WithCancel(withTimeout(t))
	var wg sync.WaitGroup
	for range clients {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
		wg.Go(func() {
			for c.ask(ctx, &http.Client{Transport: transport}, g.URL, rng) {
			}
		})
	}
	rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
	wg.Go(func() {
		for c.topUp(ctx, g, rng) {
		}
	})
	require.NoError(t, c.up.Arrived(ctx, arrived+1))
	end()
	stop()
	wg.Wait()
}

// ask does one request and notes what is final of it. It returns false when nobody answers any more.
func (c *crash) ask(ctx context.Context, client *http.Client, url string, rng *rand.Rand) bool {
	s := shapes[rng.IntN(len(shapes))]
	req, err := s.newRequest(ctx, url, c.keys[rng.IntN(len(c.keys))], strings.Repeat("word ", 1+rng.IntN(50)),
		rng.IntN(2) == 0)
	if err != nil {
		return false
	}
	if profile := []string{"", "budget", "max"}[rng.IntN(3)]; profile != "" { // other routes come first
		req.Header.Set("X-Service-Profile", profile)
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	c.answered(resp)
	if rng.IntN(10) == 0 { // it does not want the rest
		_, err := io.CopyN(io.Discard, resp.Body, 100)
		return err == nil || errors.Is(err, io.EOF)
	}
	reply, err := io.ReadAll(resp.Body)
	// What was read before an error was seen as well.
	if bill, ok := billIn(string(reply)); ok && !bill.Pending {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen[resp.Header.Get("X-Request-Id")] = bill.Microcents
	}
	return err == nil
}

// answered notes the status, and what the header says of a refusal.
func (c *crash) answered(resp *http.Response) {
	said := []string{strconv.Itoa(resp.StatusCode)}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		said = append(said, resp.Header.Get("X-RateLimit-Reason"))
	case http.StatusServiceUnavailable:
		said = append(said, resp.Header.Get("Retry-After"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[strings.Join(said, " ")]++
}

// topUp adds credits to an account, and notes whether that is certain. It returns false when nobody answers any more.
func (c *crash) topUp(ctx context.Context, g *gateway, rng *rand.Rand) bool {
	timer := time.NewTimer(time.Duration(rng.IntN(100)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	account := c.payers[rng.IntN(len(c.payers))].name
	c.mu.Lock()
	reference := "top-up " + strconv.Itoa(len(c.topUps))
	c.topUps[reference], c.unsure[reference] = account, account
	c.mu.Unlock()
	body, err := json.Marshal(topUp(account, reference))
	if err != nil {
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/fareway/credits", bytes.NewReader(body))
	if err != nil {
		return false
	}
	resp, err := g.admin.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.unsure, reference)
	}
	return true
}

func topUp(account, reference string) map[string]any {
	return map[string]any{"account": account, "credits": crashTopUp, "reference": reference}
}

// moody answers in many ways and tempos. Its usage has the request's number as its input.
func moody(seed uint64, req *upstream.Request) upstream.Reply {
	rng := rand.New(rand.NewPCG(seed, uint64(req.N)))
	var steps []upstream.Step
	for range 1 + rng.IntN(30) {
		steps = append(steps, upstream.Text("word "))
		if rng.IntN(4) == 0 {
			steps = append(steps, upstream.Sleep(time.Duration(rng.IntN(5000))*time.Microsecond))
		}
	}
	switch {
	case rng.IntN(12) == 0 && req.Model != "second": // another route takes it
		return upstream.Refuse(upstream.ServerError())
	case rng.IntN(20) == 0:
		return upstream.Reply{Steps: append(steps, upstream.Cut())}
	}
	return upstream.Reply{Steps: append(steps, upstream.Finish("stop"),
		upstream.ReportTokens(upstream.Usage{Prompt: req.N, Completion: 1 + rng.Int64N(100)}), upstream.Done())}
}
