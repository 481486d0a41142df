// Package echo is a provider without an upstream: it answers from the prompt, always in the same way, and
// needs no network. A new gateway runs on it, and tests and demonstrations do.
//
// What it answers, by the last message of the conversation:
//
//   - Text: "You said: " and the text.
//   - No text at all, or system messages only: a greeting.
//   - Lines of the form `call NAME {json}`, where the request offers tools: a call of the tool NAME with
//     these arguments ({} without any), one for each such line, in parallel. A tool_choice that demands a
//     call gets one (of the named or of the first tool, with {}) also without such a line.
//   - Tool results: "The tool NAME answered: " and the result, a line for each.
//   - Under a format (json_object or json_schema): the same reply as the object {"reply": "..."}.
//
// It counts one token for each word (what is between white space). Input is the words of all messages and of
// the tools' names, descriptions and schemas; output is the words of the reply, of its hidden reasoning, and
// of each call's name and arguments. It reports this exactly, and obeys max_tokens by it.
package echo

import (
	"context"
	"errors"
	"time"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// Settings are what an operator can set.
type Settings struct {
	FirstDelay time.Duration `hcl:"first_delay,optional"`
	Delay      time.Duration `hcl:"delay,optional"`
	Piece      int           `hcl:"piece,optional"`
	Reasoning  bool          `hcl:"reasoning,optional"`
	HonourStop bool          `hcl:"honour_stop,optional"`
}

// Docs implements provider.Documented.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"first_delay": "How long to wait before the first piece of a reply, such as \"500ms\"; the request counts as " +
			"accepted before. Default: 0s.",
		"delay":     "How long to wait before each further piece, such as \"50ms\". Default: 0s.",
		"piece":     "Characters in a piece, at least 1. Default: 12.",
		"reasoning": "Think before the answer: hidden reasoning is sent, and counts as output. Default: false.",
		"honour_stop": "End at the first stop sequence, as some upstreams do; otherwise that is left to the gateway. " +
			"Default: false.",
	}
}

// Echo is the provider.
type Echo struct {
	settings Settings
}

// New makes an echo with the default settings.
func New() provider.Provider {
	return &Echo{settings: Settings{Piece: 12}}
}

// Settings implements provider.Configurable.
func (e *Echo) Settings() any { return &e.settings }

// Start implements provider.Starter: it checks the settings.
func (e *Echo) Start(context.Context) error {
	if e.settings.Piece < 1 {
		return errors.New("setting piece must be at least 1 (characters)")
	}
	if e.settings.FirstDelay < 0 || e.settings.Delay < 0 {
		return errors.New("settings first_delay and delay must not be negative")
	}
	return nil
}

// Generate implements provider.Provider.
func (e *Echo) Generate(ctx context.Context, req *llm.Request, send func(llm.Event) error) error {
	if err := send(llm.Event{Kind: llm.EventAccepted, Model: req.Model}); err != nil {
		return err
	}
	r := e.compose(req)
	out := writer{ctx: ctx, send: send, settings: e.settings, wait: e.settings.FirstDelay}
	out.pieces(llm.Event{Kind: llm.EventReasoning}, r.reasoning)
	out.pieces(llm.Event{Kind: llm.EventText}, r.text)
	for i, c := range r.calls {
		out.event(llm.Event{Kind: llm.EventToolCall, Index: i, ID: c.ID, Name: c.Name})
		out.pieces(llm.Event{Kind: llm.EventToolArguments, Index: i}, c.Arguments.String())
		out.event(llm.Event{Kind: llm.EventToolEnd, Index: i})
	}
	out.event(llm.Event{Kind: llm.EventUsage, Usage: &llm.Usage{
		Input:     llm.Count(inputWords(req)),
		Output:    llm.Count(r.words),
		Reasoning: llm.Count(words(r.reasoning)),
	}})
	out.event(llm.Event{Kind: llm.EventFinish, Finish: r.finish})
	return out.err
}

// CountTokens implements provider.TokenCounter.
func (e *Echo) CountTokens(_ context.Context, req *llm.Request) (int64, error) {
	return inputWords(req), nil
}

// writer sends the pieces of a reply at the pace of the settings. Its first error ends it.
type writer struct {
	ctx      context.Context
	send     func(llm.Event) error
	settings Settings
	wait     time.Duration // before the next piece
	err      error
}

func (w *writer) event(ev llm.Event) {
	if w.err == nil {
		w.err = w.send(ev)
	}
}

// pieces sends text in events like ev.
func (w *writer) pieces(ev llm.Event, text string) {
	for text != "" && w.err == nil {
		ev.Text, text = cut(text, w.settings.Piece)
		if w.pause(); w.err == nil {
			w.event(ev)
		}
	}
}

func (w *writer) pause() {
	wait := w.wait
	w.wait = w.settings.Delay
	if wait == 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
		w.err = context.Cause(w.ctx)
	}
}

var (
	_ provider.Provider     = (*Echo)(nil)
	_ provider.Configurable = (*Echo)(nil)
	_ provider.Starter      = (*Echo)(nil)
	_ provider.TokenCounter = (*Echo)(nil)
)
