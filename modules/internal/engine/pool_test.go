package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
)

// account is the upstream of one key: a Backend that answers what it is told to.
type account struct {
	mu        sync.Mutex
	fails     *llm.Error // nil: it serves
	at        string     // where it fails: "call", "head" (the default) or "reply"
	away      bool
	asked     int
	closed    int
	known     []host.Receipt
	broken    error                         // of Receipts
	questions int                           // calls of Receipts
	probed    func(*llm.Request) *llm.Error // how a probe ends, nil for as any request
}

func (a *account) probesWith(err *llm.Error) *[]*llm.Request {
	seen := new([]*llm.Request)
	a.probed = func(req *llm.Request) *llm.Error {
		*seen = append(*seen, req)
		return err
	}
	return seen
}

func (a *account) Ready() bool                               { return !a.away }
func (a *account) ProvesCancel(context.Context, string) bool { return false }
func (a *account) GivesReceipts() bool                       { return true }

func (a *account) Receipts(_ context.Context, attempts []ledger.Waiting) (found []host.Receipt, err error) {
	a.questions++
	for _, r := range a.known {
		for _, asked := range attempts {
			if asked.Attempt == r.Attempt && asked.Reference == referenceOf(r.Attempt) {
				found = append(found, r)
			}
		}
	}
	return found, a.broken
}

func (a *account) Generate(_ context.Context, _ string, req *llm.Request) (Stream, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if a.probed != nil && strings.HasPrefix(req.Attempt, "probe_") {
		return &answered{account: a, fails: a.probed(req)}, nil
	}
	if a.fails != nil && a.at == "call" {
		return nil, a.fails
	}
	return &answered{account: a, fails: a.fails, late: a.at == "reply"}, nil
}

// answered is a reply of an account.
type answered struct {
	*account
	fails *llm.Error
	late  bool
	begun bool
}

func (s *answered) Recv() ([]llm.Event, error) {
	if s.fails != nil && (s.begun || !s.late) {
		return nil, s.fails
	}
	if !s.begun {
		s.begun = true
		return []llm.Event{{Kind: llm.EventAccepted}}, nil
	}
	return nil, io.EOF
}

func (s *answered) Cancel(context.Context) error { return errors.New("cancelled") }

func (s *answered) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
}

// keyring is a pool with a clock that is turned by hand.
type keyring struct {
	*pool
	accounts []*account
	metrics  *Metrics
	now      time.Time
	log      bytes.Buffer
}

func newKeyring(weights ...int64) *keyring {
	r := &keyring{metrics: newMetrics(""), now: time.Unix(1_800_000_000, 0)}
	clock := func() time.Time { return r.now }
	log := slog.New(slog.NewTextHandler(&r.log, nil))
	r.pool = &pool{name: "up", now: clock}
	for i, weight := range weights {
		a := &account{}
		r.accounts = append(r.accounts, a)
		r.keys = append(r.keys, keyBackend{Backend: a, weight: weight,
			key: &providerKey{provider: "up", name: fmt.Sprintf("k%d", i), now: clock, log: log, metrics: r.metrics,
				spawn: func(f func()) { f() }}})
	}
	return r
}

func saying(text string) *llm.Request {
	return &llm.Request{Model: "m", Messages: []llm.Message{
		{Role: llm.RoleSystem, Parts: []llm.Part{llm.Text("Be brief.")}},
		{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(text)}},
	}}
}

// ask makes an attempt, and says which key served it.
func (r *keyring) ask(t *testing.T, req *llm.Request) (key string, err error) {
	t.Helper()
	stream, err := r.Generate(t.Context(), "acct", req)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return stream.(Keyed).Key(), err
}

// own is the place of a conversation's own key.
func (r *keyring) own(req *llm.Request) int { return r.order("acct", req)[0] }

var (
	limitedFor = func(wait time.Duration) *llm.Error {
		return &llm.Error{Kind: llm.ErrCapacity, Status: 429, RetryAfter: wait, Message: "busy"}
	}
	noQuota = &llm.Error{Kind: llm.ErrQuota, Status: 429, Message: "no funds"}
	refused = &llm.Error{Kind: llm.ErrCredentials, Status: 401, Message: "no such key"}
)

