// The request surface of the two official libraries for Go, beside their tool loops. ../../node/surface.mjs says how
// it is called and what each behaviour is.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"slices"
	"strings"
)

// reply is what has come back of a request.
type reply struct {
	text, model, id, ended string
	tokens                 int64
}

// client is one of the libraries.
type client struct {
	ask    func(ctx context.Context, text, model string, stop ...string) (reply, error)
	start  func(ctx context.Context, text string) error // returns with the first piece of a stream
	models func(ctx context.Context) ([]string, error)
	count  func(ctx context.Context, text string) (int64, error)
	get    func(ctx context.Context, path string, to any) error
	// failed are the status and the request id of an error.
	failed func(err error) (status int, id string)
	ended  string // how a reply ends at a stop sequence
}

func main() {
	if len(os.Args) < 3 {
		log.Fatalf("usage: FAREWAY_URL=http://127.0.0.1:8484 FAREWAY_KEY=... %s openai|anthropic BEHAVIOUR", os.Args[0])
	}
	clients := map[string]func(url, key string) client{"openai": newOpenAI, "anthropic": newAnthropic}
	behaviours := map[string]func(context.Context, client) error{
		"stop": stop, "count": count, "models": models, "account": account, "request id": requestID,
		"long context": longContext, "model ids": modelIDs, "cancellation": cancellation,
	}
	start, ok := clients[os.Args[1]]
	try, known := behaviours[os.Args[2]]
	if !ok || !known {
		log.Fatalf("there is no %s of %s", os.Args[2], os.Args[1])
	}
	if err := try(context.Background(), start(os.Getenv("FAREWAY_URL"), os.Getenv("FAREWAY_KEY"))); err != nil {
		log.Fatal(err)
	}
}

func stop(ctx context.Context, c client) error {
	r, err := c.ask(ctx, "Hello", "service/auto", "END")
	if err == nil && (strings.TrimSpace(r.text) != "Hello." || r.ended != c.ended) {
		err = fmt.Errorf("%q ended with %s", r.text, r.ended)
	}
	return err
}

func count(ctx context.Context, c client) error {
	n, err := c.count(ctx, "Hello")
	if err == nil && n <= 0 {
		err = fmt.Errorf("%d tokens", n)
	}
	return err
}

func models(ctx context.Context, c client) error {
	ids, err := c.models(ctx)
	if err == nil && !slices.Equal(ids, []string{"service/auto"}) {
		err = fmt.Errorf("the models are %q", ids)
	}
	return err
}

func account(ctx context.Context, c client) error {
	var a struct {
		Credits struct {
			Available float64 `json:"available_credits"`
		}
	}
	err := c.get(ctx, "account", &a)
	if err == nil && a.Credits.Available <= 0 {
		err = fmt.Errorf("%v credits are available", a.Credits.Available)
	}
	return err
}

func requestID(ctx context.Context, c client) error {
	r, err := c.ask(ctx, "Hello", "service/auto")
	if err != nil {
		return err
	}
	_, err = c.ask(ctx, "Hello", "service/nothing")
	if _, id := c.failed(err); !strings.HasPrefix(r.id, "req_") || !strings.HasPrefix(id, "req_") || id == r.id {
		return fmt.Errorf("the request ids are %q and %q", r.id, id)
	}
	return nil
}

func longContext(ctx context.Context, c client) error {
	r, err := c.ask(ctx, strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20_000), "service/auto")
	if err == nil && r.tokens <= 180_000 {
		err = fmt.Errorf("%d tokens", r.tokens)
	}
	return err
}

func modelIDs(ctx context.Context, c client) error {
	for _, model := range []string{"service/auto", "auto", "service/budget", "service/balanced", "service/max"} {
		r, err := c.ask(ctx, "Hello", model)
		if err != nil {
			return err
		}
		if r.model != model {
			return fmt.Errorf("%s answers as %s", model, r.model)
		}
	}
	_, err := c.ask(ctx, "Hello", "service/nothing")
	if status, _ := c.failed(err); status != http.StatusNotFound {
		return fmt.Errorf("an unknown model gets %w", err)
	}
	return nil
}

func cancellation(ctx context.Context, c client) error {
	streaming, leave := context.WithCancel(ctx)
	if err := c.start(streaming, "long"); err != nil {
		leave()
		return err
	}
	leave()
	fmt.Println("left")
	if !bufio.NewScanner(os.Stdin).Scan() {
		return errors.New("nobody says to go on")
	}
	r, err := c.ask(ctx, "Hello", "service/auto")
	if err == nil && r.text != "Hello. END more" {
		err = fmt.Errorf("the next request gets %q", r.text)
	}
	return err
}
