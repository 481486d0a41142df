package exchange

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/schema"
	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
	"github.com/fareway/fareway/plugins/providertest/later"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// The tests of whole exchanges run on a real engine with a real provider process and the scriptable upstream. What
// clients see of them is for the contract tests, package modules; these are about what an exchange leaves behind.

const providerArgument = "-fareway-provider"

// TestMain makes this test binary a provider process, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == providerArgument {
		provider.Serve(providers[os.Args[2]]())
		return
	}
	os.Exit(m.Run())
}

// providers are the plugins of the tests: one that proves what a cancelled attempt used, one that says nothing more of
// what was used than its upstream does, and one that says it later.
var providers = map[string]func() provider.Provider{
	"prover": func() provider.Provider { return new(prover) },
	"plain":  func() provider.Provider { return new(mortal) },
	"later": func() provider.Provider {
		return later.New(func(baseURL string) provider.Provider {
			inner := new(mortal)
			inner.Settings().(*openai.Settings).BaseURL = baseURL
			return inner
		})
	},
}

// builtin starts this binary as a plugin.
func builtin(plugin string) ([]string, bool) {
	return []string{"/proc/self/exe", providerArgument, plugin}, providers[plugin] != nil
}

// schemas asks each plugin once for its settings, for all tests.
var schemas = map[string]func() (settings.Schema, error){
	"prover": askSchema("prover"), "plain": askSchema("plain"), "later": askSchema("later"),
}

func askSchema(plugin string) func() (settings.Schema, error) {
	return sync.OnceValues(func() (settings.Schema, error) {
		h := host.New(host.Options{Builtin: builtin, Logger: slog.New(slog.DiscardHandler)})
		defer h.Close()
		return h.Schema(context.Background(), host.Source{Plugin: plugin})
	})
}

// mortal is a provider openai that dies of a model, and says by what each attempt is asked for.
type mortal struct{ openai.OpenAI }

func (m *mortal) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	if req.Model == "deadly" {
		os.Exit(3)
	}
	return m.OpenAI.Generate(ctx, req, func(ev llm.Event) error {
		if err := send(ev); err != nil || ev.Kind != llm.EventAccepted {
			return err
		}
		return send(llm.Event{Kind: llm.EventReference, ID: "gen-" + req.Model})
	})
}

// prover is a provider that can prove what a cancelled attempt used.
type prover struct{ mortal }

func (*prover) CancelUsage(context.Context, string) (*llm.Usage, error) {
	return &llm.Usage{Input: llm.Count(10), Output: llm.Count(7)}, nil
}

var _ provider.CancelProver = (*prover)(nil)

// bench is an engine with three routes, which are tried in this order: "first", "second" and "third".
type bench struct {
	engine   *engine.Engine
	upstream *upstream.Server
	desk     *later.Desk // of the plugin "later"
	log      *lines
	who      ledger.Principal
	asked    atomic.Int64
}

