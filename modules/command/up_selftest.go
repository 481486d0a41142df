package command

import (
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

// shape is one of the three request shapes, as the self test speaks it. The allowance leaves room for models that
// think before they answer.
type shape struct {
	family string // as a connection's
	path   string
	body   string
}

var shapes = []shape{
	{"chat", "/v1/chat/completions",
		`{"model":"service/auto","max_tokens":512,` +
			`"messages":[{"role":"user","content":"Say hello in one short sentence."}]}`},
	{"responses", "/v1/responses",
		`{"model":"service/auto","max_output_tokens":512,"input":"Say hello in one short sentence."}`},
	{"messages", "/v1/messages",
		`{"model":"service/auto","max_tokens":512,` +
			`"messages":[{"role":"user","content":"Say hello in one short sentence."}]}`},
}

// selfReply is what the self test reads of a reply of any shape.
type selfReply struct {
	Choices []struct { // chat completions
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
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

type textPart struct {
	Text string `json:"text"`
}

func (r *selfReply) text() string {
	var b strings.Builder
	for _, c := range r.Choices {
		b.WriteString(c.Message.Content)
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

// selfResult is how one request of the self test went.
type selfResult struct {
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
	var r selfReply
	if err := json.Unmarshal(body, &r); err != nil {
		return selfResult{}, fmt.Errorf("%s with a body that is not JSON", resp.Status)
	}
	id := resp.Header.Get("X-Request-Id")
	switch {
	case resp.StatusCode != http.StatusOK:
		return selfResult{}, fmt.Errorf("%s (%s): %s", resp.Status, id, r.Error.Message)
	case r.text() == "":
		return selfResult{}, fmt.Errorf("the reply has no text (%s)", id)
	case r.Usage.BilledMicrocents == nil:
		return selfResult{}, fmt.Errorf("the reply does not say what it cost (%s)", id)
	}
	return selfResult{text: r.text(), microcents: *r.Usage.BilledMicrocents}, nil
}
