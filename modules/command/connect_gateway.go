package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/connect"
)

// askTimeout bounds the questions that `connect` has for a gateway: it works without the answers, too.
const askTimeout = 5 * time.Second

// publicAddress is where clients reach the gateway on the data folder: what the running one says, else what its
// Caddyfile says, else where `up` listens when it is not told.
func publicAddress(ctx context.Context, data string) endpoint {
	if s, err := runningSite(ctx, data); err == nil {
		return s.public[0]
	}
	if s, err := readSite(filepath.Join(data, "Caddyfile")); err == nil {
		return s.public[0]
	}
	return endpoint{url: "http://" + defaultListen, dial: defaultListen}
}

// runningSite asks Caddy's own admin API, on the socket in the data folder, for the sites that it serves now.
func runningSite(ctx context.Context, data string) (*site, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := admin.NewClient(data, "unix/"+gateway.FindSocketPath(data, gateway.AdminSocket))
	if err != nil {
		return nil, err
	}
	var app caddyhttp.App
	if err := c.Call(ctx, http.MethodGet, "/config/apps/http", nil, &app); err != nil {
		return nil, err
	}
	s := &site{file: "the running gateway's configuration"}
	return s, s.readServers(&app)
}

// askSite asks Caddy for the whole configuration that it runs.
func askSite(ctx context.Context, c *admin.Client) (*site, error) {
	var runs json.RawMessage
	if err := c.Call(ctx, http.MethodGet, "/config/", nil, &runs); err != nil {
		return nil, err
	}
	return siteOf("the running gateway's configuration", runs)
}

// contextWindow is the client's: what was asked for, or what the gateway says of its model. Without either the client
// keeps its own guess, and the warning says so.
func (run *connectRun) contextWindow(ctx context.Context, c connection) (window int64, warnings []string) {
	if run.window != 0 {
		return run.window, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	window, err := askWindow(ctx, c)
	if err != nil {
		return 0, []string{fmt.Sprintf("the client will guess its context window, for %s did not say it: %v. "+
			"Run this again when it does, or give --context-window TOKENS.", c.URL, err)}
	}
	return window, nil
}

// askWindow asks /v1/models, as a client would.
func askWindow(ctx context.Context, c connection) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.API()+"/models", nil)
	if err != nil {
		return 0, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	resp, err := clientTo(c.dial).Do(req)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op // without method and URL
	}
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID            string `json:"id"`
			ContextLength int64  `json:"context_length"`
		} `json:"data"`
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET /v1/models got %s", resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list); err != nil {
		return 0, errors.New("GET /v1/models got no list of models")
	}
	for _, m := range list.Data {
		if m.ID == connect.Model && m.ContextLength > 0 {
			return m.ContextLength, nil
		}
	}
	return 0, fmt.Errorf("GET /v1/models has no %s", connect.Model)
}

// clientTo sends requests to an address whatever their host: a public name may lead elsewhere from here, for example
// to a load balancer.
func clientTo(dial string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, dial)
		},
	}}
}