// lines is a log that may be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// about are the lines that have a text.
func (l *lines) about(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// newBench runs a plugin as its provider. Changes are made to the configuration before it is used.
func newBench(t *testing.T, plugin string, changes ...func(*config.Config)) *bench {
	t.Helper()
	b := &bench{upstream: upstream.Start(t, upstream.Options{}), desk: later.NewDesk(), log: new(lines)}
	dir, ctx := t.TempDir(), context.Background()
	var hcl strings.Builder
	fmt.Fprintf(&hcl, "gateway {\n request_timeout = \"20s\"\n}\n"+
		"provider \"up\" {\n plugin = %q\n config {\n  base_url = %q\n", plugin, b.upstream.BaseURL())
	if plugin == "later" {
		desk := httptest.NewServer(b.desk)
		t.Cleanup(desk.Close)
		fmt.Fprintf(&hcl, "  desk = %q\n", desk.URL)
	}
	hcl.WriteString(" }\n}\n")
	for i, name := range []string{"first", "second", "third"} {
		fmt.Fprintf(&hcl, "route %q {\n provider = \"up\"\n model = %q\n context_window = 200000\n"+
			" max_output = 64000\n quality = 0.%d\n offers = [\"tools\"]\n price {\n  input = 3\n  output = 15\n }\n}\n",
			name, name, 9-4*i)
	}
	path := filepath.Join(dir, "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(hcl.String()), 0o600))
	log := slog.New(slog.NewTextHandler(b.log, nil))
	cfg, diags := config.Load(ctx, path, config.Options{
		Schema: func(context.Context, config.PluginRef) (settings.Schema, error) { return schemas[plugin]() },
	})
	require.False(t, diags.HasErrors(), "%v", diags)
	for _, change := range changes {
		change(cfg)
	}
	e, err := engine.Open(engine.Options{
		OpenStore: stores.Open,
		DataDir:   filepath.Join(dir, "data"), Logger: log, Builtin: builtin, LedgerTimeout: time.Minute,
	}, cfg)
	require.NoError(t, err)
	gen, err := e.Prepare(ctx, cfg)
	require.NoError(t, err)
	e.Activate(gen)
	b.engine = e
	t.Cleanup(func() {
		requests, attempts := e.InProgress()
		require.Zero(t, requests+attempts, "every slot was given back")
		require.Zero(t, gaugeOf(t, e, "fareway_held_microcents"), "and what was held")
		report, err := e.Store().Verify(ctx)
		require.NoError(t, err)
		require.True(t, report.OK, report.Problem)
		require.Zero(t, report.Holds)
		e.Retire(gen)
		require.NoError(t, e.Close())
	})
	b.who = b.account(t, "acme", 1_000_000)
	return b
}

// account makes an account with a key and credits.
func (b *bench) account(t *testing.T, name string, credits int64) (p ledger.Principal) {
	t.Helper()
	ctx, store := context.Background(), b.engine.Store()
	var err error
	p.Account, err = store.CreateAccount(ctx, name, "")
	require.NoError(t, err)
	if credits > 0 {
		_, _, err = store.AddCredit(ctx, ledger.Credit{Account: p.Account.ID, Credits: credits})
		require.NoError(t, err)
	}
	text, hash, err := ledger.NewKey(rand.Reader)
	require.NoError(t, err)
	p.Key, err = store.CreateKey(ctx, p.Account.ID, "first", hash, ledger.Last4(text), ledger.KeyChange{})
	require.NoError(t, err)
	return p
}

// gaugeOf is the sum of one of the engine's metrics, which must be there.
func gaugeOf(t *testing.T, e *engine.Engine, name string) (sum float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(e.Metrics().Collectors()...)
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
			return sum
		}
	}
	require.Fail(t, "no such metric", name)
	return 0
}

// ask has a call answered as the handler does it, behind the steps before it.
func (b *bench) ask(t *testing.T, ctx context.Context, w http.ResponseWriter, call *gateway.Call, header ...string) {
	t.Helper()
	call.ID = fmt.Sprintf("req_%032x", b.asked.Add(1))
	call.Start, call.BodyRead = time.Now(), time.Now()
	call.Forget = func() {
		require.NotNil(t, call.Body, "once")
		call.Body = nil
	}
	call.Work = b.engine.Begin()
	if call.Principal.Account.ID == "" {
		call.Principal = b.who
	}
	defer call.Work.Done()
	if call.Family == nil {
		call.Family = chat.Server{}
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	call.From = gateway.ClientAddress(r)
	r, err := gateway.Entered(r, call)
	require.NoError(t, err)
	for _, step := range []gateway.Link{gateway.LinkAuth, gateway.LinkLimits} {
		require.Same(t, call, gateway.Take(w, r, step))
	}
	call.Document, call.Misformed = families.Parse(call.Body)
	require.NoError(t, new(Handler).ServeHTTP(w, r, nil))
}

// record is what the ledger knows of a call, which is over.
func (b *bench) record(t *testing.T, call *gateway.Call) ledger.RequestRecord {
	t.Helper()
	r, err := b.engine.Store().Request(context.Background(), call.ID)
	require.NoError(t, err)
	require.False(t, r.Running)
	return r
}

func generating(stream bool) *gateway.Call { return saying(stream, `"max_tokens":100`) }

// saying is a call that says more than what every call says.
func saying(stream bool, more string) *gateway.Call {
	return &gateway.Call{Kind: gateway.Generate,
		Body: fmt.Appendf(nil, `{"model":"service/auto","stream":%t,%s,"messages":[{"role":"user","content":"hi"}]}`,
			stream, more)}
}

// called are the models that the upstream was asked for since there were so many requests.
func (b *bench) called(t *testing.T, since int) (models []string) {
	t.Helper()
	require.NoError(t, b.upstream.Idle(t.Context()))
	for _, r := range b.upstream.Records()[since:] {
		models = append(models, r.Model)
	}
	return models
}

// hello makes a reply of "Hello", which reports 10 tokens in and 2 out.
func hello(finish string) upstream.Reply {
	return upstream.Reply{Steps: []upstream.Step{upstream.Text("Hel"), upstream.Text("lo"), upstream.Finish(finish),
		upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: 2}), upstream.Done()}}
}

