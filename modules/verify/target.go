package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/modules/verify/wire"
)

// Limits bound what a run may do to a deployment.
type Limits struct {
	Requests  int64         // requests of all kinds
	Credits   int64         // whole credits, by what the replies say they cost (1 credit = US$0.01)
	Allowance int           // output tokens of one request
	Timeout   time.Duration // of one request with its reply
	Parallel  int           // requests at a time, after the checks of money
}

// DefaultLimits are generous for an ordinary deployment: a run needs about 800 requests, of which about 170
// are charged.
var DefaultLimits = Limits{Requests: 2000, Credits: 100, Allowance: 512, Timeout: 2 * time.Minute, Parallel: 4}

// Target is the deployment under test. Its methods may be called by several goroutines.
type Target struct {
	base   string // scheme and host, without a slash at the end
	key    string
	limits Limits
	own    bool // a gateway of the run's own: what it writes is judged whole
	client *http.Client
	memory memory

	requests atomic.Int64
	spent    atomic.Int64 // microcents
	mu       sync.Mutex
	server   string // the Server header that replies carry
}

// NewTarget makes a target of a deployment's base URL (scheme and host only, GEN-01) and an API key.
func NewTarget(base, key string, limits Limits) (*Target, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("reading the base URL %q: write scheme and host, as in https://api.example.com", base)
	}
	if strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("reading the base URL %q: leave the path away (without /v1), as in %s://%s", base, u.Scheme,
			u.Host)
	}
	if strings.TrimSpace(key) == "" {
		return nil, errors.New("there is no API key: give one with --key-file, in FAREWAY_KEY, or with --key")
	}
	return &Target{
		base: u.Scheme + "://" + u.Host, key: strings.TrimSpace(key), limits: limits,
		memory: memory{cells: make(map[string]*cell)},
		client: &http.Client{
			// The contract has no redirects (GAP-04).
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DisableCompression: true, ForceAttemptHTTP2: true,
				MaxIdleConnsPerHost: limits.Parallel + 1, ExpectContinueTimeout: limits.Timeout,
			},
		},
	}, nil
}

// call is a request to make. The zero value of Method is POST where there is a body.
type call struct {
	Method, Path string
	Body         string
	Header       http.Header // replaces what is set by itself; a name with no values removes it
}

func (c call) method() string {
	switch {
	case c.Method != "":
		return c.Method
	case c.Body != "":
		return http.MethodPost
	}
	return http.MethodGet
}

// String names the call in a detail. Bodies are the suite's own and hold no secret; headers may.
func (c call) String() string {
	body := c.Body
	if len(body) > 160 {
		body = strings.ToValidUTF8(body[:160], "") + "..."
	}
	return strings.TrimSpace(c.method() + " " + c.Path + " " + body)
}

// maxReply bounds what is read of a reply, in bytes.
const maxReply = 16 << 20

// answer is a whole reply.
type answer struct {
	call   call
	Status int
	Header http.Header
	Raw    []byte
	Leaked bool  // the key was in the body; it is no longer
	Cut    error // why the body ended before its end, nil when it did not
}

// limitTries is how often a rate limit is waited for: when it frees, other checks are there, too.
const limitTries = 3

// do sends a request and reads its whole reply. A rate limit is waited for.
func (t *T) do(c call) *answer {
	a := t.send(c)
	for range limitTries {
		if a.Status != http.StatusTooManyRequests || !t.backOff(a) {
			break
		}
		a = t.send(c)
	}
	return a
}

// backOff waits as long as a 429 says; false when the check is over before that.
func (t *T) backOff(a *answer) bool {
	wait := 5 * time.Second // capacity: "back off a few seconds" (LIM-12)
	if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && seconds >= 0 && seconds <= 60 {
		wait = time.Duration(seconds) * time.Second
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.ctx.Done():
		return false
	}
}

func (t *T) send(c call) *answer {
	ctx, cancel := context.WithTimeout(t.ctx, t.limits.Timeout)
	defer cancel()
	resp := t.open(ctx, c)
	defer resp.Body.Close()
	return t.read(c, resp)
}

// requestID is how the service writes the ids of requests.
var requestID = regexp.MustCompile(`^req_[0-9a-f]{32}$`)

// read reads the rest of a reply.
func (t *T) read(c call, resp *http.Response) *answer {
	a := &answer{call: c, Status: resp.StatusCode, Header: resp.Header}
	a.Raw, a.Cut = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if hidden := t.hide(string(a.Raw)); hidden != string(a.Raw) {
		a.Raw, a.Leaked = []byte(hidden), true
	}
	if t.own && a.Cut == nil {
		err := wire.CheckSchema(c.Path, a.Status, a.Header, a.Raw)
		t.True(err == nil, "%s: %v", c, err)
		t.True(requestID.MatchString(a.Header.Get("X-Request-Id")), "%s: X-Request-Id is %q", c,
			a.Header.Get("X-Request-Id"))
	}
	t.account(a)
	return a
}

// hide takes the key out of what may be printed. Its last character may be another: checks mistype it.
func (t *Target) hide(s string) string {
	if len(t.key) < 8 {
		return s
	}
	return strings.ReplaceAll(s, t.key[:len(t.key)-1], "[the key]")
}

// open sends a request and returns when its reply begins.
func (t *T) open(ctx context.Context, c call) *http.Response {
	if t.requests.Add(1) > t.limits.Requests {
		t.Pendingf("the run has sent all of its %d requests", t.limits.Requests)
	}
	if t.spent.Load() > t.limits.Credits*microcentsPerCredit {
		t.Pendingf("the run has spent its %d credits (--budget)", t.limits.Credits)
	}
	req, err := http.NewRequestWithContext(ctx, c.method(), t.base+c.Path, strings.NewReader(c.Body))
	if err != nil {
		t.Fatalf("making %s: %v", c, err)
	}
	if c.Body == "" {
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", userAgent())
	req.Header.Set("Authorization", "Bearer "+t.key)
	for name, values := range c.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	resp, err := t.client.Do(req)
	if err != nil {
		t.Pendingf("%s got no reply: %v", c, withoutURL(err))
	}
	if server := resp.Header.Get("Server"); server != "" {
		t.mu.Lock()
		t.server = t.hide(server)
		t.mu.Unlock()
	}
	return resp
}

// withoutURL leaves out what net/http says around an error: the call is named already.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// account adds up what the run costs.
func (t *Target) account(a *answer) {
	if at := bytes.LastIndex(a.Raw, []byte(`"billed_microcents":`)); at >= 0 && a.Status == http.StatusOK {
		text := strings.TrimSpace(string(a.Raw[at+len(`"billed_microcents":`):]))
		end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
		if n, err := strconv.ParseInt(text[:max(end, 0)], 10, 64); err == nil {
			t.spent.Add(n)
		}
	}
}

// JSON is the body, which must be one JSON object. Numbers are json.Number.
func (a *answer) JSON(t *T) map[string]any {
	v, err := wire.Decode(a.Raw)
	if err != nil {
		t.Fatalf("%s: the body of the %d is no JSON object (%v): %s", a.call, a.Status, err, brief(string(a.Raw)))
	}
	return v
}
