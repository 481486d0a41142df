package contracttest

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

const (
	// crowd is how many clients come at the same time.
	crowd = 1000
	// crowdTime is enough for them on a busy machine.
	crowdTime = 3 * time.Minute
)

// crowdClient is a client with a connection for everybody of a crowd.
func crowdClient(t testing.TB) *http.Client {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: crowd}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ask sends the n-th request of a crowd: all shapes, streamed and not.
func (c *caller) ask(ctx context.Context, client *http.Client, n int, fields func(shape) string) (*http.Response, shape,
	error) {
	sh, mode := alternate(n)
	body := strings.ReplaceAll(sh.Body("PROMPT", mode, fields(sh)), "PROMPT", c.Mark)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+sh.Path, strings.NewReader(body))
	if err != nil {
		return nil, sh, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	return resp, sh, err
}

// leftBehind makes the data folder of a gateway that has ended, with an account of so many credits.
func leftBehind(t testing.TB, credits int64) (dir, key string) {
	t.Helper()
	dir = t.TempDir()
	ctx := context.Background()
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(dir, "fareway.db")})
	require.NoError(t, err)
	a, err := store.CreateAccount(ctx, "acme", "")
	require.NoError(t, err)
	key, hash, err := ledger.NewKey(rand.Reader)
	require.NoError(t, err)
	_, err = store.CreateKey(ctx, a.ID, "first", hash, ledger.Last4(key), ledger.KeyChange{})
	require.NoError(t, err)
	_, _, err = store.AddCredit(ctx, ledger.Credit{Account: a.ID, Credits: credits})
	require.NoError(t, err)
	_, err = store.SetLimit(ctx, a.ID, "concurrent_requests", new(int64)) // a crowd of requests is the account's
	require.NoError(t, err)
	require.NoError(t, store.Close())
	return dir, key
}

// TestLastCredit is the race to the last credit: 1,000 requests at once on a balance that pays for 10, while the
// upstream says nothing until everybody else has an answer.
func TestLastCredit(t *testing.T) {
	t.Parallel()
	const credits, hold, admitted = 50, 5_000_000, 10
	dear := route{Name: "dear", Window: 100_000_000, Max: 50_000_000, Input: "0", Output: "1", Quality: 0.1}
	for caches, routes := range map[string][]route{"cold": {exact}, "warm": {exact},
		"cold, GAP-137 with a fallback that nobody can pay": {exact, dear}} {
		t.Run("BILL-12 BILL-13 BILL-14 GAP-49 caches "+caches, func(t *testing.T) {
			t.Parallel()
			dir, key := leftBehind(t, credits)
			g := startScripted(t, setup{Routes: routes, Data: dir, Key: key})
			c := &caller{service: g.service, gateway: g, Mark: "caller-0-", Credits: credits}
			if caches == "warm" {
				for i := range 6 {
					sh, mode := alternate(i)
					c.Spend(t, sh, mode, hold, 0)
				}
			}
			c.Blocked(charges(hold))
			ctx, cancel := context.WithTimeout(t.Context(), crowdTime)
			defer cancel()
			client := crowdClient(t)
			statuses, refused := make(chan int, crowd), make(chan struct{}, crowd)
			var asking sync.WaitGroup
			for n := range crowd {
				asking.Go(func() {
					resp, _, err := c.ask(ctx, client, n, func(sh shape) string { return allowance(sh, hold) })
					if err != nil {
						t.Errorf("request %d: %v", n, err)
						return
					}
					defer resp.Body.Close()
					if resp.StatusCode == http.StatusPaymentRequired {
						refused <- struct{}{}
					}
					_, err = io.Copy(io.Discard, resp.Body)
					if err != nil {
						t.Errorf("request %d: %v", n, err)
					}
					statuses <- resp.StatusCode
				})
			}
			for n := range crowd - admitted {
				select {
				case <-refused:
				case <-ctx.Done():
					require.Fail(t, "too few are refused", "%d", n)
				}
			}
			require.NoError(t, c.Upstream.AtGate(ctx, c.Mark, admitted))
			require.EqualValues(t, admitted*hold, c.Balance().Held)
			requireCredits(t, c.service, credits, credits, 0, 0)
			c.Upstream.Open(c.Mark)
			asking.Wait()
			close(statuses)
			counts := make(map[int]int)
			for status := range statuses {
				counts[status]++
			}
			require.Equal(t, map[int]int{200: admitted, 402: crowd - admitted}, counts)
			requireCredits(t, c.service, 0, 0, 0, 0)
		})
	}
}

// TestCrowdLeaves has 1,000 clients leave in the middle of their streams. Each is read to its end and charged; that
// no goroutine, no slot and no hold is left is checked when the gateway ends.
func TestCrowdLeaves(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{Plan: "busy", Extra: capped("busy", "concurrent_requests = 1000")})
	c := g.rich(t)
	c.Answers(script(used(10, 20), "stop", upstream.Text("Hel"), upstream.Text("lo"), upstream.Wait(c.Mark),
		upstream.Step{Do: upstream.StepText, Text: " and so on", Times: 20}))
	client := crowdClient(t)
	ctx, leave := context.WithTimeout(t.Context(), crowdTime)
	var reading, gone sync.WaitGroup
	reading.Add(crowd)
	for n := range crowd {
		gone.Go(func() {
			var once sync.Once
			defer once.Do(reading.Done)
			resp, _, err := c.ask(ctx, client, 2*n+1, func(sh shape) string { return allowance(sh, 100) }) // all of them streams
			if err != nil {
				t.Errorf("request %d: %v", n, err)
				return
			}
			defer resp.Body.Close()
			var read []byte
			for piece := make([]byte, 4096); !strings.Contains(string(read), `lo"`); {
				k, err := resp.Body.Read(piece)
				if read = append(read, piece[:k]...); err != nil {
					t.Errorf("request %d: %v after %s", n, err, read)
					return
				}
			}
			once.Do(reading.Done)
			<-ctx.Done()
		})
	}
	reading.Wait()
	requests, attempts := g.Engine.InProgress()
	require.EqualValues(t, crowd, requests)
	require.EqualValues(t, crowd, attempts)
	leave()
	gone.Wait()
	client.CloseIdleConnections()
	c.Upstream.Open(c.Mark)
	require.Eventually(t, func() bool {
		requests, attempts := g.Engine.InProgress()
		return requests == 0 && attempts == 0
	}, crowdTime, 5*time.Millisecond)
	t.Run("BILL-22 GAP-47 LIM-11", func(t *testing.T) {
		t.Parallel()
		require.Zero(t, c.Balance().Held)
		require.EqualValues(t, crowd*(10*300+20*1500), c.Credits*ledger.MicrocentsPerCredit-c.Net())
	})
}
