package sqlite

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// scene is a ledger in which everything has happened that makes or changes a row.
type scene struct {
	t     testing.TB
	now   time.Time
	store *Store
	owner string // account id
	key   string // key id
	// credits are those of the plan at the moment: none in the first period of an account.
	credits int64
	fairUse int64 // of the plan at the moment
}

const sceneStep = time.Second // of its clock, at each operation

// newScene opens a store at path, or at one of its own.
func newScene(t testing.TB, path string) *scene {
	t.Helper()
	return newSceneOf(t, path, "")
}

// newSceneOf is newScene by a process of that name; "" for one of its own.
func newSceneOf(t testing.TB, path, bootID string) *scene {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "fareway.db")
	}
	s := &scene{t: t, now: time.Date(2026, 1, 31, 12, 0, 0, 123, time.UTC), fairUse: 1_000}
	var err error
	s.store, err = Open(Options{
		Path: path, BootID: bootID, Logger: slog.New(slog.DiscardHandler), WaitTimeout: time.Minute,
		Now: func() time.Time { return s.now },
		Terms: func(plan string) ledger.Terms {
			if plan == "" {
				return ledger.Terms{}
			}
			return ledger.Terms{Periods: true, MonthlyCredits: s.credits, FairUse: s.fairUse}
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.store.Close()) })
	return s
}

func (s *scene) tick() context.Context {
	s.now = s.now.Add(sceneStep)
	return ledger.WithActor(context.Background(), "mary")
}

func (s *scene) account(name, plan string) {
	a, err := s.store.CreateAccount(s.tick(), name, plan)
	require.NoError(s.t, err)
	s.owner = a.ID
	s.newKey("laptop")
}

func (s *scene) newKey(name string) {
	spendCap, expires := int64(900_000_000), s.now.AddDate(9, 0, 0)
	k, err := s.store.CreateKey(s.tick(), s.owner, name, sha256.Sum256([]byte(s.owner+name)), "abcd",
		ledger.KeyChange{SpendCap: &spendCap, Expires: &expires})
	require.NoError(s.t, err)
	s.key = k.ID
}

func (s *scene) topUp(credits int64, reference string) {
	_, applied, err := s.store.AddCredit(s.tick(),
		ledger.Credit{Account: s.owner, Credits: credits, Reference: reference, Reason: "paid"})
	require.NoError(s.t, err)
	require.True(s.t, applied)
}

// sceneProfile is the profile of a request.
func sceneProfile(id string) string {
	profiles := config.ProfileNames()
	return profiles[len(id)%len(profiles)]
}

// hold begins a request on routes, one attempt after the other.
func (s *scene) hold(id string, routes ...string) {
	ctx := s.tick()
	microcents := int64(10_000)
	if id == "r03-charged" || id == "r09-limit" { // they cost more
		microcents = 100_000
	}
	for i, route := range routes {
		v, err := s.store.PriceVersion(ctx, route, scenePrices[route], half(scenePrices[route]))
		require.NoError(s.t, err)
		a := ledger.Attempt{ID: ledger.AttemptID(id, int64(i+1)), Route: route, Provider: "provider", Model: "model",
			PriceVersion: v, Worst: 10_000}
		if i == 0 {
			a.Worst = microcents
			_, err = s.store.Hold(ctx, ledger.Hold{
				Request: id, Account: s.owner, Key: s.key, Endpoint: "chat", Profile: sceneProfile(id),
				Microcents: microcents, Tokens: 1,
				Attempt: a,
			})
		} else {
			err = s.store.Begin(ctx, ledger.Next{Request: id, Attempt: a, Microcents: microcents + int64(i)*10_000})
		}
		require.NoError(s.t, err)
	}
}

// open begins a request without an attempt.
func (s *scene) open(id string) {
	_, err := s.store.Hold(s.tick(), ledger.Hold{Request: id, Account: s.owner, Key: s.key, Endpoint: "chat",
		Profile: "max", Microcents: 10_000, Tokens: 1})
	require.NoError(s.t, err)
}

func (s *scene) begin(id string, seq int64, route string) {
	v, err := s.store.PriceVersion(s.tick(), route, scenePrices[route], half(scenePrices[route]))
	require.NoError(s.t, err)
	require.NoError(s.t, s.store.Begin(s.tick(), ledger.Next{Request: id, Microcents: 20_000, Attempt: ledger.Attempt{
		ID: ledger.AttemptID(id, seq), Route: route, Provider: "provider", Model: "model", PriceVersion: v, Worst: 10_000}}))
}

// settle ends a request with what its attempts used; nil is an attempt that proved nothing.
func (s *scene) settle(id string, change func(*ledger.Settlement), used ...*llm.Usage) ledger.Charge {
	st := ledger.Settlement{Request: id, Status: 200, Reason: "ok"}
	for i, u := range used {
		r := ledger.Result{Attempt: ledger.AttemptID(id, int64(i+1)), Outcome: ledger.Finished, Usage: u}
		st.Results = append(st.Results, r)
	}
	if change != nil {
		change(&st)
	}
	c, err := s.store.Settle(s.tick(), st)
	require.NoError(s.t, err)
	return c
}

