package admin

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// adminOf is the admin API of an engine.
func adminOf(t *testing.T, e *engine.Engine) *API {
	t.Helper()
	api := new(API)
	require.NoError(t, api.serve(e))
	return api
}

// serveUnix serves the engine's admin API on the socket in its data folder.
func serveUnix(t *testing.T, e *engine.Engine) {
	t.Helper()
	path, err := gateway.MakeSocketPath(e.DataDir(), gateway.AdminSocket)
	require.NoError(t, err)
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	srv := &httptest.Server{Listener: ln, Config: &http.Server{Handler: adminOf(t, e).handler()}}
	srv.Start()
	t.Cleanup(srv.Close)
}

// running returns a client of a running gateway's admin API, and its engine.
func running(t *testing.T) (*Client, *engine.Engine) {
	t.Helper()
	return runningAt(t, nil)
}

// runningAt is running with a clock; nil for the real one.
func runningAt(t *testing.T, now func() time.Time) (*Client, *engine.Engine) {
	t.Helper()
	e := enginetest.New(t, now)
	serveUnix(t, e)
	c, err := NewClient(e.DataDir(), "")
	require.NoError(t, err)
	return c, e
}

// listOf reads a whole list.
func listOf[T any](t *testing.T, c *Client, path string) []T {
	t.Helper()
	var all []T
	require.NoError(t, ReadList(t.Context(), c, path, nil, func(v T) error {
		all = append(all, v)
		return nil
	}))
	return all
}

func TestAdminAccounts(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	ctx := t.Context()

	require.Empty(t, listOf[Account](t, c, "/fareway/accounts"))

	var made Account
	require.NoError(t, c.Call(ctx, "POST", "/fareway/accounts", NewAccount{Name: "ann", Plan: "starter"}, &made))
	require.Equal(t, "ann", made.Name)
	require.Equal(t, "starter", made.Plan)
	require.Equal(t, "active", made.State)
	require.Zero(t, made.BalanceCredits)
	require.True(t, strings.HasPrefix(made.ID, "acct_"))

	var shown Account
	require.NoError(t, c.Call(ctx, "GET", "/fareway/accounts/"+made.ID, nil, &shown))
	require.Equal(t, made, shown)

	for _, state := range []ledger.State{ledger.Suspended, ledger.Inactive, ledger.Active} {
		require.NoError(t, c.Call(ctx, "POST", "/fareway/accounts/ann/state", NewState{state}, &shown))
		require.Equal(t, string(state), shown.State)
		stored, err := e.Store().Account(ctx, "ann")
		require.NoError(t, err)
		require.Equal(t, state, stored.State)
	}
}

// refusal is a request to the API, and what it is answered.
type refusal struct {
	method, path string
	in           any
	status       int
	message      string
}

// requireRefusals makes the requests, each in a subtest.
func requireRefusals(t *testing.T, c *Client, refusals map[string]refusal) {
	t.Helper()
	for name, r := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.Call(t.Context(), r.method, r.path, r.in, new(any))
			var e *adminError
			require.ErrorAs(t, err, &e)
			require.Equal(t, r.status, e.Status)
			require.Contains(t, e.Message, r.message)
		})
	}
}

