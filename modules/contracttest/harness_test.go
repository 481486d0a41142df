package contracttest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"crypto/rand"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/auth"
	"github.com/fareway/fareway/modules/entry"
	"github.com/fareway/fareway/modules/exchange"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/modules/limits"
	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// The contract tests run the gateway's handlers over a real engine: a real ledger, real provider processes
// and the scriptable upstream. Only the web server around them is net/http's own instead of Caddy's; the
// tests in caddy/ run the whole binary.

var providers = []string{"anthropic", "bedrock", "echo", "gemini", "guard", "later", "ollama", "openai", "prover",
	"responses", "sage"}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := postgrestest.StopOwn(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if dir := providersDir.Load(); dir != nil {
		_ = os.RemoveAll(*dir)
	}
	os.Exit(code)
}

var providersDir atomic.Pointer[string] // the folder of providersFile, once it was built

// providersFile is the command internal/testproviders, built when a test first needs it.
var providersFile = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "testproviders")
	if err != nil {
		return "", err
	}
	providersDir.Store(&dir)
	file := filepath.Join(dir, "testproviders")
	build := exec.Command("go", "build", "-o", file, "../internal/testproviders")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the providers: %w: %s", err, out)
	}
	return file, nil
})

func builtin(plugin string) ([]string, bool) {
	file, err := providersFile()
	if err != nil {
		panic(err)
	}
	return []string{file, plugin}, slices.Contains(providers, plugin)
}

// schemas asks each plugin once for its settings, for all tests.
var schemas = func() map[string]func() (settings.Schema, error) {
	all := make(map[string]func() (settings.Schema, error), len(providers))
	for _, plugin := range providers {
		all[plugin] = askSchema(plugin)
	}
	return all
}()

func askSchema(plugin string) func() (settings.Schema, error) {
	return sync.OnceValues(func() (settings.Schema, error) {
		h := host.New(host.Options{Builtin: builtin, Logger: slog.New(slog.DiscardHandler)})
		defer h.Close()
		return h.Schema(context.Background(), host.Source{Plugin: plugin})
	})
}

func schemaOf(_ context.Context, ref config.PluginRef) (settings.Schema, error) {
	ask, ok := schemas[ref.Plugin]
	if !ok {
		return settings.Schema{}, fmt.Errorf("the tests have no plugin %q", ref.Plugin)
	}
	return ask()
}

// service is a gateway under test.
type service struct {
	t        testing.TB
	URL      string
	Engine   *engine.Engine
	Upstream *upstream.Server
	Log      *logBuffer
	handler  http.Handler
	label    string
	plan     string
	left     *sync.Map // by Authorization header: a chan struct{}, closed when that client leaves a request

	Account ledger.Account
	Key     string // of Account, which has 1,000,000 credits unless the test says otherwise

	// Unfinished: the test leaves the ledger as the next gateway is to find it.
	Unfinished bool
	faults     *ledgerFaulter
}

// route is a route block of the configuration; the zero values are the standard route of the worked examples (E01
// and on): window 200,000, output limit 64,000, $3 in and $15 out per million tokens.
type route struct {
	Name             string // also the upstream's model
	Window, Max      int64
	Quality          float64
	Input, Output    string // dollars per million tokens
	Offers, Metering string // "" for tools, and for reported
	Timeout          string
	Provider         string // "" for "up"; others are named in setup.Providers
	More             string // more attributes and blocks, as HCL
	Tiers            string // of the price, as HCL
}

func (r route) hcl() string {
	or := func(s, fallback string) string {
		if s == "" {
			return fallback
		}
		return s
	}
	if r.Window == 0 {
		r.Window = 200000
	}
	if r.Max == 0 {
		r.Max = 64000
	}
	if r.Quality == 0 {
		r.Quality = 0.5
	}
	return fmt.Sprintf(`
route %q {
  provider       = %q
  model          = %q
  context_window = %d
  max_output     = %d
  quality        = %g
  offers         = [%s]
  metering       = %q
  timeout        = %q
  %s
  price {
    input  = %s
    output = %s
    %s
  }
}
`, r.Name, or(r.Provider, "up"), r.Name, r.Window, r.Max, r.Quality, or(r.Offers, `"tools"`),
		or(r.Metering, "reported"), or(r.Timeout, "5m"), r.More, or(r.Input, "3"), or(r.Output, "15"), r.Tiers)
}