// A conversation stays on its key, and weights share the conversations out.
func TestConversationsStayOnTheirKeys(t *testing.T) {
	t.Parallel()
	r := newKeyring(1, 2, 5)
	counts := make([]int, 3)
	const conversations = 4000
	for i := range conversations {
		req := saying(fmt.Sprint("conversation ", i))
		own := r.own(req)
		counts[own]++
		longer := *req
		longer.Messages = append(longer.Messages[:2:2],
			llm.Message{Role: llm.RoleAssistant, Parts: []llm.Part{llm.Text("yes")}},
			llm.Message{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("more")}})
		longer.Model = "other"
		require.Equal(t, own, r.own(&longer), "its later turns, whatever the model")
	}
	for i, share := range []float64{1. / 8, 2. / 8, 5. / 8} {
		require.InDelta(t, share, float64(counts[i])/conversations, 0.03)
	}

	differs := 0
	for i := range 100 {
		req := saying(fmt.Sprint("conversation ", i))
		if r.order("acct", req)[0] != r.order("another", req)[0] {
			differs++
		}
	}
	require.Positive(t, differs, "the account is part of it")

	// A key more moves only what it gets.
	more := newKeyring(1, 2, 5, 1)
	for i := range 200 {
		req := saying(fmt.Sprint("conversation ", i))
		if now := more.own(req); now != 3 {
			require.Equal(t, r.own(req), now)
		}
	}
}

// The text of a message counts, in whatever form it is kept.
func TestAConversationIsItsTexts(t *testing.T) {
	t.Parallel()
	plain := saying("two\nlines")
	quoted := saying("")
	quoted.Messages[1].Parts = []llm.Part{{Text: llm.Quoted(`two\nlines`)}}
	require.Equal(t, beginningOf("a", plain), beginningOf("a", quoted))
	split := saying("")
	split.Messages[0].Parts = []llm.Part{llm.Text("Be brief.two")}
	split.Messages[1].Parts = []llm.Part{llm.Text("\nlines")}
	require.NotEqual(t, beginningOf("a", plain), beginningOf("a", split))
	monday, tuesday := saying("x"), saying("x")
	monday.Messages[0].Parts = []llm.Part{llm.Text("Be brief.\nToday's date: Monday")}
	tuesday.Messages[0].Parts = []llm.Part{llm.Text("Be brief.\nToday's date: Tuesday")}
	affinity.Prepare(monday) // as the exchange does with every request
	affinity.Prepare(tuesday)
	require.Equal(t, beginningOf("a", monday), beginningOf("a", tuesday), "GAP-134")
}

// A limited key is passed over until it may serve again, and its conversations come back.
func TestALimitedKeyIsPassedOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said, waits time.Duration
	}{
		"as the upstream says":  {30 * time.Second, 30 * time.Second},
		"where it says nothing": {0, limitedUnstated},
		"for longer than a day": {48 * time.Hour, limitedMost},
		"for a moment":          {time.Millisecond, limitedLeast},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newKeyring(1, 1)
			req := saying("hello")
			own, other := r.own(req), 1-r.own(req)
			r.accounts[own].fails = limitedFor(c.said)
			key, err := r.ask(t, req)
			require.NoError(t, err, "the other key serves in its place, within the attempt")
			require.Equal(t, r.keys[other].key.name, key)
			require.Equal(t, 1, r.accounts[own].closed)

			r.accounts[own].fails = nil
			r.now = r.now.Add(c.waits - time.Millisecond)
			key, _ = r.ask(t, req)
			require.Equal(t, r.keys[other].key.name, key)
			require.Equal(t, 1, r.accounts[own].asked, "it is not asked while it is limited")
			require.Equal(t, KeyHealth{r.keys[own].key.name, KeyLimited, r.now.Add(time.Millisecond)},
				r.keys[own].key.health())

			of := *req
			of.Model = "another"
			key, _ = r.ask(t, &of)
			require.Equal(t, r.keys[own].key.name, key, "a limit is of a model")

			r.now = r.now.Add(time.Millisecond)
			key, _ = r.ask(t, req)
			require.Equal(t, r.keys[own].key.name, key)
			require.Equal(t, KeyServes, r.keys[own].key.health().State)
		})
	}
}

// Out of quota is not rate limited. It lasts, and one request tries the key again.
func TestAnExhaustedKeyIsTriedAgainByOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure *llm.Error
		state   KeyState
		first   time.Duration
	}{
		"quota":   {noQuota, KeyExhausted, quotaPause},
		"refused": {refused, KeyRefused, refusedPause},
		"no token, says its provider": {llm.Errorf(llm.ErrCredentials, "no token"), KeyRefused,
			refusedPause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newKeyring(1, 1)
			req := saying("hello")
			own := r.own(req)
			mine, others := r.accounts[own], r.keys[1-own].key.name
			mine.fails = c.failure
			pause := c.first
			for tries := 1; tries < 10; tries++ {
				key, err := r.ask(t, req)
				require.NoError(t, err)
				require.Equal(t, others, key)
				require.Equal(t, tries, mine.asked)
				require.Equal(t, KeyHealth{r.keys[own].key.name, c.state, r.now.Add(pause)}, r.keys[own].key.health())
				r.now = r.now.Add(pause - time.Nanosecond)
				_, err = r.ask(t, req)
				require.NoError(t, err)
				require.Equal(t, tries, mine.asked, "not before its time")
				r.now = r.now.Add(time.Nanosecond)
				pause = min(2*pause, longestKeyPause)
			}
			require.Equal(t, longestKeyPause, pause)
			require.Contains(t, r.log.String(), "state="+string(c.state))

			mine.fails = nil
			// Only one of those that come together tries it.
			trial, err := r.Generate(t.Context(), "acct", req)
			require.NoError(t, err)
			key, err := r.ask(t, req)
			require.NoError(t, err)
			require.Equal(t, others, key)
			_, err = trial.Recv()
			require.NoError(t, err)
			trial.Close()
			key, err = r.ask(t, req)
			require.NoError(t, err)
			require.Equal(t, r.keys[own].key.name, key, "its conversations come back to it")
			require.Equal(t, KeyServes, r.keys[own].key.health().State)
			require.Contains(t, r.log.String(), "the key serves again")

			mine.fails = c.failure
			_, err = r.ask(t, req)
			require.NoError(t, err)
			require.Equal(t, r.now.Add(c.first), r.keys[own].key.health().Until, "it begins anew")
		})
	}
}

