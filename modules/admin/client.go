package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/fareway/fareway/modules/gateway"
)

// Client speaks to a running gateway's admin API. Caddy's own cmd.AdminAPIRequest folds an error's status and
// body into one text, and we want both.
type Client struct {
	gateway.Place
	Source  string // what read asks, for people
	Offline bool   // it reads the database itself, for no gateway runs
	data    string // the data folder, "" when it is not known
	named   bool   // by --admin: it is not the data folder's socket
	token   string
	actor   string // of a client of Local; "" for the user that runs this process
	http    *http.Client
}

// ErrNoGateway: nothing listens where the gateway should.
var ErrNoGateway = errors.New("no gateway is running")

// adminError is an error reply of the admin API.
type adminError struct {
	Status  int    `json:"-"`
	Message string `json:"error"`
}

func (e *adminError) Error() string { return e.Message }

// StatusOf is the HTTP status of an error reply; 0 of any other error.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*adminError](err); ok {
		return e.Status
	}
	if _, ok := errors.AsType[*PrunedProblem](err); ok {
		return http.StatusGone
	}
	return 0
}

// NewClient speaks to the gateway on the data folder, or at the admin address when one is given. Nothing is
// dialled yet.
func NewClient(data, admin string) (*Client, error) {
	at, err := gateway.Locate(data, admin)
	if err != nil {
		return nil, err
	}
	c := &Client{Place: at, data: data, named: admin != ""}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := net.Dialer{Timeout: 5 * time.Second}
			return d.DialContext(ctx, c.Network, c.Dial)
		},
	}
	if c.Network != "unix" {
		token, err := readAdminToken(data)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		c.token = token // without one the gateway says what is missing
		host, _, _ := net.SplitHostPort(c.Dial)
		if transport.TLSClientConfig, err = trust(data, host); err != nil {
			return nil, err
		}
	}
	c.http = &http.Client{Transport: transport}
	return c, nil
}

// Call sends in as JSON, unless it is nil, and decodes the reply into out. An error reply is an *adminError; an
// address where nobody listens is errNoGateway.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("reading the gateway's answer at %s: %w", c.Address, err)
	}
	// What is asked next finds this one ended: of what takes long, pages are answered one thing at a time.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAdminBody))
	return nil
}

// send sends a request and returns the reply to one that succeeded, with its body to be read and closed.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	to := "https://" + c.Dial
	if c.Network == "unix" {
		to = "http://localhost" // Caddy does not look at it on a unix socket
	}
	if c.actor != "" {
		ctx = context.WithValue(ctx, localActorKey{}, c.actor)
	}
	req, err := http.NewRequestWithContext(ctx, method, to+path, body)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set(actorHeader, LocalActor())
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(err)
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		return nil, c.refused(resp)
	}
	return resp, nil
}

// refused is the error of an error reply.
func (c *Client) refused(resp *http.Response) error {
	e := &adminError{Status: resp.StatusCode}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxAdminBody))
	if pruned := new(PrunedProblem); resp.StatusCode == http.StatusGone && json.Unmarshal(b, pruned) == nil &&
		pruned.Code == CodePruned {
		return pruned
	}
	if json.Unmarshal(b, e) != nil || e.Message == "" {
		e.Message = fmt.Sprintf("what listens at %s is no fareway gateway: it answered %s", c.Address, resp.Status)
	}
	if e.Status == http.StatusUnauthorized && c.token == "" {
		e.Message += fmt.Sprintf("; there is none in %s: name that folder with --data", c.data)
	}
	return e
}

// explain turns a failed connection into what to do about it.
func (c *Client) explain(err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case !ok || op.Op != "dial" || errors.Is(err, fs.ErrPermission) && c.Network != "unix":
		return fmt.Errorf("asking the gateway at %s: %w", c.Address, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user may not use the admin socket %s: be the user that runs the gateway, or root", c.Dial)
	case c.Off:
		return fmt.Errorf("%w on %s, or it has no admin API: its Caddyfile says `admin off`; "+
			"remove that, or add `admin unix//path/to/admin.sock` to its option fareway", ErrNoGateway, c.data)
	case c.named:
		return fmt.Errorf("%w at %s: start it with `fareway gateway up --admin %s`, or look for its address in its Caddyfile",
			ErrNoGateway, c.Address, c.Address)
	}
	return fmt.Errorf("%w on %s (no admin socket at %s): start it with `fareway gateway up --data %s`", ErrNoGateway,
		c.data, c.Dial, c.data)
}

// maxBytes is far above any profile.
const maxBytes = 256 << 20

// Bytes reads what is no JSON: Caddy's admin endpoint has some.
func (c *Client) Bytes(ctx context.Context, path string) ([]byte, error) {
	resp, err := c.send(ctx, "GET", path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	if err != nil {
		return nil, fmt.Errorf("reading the gateway's answer at %s: %w", c.Address, err)
	}
	return content, nil
}
