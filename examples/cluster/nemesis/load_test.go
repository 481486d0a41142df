//go:build linux && (nemesis || soak)

package nemesis

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/examples/cluster"
)

const (
	senders   = 12
	readers   = 2
	rich      = 4 // accounts that can pay for everything
	poor      = 2 // accounts that cannot
	plenty    = 10_000_000
	little    = 300 // credits of a poor account, and of each of its top-ups
	unitInput = 10_000
	unitReply = 50_000 // microcents a token, by gateway.hcl
)

// payer is an account.
type payer struct {
	name, id, key string
	poor          bool
}

// sent is a request, and what its client knows of it.
type sent struct {
	n             int64 // its number, which its lengths tell
	payer         *payer
	input, output int64 // tokens that the model service will count
	start, end    time.Time
	id            string // X-Request-Id, "" if no header came
	gateway       string
	status        int // 0 if no header came
	retryAfter    string
	billed        int64
	final         bool // it was told a bill that is not pending
	whole         bool
	failure       string
}

// read is a balance that was read, in microcents.
type read struct {
	payer      *payer
	start, end time.Time
	balance    int64
}

// topUp is one of a poor account.
type topUp struct {
	payer      *payer
	start, end time.Time // end is zero while nobody knows whether it is there
	reference  string
	counted    bool // among the movements of a cycle
}

// clients send requests, read balances and add credits.
type clients struct {
	cluster *cluster.Cluster
	payers  []*payer
	http    *http.Client

	mu     sync.Mutex
	number int64
	sent   []*sent
	reads  []read
	topUps []*topUp
	answer chan struct{} // closed at the next answer
}

func newClients(ctx context.Context, t *testing.T, c *cluster.Cluster) *clients {
	t.Helper()
	all := &clients{cluster: c, answer: make(chan struct{}),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders, IdleConnTimeout: 5 * time.Second}}}
	for i := range rich + poor {
		p := &payer{name: fmt.Sprint("account-", i), poor: i >= rich}
		credits := int64(plenty)
		if p.poor {
			credits = little
		}
		var err error
		p.key, err = c.CreateAccount(ctx, c.Gateways[i%3], p.name, credits)
		require.NoError(t, err)
		all.payers = append(all.payers, p)
	}
	return all
}

// start lets them loose. stop waits until each has its last answer.
func (c *clients) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	loop := func(pace time.Duration, do func(*rand.Rand) (refused bool)) {
		rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
		running.Go(func() {
			for ctx.Err() == nil {
				if do(rng) {
					wait(ctx, 500*time.Millisecond) // sooner than it is told, so that the service's return is seen
				}
				wait(ctx, time.Duration(rng.Int64N(2*int64(pace))))
			}
		})
	}
	for range senders {
		loop(80*time.Millisecond, c.send)
	}
	for range readers {
		loop(150*time.Millisecond, c.read)
	}
	loop(2*time.Second, c.topUp)
	return func() {
		cancel()
		running.Wait()
	}
}

// shape is one of the three families' requests.
type shape struct {
	path string
	body func(prompt string, tokens int64) map[string]any
}

var shapes = []shape{
	{"/v1/chat/completions", func(prompt string, tokens int64) map[string]any {
		return map[string]any{"messages": []any{map[string]any{"role": "user", "content": prompt}}, "max_tokens": tokens,
			"stream_options": map[string]any{"include_usage": true}}
	}},
	{"/v1/responses", func(prompt string, tokens int64) map[string]any {
		return map[string]any{"input": prompt, "max_output_tokens": tokens}
	}},
	{"/v1/messages", func(prompt string, tokens int64) map[string]any {
		return map[string]any{"messages": []any{map[string]any{"role": "user", "content": prompt}}, "max_tokens": tokens}
	}},
}

// The lengths of a request tell its number: no two of a run have the same.
const (
	inputs  = 300
	outputs = 307 // a prime
)

func lengths(n int64) (input, output int64) { return 2 + n%inputs, 16 + (n/inputs*101+n)%outputs }

var bill = regexp.MustCompile(`"billed_microcents":(\d+),"billing_pending":(true|false)`)

// send does one request.
func (c *clients) send(rng *rand.Rand) (refused bool) {
	c.mu.Lock()
	s := &sent{n: c.number, payer: c.payers[rng.IntN(len(c.payers))]}
	c.number++
	c.sent = append(c.sent, s)
	c.mu.Unlock()
	s.input, s.output = lengths(s.n)
	form, stream := shapes[rng.IntN(len(shapes))], rng.IntN(2) == 0
	// One message is a token of its own.
	body := form.body(strings.Repeat("word ", int(s.input-2))+fmt.Sprint("number-", s.n), s.output)
	body["model"], body["stream"] = "service/auto", stream
	if !stream {
		delete(body, "stream_options")
	}
	leaves := rng.IntN(15) == 0
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	start := time.Now()
	reply, err := c.call(ctx, s, form.path, body, leaves)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.start, s.end = start, time.Now()
	if err != nil {
		s.failure = err.Error()
	}
	if s.status != http.StatusOK && s.status != 0 {
		s.failure = string(reply)
	}
	refused = s.status != http.StatusOK
	if m := bill.FindSubmatch(reply); m != nil {
		s.billed, _ = strconv.ParseInt(string(m[1]), 10, 64)
		s.final = string(m[2]) == "false"
	}
	if s.whole = s.final && err == nil && s.status == http.StatusOK; s.whole {
		close(c.answer)
		c.answer = make(chan struct{})
	}
	return refused
}

