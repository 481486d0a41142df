//go:build linux

package main_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// newAnthropic is the official client with a credential, as option.WithAPIKey (x-api-key) or
// option.WithAuthToken (bearer).
func newAnthropic(url string, credential option.RequestOption, more ...option.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]option.RequestOption{option.WithoutEnvironmentDefaults(),
		option.WithBaseURL(url), credential, option.WithMaxRetries(0)}, more...)...)
}

// message does a messages request; a stream is put together by the library. The bill is that of the last event.
func message(t testing.TB, c anthropic.Client, p anthropic.MessageNewParams, stream bool) (anthropic.Message, billing) {
	t.Helper()
	p.Model = "service/auto"
	if p.MaxTokens == 0 {
		p.MaxTokens = 1000
	}
	ctx := withTimeout(t)
	if !stream {
		reply, err := c.Messages.New(ctx, p)
		require.NoError(t, err)
		return *reply, billOf(t, reply.RawJSON())
	}
	var m anthropic.Message
	var bill billing
	events := c.Messages.NewStreaming(ctx, p)
	for events.Next() {
		require.NoError(t, m.Accumulate(events.Current()))
		if events.Current().Type == "message_delta" {
			bill = billOf(t, events.Current().RawJSON())
		}
	}
	require.NoError(t, events.Err())
	return m, bill
}