// A trial of which nothing more is heard is not the last.
func TestALostTrial(t *testing.T) {
	t.Parallel()
	r := newKeyring(1)
	req := saying("hello")
	r.accounts[0].fails = noQuota
	_, err := r.ask(t, req)
	require.Error(t, err)
	r.now = r.now.Add(quotaPause)
	lost, err := r.Generate(t.Context(), "acct", req)
	require.NoError(t, err)
	lost.Close()
	_, err = r.ask(t, req)
	require.Equal(t, llm.ErrQuota, llm.KindOf(err))
	require.Equal(t, 2, r.accounts[0].asked)
	r.accounts[0].fails = nil
	r.now = r.now.Add(keyTrial)
	_, err = r.ask(t, req)
	require.NoError(t, err)
}

// Requests that fail together count once: the pause does not grow by them.
func TestFailuresTogetherCountOnce(t *testing.T) {
	t.Parallel()
	r := newKeyring(1)
	for range 5 {
		require.True(t, r.keys[0].key.failed("m", noQuota, nil))
	}
	require.Equal(t, r.now.Add(quotaPause), r.keys[0].key.health().Until)
	long := *noQuota
	long.RetryAfter = 20 * time.Minute
	r.now = r.now.Add(quotaPause)
	_, _, ok := r.keys[0].key.take("m")
	require.True(t, ok)
	require.True(t, r.keys[0].key.failed("m", &long, nil))
	require.Equal(t, r.now.Add(20*time.Minute), r.keys[0].key.health().Until, "longer where the upstream says so")
}

// With all keys out the failure says so, and is of the kind of the key that may serve first.
func TestNoKeyCanServe(t *testing.T) {
	t.Parallel()
	r := newKeyring(1, 1, 1)
	r.accounts[0].fails, r.accounts[1].fails, r.accounts[2].away = noQuota, refused, true
	req := saying("hello")
	_, err := r.ask(t, req)
	var failed *llm.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, llm.ErrQuota, failed.Kind)
	require.Equal(t, refusedPause, failed.RetryAfter)
	for _, part := range []string{`no key of provider "up" can serve: `, "k0 (out_of_quota, again in 5m0s)",
		"k1 (refused, again in 1m0s)", "k2 (cannot be used)"} {
		require.ErrorContains(t, err, part)
	}
	r.accounts[2].away, r.accounts[2].fails = false, limitedFor(7*time.Second)
	_, err = r.ask(t, req)
	require.ErrorAs(t, err, &failed)
	require.Equal(t, llm.ErrCapacity, failed.Kind)
	require.Equal(t, 7*time.Second, failed.RetryAfter)
	require.Equal(t, 429, failed.Status)
	asked := r.accounts[0].asked + r.accounts[1].asked + r.accounts[2].asked
	_, err = r.ask(t, req)
	require.Equal(t, llm.ErrCapacity, llm.KindOf(err))
	require.Equal(t, asked, r.accounts[0].asked+r.accounts[1].asked+r.accounts[2].asked, "nobody is asked")
	require.True(t, r.Ready(), "the route is not down")
	for _, a := range r.accounts {
		a.away = true
	}
	require.False(t, r.Ready())
	_, err = r.ask(t, req)
	require.Equal(t, llm.ErrDied, llm.KindOf(err))
}

