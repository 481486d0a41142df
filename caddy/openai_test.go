//go:build linux

package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

func newOpenAI(url, key string, more ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(url + "/v1"), option.WithAPIKey(key), option.WithMaxRetries(0)}, more...)...)
}

// billing is the service's addition to a family's usage.
type billing struct {
	Microcents int64
	Pending    bool
}

// billed reads it where the client library leaves what it does not know.
func billed(t testing.TB, extra map[string]respjson.Field) (b billing) {
	t.Helper()
	require.Contains(t, extra, "billed_microcents")
	require.Contains(t, extra, "billing_pending")
	require.NoError(t, json.Unmarshal([]byte(extra["billed_microcents"].Raw()), &b.Microcents))
	require.NoError(t, json.Unmarshal([]byte(extra["billing_pending"].Raw()), &b.Pending))
	return b
}

// completion does a chat request; a stream is put together by the library's accumulator.
func completion(t testing.TB, c openai.Client, p openai.ChatCompletionNewParams, stream bool) (*openai.ChatCompletion,
	billing) {
	t.Helper()
	p.Model = "service/auto"
	ctx := withTimeout(t)
	if !stream {
		reply, err := c.Chat.Completions.New(ctx, p)
		require.NoError(t, err)
		return reply, billed(t, reply.Usage.JSON.ExtraFields)
	}
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	var acc openai.ChatCompletionAccumulator
	var last openai.ChatCompletionChunk
	events := c.Chat.Completions.NewStreaming(ctx, p)
	for events.Next() {
		last = events.Current()
		require.True(t, acc.AddChunk(last), "the library takes the chunk")
	}
	require.NoError(t, events.Err())
	require.Empty(t, last.Choices, "the last chunk has usage only")
	return &acc.ChatCompletion, billed(t, last.Usage.JSON.ExtraFields)
}