func TestAdminRefusals(t *testing.T) {
	t.Parallel()
	c, _ := running(t)
	require.NoError(t, c.Call(t.Context(), "POST", "/fareway/accounts", NewAccount{Name: "ann"}, new(Account)))
	require.NoError(t, c.Call(t.Context(), "POST", "/fareway/keys", NewKey{Account: "ann", Name: "first"}, new(Key)))

	requireRefusals(t, c, map[string]refusal{
		"name that exists":  {"POST", "/fareway/accounts", NewAccount{Name: "ann"}, 409, `account "ann" exists already`},
		"name with a space": {"POST", "/fareway/accounts", NewAccount{Name: "a b"}, 400, "1 to 64 letters"},
		"name too long": {"POST", "/fareway/accounts", NewAccount{Name: strings.Repeat("a", 65)}, 400,
			"1 to 64 letters"},
		"name empty":      {"POST", "/fareway/accounts", NewAccount{}, 400, "1 to 64 letters"},
		"name like an id": {"POST", "/fareway/accounts", NewAccount{Name: "acct_x"}, 400, "mistaken"},
		"plan misspelled": {"POST", "/fareway/accounts", NewAccount{Name: "bob", Plan: "trail"}, 400,
			`did you mean "trial"?`},
		"plan unknown": {"POST", "/fareway/accounts", NewAccount{Name: "bob", Plan: "platinum"}, 400,
			"it has trial, starter"},
		"account unknown": {"GET", "/fareway/accounts/nobody", nil, 404, `no account "nobody"`},
		"state unknown":   {"POST", "/fareway/accounts/ann/state", NewState{"gone"}, 400, "active suspended inactive"},
		"limit unknown": {"POST", "/fareway/accounts/ann/limit",
			NewLimit{Limit: "monthly_credits", Value: new(int64(5))}, 400, "there are spend_cap_credits, token_budget"},
		"limit misspelled": {"POST", "/fareway/accounts/ann/limit", NewLimit{Limit: "tokn_budget"}, 400,
			`did you mean "token_budget"?`},
		"limit of several": {"POST", "/fareway/accounts/ann/limit", NewLimit{Limit: "requests_per_minute"}, 400,
			"requests_per_minute.key"},
		"limit empty": {"POST", "/fareway/accounts/ann/limit", NewLimit{}, 400, "there are spend_cap_credits"},
		"limit below zero": {"POST", "/fareway/accounts/ann/limit",
			NewLimit{Limit: "token_budget", Value: new(int64(-1))}, 400, "it is 0 to 1000000000000000"},
		"limit too large": {"POST", "/fareway/accounts/ann/limit",
			NewLimit{Limit: "spend_cap_credits", Value: new(int64(1e12 + 1))}, 400, "it is 0 to 1000000000000"},
		"limit of nobody": {"POST", "/fareway/accounts/nobody/limit", NewLimit{Limit: "token_budget"}, 404,
			`no account "nobody"`},
		"profile unknown":   {"POST", "/fareway/accounts/ann/profile", NewProfile{"best"}, 400, "budget, balanced, max"},
		"profile empty":     {"POST", "/fareway/accounts/ann/profile", NewProfile{}, 400, "budget, balanced, max"},
		"profile of nobody": {"POST", "/fareway/accounts/nobody/profile", NewProfile{"max"}, 404, `no account "nobody"`},
		"requires nothing":  {"POST", "/fareway/accounts/ann/requires", NewRequires{}, 400, "give region"},
		"requires a region without a name": {"POST", "/fareway/accounts/ann/requires",
			NewRequires{Region: &[]string{""}}, 400, "1 to 64 bytes"},
		"requires two regions in one": {"POST", "/fareway/accounts/ann/requires",
			NewRequires{Region: &[]string{"e u"}}, 400, "of letters, digits"},
		"requires an odd retention": {"POST", "/fareway/accounts/ann/requires", NewRequires{Retention: new("soon")}, 400,
			`or "none"`},
		"requires of nobody": {"POST", "/fareway/accounts/nobody/requires", NewRequires{Retention: new("none")}, 404,
			`no account "nobody"`},
		"state of nobody": {"POST", "/fareway/accounts/nobody/state", NewState{ledger.Active}, 404,
			`no account "nobody"`},
		"key of nobody":       {"POST", "/fareway/keys", NewKey{Account: "nobody", Name: "x"}, 404, `no account "nobody"`},
		"key without account": {"POST", "/fareway/keys", NewKey{Name: "x"}, 400, "account is missing"},
		"key that exists": {"POST", "/fareway/keys", NewKey{Account: "ann", Name: "first"}, 409,
			`has a key "first" already`},
		"key name bad":   {"POST", "/fareway/keys", NewKey{Account: "ann", Name: "a/b"}, 400, "key name"},
		"key unknown":    {"DELETE", "/fareway/keys/key_0", nil, 404, `no key "key_0"`},
		"keys of nobody": {"GET", "/fareway/keys?account=nobody", nil, 404, `no account "nobody"`},
		"credits zero":   {"POST", "/fareway/credits", NewCredit{Account: "ann"}, 400, "1 to 1,000,000,000"},
		"credits negative": {"POST", "/fareway/credits", NewCredit{Account: "ann", Credits: -5}, 400,
			"1 to 1,000,000,000"},
		"credits too many": {"POST", "/fareway/credits", NewCredit{Account: "ann", Credits: ledger.MaxTopUp + 1}, 400,
			"1 to 1,000,000,000"},
		"credits to nobody": {"POST", "/fareway/credits", NewCredit{Account: "nobody", Credits: 1}, 404,
			`no account "nobody"`},
		"reference too long": {"POST", "/fareway/credits",
			NewCredit{Account: "ann", Credits: 1, Reference: strings.Repeat("r", 201)}, 400, "200 bytes"},
		"field unknown":        {"POST", "/fareway/accounts", map[string]any{"nmae": "bob"}, 400, `unknown field "nmae"`},
		"body not an object":   {"POST", "/fareway/accounts", []int{1}, 400, "reading the request body"},
		"path unknown":         {"GET", "/fareway/bogus", nil, 404, "no GET /fareway/bogus"},
		"method of a resource": {"DELETE", "/fareway/accounts", nil, 404, "no DELETE /fareway/accounts"},
	})
}