// What is no key's fault is not tried with another one, and what was begun is not begun again.
func TestOtherFailuresAreTheRoutes(t *testing.T) {
	t.Parallel()
	for _, kind := range []llm.ErrorKind{llm.ErrUpstream, llm.ErrRejected, llm.ErrPolicy, llm.ErrContext, llm.ErrBroken,
		llm.ErrProtocol, llm.ErrDied} {
		r := newKeyring(1, 1)
		req := saying("hello")
		own := r.own(req)
		r.accounts[own].fails = llm.Errorf(kind, "of the test")
		key, err := r.ask(t, req)
		require.Equal(t, kind, llm.KindOf(err))
		require.Equal(t, r.keys[own].key.name, key)
		require.Equal(t, KeyServes, r.keys[own].key.health().State)
		require.Zero(t, r.accounts[1-own].asked)
	}
	r := newKeyring(1, 1)
	req := saying("hello")
	own := r.own(req)
	r.accounts[own].fails, r.accounts[own].at = noQuota, "reply"
	key, err := r.ask(t, req)
	require.Equal(t, llm.ErrQuota, llm.KindOf(err))
	require.Equal(t, r.keys[own].key.name, key)
	require.Equal(t, KeyExhausted, r.keys[own].key.health().State, "but the next one knows")

	// Forbidden is not refused: the key may do other things.
	r = newKeyring(1, 1)
	r.accounts[own].fails = &llm.Error{Kind: llm.ErrCredentials, Status: 403, Message: "no access to this model"}
	key, err = r.ask(t, req)
	require.NoError(t, err)
	require.Equal(t, r.keys[1-own].key.name, key)
	require.Equal(t, KeyServes, r.keys[own].key.health().State)
}

// A plugin that dies before it takes an attempt is passed over, too.
func TestADeadPluginTakesOneKeyWithIt(t *testing.T) {
	t.Parallel()
	r := newKeyring(1, 1)
	req := saying("hello")
	own := r.own(req)
	r.accounts[own].fails, r.accounts[own].at = llm.Errorf(llm.ErrDied, "restarting"), "call"
	key, err := r.ask(t, req)
	require.NoError(t, err)
	require.Equal(t, r.keys[1-own].key.name, key)
	r.accounts[own].fails = limitedFor(0)
	key, err = r.ask(t, req)
	require.NoError(t, err)
	require.Equal(t, r.keys[1-own].key.name, key)
	r.accounts[1-own].fails, r.accounts[1-own].at = llm.Errorf(llm.ErrUpstream, "of the test"), "call"
	_, err = r.ask(t, req)
	require.Equal(t, llm.ErrUpstream, llm.KindOf(err))
}

// A caller who has left blames no key.
func TestALeavingCallerBlamesNoKey(t *testing.T) {
	t.Parallel()
	r := newKeyring(1, 1)
	req := saying("hello")
	own := r.own(req)
	r.accounts[own].fails = noQuota
	ctx, leave := context.WithCancel(t.Context())
	stream, err := r.Generate(ctx, "acct", req)
	require.NoError(t, err)
	leave()
	_, err = stream.Recv()
	require.Error(t, err)
	require.Equal(t, KeyServes, r.keys[own].key.health().State)
	stream.Close()
	require.ErrorContains(t, stream.Cancel(t.Context()), "cancelled", "it is passed on")
	require.Equal(t, 1, r.accounts[own].closed)
}

// asked are attempts with their references.
func asked(ids ...string) []ledger.Waiting {
	var all []ledger.Waiting
	for _, id := range ids {
		all = append(all, ledger.Waiting{Attempt: id, Reference: referenceOf(id)})
	}
	return all
}

// The key that made an attempt has its receipt: all are asked.
func TestReceiptsOfAPool(t *testing.T) {
	t.Parallel()
	r := newKeyring(1, 1)
	r.accounts[0].known = []host.Receipt{{Attempt: "a"}}
	r.accounts[1].known = []host.Receipt{{Attempt: "b"}}
	r.accounts[0].broken = errors.New("half of them")
	found, err := r.Receipts(t.Context(), asked("a", "b"))
	require.NoError(t, err, "all are there")
	require.Equal(t, []host.Receipt{{Attempt: "a"}, {Attempt: "b"}}, found)
	found, err = r.Receipts(t.Context(), asked("b", "c"))
	require.ErrorContains(t, err, "half of them")
	require.Equal(t, []host.Receipt{{Attempt: "b"}}, found)
	require.True(t, r.GivesReceipts())
	require.False(t, r.ProvesCancel(t.Context(), "m"))

	own, gone := asked("b")[0], asked("b")[0]
	own.Key, gone.Key = "k1", "a key of before"
	before := r.accounts[0].questions
	found, err = r.Receipts(t.Context(), []ledger.Waiting{own})
	require.NoError(t, err)
	require.Equal(t, []host.Receipt{{Attempt: "b"}}, found)
	require.Equal(t, before, r.accounts[0].questions, "it is known which key made it")
	found, err = r.Receipts(t.Context(), []ledger.Waiting{gone})
	require.NoError(t, err)
	require.Equal(t, []host.Receipt{{Attempt: "b"}}, found)
	require.Equal(t, before+1, r.accounts[0].questions)
}