func (s *scene) receipt(id string, seq int64, u *llm.Usage) ledger.Charge {
	c, applied, err := s.store.AddReceipt(s.tick(), ledger.AttemptID(id, seq), *u)
	require.NoError(s.t, err)
	require.True(s.t, applied)
	return c
}

func (s *scene) correct(c ledger.Correction) {
	_, _, err := s.store.Correct(s.tick(), c)
	require.NoError(s.t, err)
}

func (s *scene) checkpoint() ledger.Checkpoint {
	c, err := s.store.MakeCheckpoint(s.tick())
	require.NoError(s.t, err)
	return c
}

// scenePrices never come out even, so that rounding shows.
var scenePrices = map[string]config.Price{
	"small":  {Input: 333_333, CacheRead: 33_333, CacheWrite: 416_667, Output: 1_666_667},
	"large":  {Input: 3_333_333, CacheRead: 333_333, CacheWrite: 4_166_667, Output: 16_666_667},
	"gratis": {},
}

func half(p config.Price) config.Price {
	return config.Price{Input: p.Input / 2, CacheRead: p.CacheRead / 2, CacheWrite: p.CacheWrite / 2, Output: p.Output / 2}
}

func used(input, output int64) *llm.Usage {
	return &llm.Usage{Input: llm.Count(input), CacheRead: llm.Count(90), CacheWrite: llm.Count(45),
		Output: llm.Count(output), Reasoning: llm.Count(2)}
}

func atLimit(st *ledger.Settlement) { st.ServiceLimit, st.Status, st.Reason = true, 504, "time_limit" }

// everything plays the scene and returns the checkpoints that somebody kept.
func (s *scene) everything() (kept []ledger.Checkpoint) {
	kept = s.earlier()
	s.later()
	s.attemptless()
	s.inPart()
	return append(kept, s.checkpoint())
}

// later is what an older fareway did not do: a charge that its hold bounds, and attempts that are taken to have used
// something.
func (s *scene) later() {
	s.account("third", "pro")
	s.topUp(5, "invoice 3")
	s.hold("r19-over", "large")
	c := s.settle("r19-over", nil, used(1_000, 2_000))
	require.NotZero(s.t, c.Over)
	s.hold("r20-estimated", "small", "large", "gratis")
	estimated := func(used *llm.Usage) func(*ledger.Settlement) {
		return func(st *ledger.Settlement) {
			for i := range st.Results {
				st.Results[i].Outcome, st.Results[i].Estimate = ledger.Unproven, used
			}
		}
	}
	s.settle("r20-estimated", estimated(used(20, 30)), nil, nil, nil)
	s.receipt("r20-estimated", 2, used(40, 50))
	s.hold("r21-estimated-waived", "small")
	s.settle("r21-estimated-waived", func(st *ledger.Settlement) {
		estimated(used(1, 2))(st)
		atLimit(st)
	}, nil)
	s.hold("r22-estimated-over", "large")
	s.settle("r22-estimated-over", estimated(used(1_000, 2_000)), nil)
	closed, err := s.store.CloseUnproven(s.tick(), s.now)
	require.NoError(s.t, err)
	require.EqualValues(s.t, 5, closed.Attempts) // and that of r14
	s.hold("r23-estimated-waits", "small")
	s.settle("r23-estimated-waits", estimated(used(5, 6)), nil)
	s.hold("r24-estimated-runs", "large")
}

// attemptless is what an older fareway did not do: requests that are held before their first attempt is known, or
// make none.
func (s *scene) attemptless() {
	s.open("r25-refused")
	s.settle("r25-refused", func(st *ledger.Settlement) { st.Status, st.Reason, st.Surcharge = 400, "screened", 1_350 })
	s.open("r26-held-first")
	s.begin("r26-held-first", 1, "small")
	s.settle("r26-held-first", func(st *ledger.Settlement) { st.Surcharge = 1_350 }, used(3, 4))
	s.open("r27-runs-without")
}

// inPart is what an older fareway did not do: charges of which fair use leaves a part free.
func (s *scene) inPart() {
	inPart := func(c ledger.Charge) {
		require.NotZero(s.t, c.Microcents)
		require.NotZero(s.t, c.Waived)
	}
	s.hold("r28-in-part", "small")
	inPart(s.settle("r28-in-part", atLimit, used(1_000, 2_000)))
	s.hold("r29-receipt-in-part", "small")
	s.settle("r29-receipt-in-part", atLimit, nil)
	s.fairUse += 500
	inPart(s.receipt("r29-receipt-in-part", 1, used(1_000, 2_001)))
}

