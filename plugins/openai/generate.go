package openai

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
)

const (
	maxReply     = 32 << 20 // bytes of a reply in one piece
	maxErrorBody = 64 << 10 // bytes of an error that are looked at
	// lingerTime is how long a connection may take to end its reply after the end marker, to be used again.
	lingerTime = time.Second
)

// Generate implements provider.Provider.
func (o *OpenAI) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	if o.settings.AlwaysStream {
		streamed := *req
		streamed.Whole = false
		req = &streamed
	}
	body, err := chat.EncodeRequest(nil, req)
	if err != nil {
		return llm.Errorf(llm.ErrRejected, "encoding the request: %v", err)
	}
	// The call has a context of its own, so that the connection of a reply that ended well outlives ctx.
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	kept := false
	defer func() {
		if !kept {
			cancel()
		}
	}()

	resp, err := o.post(call, body)
	if err != nil {
		if ctx.Err() != nil {
			return gone(ctx)
		}
		return o.unanswered(err)
	}
	r := &reply{ctx: ctx, req: req, send: send}
	if resp.StatusCode/100 == 2 {
		err = r.read(resp)
	} else {
		err = o.refused(resp)
	}
	if err != nil {
		_ = resp.Body.Close() // the reply is lost already
		if ctx.Err() != nil {
			return gone(ctx)
		}
		return err
	}
	kept = true
	go linger(resp.Body, cancel)
	return nil
}

// post sends a request. The error is of package net/http.
func (o *OpenAI) post(ctx context.Context, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	req.Header.Set("User-Agent", "fareway")
	if o.authorization != "" {
		req.Header.Set("Authorization", o.authorization)
	}
	return o.client.Do(req)
}

// gone is what Generate returns when its context has ended; the gateway knows why it ended it.
func gone(ctx context.Context) error {
	return fmt.Errorf("calling the upstream: %w", context.Cause(ctx))
}

// linger reads what is left of a reply after its end marker, which is nothing but the end of the HTTP body,
// and gives the connection back. A service that does not end the body soon loses the connection instead.
func linger(body io.ReadCloser, cancel context.CancelFunc) {
	timer := time.AfterFunc(lingerTime, cancel)
	defer timer.Stop()
	defer cancel()
	_, _ = io.Copy(io.Discard, io.LimitReader(body, maxErrorBody)) // nothing of it counts
	_ = body.Close()
}

// streamed says whether a 2xx reply is an event stream. Services that name no type, or a wrong one, stream.
func streamed(header http.Header) (bool, *llm.Error) {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")) // none is ""
	switch kind {
	case "application/json":
		return false, nil
	case "text/html":
		return false, llm.Errorf(llm.ErrUpstream, "the upstream answered with a web page; check that base_url is the address of an API")
	}
	return true, nil
}
