package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/spool"
)

// TestDecisionsThatFail: what a decision about the spool is answered that was not carried out, and whether it says
// that it can be repeated as it is: not after a loss (GAP-133), which somebody has to accept first.
func TestDecisionsThatFail(t *testing.T) {
	t.Parallel()
	failed := errors.New("the disk is full")
	for name, tc := range map[string]struct {
		err    error
		status int
		says   string
	}{
		"unknown": {spool.ErrUnknown, http.StatusNotFound, `under the id "a1"`},
		"decided": {spool.ErrDecided, http.StatusConflict, "nothing was changed"},
		"away": {fmt.Errorf("x: %w", ledger.ErrUnavailable), http.StatusServiceUnavailable,
			"it can be repeated as it is"},
		"GAP-133":  {errors.Join(ledger.ErrLost, ledger.ErrUnavailable), 0, ledger.ErrLost.Error()},
		"the disk": {failed, 0, failed.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &decisionsAPI{aside: func() *engine.Aside { return nil }}
			decide := a.decide(func(_ *engine.Aside, _ context.Context, id, reason string) (spool.Item, error) {
				require.Equal(t, []string{"a1", "why"}, []string{id, reason})
				return spool.Item{}, tc.err
			})
			r := httptest.NewRequest("POST", "/", strings.NewReader(`{"reason":"why"}`))
			r.SetPathValue("id", "a1")
			v, err := decide(r)
			require.Nil(t, v)
			require.ErrorContains(t, err, tc.says)
			if e, ok := errors.AsType[caddy.APIError](err); tc.status != 0 {
				require.True(t, ok)
				require.Equal(t, tc.status, e.HTTPStatus)
			} else {
				require.ErrorIs(t, err, tc.err)
				require.NotContains(t, err.Error(), "repeated as it is")
			}
		})
	}
}

// TestDecisionsThatAreRefused before anything is changed.
func TestDecisionsThatAreRefused(t *testing.T) {
	t.Parallel()
	c, _ := running(t)
	all := make(map[string]refusal)
	for _, path := range []string{"accept-loss", "spool/a1/apply", "spool/a1/discard"} {
		path = "/fareway/ledger/" + path
		all[path+" without a reason"] = refusal{"POST", path, Decision{" "}, 400, "the reason is missing"}
		all[path+" with a long one"] = refusal{"POST", path, Decision{strings.Repeat("x", 10_000)}, 400, "bytes"}
		all[path+" with nothing"] = refusal{"POST", path, 5, 400, "reading the request body"}
	}
	all["nothing is lost"] = refusal{"POST", "/fareway/ledger/accept-loss", Decision{"x"}, 409, "nothing to accept"}
	all["nothing is aside"] = refusal{"POST", "/fareway/ledger/spool/a1/apply", Decision{"x"}, 404, `under the id "a1"`}
	requireRefusals(t, c, all)
}

// TestAdminLoss (GAP-133): what an older copy of the database lacks is in the status until it is accepted.
func TestAdminLoss(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	path := filepath.Join(data, "fareway.db")
	var copies [2][]byte
	for i := range copies {
		t.Run("", func(t *testing.T) { // whose end is the engine's
			e := enginetest.On(t, data, nil)
			enginetest.NewCustomer(t, e, []string{"ann", "bob"}[i])
		})
		var err error
		copies[i], err = os.ReadFile(path)
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(path, copies[0], 0o600))
	e := enginetest.On(t, data, nil)
	serveUnix(t, e)
	c, err := NewClient(data, "")
	require.NoError(t, err)
	status := func() (v Status) {
		require.NoError(t, c.Call(t.Context(), "GET", "/fareway/status", nil, &v))
		return v
	}
	loss := status().Loss
	require.NotNil(t, loss)
	require.Equal(t, []int64{1, 2}, []int64{loss.HasEntries, loss.SeenEntries})
	require.Contains(t, status().Reason, "a part of the ledger is missing")
	var accepted AcceptedLoss
	require.NoError(t, c.Call(t.Context(), "POST", "/fareway/ledger/accept-loss", Decision{"the disk failed"}, &accepted))
	require.Equal(t, AcceptedLoss{*loss, loss.String()}, accepted)
	require.Nil(t, status().Loss)
}

// failingBooks answers from a ledger, and fails where it is told to.
type failingBooks struct {
	ledger.Books
	pruned, before, account error
}

func (b failingBooks) Pruned(ctx context.Context, id string) (ledger.PrunedRequest, error) {
	if b.pruned != nil {
		return ledger.PrunedRequest{}, b.pruned
	}
	return b.Books.Pruned(ctx, id)
}

func (b failingBooks) PrunedBefore(ctx context.Context) (time.Time, error) {
	if b.before != nil {
		return time.Time{}, b.before
	}
	return b.Books.PrunedBefore(ctx)
}

func (b failingBooks) Account(ctx context.Context, name string) (ledger.Account, error) {
	if b.account != nil {
		return ledger.Account{}, b.account
	}
	return b.Books.Account(ctx, name)
}

// TestPrunedRequests: a request whose detail was pruned is 410 with what the journal has; and what cannot be read is
// no request that there never was.
func TestPrunedRequests(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	c, e := runningAt(t, func() time.Time { return now })
	var none PrunedBefore
	require.NoError(t, c.Call(t.Context(), "GET", "/fareway/ledger/pruned", nil, &none))
	require.Nil(t, none.Before)
	ann := enginetest.NewCustomer(t, e, "ann")
	ann.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	before := now.Add(time.Hour)
	_, err := e.Store().Prune(t.Context(), before)
	require.NoError(t, err)
	books := func(b failingBooks) *booksAPI {
		b.Books = e.Store()
		return &booksAPI{books: b, logged: e.FindRequest, failure: e.FailureOf}
	}
	show := func(b failingBooks, id string) error {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetPathValue("request", id)
		_, err := books(b).request(r)
		return err
	}
	err = show(failingBooks{}, "req_1")
	var p *PrunedProblem
	require.ErrorAs(t, err, &p)
	require.Equal(t, []any{CodePruned, "ann", ann.Account.ID, int64(enginetest.ExampleCharge), before}, []any{p.Code,
		p.Request.Account, p.Request.AccountID, p.Request.Microcents, p.Request.Before.UTC()})
	require.Len(t, p.Request.Entries, 1)
	failed := errors.New("the disk failed")
	for what, b := range map[string]failingBooks{
		"the journal": {pruned: failed}, "when it was pruned": {before: failed}, "the account": {account: failed},
	} {
		require.ErrorIs(t, show(b, "req_1"), failed, what)
	}
	require.ErrorContains(t, show(failingBooks{}, "req_2"), `there is no request "req_2"`)

	var v PrunedBefore
	require.NoError(t, c.Call(t.Context(), "GET", "/fareway/ledger/pruned", nil, &v))
	require.Equal(t, before, v.Before.UTC())
	_, err = books(failingBooks{before: failed}).prunedBefore(httptest.NewRequest("GET", "/", nil))
	require.ErrorIs(t, err, failed)
	err = c.Call(t.Context(), "GET", "/fareway/usage/req_1", nil, new(Request))
	require.ErrorAs(t, err, &p)
	require.Contains(t, p.Message, "and with it its routes")
	err = c.Call(t.Context(), "POST", "/fareway/refunds", NewRefund{Request: "req_1", Microcents: 1, Reason: "x"},
		new(Correction))
	require.ErrorAs(t, err, &p)
	require.Contains(t, p.Message, "so that it cannot be refunded")
}