// setup says what a gateway under test is made of; the zero value is one standard route named "standard".
type setup struct {
	Gateway       string // attributes of the gateway block
	Routes        []route
	Providers     []string          // more provider processes on the same upstream, beside "up"
	Extra         string            // more HCL
	Script        upstream.Options  // of the fake upstream
	Credits       int64             // 0: 1,000,000
	Plan          string            // of all accounts that are made
	Families      []families.Server // nil: all three
	Limiter       ratelimit.Limiter // nil: nobody is refused
	Plugin        string            // of the provider "up"; "" for openai
	Carry         string            // "" for FAREWAY_TEST_CARRY, which runs all tests in the other way, or "host"
	Store         string            // "" for FAREWAY_TEST_STORE, which runs all tests on the other one, or "sqlite"
	Settings      string            // more of them, as HCL
	Keys          string            // of the provider "up", as HCL
	Breaker       string            // the blocks breaker and retry_budget, as HCL
	Clock         *clock            // nil: the wall's
	LedgerTimeout time.Duration     // 0: more than any test of something else takes
	// Data is a data folder that another gateway left, with the account "acme", whose key is Key; "" for an empty one.
	Data, Key string
}

// boundless is the limiter of tests that are about something else: all their requests come from one address. It has
// semaphores, and no rates.
type boundless struct{ *ratelimit.Memory }

func (b boundless) Acquire(ctx context.Context, asks []ratelimit.Ask) (ratelimit.Permit, *ratelimit.Refusal, error) {
	semaphores := slices.DeleteFunc(slices.Clone(asks), func(a ratelimit.Ask) bool { return !a.Subject.Kind.Semaphore() })
	return b.Memory.Acquire(ctx, semaphores)
}

func (boundless) Check(context.Context, []ratelimit.Ask) (*ratelimit.Refusal, error) { return nil, nil }