// earlier is what the fareway of schema 4 did, too.
func (s *scene) earlier() (kept []ledger.Checkpoint) {
	ctx := context.Background()
	s.account("main", "pro")
	s.topUp(10, "invoice 1")

	s.hold("r01-pruned", "small")
	s.settle("r01-pruned", nil, used(100, 200))
	s.hold("r02-pruned", "large", "small")
	s.settle("r02-pruned", atLimit, used(1, 2), used(3, 4))
	s.correct(ledger.Correction{Request: "r01-pruned", Microcents: 7, Reason: "sorry"})
	s.now = s.now.AddDate(0, 0, 1)
	n, err := s.store.Prune(s.tick(), s.now)
	require.NoError(s.t, err)
	require.EqualValues(s.t, 2, n)
	kept = append(kept, s.checkpoint())

	s.hold("r03-charged", "large", "small", "small")
	s.settle("r03-charged", func(st *ledger.Settlement) { st.Surcharge, st.Results[2].Outcome = 1_350, ledger.Failed },
		used(1_000, 2_000), nil, used(500, 600))
	s.hold("r04-plain", "small")
	s.settle("r04-plain", nil, used(1_000, 2_000))
	fresh, old, err := s.store.RotateKey(s.tick(), s.key, sha256.Sum256([]byte("rotated")), "wxyz", time.Hour)
	require.NoError(s.t, err)
	s.key = fresh.ID
	s.hold("r05-rotated", "small")
	s.settle("r05-rotated", nil, used(50, 60))
	_, err = s.store.RevokeKey(s.tick(), old.ID)
	require.NoError(s.t, err)
	s.credits, s.now = 5, s.now.AddDate(0, 2, 0) // two periods end
	s.topUp(3, "")
	s.credits = 0
	s.hold("r06-gratis", "gratis")
	s.settle("r06-gratis", nil, used(50, 60))
	s.hold("r07-free", "small")
	s.settle("r07-free", func(st *ledger.Settlement) { st.Free, st.Status = true, 500 }, used(70, 80))
	s.hold("r08-waived", "small")
	require.NotZero(s.t, s.settle("r08-waived", atLimit, used(70, 80)).Waived)
	s.hold("r09-limit", "small")
	s.fairUse = 0 // what did not fit as a whole was charged as a whole then
	require.Zero(s.t, s.settle("r09-limit", atLimit, used(7_000, 8_000)).Waived)
	s.fairUse = 1_000
	s.hold("r10-receipts", "small", "large", "small")
	s.settle("r10-receipts", nil, used(10, 10), nil, nil)
	s.receipt("r10-receipts", 2, used(30, 31))
	s.receipt("r10-receipts", 3, used(40, 41))
	s.hold("r11-crashed", "large")
	s.settle("r11-crashed", func(st *ledger.Settlement) { st.Results, st.Reason = nil, "crashed" })
	s.receipt("r11-crashed", 1, used(300, 310))
	s.hold("r12-limit-receipt", "large")
	s.settle("r12-limit-receipt", atLimit, nil)
	require.NotZero(s.t, s.receipt("r12-limit-receipt", 1, used(1, 1)).Waived)
	s.hold("r13-closed", "large")
	s.settle("r13-closed", nil, nil)
	closed, err := s.store.CloseUnproven(s.tick(), s.now)
	require.NoError(s.t, err)
	require.EqualValues(s.t, 2, closed.Attempts) // and that of r03
	s.hold("r14-waiting", "small", "small")
	s.store.Refer(ledger.AttemptID("r14-waiting", 2), "gen-14")
	s.settle("r14-waiting", func(st *ledger.Settlement) { st.Results[0].Outcome = ledger.Failed }, nil, nil)
	s.hold("r15-not-made", "small")
	s.settle("r15-not-made", func(st *ledger.Settlement) { st.Results[0].Outcome = ledger.NotMade }, nil)
	s.correct(ledger.Correction{Request: "r04-plain", Microcents: 100, Reference: "case 1", Reason: "sorry"})
	s.correct(ledger.Correction{Request: "r10-receipts", Reason: "sorry"})
	s.correct(ledger.Correction{Account: s.owner, Microcents: -1_234, Reason: "wrong"})
	kept = append(kept, s.checkpoint())
	s.hold("r16-runs", "small", "large")

	s.account("second", "")
	s.topUp(2, "invoice 1")
	s.hold("r17-second", "small")
	s.settle("r17-second", nil, used(9, 9))
	s.hold("r18-runs", "small")
	s.account("empty", "pro")
	_, err = s.store.RenameAccount(s.tick(), s.owner, "void")
	require.NoError(s.t, err)
	_, err = s.store.EndPeriods(ctx)
	require.NoError(s.t, err)
	return kept
}

// settings are what the last account has of its own.
func (s *scene) settings() {
	s.newKey("phone")
	for _, limit := range ledger.AllLimits[1:] {
		_, err := s.store.SetLimit(s.tick(), s.owner, limit, new(int64(7)))
		require.NoError(s.t, err)
	}
	_, err := s.store.SetLimit(s.tick(), s.owner, ledger.LimitTokenBudget, nil)
	require.NoError(s.t, err)
	_, err = s.store.SetProfile(s.tick(), s.owner, "max")
	require.NoError(s.t, err)
	_, err = s.store.SetRequires(s.tick(), s.owner,
		ledger.RequiresChange{Regions: &[]string{"eu"}, Retention: new("none")})
	require.NoError(s.t, err)
	_, err = s.store.SetMail(s.tick(), s.owner, []string{"ann@example.com", "bob@example.net"})
	require.NoError(s.t, err)
}