func TestAdminBodyIsOneValue(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{", `{"name":"a"} {"name":"b"}`,
		`{"name":"` + strings.Repeat("a", maxAdminBody) + `"}`} {
		_, err := readJSON[NewAccount](httptest.NewRequest("POST", "/", strings.NewReader(body)))
		e, ok := errors.AsType[caddy.APIError](err)
		require.True(t, ok, "%.40s: %v", body, err)
		require.Equal(t, http.StatusBadRequest, e.HTTPStatus)
	}
}

func TestAdminKeys(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	ctx := t.Context()
	require.NoError(t, c.Call(ctx, "POST", "/fareway/accounts", NewAccount{Name: "ann"}, new(Account)))

	var made Key
	require.NoError(t, c.Call(ctx, "POST", "/fareway/keys", NewKey{Account: "ann", Name: "laptop"}, &made))
	require.Equal(t, "ann", made.Account)
	require.Equal(t, made.Key[len(made.Key)-4:], made.Last4)
	hash, ok := ledger.ParseKey(made.Key)
	require.True(t, ok)
	p, err := e.Lookup(ctx, hash) // and into the engine's cache
	require.NoError(t, err)
	require.Equal(t, made.ID, p.Key.ID)

	list := listOf[Key](t, c, "/fareway/keys?account=ann")
	require.Len(t, list, 1)
	require.Empty(t, list[0].Key, "the text of a key is shown once")
	require.Equal(t, "ann", list[0].Account)

	var revoked Key
	require.NoError(t, c.Call(ctx, "DELETE", "/fareway/keys/"+made.ID, nil, &revoked))
	require.True(t, revoked.Revoked)
	_, err = e.Lookup(ctx, hash)
	require.ErrorIs(t, err, ledger.ErrNotFound, "a change through the gateway is seen at once, past the cache")
}

func TestAdminStateIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	ctx := t.Context()
	require.NoError(t, c.Call(ctx, "POST", "/fareway/accounts", NewAccount{Name: "ann"}, new(Account)))
	var key Key
	require.NoError(t, c.Call(ctx, "POST", "/fareway/keys", NewKey{Account: "ann", Name: "laptop"}, &key))
	hash, _ := ledger.ParseKey(key.Key)
	_, err := e.Lookup(ctx, hash)
	require.NoError(t, err)

	require.NoError(t, c.Call(ctx, "POST", "/fareway/accounts/ann/state", NewState{ledger.Suspended}, new(Account)))
	p, err := e.Lookup(ctx, hash)
	require.NoError(t, err)
	require.Equal(t, ledger.Suspended, p.Account.State)
}