// start runs a gateway until the test ends. After it, no hold may be left (the ledger must be clean), and
// nothing that a request started may still run.
func start(t testing.TB, s setup) *service {
	t.Helper()
	way := os.Getenv("FAREWAY_TEST_CARRY")
	if way != "" && s.Carry != "" {
		t.Skip("it names its way itself") //nolint:forbidigo // the ordinary run has run it so already
	}
	storeBlock := storeOf(t, &s)
	up := upstream.Start(t, s.Script)
	if s.Limiter == nil {
		s.Limiter = boundless{ratelimit.NewMemory(ratelimit.Options{})}
	}
	if len(s.Routes) == 0 {
		s.Routes = []route{{Name: "standard"}}
	}
	var hcl strings.Builder
	fmt.Fprintf(&hcl, "gateway {\n%s\n}\n%s", s.Gateway, storeBlock)
	carry := cmp.Or(s.Carry, way, "host")
	for i, name := range append([]string{"up"}, s.Providers...) {
		plugin, settings, keys, address := "openai", "", "", up.BaseURL()
		if i == 0 {
			plugin, settings, keys = cmp.Or(s.Plugin, plugin), s.Settings, s.Keys
		}
		switch plugin {
		case "ollama", "bedrock":
			address = up.URL()
		case "gemini":
			address = up.URL() + "/v1beta"
		}
		fmt.Fprintf(&hcl, "provider %q {\n  plugin = %q\n  start_timeout = \"1m\"\n  carry = %q\n"+
			"  config {\n    base_url = %q\n    %s\n  }\n%s\n}\n",
			name, plugin, carry, address, settings, keys)
	}
	for _, r := range s.Routes {
		hcl.WriteString(r.hcl())
	}
	hcl.WriteString(s.Breaker)
	hcl.WriteString(s.Extra)
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(hcl.String()), 0o600))

	log := new(logBuffer)
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx := context.Background()
	cfg, diags := config.Load(ctx, path, config.Options{Schema: schemaOf})
	require.False(t, diags.HasErrors(), "%v", diags)
	faults := new(ledgerFaulter)
	options := engine.Options{OpenStore: faults.open, DataDir: cmp.Or(s.Data, filepath.Join(dir, "data")),
		Logger: logger, Builtin: builtin,
		Limiter: s.Limiter, LedgerTimeout: cmp.Or(s.LedgerTimeout, time.Minute),
		SpoolSize: 256 << 10}
	if s.Clock != nil {
		options.Now, options.After = s.Clock.Now, s.Clock.After
	}
	e, err := engine.Open(options, cfg)
	require.NoError(t, err)
	gen, err := e.Prepare(ctx, cfg)
	require.NoError(t, err)
	e.Activate(gen)

	if s.Families == nil {
		s.Families = []families.Server{chat.Server{}, responses.Server{}, messages.Server{}}
	}
	handler := judged(t, chain(t, e, s.Families, log.entry()))
	label := strconv.FormatInt(services.Add(1), 10)
	left := new(sync.Map)
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ch, ok := left.Load(r.Header.Get("Authorization")); ok {
			defer context.AfterFunc(r.Context(), func() { close(ch.(chan struct{})) })()
		}
		// Goroutines that the request starts inherit the label.
		pprof.Do(r.Context(), pprof.Labels(serviceLabel, label), func(ctx context.Context) {
			handler.ServeHTTP(w, r.WithContext(ctx))
		})
	})
	server := httptest.NewUnstartedServer(serve)
	server.EnableHTTP2 = false
	server.Start()
	sv := &service{t: t, URL: server.URL, Engine: e, Upstream: up, Log: log, handler: serve, label: label, plan: s.Plan,
		left: left, faults: faults}
	credits := s.Credits
	if credits == 0 {
		credits = 1_000_000
	}
	if s.Data == "" {
		sv.Account, sv.Key = sv.NewAccount("acme", s.Plan, credits)
	} else {
		sv.Account, err = e.Store().Account(ctx, "acme")
		require.NoError(t, err)
		sv.Key = s.Key
	}

	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		e.Drain()
		// Not require: a FailNow after parallel subtests would hide what failed.
		if !sv.Unfinished {
			sv.awaitSpool(t)
			sv.checkLedger(t)
		}
		sv.checkPermits(t)
		sv.checkGoroutines(t)
		if err := up.Idle(within(t)); err != nil {
			t.Errorf("an upstream call goes on: %v", err)
		}
		e.Retire(e.Current())
		if err := e.Close(); err != nil {
			t.Errorf("closing the engine: %v", err)
		}
	})
	return sv
}

// storeOf is the store block of a gateway, "" for the default one.
func storeOf(t testing.TB, s *setup) string {
	t.Helper()
	kind := os.Getenv("FAREWAY_TEST_STORE")
	if kind != "" && (s.Store != "" && s.Store != kind || s.Data != "") {
		t.Skip("it is about the other store") //nolint:forbidigo // the ordinary run has run it so already
	}
	if cmp.Or(s.Store, kind) != config.Postgres {
		return ""
	}
	require.NoError(t, makeTables())
	return fmt.Sprintf("store %q {\n  dsn = %q\n}\n", config.Postgres, postgrestest.Copy(t, "tables"))
}

// ledgerName is what the files in the data folder are called after.
func (s *service) ledgerName() string {
	return s.Engine.Current().Config.Store.File(s.Engine.DataDir())
}

// makeTables makes the database with the tables of a ledger, which gateways have copies of.
var makeTables = sync.OnceValue(func() error {
	return postgrestest.CreateTemplate("tables", func(url string) error {
		dir, err := os.MkdirTemp("", "contracttest")
		if err != nil {
			return err
		}
		store, err := stores.Open(config.Store{Kind: config.Postgres, DSN: url}, dir, ledger.Options{})
		if err == nil {
			err = store.Close()
		}
		return errors.Join(err, os.RemoveAll(dir))
	})
})