func chatPrompt(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func TestOpenAIChat(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: model})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	c := newOpenAI(g.URL, g.account(t, 1_000_000))

	t.Run("HTTP-11 USE-01 USE-02 BILL-03 SSE-48 text", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			var resp *http.Response
			key := g.account(t, 1000)
			before := worth(t, g, key)
			c := newOpenAI(g.URL, key, option.WithResponseInto(&resp))
			reply, bill := completion(t, c, chatPrompt("what a nice day"), stream)
			require.Equal(t, "what a nice day", reply.Choices[0].Message.Content)
			require.Equal(t, "stop", reply.Choices[0].FinishReason)
			require.Equal(t, "service/auto", reply.Model)
			require.True(t, strings.HasPrefix(reply.ID, "chatcmpl-"), reply.ID)
			require.True(t, strings.HasPrefix(resp.Header.Get("X-Request-Id"), "req_"))
			require.Equal(t, billing{Microcents: price(5, 4)}, bill)
			require.Equal(t, []int64{5, 4, 9}, []int64{reply.Usage.PromptTokens, reply.Usage.CompletionTokens,
				reply.Usage.TotalTokens})
			require.Equal(t, before-bill.Microcents, worth(t, g, key))
		})
	})

	t.Run("TOOL-01 TOOL-02 GEN-08 GEN-09 the client runs parallel tool calls", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			prompt := "weather in Oslo and " + mode(stream)
			p := chatPrompt(prompt)
			p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
				Name: "get_weather", Description: openai.String("the weather of a city"), Parameters: weatherSchema})}
			reply, _ := completion(t, c, p, stream)
			require.Equal(t, "tool_calls", reply.Choices[0].FinishReason)
			calls := reply.Choices[0].Message.ToolCalls
			require.Len(t, calls, 2)
			require.Empty(t, reply.Choices[0].Message.Content)
			require.Equal(t, 1, requests(t, up, prompt), "the service runs no tool by itself")

			p.Messages = append(p.Messages, reply.Choices[0].Message.ToParam())
			for _, call := range calls {
				require.Equal(t, "function", call.Type)
				p.Messages = append(p.Messages, openai.ToolMessage(weather(t, call.Function.Name, call.Function.Arguments),
					call.ID))
			}
			reply, _ = completion(t, c, p, stream)
			require.Equal(t, "sunny in Oslo, sunny in "+mode(stream), reply.Choices[0].Message.Content)
			messages, made := received(t, up, prompt)
			require.Equal(t, []upstream.PastCall{
				{ID: calls[0].ID, Name: "get_weather", Arguments: `{"city":"Oslo"}`},
				{ID: calls[1].ID, Name: "get_weather", Arguments: `{"city":"` + mode(stream) + `"}`},
			}, made)
			require.Equal(t, []said{{"tool", "sunny in Oslo", calls[0].ID}, {"tool", "sunny in " + mode(stream), calls[1].ID}},
				messages[2:])
		})
	})

	t.Run("STOP-01 STOP-04 STOP-05 STOP-07 CHAT-29 stop sequences", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			for _, stop := range []openai.ChatCompletionNewParamsStopUnion{
				{OfString: openai.String("END")}, {OfStringArray: []string{"never", "END"}},
			} {
				p := chatPrompt("it begins here END and goes on")
				p.Stop = stop
				reply, bill := completion(t, c, p, stream)
				require.Equal(t, "it begins here ", reply.Choices[0].Message.Content)
				require.Equal(t, "stop", reply.Choices[0].FinishReason)
				require.Equal(t, price(8, 7), bill.Microcents, "the whole reply of the route is charged")
			}
		})
	})

	t.Run("GEN-11 CHAT-03 ten turns reach the route in order", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			want := conversation("chat " + mode(stream))
			var p openai.ChatCompletionNewParams
			for _, m := range want {
				switch m.Role {
				case "system":
					p.Messages = append(p.Messages, openai.DeveloperMessage(m.Text))
				case "user":
					p.Messages = append(p.Messages, openai.UserMessage(m.Text))
				case "assistant":
					p.Messages = append(p.Messages, openai.AssistantMessage(m.Text))
				}
			}
			reply, _ := completion(t, c, p, stream)
			last := want[len(want)-1].Text
			require.Equal(t, last, reply.Choices[0].Message.Content)
			got, _ := received(t, up, last)
			require.Equal(t, want, got)
		})
	})

	t.Run("a prompt of 150,000 tokens", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			prompt := longPrompt("chat " + mode(stream))
			p := chatPrompt(prompt)
			p.Messages = append(p.Messages, openai.UserMessage("and now in short, "+mode(stream)))
			reply, bill := completion(t, c, p, stream)
			require.Equal(t, "and now in short, "+mode(stream), reply.Choices[0].Message.Content)
			require.EqualValues(t, 150_000+2+2+5, reply.Usage.PromptTokens)
			require.Equal(t, price(reply.Usage.PromptTokens, 5), bill.Microcents)
			got, _ := received(t, up, "and now in short, "+mode(stream))
			require.True(t, got[0].Text == prompt, "it reaches the route whole")
		})
	})

	t.Run("AUTH-11 MODEL-14 errors are the library's", func(t *testing.T) {
		t.Parallel()
		for name, test := range map[string]struct {
			client openai.Client
			model  string
			status int
			code   string
		}{
			"key":   {newOpenAI(g.URL, mistyped(g.Key)), "service/auto", http.StatusUnauthorized, "authentication_error"},
			"model": {c, "service/turbo", http.StatusNotFound, "model_not_found"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := chatPrompt("hello")
				p.Model = test.model
				_, err := test.client.Chat.Completions.New(withTimeout(t), p)
				isOpenAIError(t, err, test.status, test.code)
				events := test.client.Chat.Completions.NewStreaming(withTimeout(t), p)
				require.False(t, events.Next())
				isOpenAIError(t, events.Err(), test.status, test.code)
			})
		}
	})

	t.Run("GEN-20 the library repeats nothing that cannot succeed", func(t *testing.T) {
		t.Parallel()
		tries := 0
		c := newOpenAI(g.URL, g.Key, option.WithMaxRetries(3), option.WithMiddleware(
			func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
				tries++
				return next(req)
			}))
		p := chatPrompt("hello")
		p.Model, p.MaxTokens = "service/auto", openai.Int(2_000_000)
		_, err := c.Chat.Completions.New(withTimeout(t), p)
		isOpenAIError(t, err, http.StatusServiceUnavailable, "feature_unavailable")
		require.Equal(t, 1, tries, "x-should-retry: false")
	})

	t.Run("MODEL-01 MODEL-05 EP-09 models", func(t *testing.T) {
		t.Parallel()
		list, err := c.Models.List(withTimeout(t))
		require.NoError(t, err)
		require.Len(t, list.Data, 1)
		require.Equal(t, "service/auto", list.Data[0].ID)
		one, err := c.Models.Get(withTimeout(t), "service/auto")
		require.NoError(t, err)
		require.Equal(t, "service/auto", one.ID)
	})
}

func isOpenAIError(t testing.TB, err error, status int, code string) {
	t.Helper()
	var e *openai.Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, status, e.StatusCode)
	require.Equal(t, code, e.Code)
}

// mode names a way of replying; prompts have it in them where a test looks for its own at the route.
func mode(stream bool) string {
	if stream {
		return "streamed"
	}
	return "plain"
}

// worth is an account's worth in microcents, from GET /v1/account (GEN-00).
func worth(t testing.TB, g *gateway, key string) int64 {
	t.Helper()
	a := summary(t, g, key)
	return a.Credits.Balance*1_000_000 - a.Credits.Accrued
}

// accountSummary is what the tests need of GET /v1/account.
type accountSummary struct {
	Tenant  struct{ ID string }
	Credits struct {
		Balance  int64 `json:"balance_credits"`
		Reserved int64 `json:"reserved_credits"`
		Accrued  int64 `json:"accrued_usage_microcents"`
	} `json:"credits"`
}

func summary(t testing.TB, g *gateway, key string) (a accountSummary) {
	t.Helper()
	c := newOpenAI(g.URL, key)
	require.NoError(t, c.Get(context.WithoutCancel(t.Context()), "account", nil, &a))
	return a
}