func (c *clients) call(ctx context.Context, s *sent, path string, body map[string]any, leaves bool) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cluster.URL()+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.payer.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	s.status, s.id, s.gateway = resp.StatusCode, resp.Header.Get("X-Request-Id"), resp.Header.Get("X-Gateway")
	s.retryAfter = resp.Header.Get("Retry-After")
	if leaves && s.status == http.StatusOK {
		part, err := io.ReadAll(io.LimitReader(resp.Body, 200))
		return part, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	return io.ReadAll(resp.Body)
}

// read reads a balance.
func (c *clients) read(rng *rand.Rand) (refused bool) {
	p := c.payers[rng.IntN(len(c.payers))]
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	start := time.Now()
	balance, err := c.balance(ctx, p)
	if err != nil {
		return true // it says nothing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = append(c.reads, read{p, start, time.Now(), balance})
	return false
}

func (c *clients) balance(ctx context.Context, p *payer) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cluster.URL()+"/v1/account", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("reading a balance: %s", resp.Status)
	}
	var account struct {
		Tenant  struct{ ID string }
		Credits struct {
			Balance int64 `json:"balance_credits"`
			Accrued int64 `json:"accrued_usage_microcents"`
		}
	}
	err = json.NewDecoder(resp.Body).Decode(&account)
	if err == nil {
		c.mu.Lock()
		p.id = account.Tenant.ID
		c.mu.Unlock()
	}
	return account.Credits.Balance*1_000_000 - account.Credits.Accrued, err
}

// readBalances reads all of them when nothing runs.
func (c *clients) readBalances(ctx context.Context, t *testing.T) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, p := range c.payers {
		balance, err := c.balance(ctx, p)
		require.NoError(t, err)
		all[p.name] = balance
	}
	return all
}

// topUp adds credits to a poor account, or says once more what nobody knows of.
func (c *clients) topUp(rng *rand.Rand) (refused bool) {
	c.mu.Lock()
	var one *topUp
	if n := len(c.topUps); n > 0 && c.topUps[n-1].end.IsZero() {
		one = c.topUps[n-1]
	} else {
		one = &topUp{payer: c.payers[rich+rng.IntN(poor)], start: time.Now(), reference: fmt.Sprint("top-up ", n)}
		c.topUps = append(c.topUps, one)
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	g := c.cluster.Gateways[rng.IntN(3)]
	if c.cluster.Command(ctx, g, nil, "credit", "add", "--account", one.payer.name, fmt.Sprint(little), "--reference",
		one.reference) != nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one.end = time.Now()
	return false
}

// awaitAnswers waits for so many whole answers.
func (c *clients) awaitAnswers(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	for range n {
		c.mu.Lock()
		next := c.answer
		c.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
			require.NoError(t, ctx.Err(), "waiting for answers; the last were: %s",
				c.statuses(time.Now().Add(-time.Minute), time.Now()))
		}
	}
}

// sentIn are the requests that began in a time.
func (c *clients) sentIn(from, to time.Time) []*sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*sent
	for _, s := range c.sent {
		if !s.end.IsZero() && s.start.After(from) && s.start.Before(to) {
			all = append(all, s)
		}
	}
	return all
}

func (c *clients) answeredIn(from, to time.Time) (n int) {
	for _, s := range c.sentIn(from, to) {
		if s.whole {
			n++
		}
	}
	return n
}

// longestSilence is the longest time without a whole answer.
func (c *clients) longestSilence(from, to time.Time) (longest time.Duration) {
	var ends []time.Time
	for _, s := range c.sentIn(from, to) {
		if s.whole {
			ends = append(ends, s.end)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	last := from
	for _, end := range append(ends, to) {
		longest, last = max(longest, end.Sub(last)), end
	}
	return longest
}

// statuses counts the answers by what they were.
func (c *clients) statuses(from, to time.Time) string {
	counts := map[string]int{}
	for _, s := range c.sentIn(from, to) {
		switch {
		case s.status == 0:
			counts["none"]++
		case s.status == http.StatusOK && !s.whole:
			counts["200 cut"]++
		default:
			counts[strconv.Itoa(s.status)]++
		}
	}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%s: %d", k, counts[k]))
	}
	return strings.Join(words, ", ")
}