// Reload makes another configuration take effect, as saving the file does: what edit makes of the current one.
func (s *service) Reload(edit func(hcl string) string) {
	s.t.Helper()
	old := s.Engine.Current()
	hcl, err := os.ReadFile(old.Config.Path)
	require.NoError(s.t, err)
	require.NoError(s.t, os.WriteFile(old.Config.Path, []byte(edit(string(hcl))), 0o600))
	cfg, diags := config.Load(context.Background(), old.Config.Path, config.Options{Schema: schemaOf})
	require.False(s.t, diags.HasErrors(), "%v", diags)
	gen, err := s.Engine.Prepare(context.Background(), cfg)
	require.NoError(s.t, err)
	s.Engine.Activate(gen)
	s.Engine.Retire(old)
}

// Goroutines of requests are told apart by a pprof label whose value counts the services.
const serviceLabel = "service"

var services atomic.Int64

// checkGoroutines fails the test when something that the service's requests started goes on. It waits for what
// is on its way out.
func (s *service) checkGoroutines(t testing.TB) {
	t.Helper()
	mark := fmt.Sprintf("%q:%q", serviceLabel, s.label)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(2 * time.Minute); ; {
		var all bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
			t.Errorf("listing goroutines: %v", err)
			return
		}
		var left []string
		for stack := range strings.SplitSeq(all.String(), "\n\n") {
			// Connections that wait for the next request are kept; the upstream says whether one is in use.
			if strings.Contains(stack, mark) && !strings.Contains(stack, "net/http.(*persistConn)") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("goroutines of requests are left:\n%s", strings.Join(left, "\n\n"))
			return
		}
	}
}

// awaitSpool waits until no settlement waits for the ledger.
func (s *service) awaitSpool(t testing.TB) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(2 * time.Minute); s.gauge(t, "fareway_spooled_settlements") > 0; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("settlements are left in the spool")
			return
		}
	}
}

// checkLedger fails the test when money is held or lost though nothing runs.
func (s *service) checkLedger(t testing.TB) {
	t.Helper()
	report, err := s.Engine.Store().Verify(context.Background())
	switch {
	case err != nil:
		t.Errorf("verifying the ledger: %v", err)
	case !report.OK:
		t.Errorf("the ledger is wrong: %s: %s", report.Entry, report.Problem)
	case report.Holds != 0:
		t.Errorf("%d holds are left", report.Holds)
	}
	// Verify is the ledger's own word. The entries of each account add up to what it is worth, too, when those are
	// written that its clock asks for.
	if _, err := s.Engine.Store().EndPeriods(context.Background()); err != nil {
		t.Errorf("ending periods: %v", err)
	}
	worth := make(map[string]int64)
	err = s.Engine.Store().Entries(context.Background(), ledger.Query{}, func(e ledger.Entry) error {
		worth[e.Account] += e.Microcents
		return nil
	})
	if err != nil {
		t.Errorf("listing the journal: %v", err)
	}
	err = s.Engine.Store().Accounts(context.Background(), "", func(a ledger.Account) error {
		if got := a.Balance.Net(); got != worth[a.ID] || a.Balance.Held != 0 {
			t.Errorf("account %q has %d microcents, its entries come to %d, and %d are held", a.Name, got, worth[a.ID],
				a.Balance.Held)
		}
		return nil
	})
	if err != nil {
		t.Errorf("listing the accounts: %v", err)
	}
}

// checkPermits fails the test when a permit is out though nothing runs.
func (s *service) checkPermits(t testing.TB) {
	t.Helper()
	if requests, attempts := s.Engine.InProgress(); requests != 0 || attempts != 0 {
		t.Errorf("the permits of %d requests and %d attempts are out", requests, attempts)
	}
}

