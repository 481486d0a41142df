package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// selftestTimeout bounds one request of the self test: a person waits for it.
const selftestTimeout = time.Minute

// shape is one of the three request shapes, as the self test speaks it, or a stream of one. The allowance leaves room
// for models that think before they answer.
type shape struct {
	family string // as a connection's
	path   string
	body   string
	stream bool
}

const sayHello = `"messages":[{"role":"user","content":"Say hello in one short sentence."}]`

// shapes end with a stream: how upstreams report usage differs there.
var shapes = []shape{
	{family: "chat", path: "/v1/chat/completions", body: `{"model":"service/auto","max_tokens":512,` + sayHello + `}`},
	{family: "responses", path: "/v1/responses",
		body: `{"model":"service/auto","max_output_tokens":512,"input":"Say hello in one short sentence."}`},
	{family: "messages", path: "/v1/messages", body: `{"model":"service/auto","max_tokens":512,` + sayHello + `}`},
	{family: "chat", path: "/v1/chat/completions", stream: true, body: `{"model":"service/auto","max_tokens":512,` +
		`"stream":true,"stream_options":{"include_usage":true},` + sayHello + `}`},
}

// name is what people read of it.
func (s *shape) name() string {
	if s.stream {
		return "  the same, streamed"
	}
	return s.path
}

// selfReply is what the self test reads of a reply of any shape.
type selfReply struct {
	Choices []struct { // chat completions
		Message textContent `json:"message"`
		Delta   textContent `json:"delta"` // of a stream
	} `json:"choices"`
	Output []struct { // responses
		Content []textPart `json:"content"`
	} `json:"output"`
	Content []textPart `json:"content"` // messages
	Usage   struct {
		BilledMicrocents *int64 `json:"billed_microcents"`
	} `json:"usage"`
	Error struct {
		Message string `json:"message"`
	} `json:"error"`
}

type textContent struct {
	Content string `json:"content"`
}

type textPart struct {
	Text string `json:"text"`
}

func (r *selfReply) text() string {
	var b strings.Builder
	for _, c := range r.Choices {
		b.WriteString(c.Message.Content + c.Delta.Content)
	}
	for _, o := range r.Output {
		for _, part := range o.Content {
			b.WriteString(part.Text)
		}
	}
	for _, part := range r.Content {
		b.WriteString(part.Text)
	}
	return b.String()
}

// read reads a reply of the shape: of a stream, all of its chunks as one.
func (s *shape) read(body []byte) (r selfReply, err error) {
	if !s.stream || !bytes.HasPrefix(body, []byte("data:")) { // what is refused comes in one piece
		return r, json.Unmarshal(body, &r)
	}
	ended := false
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if ended = ended || string(data) == "[DONE]"; ended || !ok {
			continue
		}
		choices := r.Choices
		r.Choices = nil
		if err := json.Unmarshal(data, &r); err != nil {
			return r, err
		}
		r.Choices = append(choices, r.Choices...)
	}
	if !ended && r.Error.Message == "" {
		r.Error.Message = "the stream has no end"
	}
	return r, nil
}

// selfResult is how one request of the self test went.
type selfResult struct {
	id         string // the request's
	text       string // the reply's
	microcents int64
}

// selftest sends one request of the shape to the gateway as a client would: through the network, with the key.
func selftest(ctx context.Context, to endpoint, key string, s shape) (selfResult, error) {
	ctx, cancel := context.WithTimeout(ctx, selftestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url+s.path, strings.NewReader(s.body))
	if err != nil {
		return selfResult{}, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := clientTo(to.dial).Do(req)
	if err != nil {
		return selfResult{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return selfResult{}, fmt.Errorf("reading the reply: %w", err)
	}
	r, err := s.read(body)
	if err != nil {
		return selfResult{}, fmt.Errorf("%s with a body that is not JSON", resp.Status)
	}
	id := resp.Header.Get("X-Request-Id")
	switch {
	case resp.StatusCode != http.StatusOK:
		return selfResult{}, fmt.Errorf("%s (%s): %s", resp.Status, id, r.Error.Message)
	case s.stream && r.Error.Message != "":
		return selfResult{}, fmt.Errorf("the reply broke off (%s): %s", id, r.Error.Message)
	case r.text() == "":
		return selfResult{}, fmt.Errorf("the reply has no text (%s)", id)
	case r.Usage.BilledMicrocents == nil:
		return selfResult{}, fmt.Errorf("the reply does not say what it cost (%s)", id)
	}
	return selfResult{id: id, text: r.text(), microcents: *r.Usage.BilledMicrocents}, nil
}
