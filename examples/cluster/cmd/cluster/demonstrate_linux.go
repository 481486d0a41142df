package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/examples/cluster"
)

// demonstrate sends requests all the time, kills two machines one after the other, and compares what clients were told
// with the balance.
func demonstrate(ctx context.Context, c *cluster.Cluster, key string) error {
	before, err := readBalance(ctx, c.URL(), key)
	if err != nil {
		return err
	}
	s := &sender{url: c.URL(), key: key}
	sending, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for s.send(sending) {
			}
		})
	}
	err = s.killBoth(ctx, c)
	stop()
	clients.Wait()
	if err != nil {
		return err
	}
	if err := c.AwaitReady(ctx); err != nil {
		return err
	}
	return s.compare(ctx, c, before)
}

func (s *sender) killBoth(ctx context.Context, c *cluster.Cluster) error {
	if err := s.await(ctx, 100); err != nil {
		return err
	}
	primary, err := c.Primary(ctx)
	if err != nil {
		return err
	}
	for _, n := range []*cluster.Node{c.Gateways[1], primary} {
		answered, failed := s.counts()
		fmt.Printf("%d requests were answered, %d not. Now %s is killed, with all that runs on it.\n", answered, failed,
			n.Name)
		began := time.Now()
		if err := n.Kill(); err != nil {
			return err
		}
		if err := s.await(ctx, 100); err != nil {
			return err
		}
		fmt.Printf("  100 requests later (%.1f s), the longest time without an answer was %.1f s. %s starts again.\n",
			time.Since(began).Seconds(), s.takeLongest().Seconds(), n.Name)
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}

// compare says what the account was charged, and what its clients know.
func (s *sender) compare(ctx context.Context, c *cluster.Cluster, before int64) error {
	after, err := readBalance(ctx, c.URL(), s.key)
	if err != nil {
		return err
	}
	var report struct {
		OK      bool
		Holds   int64
		Problem string
	}
	if err := c.Command(ctx, c.Gateways[1], &report, "ledger", "verify"); err != nil {
		return err
	}
	answered, failed := s.counts()
	fmt.Printf("\n%d requests were answered, and their bills come to %d microcents. %d were not: refused with a time to\n"+
		"try again, or cut off with the machine that had them. The balance is lower by %d, which is %d more.\n"+
		"`gateway ledger verify` says ok: %v.\n", answered, s.billed, failed, before-after, before-after-s.billed, report.OK)
	if !report.OK {
		return errors.New("verifying the ledger: " + report.Problem)
	}
	if before-after < s.billed {
		return errors.New("a charge that a client was told of is not in the ledger")
	}
	return nil
}

// sender sends requests and counts what became of them.
type sender struct {
	url, key string

	mu               sync.Mutex
	answered, failed int
	billed           int64
	last             time.Time // an answer
	longest          time.Duration
}

func (s *sender) counts() (answered, failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered, s.failed
}

// takeLongest is the longest time without an answer since it was asked last.
func (s *sender) takeLongest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.longest = 0 }()
	return s.longest
}

// await waits until so many more requests were answered.
func (s *sender) await(ctx context.Context, more int) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	from, _ := s.counts()
	for {
		if now, _ := s.counts(); now >= from+more {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for answers: %w", ctx.Err())
		}
	}
}

// send sends a request. It returns false at the end.
func (s *sender) send(ctx context.Context) bool {
	one, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	billed, wait, err := ask(one, s.url, s.key)
	s.mu.Lock()
	if err == nil {
		now := time.Now()
		if s.answered > 0 {
			s.longest = max(s.longest, now.Sub(s.last))
		}
		s.answered, s.billed, s.last = s.answered+1, s.billed+billed, now
	} else {
		s.failed++
	}
	s.mu.Unlock()
	select {
	case <-time.After(wait):
		return true
	case <-ctx.Done():
		return false
	}
}

// ask is a request and its bill. wait is how long to wait until the next one.
func ask(ctx context.Context, url, key string) (billed int64, wait time.Duration, err error) {
	const pace, patience = 30 * time.Millisecond, 300 * time.Millisecond
	body := `{"model": "service/auto", "messages": [{"role": "user", "content": "` + strings.Repeat("word ", 20) +
		`"}], "max_tokens": 20}`
	answer, err := call(ctx, http.MethodPost, url+"/v1/chat/completions", key, body)
	if err != nil {
		return 0, patience, err
	}
	var reply struct {
		Usage struct {
			Billed  int64 `json:"billed_microcents"`
			Pending bool  `json:"billing_pending"`
		}
	}
	if err := json.Unmarshal(answer, &reply); err != nil || reply.Usage.Pending {
		return 0, patience, fmt.Errorf("an answer without a final bill: %s", answer)
	}
	return reply.Usage.Billed, pace, nil
}

// readBalance is what an account has, in microcents.
func readBalance(ctx context.Context, url, key string) (int64, error) {
	answer, err := call(ctx, http.MethodGet, url+"/v1/account", key, "")
	if err != nil {
		return 0, err
	}
	var account struct {
		Credits struct {
			Balance int64 `json:"balance_credits"`
			Accrued int64 `json:"accrued_usage_microcents"`
		}
	}
	err = json.Unmarshal(answer, &account)
	return account.Credits.Balance*1_000_000 - account.Credits.Accrued, err
}

func call(ctx context.Context, method, url, key, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return answer, err
}