func TestAdminCredits(t *testing.T) {
	t.Parallel()
	c, _ := running(t)
	ctx := t.Context()
	require.NoError(t, c.Call(ctx, "POST", "/fareway/accounts", NewAccount{Name: "ann"}, new(Account)))

	in := NewCredit{Account: "ann", Credits: 500, Reference: "invoice-1"}
	var v Credit
	require.NoError(t, c.Call(ctx, "POST", "/fareway/credits", in, &v))
	require.Equal(t, Credit{Account: "ann", Credits: 500, Reference: "invoice-1", Applied: true, BalanceCredits: 500,
		AvailableCredits: 500}, v)

	v = Credit{}
	require.NoError(t, c.Call(ctx, "POST", "/fareway/credits", in, &v))
	require.False(t, v.Applied, "a repeated reference changes nothing")
	require.EqualValues(t, 500, v.BalanceCredits)

	in.Reference = ""
	for range 2 {
		require.NoError(t, c.Call(ctx, "POST", "/fareway/credits", in, &v))
		require.True(t, v.Applied, "without a reference every top-up counts")
	}
	require.EqualValues(t, 1500, v.BalanceCredits)

	var report ledger.Report
	require.NoError(t, c.Call(ctx, "POST", "/fareway/ledger/verify", nil, &report))
	require.True(t, report.OK)
	require.EqualValues(t, 3, report.Entries)
}

func TestAdminStatus(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	var v Status
	require.NoError(t, c.Call(t.Context(), "GET", "/fareway/status", nil, &v))
	require.Equal(t, os.Getpid(), v.PID)
	require.Equal(t, e.DataDir(), v.Data)
	require.EqualValues(t, 1, v.Number)
	require.NotNil(t, v.InForce)
	require.False(t, v.Kept, "it has come from no file")
	require.Equal(t, []string{"trial", "starter"}, v.Plans)
	require.False(t, v.Ready)
	require.Equal(t, "no provider is ready", v.Reason)
}

func TestAdminToken(t *testing.T) {
	t.Parallel()
	e := enginetest.New(t, nil)
	token, err := loadToken(e.DataDir(), adminTokenFile)
	require.NoError(t, err)
	srv := httptest.NewServer(adminOf(t, e).handler())
	t.Cleanup(srv.Close)

	path := filepath.Join(e.DataDir(), adminTokenFile)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	text, err := readAdminToken(e.DataDir())
	require.NoError(t, err)
	require.Len(t, text, 64, "256 bits in hex")

	again, err := loadToken(e.DataDir(), adminTokenFile)
	require.NoError(t, err)
	require.Equal(t, token, again, "the token stays")

	for header, status := range map[string]int{
		"":                    401,
		"Bearer":              401,
		"Bearer ":             401,
		"Bearer x" + text[1:]: 401,
		text:                  401,
		"Basic " + text:       401,
		"Bearer " + text:      200,
		"bearer " + text:      200,
	} {
		for _, route := range []string{"/fareway/status", "/fareway/accounts", "/fareway/keys"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+route, nil)
			require.NoError(t, err)
			if header != "" {
				req.Header.Set("Authorization", header)
			}
			resp, err := srv.Client().Do(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, status, resp.StatusCode, "%q: %s", strings.ReplaceAll(header, text, "TOKEN"), body)
			require.NotContains(t, string(body), text)
		}
	}
}

func TestAdminTokenEmptyFile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, adminTokenFile), []byte("\n"), 0o600))
	_, err := loadToken(data, adminTokenFile)
	require.ErrorContains(t, err, "is empty: remove it")
}

func TestAdminWithoutGateway(t *testing.T) {
	t.Parallel()
	c, err := NewClient(serveTLS(t, new(API).handler()))
	require.NoError(t, err)
	err = c.Call(t.Context(), "GET", "/fareway/status", nil, new(Status))
	require.ErrorContains(t, err, "runs no gateway")
}
