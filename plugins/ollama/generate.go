package ollama

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/tokens"
)

const (
	ndjson    = "application/x-ndjson"
	oneObject = "application/json"
)

// Generate implements provider.Provider.
func (o *Ollama) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	return o.generate(ctx, req, refuses, send)
}

// generate is Generate for an Ollama that refuses that.
func (o *Ollama) generate(ctx context.Context, req *llm.Request, refuses []string, send func(llm.Event) error) error {
	req, names, err := conform.Request(req, refuses)
	if err != nil {
		return err
	}
	m, err := o.model(ctx, req.Model)
	if err != nil {
		return err
	}
	room := o.room(req, m)
	if m.cuts && room > 0 && tokens.Estimate(req) > room {
		return overflow(room)
	}
	body, err := o.encode(req, m, room)
	if err != nil {
		return llm.Errorf(llm.ErrRejected, "encoding the request: %v", err)
	}
	do := o.client.Do
	if o.wholly(req) {
		do = o.client.DoWhole
	}
	resp, err := o.call(ctx, do, http.MethodPost, "/api/chat", body, ndjson, req.Model)
	if err != nil {
		return o.explain(ctx, err, req.Model, room)
	}
	defer func() { _ = resp.Body.Close() }() // nothing more of it counts
	id := o.endpoint.RequestID(resp.Header)
	if err := send(llm.Event{Kind: llm.EventAccepted, ID: id}); err != nil {
		return err
	}
	meter := &meter{send: func(ev llm.Event) error { return send(names.Client(ev)) }, req: req}
	d := newDecoder(meter.take)
	d.out.Allowance(req.Bound())
	err = read(resp, d)
	var failed *llm.Error
	if errors.As(err, &failed) {
		_ = meter.count() // the failure says why the reply ended
		named := *failed
		named.RequestID = id
		if named.Kind == llm.ErrContext {
			named.Message = overflow(room).Message
		}
		return &named
	}
	return err
}

// read takes a reply to its end.
func read(resp *http.Response, d *decoder) error {
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind { // none is ""
	case "text/html":
		return llm.Errorf(llm.ErrUpstream,
			"the upstream answered with a web page; check that base_url is the address of Ollama")
	case oneObject:
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxLine))
		if err != nil {
			return err
		}
		if err := d.line(body); err != nil {
			return err
		}
		endpoint.Finish(resp)
		return d.end()
	}
	for stream := newLines(resp.Body); !d.done; {
		line, err := stream.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return d.out.Fail(err) // after the usage so far
		}
		if err := d.line(line); err != nil {
			return err
		}
	}
	endpoint.Finish(resp) // before the caller hears of the end and leaves
	return d.end()
}

// doer makes a request, as of endpoint.Client.
type doer func(*endpoint.Endpoint, *http.Request) (*http.Response, error)

// call makes a request. A reply that is not a 2xx is an error.
func (o *Ollama) call(ctx context.Context, do doer, method, path string, body []byte, accept, model string,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, o.base.String()+path, nil)
	if err != nil {
		return nil, llm.Errorf(llm.ErrProtocol, "making the request: %v", err)
	}
	if len(body) > 0 {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	req.Header.Set("Accept", accept)
	resp, err := do(&o.endpoint, req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	return nil, o.endpoint.Refusal(resp, func(status int, retryAfter string, body []byte) *llm.Error {
		return refusal(status, retryAfter, body, model)
	})
}

// refusal makes the error of a reply that is not a 2xx.
func refusal(status int, retryAfter string, body []byte, model string) *llm.Error {
	failed := reply.Refusal(status, retryAfter, body)
	failed.Message = strings.ReplaceAll(failed.Message, "pull MODEL", "pull "+model)
	return failed
}

func overflow(room int64) *llm.Error {
	return llm.Errorf(llm.ErrContext,
		"the prompt does not fit the %d tokens that the model is loaded with; more is num_ctx, or the route's context_window",
		room)
}

// explain adds to the error of a chat what only Ollama can say.
func (o *Ollama) explain(ctx context.Context, err error, model string, room int64) error {
	var failed *llm.Error
	if !errors.As(err, &failed) {
		return err // the caller left
	}
	if failed.Status != 0 {
		o.forget(model)
		if failed.Kind == llm.ErrContext {
			failed.Message = overflow(room).Message
		}
		return failed
	}
	if o.loading(ctx, model) {
		failed.Message += "; Ollama is there, and the model is not loaded yet: wait until it is (`ollama ps`), " +
			"give it more time with first_byte_timeout and whole_reply_timeout, and keep it loaded with keep_alive"
	}
	return failed
}

// psTimeout bounds the question which models are loaded, which an error waits for.
const psTimeout = 2 * time.Second

// loading reports whether Ollama answers and does not have the model in memory.
func (o *Ollama) loading(ctx context.Context, model string) bool {
	ctx, cancel := context.WithTimeout(ctx, psTimeout)
	defer cancel()
	root, err := o.ask(ctx, http.MethodGet, "/api/ps", "", model)
	if err != nil {
		return false
	}
	for _, loaded := range root.Get("models").Elems() {
		name, _ := loaded.Get("name").Str()
		if name == model || name == model+":latest" {
			return false
		}
	}
	return true
}

// meter counts a reply where Ollama does not and the request says to (GAP-108).
type meter struct {
	send     func(llm.Event) error
	req      *llm.Request
	reported bool
	produced tokens.Output
}

func (m *meter) take(ev llm.Event) error {
	switch ev.Kind {
	case llm.EventUsage:
		if m.req.EstimateUsage && m.produced.Any() && ev.Usage.Blank() {
			return nil // it is counted here
		}
		m.reported = ev.Usage.Known()
	case llm.EventFinish:
		if err := m.count(); err != nil {
			return err
		}
	}
	m.produced.Add(ev)
	return m.send(ev)
}

// count sends the usage that was counted here, if there is need.
func (m *meter) count() error {
	if m.reported || !m.req.EstimateUsage || !m.produced.Any() {
		return nil
	}
	output, reasoning := m.produced.Count()
	input := tokens.Estimate(m.req)
	usage := &llm.Usage{Input: &input, Output: &output, Estimated: true}
	if reasoning > 0 {
		usage.Reasoning = &reasoning
	}
	return m.send(llm.Event{Kind: llm.EventUsage, Usage: usage})
}
