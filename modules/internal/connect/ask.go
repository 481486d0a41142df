package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// askTimeout bounds one request: a person waits for it.
const askTimeout = time.Minute

// Shape is one of the three request shapes, or a stream of one, with a short request of it. The allowance leaves room
// for models that think before they answer.
type Shape struct {
	Family string // chat, responses or messages
	Path   string
	Body   string // JSON
	Stream bool
}

const sayHello = `"messages":[{"role":"user","content":"Say hello in one short sentence."}]`

// Shapes end with a Stream: how upstreams report usage differs there.
var Shapes = []Shape{
	{Family: "chat", Path: "/v1/chat/completions", Body: `{"model":"service/auto","max_tokens":512,` + sayHello + `}`},
	{Family: "responses", Path: "/v1/responses",
		Body: `{"model":"service/auto","max_output_tokens":512,"input":"Say hello in one short sentence."}`},
	{Family: "messages", Path: "/v1/messages", Body: `{"model":"service/auto","max_tokens":512,` + sayHello + `}`},
	{Family: "chat", Path: "/v1/chat/completions", Stream: true, Body: `{"model":"service/auto","max_tokens":512,` +
		`"stream":true,"stream_options":{"include_usage":true},` + sayHello + `}`},
}

// Name is what people read of it.
func (s *Shape) Name() string {
	if s.Stream {
		return "  the same, streamed"
	}
	return s.Path
}

// reply is what is read of a reply of any shape.
type reply struct {
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

func (r *reply) text() string {
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
func (s *Shape) read(body []byte) (r reply, err error) {
	if !s.Stream || !bytes.HasPrefix(body, []byte("data:")) { // what is refused comes in one piece
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

// Answer is how a request was answered.
type Answer struct {
	ID         string // the request's, also with an error; "" where there was no answer
	Text       string // the reply's
	Microcents int64  // charged
}

// Ask sends one request of the shape to the gateway as a client would, with the key, and reads the whole reply. It is
// charged. send is how it gets there, as http.Client's Do. It takes a minute at most.
func Ask(ctx context.Context, url, key string, s Shape, send func(*http.Request) (*http.Response, error)) (
	a Answer, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+s.Path, strings.NewReader(s.Body))
	if err != nil {
		return a, fmt.Errorf("making the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := send(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.ID = resp.Header.Get("X-Request-Id")
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return a, fmt.Errorf("reading the reply: %w", err)
	}
	r, err := s.read(body)
	if err != nil {
		return a, fmt.Errorf("%s with a body that is not JSON", resp.Status)
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return a, fmt.Errorf("%s (%s): %s", resp.Status, a.ID, r.Error.Message)
	case s.Stream && r.Error.Message != "":
		return a, fmt.Errorf("the reply broke off (%s): %s", a.ID, r.Error.Message)
	case r.text() == "":
		return a, fmt.Errorf("the reply has no text (%s)", a.ID)
	case r.Usage.BilledMicrocents == nil:
		return a, fmt.Errorf("the reply does not say what it cost (%s)", a.ID)
	}
	a.Text, a.Microcents = r.text(), *r.Usage.BilledMicrocents
	return a, nil
}

// ShapeOf is the shape of a family that is not streamed. An unknown family is a fault of the caller.
func ShapeOf(family string) Shape {
	return Shapes[slices.IndexFunc(Shapes, func(s Shape) bool { return s.Family == family })]
}