const helloCost = 10*300 + 2*1_500

// wellFormed checks a reply of each kind against its schema.
var wellFormed = map[gateway.Kind]func(body []byte) error{
	gateway.Models: schema.Models, gateway.Model: schema.Model, gateway.Account: schema.Account,
	gateway.CountTokens: schema.Of("messages").Count, gateway.Generate: schema.Of("chat").Body,
}

func TestEveryKindIsAnswered(t *testing.T) {
	t.Parallel()
	b := newBench(t, "prover")
	b.upstream.SetModel("first", hello("stop"))
	for name, tc := range map[string]struct {
		call   *gateway.Call
		status int
		says   string
	}{
		"models": {&gateway.Call{Kind: gateway.Models}, 200, `{"object":"list","data":[{"id":"service/auto",` +
			`"object":"model","created":1767225600,"owned_by":"service","context_length":200000}]}`},
		"a model":         {&gateway.Call{Kind: gateway.Model, ModelID: "service/auto"}, 200, `{"id":"service/auto",`},
		"no such model":   {&gateway.Call{Kind: gateway.Model, ModelID: "other"}, 404, `set the model to \"service/auto\".`},
		"the account":     {&gateway.Call{Kind: gateway.Account}, 200, `"name":"acme"`},
		"the token count": {&gateway.Call{Kind: gateway.CountTokens, Body: generating(false).Body}, 200, `{"input_tokens":`},
		"a reply":         {generating(false), 200, `"content":"Hello"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			b.ask(t, t.Context(), w, tc.call)
			require.Equal(t, tc.status, w.Code)
			require.Contains(t, w.Body.String(), tc.says)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			if tc.status == 200 {
				require.Equal(t, fmt.Sprint(w.Body.Len()), w.Header().Get("Content-Length"))
				require.NoError(t, wellFormed[tc.call.Kind](w.Body.Bytes()), "GAP-05 GAP-116")
			}
		})
	}
}

// TestWhatAnExchangeLeaves: how a request and its attempts are in the books when it is over.
func TestWhatAnExchangeLeaves(t *testing.T) {
	t.Parallel()
	b := newBench(t, "prover")
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("BILL-23 an attempt that failed and one that did not, stream=%t", stream), func(t *testing.T) {
			b.upstream.SetModel("first", upstream.Refuse(upstream.Error{Status: 503}))
			b.upstream.SetModel("second", hello("stop"))
			w, call := httptest.NewRecorder(), generating(stream)
			b.ask(t, t.Context(), w, call)
			require.Equal(t, 200, w.Code)
			r := b.record(t, call)
			require.Equal(t, []ledger.Outcome{ledger.Failed, ledger.Finished}, outcomes(r))
			require.EqualValues(t, helloCost, r.Microcents)
			require.Equal(t, "ok", r.Reason)
			require.False(t, r.Pending)
			require.False(t, r.Free)
			rec := call.Record
			require.Regexp(t, `^req-fake-\d+$`, rec.Upstream, "what the upstream calls the request is in the log")
			rec.Profile, rec.Upstream = "", ""
			require.Equal(t, gateway.Record{Stream: stream, Route: "second", Attempts: 2, Input: 10, Output: 2,
				Microcents: helloCost, Reason: "ok", Held: true}, rec)
		})
	}
	t.Run("GAP-49 the hold is raised by what is proven", func(t *testing.T) {
		b.upstream.SetModel("first", hello("error"))
		b.upstream.SetModel("second", hello("stop"))
		once, twice := generating(false), generating(false)
		b.ask(t, t.Context(), httptest.NewRecorder(), twice)
		b.upstream.SetModel("first", hello("stop"))
		b.ask(t, t.Context(), httptest.NewRecorder(), once)
		r := b.record(t, twice)
		require.Equal(t, []ledger.Outcome{ledger.Failed, ledger.Finished}, outcomes(r))
		require.EqualValues(t, 2*helloCost, r.Microcents)
		require.EqualValues(t, helloCost, r.Held-b.record(t, once).Held)
	})
	t.Run("GAP-111 usage without a price fails the reply", func(t *testing.T) {
		absurd := hello("stop")
		absurd.Steps[3] = upstream.ReportTokens(upstream.Usage{Prompt: 10, Completion: ledger.MaxTokens + 1})
		b.upstream.SetModel("first", absurd)
		for _, stream := range []bool{false, true} {
			w, call := httptest.NewRecorder(), generating(stream)
			b.ask(t, t.Context(), w, call)
			require.Contains(t, w.Body.String(), "output was not valid")
			r := b.record(t, call)
			require.Equal(t, string(llm.ErrProtocol), r.Reason)
			require.True(t, r.Free)
			require.Zero(t, r.Microcents)
		}
	})
	t.Run("BILL-25 a panic is free", func(t *testing.T) {
		b.upstream.SetModel("first", hello("stop"))
		for _, f := range []families.Server{faulty{atOnce: true}, faulty{}} {
			call := generating(false)
			call.Family = f
			require.PanicsWithValue(t, "a fault", func() { b.ask(t, t.Context(), httptest.NewRecorder(), call) })
			r := b.record(t, call)
			require.Equal(t, 500, r.Status)
			require.Equal(t, "panic", r.Reason)
			require.True(t, r.Free)
			require.False(t, r.Pending)
			require.Zero(t, r.Microcents)
			require.NotZero(t, r.Held)
			require.Empty(t, b.log.about("settling a request that panicked"), "that went well")
		}
	})
	t.Run("GAP-47 the client leaves and the attempt proves what it used", func(t *testing.T) {
		b.upstream.SetModel("first", upstream.Reply{Steps: []upstream.Step{upstream.Headers(), upstream.Text("Hel"),
			upstream.Silence()}})
		ctx, leave := context.WithCancel(t.Context())
		w, call := &watched{httptest.NewRecorder(), func(string) { leave() }}, generating(true)
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { b.ask(t, ctx, w, call) })
		r := b.record(t, call)
		require.Equal(t, gateway.ReasonLeft, r.Reason)
		require.EqualValues(t, 10*300+7*1_500, r.Microcents)
		require.False(t, r.Pending)
		require.Equal(t, 499, r.Status, "nginx's number for it")
		require.Empty(t, b.log.about("cancelling"))
		require.Empty(t, b.log.about(call.ID), "that is no failure")
	})
}

func outcomes(r ledger.RequestRecord) (all []ledger.Outcome) {
	for _, a := range r.Attempts {
		all = append(all, a.Outcome)
	}
	return all
}

// watched is a client that does something when it gets something.
type watched struct {
	*httptest.ResponseRecorder
	got func(text string)
}

func (w *watched) Write(b []byte) (int, error) {
	w.got(string(b))
	return w.ResponseRecorder.Write(b)
}

// faulty is a family with a fault of its own: before the attempt, or with its whole reply at hand.
type faulty struct {
	chat.Server
	atOnce bool
}

func (f faulty) NewEncoder(req *families.Request, head families.Head) families.Encoder {
	if f.atOnce {
		panic("a fault")
	}
	return faultyEnd{f.Server.NewEncoder(req, head)}
}

type faultyEnd struct{ families.Encoder }

func (faultyEnd) AppendReply([]byte, *llm.Reply, families.End) []byte { panic("a fault") }
