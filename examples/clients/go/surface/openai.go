package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func newOpenAI(url, key string) client {
	lib := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
	params := func(text, model string, stop []string) openai.ChatCompletionNewParams {
		p := openai.ChatCompletionNewParams{Model: model,
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
		if len(stop) > 0 {
			p.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: stop}
		}
		return p
	}
	return client{
		ask: func(ctx context.Context, text, model string, stop ...string) (reply, error) {
			var http *http.Response
			c, err := lib.Chat.Completions.New(ctx, params(text, model, stop), option.WithResponseInto(&http))
			if err != nil {
				return reply{}, err
			}
			return reply{c.Choices[0].Message.Content, c.Model, http.Header.Get("X-Request-Id"), c.Choices[0].FinishReason,
				c.Usage.PromptTokens}, nil
		},
		start: func(ctx context.Context, text string) error {
			stream := lib.Chat.Completions.NewStreaming(ctx, params(text, "service/auto", nil))
			stream.Next()
			return stream.Err()
		},
		models: func(ctx context.Context) (ids []string, err error) {
			pages := lib.Models.ListAutoPaging(ctx)
			for pages.Next() {
				ids = append(ids, pages.Current().ID)
			}
			return ids, pages.Err()
		},
		get: func(ctx context.Context, path string, to any) error { return lib.Get(ctx, path, nil, to) },
		failed: func(err error) (int, string) {
			if e, ok := errors.AsType[*openai.Error](err); ok {
				return e.StatusCode, e.Response.Header.Get("X-Request-Id")
			}
			return 0, ""
		},
		ended: "stop",
	}
}
