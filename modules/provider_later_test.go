package modules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
)

// later is a provider whose upstream tells what a reply used afterwards only: the provider openai without its
// usage, which the test's desk gives as receipts.
type later struct {
	settings laterSettings
	openai.OpenAI
}

type laterSettings struct {
	BaseURL string `hcl:"base_url" doc:"As the provider openai's."`
	Desk    string `hcl:"desk" doc:"Where the desk is."`
}

func newLater() provider.Provider { return new(later) }

func (l *later) Settings() any { return &l.settings }

func (l *later) Start(ctx context.Context) error {
	l.OpenAI.Settings().(*openai.Settings).BaseURL = l.settings.BaseURL
	return l.OpenAI.Start(ctx)
}

// Generate implements provider.Provider. The desk hears of what is left out.
func (l *later) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	return l.OpenAI.Generate(ctx, req, func(ev llm.Event) error {
		if ev.Kind != llm.EventUsage {
			return send(ev)
		}
		usage, err := json.Marshal(ev.Usage)
		if err != nil {
			return err
		}
		resp, err := http.Post(l.settings.Desk+"/"+url.PathEscape(req.Attempt), "application/json", strings.NewReader(string(usage)))
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

// Receipts implements provider.Receipter.
func (l *later) Receipts(ctx context.Context, attempts []string) ([]provider.Receipt, error) {
	var receipts []provider.Receipt
	for _, attempt := range attempts {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.settings.Desk+"/"+url.PathEscape(attempt), nil)
		if err != nil {
			return receipts, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return receipts, err
		}
		if resp.StatusCode == http.StatusOK {
			receipt := provider.Receipt{Attempt: attempt}
			err = json.NewDecoder(resp.Body).Decode(&receipt.Usage)
			receipts = append(receipts, receipt)
		}
		if err != nil {
			return receipts, err
		}
		if err := resp.Body.Close(); err != nil {
			return receipts, err
		}
	}
	return receipts, nil
}

var (
	_ provider.Receipter    = (*later)(nil)
	_ provider.Configurable = (*later)(nil)
	_ provider.Starter      = (*later)(nil)
)

// desk keeps the receipts of the provider "later" until the test hands them out.
type desk struct {
	server *httptest.Server

	mu      sync.Mutex
	usage   map[string]string // by attempt
	open    map[string]bool
	asked   map[string]int
	changed chan struct{}
}

func newDesk(t testing.TB) *desk {
	d := &desk{usage: make(map[string]string), open: make(map[string]bool), asked: make(map[string]int), changed: make(chan struct{})}
	d.server = httptest.NewServer(d)
	t.Cleanup(d.server.Close)
	return d
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	attempt := strings.TrimPrefix(r.URL.Path, "/")
	var usage json.RawMessage
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&usage); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
	if r.Method == http.MethodPost {
		d.usage[attempt] = string(usage)
		return
	}
	d.asked[attempt]++
	if d.usage[attempt] == "" || !d.open[attempt] {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, d.usage[attempt])
}

// Asked waits until the provider was asked so many times for an attempt's receipt.
func (d *desk) Asked(t testing.TB, attempt string, times int) {
	t.Helper()
	for {
		d.mu.Lock()
		asked, changed := d.asked[attempt], d.changed
		d.mu.Unlock()
		if asked >= times {
			return
		}
		select {
		case <-changed:
		case <-within(t).Done():
			require.Fail(t, "nobody asks", attempt)
		}
	}
}

// HandOut lets the provider have an attempt's receipt from now on.
func (d *desk) HandOut(attempt string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[attempt] = true
}

// Learn hands out a receipt of so many output tokens for an attempt whose end the provider has not seen.
func (d *desk) Learn(attempt string, output int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.usage[attempt], d.open[attempt] = fmt.Sprintf(`{"Output":%d}`, output), true
}
