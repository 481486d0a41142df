package bedrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/schemas"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http/protocol/restjson1"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/internal/conform"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// Generate implements provider.Provider.
func (b *Bedrock) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	return b.generate(ctx, req, refuses(req.Model), send)
}

// generate is Generate for a model for which Bedrock refuses that.
func (b *Bedrock) generate(ctx context.Context, req *llm.Request, refuses []string, send func(llm.Event) error) error {
	req, names, err := conform.Request(req, refuses)
	if err != nil {
		return err
	}
	mark, alsoTools := b.caching(req.Model)
	in, err := encodeRequest(req, mark, alsoTools)
	if err != nil {
		return llm.Errorf(llm.ErrRejected, "encoding the request: %v", err)
	}
	c := &call{http: &b.http, endpoint: &b.endpoint}
	out, err := b.client.ConverseStream(ctx, in, withHTTPClient(c))
	if err != nil {
		return c.refused(ctx, err)
	}
	return c.read(out.GetStream(), req.Bound(), func(ev llm.Event) error { return send(names.Client(ev)) })
}

// withHTTPClient makes a request by an HTTP client of its own.
func withHTTPClient(c bedrockruntime.HTTPClient) func(*bedrockruntime.Options) {
	return func(o *bedrockruntime.Options) {
		o.HTTPClient = c
		// The library reads all streams of a client into one buffer (smithy-go v1.28.8): each call has its own.
		o.Protocol = restjson1.New(schemas.AmazonBedrockFrontendService)
	}
}

// read takes a reply to its end, and closes it. bound is the most output that it can have, see llm.Request.Bound.
func (c *call) read(stream *bedrockruntime.ConverseStreamEventStream, bound int64, send func(llm.Event) error) error {
	defer func() { _ = stream.Close() }() // what went wrong is known by then
	if err := send(llm.Event{Kind: llm.EventAccepted, ID: c.requestID}); err != nil {
		return err
	}
	d := newDecoder(send)
	d.out.Allowance(bound)
	for event := range stream.Events() {
		if err := d.event(event); err != nil {
			return c.named(err)
		}
	}
	if err := stream.Err(); err != nil {
		return c.named(d.out.Fail(c.streamError(err)))
	}
	return c.named(d.end())
}

// call is one request, as the library makes it.
type call struct {
	http      *endpoint.Client
	endpoint  *endpoint.Endpoint
	resp      *http.Response // its head
	requestID string
	broken    error // how reading the reply failed
}

// Do implements bedrockruntime.HTTPClient.
func (c *call) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		// The library closes a body once the head of the reply has come, when the transport may still look for its end:
		// one call in ten thousand lost its connection by that (smithy-go v1.28.8).
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
		req.Body, _ = req.GetBody()
	}
	resp, err := c.http.Do(c.endpoint, req)
	if err != nil {
		return nil, err
	}
	head := *resp
	head.Body = http.NoBody
	c.resp, c.requestID = &head, c.endpoint.RequestID(resp.Header)
	resp.Body = &noting{resp.Body, c}
	return resp, nil
}

// noting keeps the error of a body, of which the library's own may say less.
type noting struct {
	io.ReadCloser
	call *call
}

func (n *noting) Read(p []byte) (int, error) {
	read, err := n.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.call.broken = err
	}
	return read, err
}

// refused makes the error of a request that got no stream.
func (c *call) refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("calling the upstream: %w", context.Cause(ctx))
	}
	if failed, ok := errors.AsType[*llm.Error](err); ok { // of the connection
		return failed
	}
	if c.resp == nil { // before anything was sent
		return unsignable(c.endpoint)
	}
	if c.resp.StatusCode/100 == 2 {
		return c.named(llm.Errorf(llm.ErrProtocol, "the upstream's reply is not an event stream; check base_url"))
	}
	return c.endpoint.Refusal(c.resp, func(status int, _ string, _ []byte) *llm.Error { return failure(status, err) })
}

// unsignable is the error of a request that could not be signed. Why is not repeated: it may show what a file holds.
func unsignable(e *endpoint.Endpoint) error {
	return llm.Errorf(llm.ErrCredentials, "signing the request: check %s", e.Settings.Key)
}

// streamError makes the error of a stream that failed.
func (c *call) streamError(err error) error {
	if c.broken != nil {
		return c.broken // that of the connection, or of a caller who left
	}
	if _, ok := errors.AsType[smithy.APIError](err); ok {
		return failure(0, err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return llm.Errorf(llm.ErrBroken, "the upstream's stream ended in the middle of an event")
	}
	return llm.Errorf(llm.ErrProtocol, "the upstream's event stream could not be read (%T)", err)
}

// named adds the upstream's name for the request.
func (c *call) named(err error) error {
	failed, ok := errors.AsType[*llm.Error](err)
	if !ok || failed.RequestID != "" {
		return err
	}
	with := *failed
	with.RequestID = c.requestID
	return &with
}

// failure makes the error of an exception; status is 0 for one in a stream.
func failure(status int, err error) *llm.Error {
	if exception, ok := errors.AsType[smithy.APIError](err); ok {
		return reply.Exception(status, exception.ErrorCode(), exception.ErrorMessage())
	}
	return reply.Exception(status, "", "")
}