func billOf(t testing.TB, raw string) billing {
	t.Helper()
	var v struct {
		Usage struct {
			Microcents *int64 `json:"billed_microcents"`
			Pending    *bool  `json:"billing_pending"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(raw), &v))
	require.NotNil(t, v.Usage.Microcents, "%s", raw)
	require.NotNil(t, v.Usage.Pending, "%s", raw)
	return billing{*v.Usage.Microcents, *v.Usage.Pending}
}

func userMessage(text string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Messages: []anthropic.MessageParam{anthropic.NewUserMessage(
		anthropic.NewTextBlock(text))}}
}

func TestAnthropic(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: model})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	key := g.account(t, 1_000_000)
	c := newAnthropic(g.URL, option.WithAPIKey(key))

	t.Run("HTTP-11 AUTH-07 AUTH-08 USE-01 BILL-03 SSE-48 text", func(t *testing.T) {
		t.Parallel()
		for name, credential := range map[string]func(string) option.RequestOption{
			"x-api-key": option.WithAPIKey, "bearer": option.WithAuthToken,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				modes(t, func(t *testing.T, stream bool) {
					var resp *http.Response
					key := g.account(t, 1000)
					before := worth(t, g, key)
					reply, bill := message(t, newAnthropic(g.URL, credential(key), option.WithResponseInto(&resp)),
						userMessage("what a nice day"), stream)
					require.Len(t, reply.Content, 1)
					require.Equal(t, "what a nice day", reply.Content[0].Text)
					require.EqualValues(t, "end_turn", reply.StopReason)
					require.EqualValues(t, "service/auto", reply.Model)
					require.True(t, strings.HasPrefix(reply.ID, "msg_"), reply.ID)
					require.Equal(t, []int64{5, 4}, []int64{reply.Usage.InputTokens, reply.Usage.OutputTokens})
					require.Equal(t, resp.Header.Get("X-Request-Id"), resp.Header.Get("Request-Id"))
					require.Equal(t, billing{Microcents: price(5, 4)}, bill)
					require.Equal(t, before-bill.Microcents, worth(t, g, key))
				})
			})
		}
	})

	t.Run("TOOL-01 TOOL-04 GEN-08 GEN-09 the client runs parallel tool calls", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			prompt := "weather in Oslo and " + mode(stream)
			p := userMessage(prompt)
			p.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
				Properties: weatherSchema["properties"], Required: []string{"city"}}, "get_weather")}
			reply, _ := message(t, c, p, stream)
			require.EqualValues(t, "tool_use", reply.StopReason)
			require.Len(t, reply.Content, 2)
			require.Equal(t, 1, requests(t, up, prompt), "the service runs no tool by itself")

			var ids []string
			var results []anthropic.ContentBlockParamUnion
			for _, block := range reply.Content {
				use := block.AsToolUse()
				ids = append(ids, use.ID)
				results = append(results, anthropic.NewToolResultBlock(use.ID, weather(t, use.Name, string(use.Input)), false))
			}
			p.Messages = append(p.Messages, reply.ToParam(), anthropic.NewUserMessage(results...))
			reply, _ = message(t, c, p, stream)
			require.Equal(t, "sunny in Oslo, sunny in "+mode(stream), reply.Content[0].Text)
			messages, made := received(t, up, prompt)
			require.Len(t, made, 2)
			require.Equal(t, ids, []string{made[0].ID, made[1].ID})
			require.Equal(t, []said{{"tool", "sunny in Oslo", ids[0]}, {"tool", "sunny in " + mode(stream), ids[1]}},
				messages[len(messages)-2:])
		})
	})

	t.Run("STOP-03 STOP-04 STOP-05 STOP-07 MSG-18 stop sequences", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			p := userMessage("it begins here END and goes on")
			p.StopSequences = []string{"never", "END"}
			reply, bill := message(t, c, p, stream)
			require.Equal(t, "it begins here ", reply.Content[0].Text)
			require.EqualValues(t, "stop_sequence", reply.StopReason)
			require.Equal(t, "END", reply.StopSequence)
			require.Equal(t, price(8, 7), bill.Microcents, "the whole reply of the route is charged")
		})
	})

	t.Run("GEN-11 MSG-03 ten turns reach the route in order", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			want := conversation("messages " + mode(stream))
			p := anthropic.MessageNewParams{System: []anthropic.TextBlockParam{{Text: want[0].Text}}}
			for _, m := range want[1:] {
				p.Messages = append(p.Messages, anthropic.MessageParam{Role: anthropic.MessageParamRole(m.Role),
					Content: []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock(m.Text)}})
			}
			last := want[len(want)-1].Text
			reply, _ := message(t, c, p, stream)
			require.Equal(t, last, reply.Content[0].Text)
			got, _ := received(t, up, last)
			require.Equal(t, want, got)
		})
	})

	t.Run("CNT-01 CNT-02 CNT-05 AUTH-09 count_tokens", func(t *testing.T) {
		t.Parallel()
		key := g.account(t, 1)
		for _, credential := range []option.RequestOption{option.WithAPIKey(key), option.WithAuthToken(key)} {
			c := newAnthropic(g.URL, credential)
			var counts []int64
			for _, text := range []string{"count me", "count me, and this too", longPrompt("count me")} {
				n, err := c.Messages.CountTokens(withTimeout(t), anthropic.MessageCountTokensParams{
					Model: "service/auto", Messages: userMessage(text).Messages})
				require.NoError(t, err)
				counts = append(counts, n.InputTokens)
				require.Zero(t, requests(t, up, text), "the route is not asked")
			}
			require.Positive(t, counts[0])
			require.Greater(t, counts[1], counts[0])
			require.Greater(t, counts[2], int64(100_000))
		}
		require.EqualValues(t, 1_000_000, worth(t, g, key))
	})

	t.Run("a prompt of 150,000 tokens", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			p := userMessage("in short, " + mode(stream))
			p.System = []anthropic.TextBlockParam{{Text: longPrompt("messages")}}
			reply, bill := message(t, c, p, stream)
			require.Equal(t, "in short, "+mode(stream), reply.Content[0].Text)
			require.EqualValues(t, 150_000+1+2+3, reply.Usage.InputTokens,
				"the final count replaces the estimate of the stream's beginning")
			require.Equal(t, price(reply.Usage.InputTokens, 3), bill.Microcents)
		})
	})

	t.Run("AUTH-11 ERR-08 errors are the library's", func(t *testing.T) {
		t.Parallel()
		p := userMessage("hello")
		p.Model, p.MaxTokens = "claude-nonesuch", 10
		_, err := c.Messages.New(withTimeout(t), p)
		isAnthropicError(t, err, http.StatusNotFound, "not_found_error")
		p.Model = "service/auto"
		wrong := newAnthropic(g.URL, option.WithAPIKey(mistyped(key)))
		_, err = wrong.Messages.New(withTimeout(t), p)
		isAnthropicError(t, err, http.StatusUnauthorized, "authentication_error")
	})
}

func isAnthropicError(t testing.TB, err error, status int, kind string) {
	t.Helper()
	var e *anthropic.Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, status, e.StatusCode)
	require.EqualValues(t, kind, e.Type())
}
