package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func newAnthropic(url, key string) client {
	lib := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(url), option.WithAuthToken(key),
		option.WithMaxRetries(0))
	said := func(text string) []anthropic.MessageParam {
		return []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))}
	}
	return client{
		ask: func(ctx context.Context, text, model string, stop ...string) (reply, error) {
			var http *http.Response
			m, err := lib.Messages.New(ctx, anthropic.MessageNewParams{Model: model, MaxTokens: 1000, Messages: said(text),
				StopSequences: stop}, option.WithResponseInto(&http))
			if err != nil {
				return reply{}, err
			}
			id := http.Header.Get("Request-Id")
			return reply{m.Content[0].Text, m.Model, id, string(m.StopReason), m.Usage.InputTokens}, nil
		},
		start: func(ctx context.Context, text string) error {
			stream := lib.Messages.NewStreaming(ctx, anthropic.MessageNewParams{Model: "service/auto", MaxTokens: 1000,
				Messages: said(text)})
			stream.Next()
			return stream.Err()
		},
		models: func(ctx context.Context) (ids []string, err error) {
			pages := lib.Models.ListAutoPaging(ctx, anthropic.ModelListParams{})
			for pages.Next() {
				ids = append(ids, pages.Current().ID)
			}
			return ids, pages.Err()
		},
		count: func(ctx context.Context, text string) (int64, error) {
			n, err := lib.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: "service/auto",
				Messages: said(text)})
			if err != nil {
				return 0, err
			}
			return n.InputTokens, nil
		},
		get: func(ctx context.Context, path string, to any) error { return lib.Get(ctx, "v1/"+path, nil, to) },
		failed: func(err error) (int, string) {
			if e, ok := errors.AsType[*anthropic.Error](err); ok {
				return e.StatusCode, e.RequestID
			}
			return 0, ""
		},
		ended: "stop_sequence",
	}
}