// chain is the service as the site directive builds it.
func chain(t testing.TB, e *engine.Engine, all []families.Server, log *zap.Logger) http.Handler {
	t.Helper()
	first, err := entry.New(e, all, log)
	require.NoError(t, err)
	var next caddyhttp.Handler = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	for _, h := range []caddyhttp.MiddlewareHandler{new(exchange.Handler), new(limits.Handler), new(auth.Handler), first} {
		inner := next
		next = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, inner) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Caddy gives every request its variables.
		r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, make(map[string]any)))
		if err := next.ServeHTTP(w, r); err != nil {
			panic(err)
		}
	})
}

// NewAccount makes an active account with credits and one key, and returns the key's text.
func (s *service) NewAccount(name, plan string, credits int64) (ledger.Account, string) {
	s.t.Helper()
	ctx := context.Background()
	a, err := s.Engine.Store().CreateAccount(ctx, name, plan)
	require.NoError(s.t, err)
	if credits > 0 {
		s.TopUp(a, credits)
	}
	return a, s.NewKey(a, "first")
}

// NewKey makes a key.
func (s *service) NewKey(a ledger.Account, name string) string {
	s.t.Helper()
	text, hash, err := ledger.NewKey(rand.Reader)
	require.NoError(s.t, err)
	_, err = s.Engine.Store().CreateKey(context.Background(), a.ID, name, hash, ledger.Last4(text), ledger.KeyChange{})
	require.NoError(s.t, err)
	return text
}

// TopUp adds credits.
func (s *service) TopUp(a ledger.Account, credits int64) {
	s.t.Helper()
	_, _, err := s.Engine.Store().AddCredit(context.Background(), ledger.Credit{Account: a.ID, Credits: credits})
	require.NoError(s.t, err)
}

// Owe takes so many microcents from an account, which may owe them then.
func (s *service) Owe(a ledger.Account, microcents int64) {
	s.t.Helper()
	_, _, err := s.Engine.Store().Correct(context.Background(),
		ledger.Correction{Account: a.ID, Microcents: -microcents, Reason: "test"})
	require.NoError(s.t, err)
}

// Balance is the balance of the service's account.
func (s *service) Balance() ledger.Balance {
	s.t.Helper()
	a, err := s.Engine.Store().Account(context.Background(), s.Account.ID)
	require.NoError(s.t, err)
	return a.Balance
}

// Net is the account's money in microcents, before its holds.
func (s *service) Net() int64 {
	s.t.Helper()
	return s.Balance().Net()
}

// answer is a whole HTTP reply.
type answer struct {
	*http.Response
	Raw []byte
}

// JSON decodes the body into generic values; numbers stay json.Number.
func (a answer) JSON(t testing.TB) map[string]any {
	t.Helper()
	v, err := wire.Decode(a.Raw)
	require.NoError(t, err, "body: %s", a.Raw)
	return v
}

// At walks into the JSON body: names of members and indexes of arrays; nil where there is nothing.
func (a answer) At(t testing.TB, path ...any) any {
	t.Helper()
	return wire.At(a.JSON(t), path...)
}

// Do sends a request with the service's key as a bearer token; header pairs replace or, with "", remove.
func (s *service) Do(method, path, body string, header ...string) answer {
	s.t.Helper()
	resp := s.Send(context.Background(), method, path, body, header...)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return answer{resp, raw}
}

// Get is Do for GET.
func (s *service) Get(path string, header ...string) answer {
	s.t.Helper()
	return s.Do(http.MethodGet, path, "", header...)
}

// client does not follow redirects: the gateway never sends any.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100},
}

// Send sends a request and leaves its body to be read.
func (s *service) Send(ctx context.Context, method, path, body string, header ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+s.Key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Del(header[i])
		if header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := client.Do(req)
	require.NoError(s.t, err)
	return resp
}

// reached does what a short limit of time is to end, and does it again where a busy machine has not come far enough by
// then, as enough tells.
func reached[T any](t testing.TB, do func() T, enough func(T) bool) T {
	t.Helper()
	for ctx := within(t); ; {
		if v := do(); enough(v) {
			return v
		}
		require.NoError(t, ctx.Err(), "its time is always over before")
	}
}

// within is the context of a wait for an event that must come.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
