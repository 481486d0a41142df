package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/endpoint"
	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/llm"
)

// plain has the Generate of a Carried.
type plain struct {
	Carried
	url string
}

func (p *plain) Endpoint(context.Context, Target) (*endpoint.Endpoint, error) {
	return &endpoint.Endpoint{URL: p.url, Dialect: endpoint.Chat}, nil
}

// passer calls a Carried's Generate in a goroutine, and sends in the one that called it what that hands over.
type passer struct{ plain }

func (p *passer) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	events, done := make(chan llm.Event), make(chan error, 1)
	go func() {
		defer close(events)
		done <- p.plain.Generate(ctx, req, func(ev llm.Event) error { events <- ev; return nil })
	}()
	for ev := range events {
		if err := send(ev); err != nil {
			return err
		}
	}
	return <-done
}

const (
	aWord  = `data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n"
	theEnd = `data: {"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\ndata: [DONE]\n\n"
)

// TestEventsOfACarriedAreNotKept: its upstream says the next word when the gateway has the last one, whoever sends it.
func TestEventsOfACarriedAreNotKept(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(url string) Provider{
		"by itself":                  func(url string) Provider { return &plain{url: url} },
		"wrapped, in two goroutines": func(url string) Provider { return &passer{plain{url: url}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const words = 20
			came := make(chan struct{}, 1)
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for range words {
					_, _ = io.WriteString(w, aWord)
					_ = http.NewResponseController(w).Flush()
					select {
					case <-came:
					case <-r.Context().Done():
						return
					}
				}
				_, _ = io.WriteString(w, theEnd)
			}))
			t.Cleanup(upstream.Close)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // bounds the test alone
			t.Cleanup(cancel)
			stream, err := serve(t, wrap(upstream.URL)).Generate(ctx, &proto.GenerateRequest{Attempt: "a", Model: "m",
				Messages: []*proto.Message{{Role: "user", Parts: []*proto.Part{{Kind: &proto.Part_Text{Text: "x"}}}}}})
			require.NoError(t, err)
			said := 0
			for {
				message, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				for _, ev := range message.GetEvents() {
					require.Nil(t, ev.GetFailure())
					if ev.GetText() == "hi" {
						said++
						came <- struct{}{}
					}
				}
			}
			require.Equal(t, words, said)
		})
	}
}
