package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// childLedger names the ledger that this executable, started again, works on until it is killed.
const childLedger = "FAREWAY_TEST_LEDGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(childLedger); path != "" {
		if err := work(path); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	workers = 8 // of a child
	cycles  = 6 // children killed
)

// work holds, settles and tops up without end, and prints each thing once the ledger has acknowledged it. It
// ends when its standard input does, so that it does not outlive the test.
func work(path string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	ctx := context.Background()
	s, err := Open(Options{Path: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	account, err := s.Account(ctx, "main")
	if err != nil {
		return err
	}
	var keys []ledger.Key
	err = s.Keys(ctx, account.ID, func(k ledger.Key) error { keys = append(keys, k); return nil })
	if err != nil {
		return err
	}
	version, err := s.PriceVersion(ctx, "route", prices(1), prices(1))
	if err != nil {
		return err
	}
	errs := make(chan error)
	for w := range workers {
		go func() {
			for i := 0; ; i++ {
				if err := round(s, account.ID, keys[0].ID, version, fmt.Sprintf("%s-%d-%d", s.opts.BootID, w, i)); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

func round(s *Store, account, key string, version int64, id string) error {
	ctx := context.Background()
	if rand.IntN(4) == 0 {
		if _, _, err := s.AddCredit(ctx, ledger.Credit{Account: account, Credits: 1, Reference: id}); err != nil {
			return err
		}
		fmt.Println("credit", id)
	}
	_, err := s.Hold(ctx, ledger.Hold{
		Request: id, Account: account, Key: key, Endpoint: "chat", Profile: "max", Microcents: 3_000_000,
		Attempt: ledger.Attempt{ID: ledger.AttemptID(id, 1), Route: "route", Provider: "p", Model: "m", PriceVersion: version},
	})
	if err != nil {
		return err
	}
	fmt.Println("hold", id)
	c, err := s.Settle(ctx, ledger.Settlement{Request: id, Status: 200, Reason: "ok", Results: []ledger.Result{
		{Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Finished, Usage: &llm.Usage{Output: llm.Count(1 + rand.Int64N(2_999_999))}},
	}})
	if err != nil {
		return err
	}
	fmt.Println("settle", id, c.Microcents)
	return nil
}

// acknowledged is what all children together were told.
type acknowledged struct {
	credits map[string]bool
	holds   map[string]bool
	charges map[string]int64
}

func (a *acknowledged) read(t *testing.T, line string) {
	var kind, id string
	var microcents int64
	n, _ := fmt.Sscan(line, &kind, &id, &microcents)
	switch {
	case kind == "credit" && n == 2:
		a.credits[id] = true
	case kind == "hold" && n == 2:
		a.holds[id] = true
	case kind == "settle" && n == 3:
		a.charges[id] = microcents
	default:
		require.Fail(t, "the child said", line)
	}
}

func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	s := openStore(t, func(o *Options) { o.Path = path })
	account, err := s.CreateAccount(t.Context(), "main", "")
	require.NoError(t, err)
	_, err = s.CreateKey(t.Context(), account.ID, "laptop", [32]byte{1}, "abcd", ledger.KeyChange{})
	require.NoError(t, err)
	const start = 100_000
	_, _, err = s.AddCredit(t.Context(), ledger.Credit{Account: account.ID, Credits: start})
	require.NoError(t, err)
	require.NoError(t, s.Close())

	told := acknowledged{credits: map[string]bool{}, holds: map[string]bool{}, charges: map[string]int64{}}
	for cycle := range cycles {
		runAndKill(t, path, 50+rand.IntN(400), &told)

		b, err := OpenBooks(t.Context(), path)
		require.NoError(t, err)
		r, err := b.Verify(t.Context())
		require.NoError(t, err)
		require.NoError(t, b.Close())
		require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
		require.LessOrEqual(t, r.Holds, int64(workers))
		s := openStore(t, func(o *Options) { o.Path = path })
		_, err = s.Recover(t.Context())
		require.NoError(t, err)
		r, err = s.Verify(t.Context())
		require.NoError(t, err)
		require.True(t, r.OK, "%s: %s", r.Entry, r.Problem)
		require.Zero(t, r.Holds, "the holds of the dead are released")

		// Whatever was done without its word having got out is at most one thing a worker and cycle.
		silent := int64(workers * (cycle + 1))
		require.InDelta(t, int64(len(told.holds)), r.Requests, float64(silent))
		require.NoError(t, s.Close())
	}
	balanced(t, path, account.ID, start, &told)
}

// runAndKill starts a child on the ledger, reads so many lines, and kills it in the middle of its work. What
// it had written by then is read to the end.
func runAndKill(t *testing.T, path string, lines int, told *acknowledged) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childLedger+"="+path)
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var once sync.Once
	kill := func() {
		once.Do(func() {
			_ = child.Process.Kill()
			_ = stdin.Close()
		})
	}
	defer kill()

	out := bufio.NewReader(stdout)
	for n := 0; ; n++ {
		line, err := out.ReadString('\n')
		if err != nil {
			break // a line that is not whole was not told
		}
		told.read(t, strings.TrimSpace(line))
		switch n {
		case lines / 2:
			_, err := Open(Options{Path: path})
			require.ErrorIs(t, err, ErrLocked)
			require.ErrorContains(t, err, fmt.Sprintf("process %d has", child.Process.Pid))
		case lines:
			kill()
		}
	}
	require.ErrorContains(t, child.Wait(), "killed")
}

// balanced checks that everything acknowledged is there once, and that the account is the sum of it.
func balanced(t *testing.T, path, account string, start int64, told *acknowledged) {
	s := openStore(t, func(o *Options) { o.Path = path })
	var charged int64
	for id := range told.holds {
		c, err := s.Settle(t.Context(), ledger.Settlement{Request: id})
		require.NoError(t, err, "a hold that was acknowledged is there")
		charged += c.Microcents
		if want, ok := told.charges[id]; ok {
			require.Equal(t, want, c.Microcents, "a settlement that was acknowledged is there")
			require.False(t, c.Pending)
		}
	}
	for id := range told.credits {
		_, applied, err := s.AddCredit(t.Context(), ledger.Credit{Account: account, Credits: 1, Reference: id})
		require.NoError(t, err)
		require.False(t, applied, "a top-up that was acknowledged is there")
	}
	a, err := s.Account(t.Context(), account)
	require.NoError(t, err)
	b := a.Balance
	require.Zero(t, b.Held)
	// A settlement follows a hold that was told, so all charges are known. Top-ups whose word did not get
	// out are at most one a worker and cycle.
	silent := b.Net() - (start+int64(len(told.credits)))*ledger.MicrocentsPerCredit + charged
	require.Zero(t, silent%ledger.MicrocentsPerCredit, "charges are exact")
	require.GreaterOrEqual(t, silent, int64(0))
	require.LessOrEqual(t, silent, int64(cycles*workers*ledger.MicrocentsPerCredit))
}
