// Package later makes a provider that proves only afterwards what its replies used: any provider without its usage,
// which a Desk hands out as receipts when a test lets it. It is for tests of a gateway.
package later

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// Settings are what an operator can set.
type Settings struct {
	BaseURL string `hcl:"base_url" doc:"Where the upstream is."`
	Desk    string `hcl:"desk" doc:"The URL of the Desk."`
}

type later struct {
	provider.Provider
	inner    func(baseURL string) provider.Provider
	settings Settings
}

// New makes the provider. inner makes the one that it is in truth, with its settings filled.
func New(inner func(baseURL string) provider.Provider) provider.Provider {
	return &later{inner: inner}
}

// Settings implements provider.Configurable.
func (l *later) Settings() any { return &l.settings }

// Start implements provider.Starter.
func (l *later) Start(ctx context.Context) error {
	l.Provider = l.inner(l.settings.BaseURL)
	return provider.Start(ctx, l.Provider)
}

// Generate implements provider.Provider. The desk gets the usage that is left out.
func (l *later) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	return l.Provider.Generate(ctx, req, func(ev llm.Event) error {
		if ev.Kind != llm.EventUsage {
			return send(ev)
		}
		usage, err := json.Marshal(ev.Usage)
		if err != nil {
			return fmt.Errorf("leaving usage at the desk: %w", err)
		}
		resp, err := l.ask(ctx, http.MethodPost, req.Attempt, usage)
		if err != nil {
			return fmt.Errorf("leaving usage at the desk: %w", err)
		}
		return resp.Body.Close()
	})
}

// Receipts implements provider.Receipter.
func (l *later) Receipts(ctx context.Context, attempts []provider.Attempt) ([]provider.Receipt, error) {
	var receipts []provider.Receipt
	for _, attempt := range attempts {
		r, err := l.receipt(ctx, attempt.ID)
		if err != nil {
			return receipts, fmt.Errorf("asking the desk: %w", err)
		}
		if r != nil {
			receipts = append(receipts, *r)
		}
	}
	return receipts, nil
}

// receipt is nil when the desk does not hand it out.
func (l *later) receipt(ctx context.Context, attempt string) (*provider.Receipt, error) {
	resp, err := l.ask(ctx, http.MethodGet, attempt, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil
	}
	r := &provider.Receipt{Attempt: attempt}
	return r, json.NewDecoder(resp.Body).Decode(&r.Usage)
}

func (l *later) ask(ctx context.Context, method, attempt string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.settings.Desk+"/"+url.PathEscape(attempt), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

var (
	_ provider.Provider     = (*later)(nil)
	_ provider.Receipter    = (*later)(nil)
	_ provider.Configurable = (*later)(nil)
	_ provider.Starter      = (*later)(nil)
)
