//go:build linux

package main_test

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// response does a responses request; of a stream it takes the final event, which must say the same as the deltas.
func response(t testing.TB, c openai.Client, p responses.ResponseNewParams, stream bool,
	more ...option.RequestOption) *responses.Response {
	t.Helper()
	p.Model = "service/auto"
	ctx := withTimeout(t)
	if !stream {
		reply, err := c.Responses.New(ctx, p, more...)
		require.NoError(t, err)
		return reply
	}
	var text strings.Builder
	arguments := map[string]string{}
	var final *responses.Response
	events := c.Responses.NewStreaming(ctx, p, more...)
	for events.Next() {
		ev := events.Current()
		switch ev.Type {
		case "response.output_text.delta":
			text.WriteString(ev.Delta)
		case "response.function_call_arguments.delta":
			arguments[ev.ItemID] += ev.Delta
		case "response.completed", "response.incomplete":
			require.Nil(t, final, "one end")
			final = &ev.Response
		}
	}
	require.NoError(t, events.Err())
	require.NotNil(t, final)
	require.Equal(t, text.String(), final.OutputText())
	for _, item := range final.Output {
		if item.Type == "function_call" {
			require.Equal(t, arguments[item.ID], item.Arguments.OfString)
		}
	}
	return final
}

func inputText(text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

func TestOpenAIResponses(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: model})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	c := newOpenAI(g.URL, g.account(t, 1_000_000))

	t.Run("HTTP-11 SSE-11 SSE-14 USE-01 BILL-03 text", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			key := g.account(t, 1000)
			before := worth(t, g, key)
			reply := response(t, newOpenAI(g.URL, key), inputText("what a nice day"), stream)
			require.Equal(t, "what a nice day", reply.OutputText())
			require.EqualValues(t, "completed", reply.Status)
			require.EqualValues(t, "service/auto", reply.Model)
			require.True(t, strings.HasPrefix(reply.ID, "resp_"), reply.ID)
			require.Equal(t, []int64{5, 4, 9}, []int64{reply.Usage.InputTokens, reply.Usage.OutputTokens,
				reply.Usage.TotalTokens})
			bill := billed(t, reply.Usage.JSON.ExtraFields)
			require.Equal(t, billing{Microcents: price(5, 4)}, bill)
			require.Equal(t, before-bill.Microcents, worth(t, g, key))
		})
	})

	t.Run("TOOL-01 TOOL-03 GEN-08 GEN-09 the client runs parallel tool calls", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			prompt := "weather in Oslo and " + mode(stream)
			items := []responses.ResponseInputItemUnionParam{responses.ResponseInputItemParamOfMessage(prompt, "user")}
			p := responses.ResponseNewParams{
				Input: responses.ResponseNewParamsInputUnion{OfInputItemList: items},
				Tools: []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", weatherSchema, false)},
			}
			reply := response(t, c, p, stream)
			require.EqualValues(t, "completed", reply.Status)
			require.Len(t, reply.Output, 2)
			require.Equal(t, 1, requests(t, up, prompt), "the service runs no tool by itself")
			var ids []string
			for _, item := range reply.Output {
				call := item.AsFunctionCall()
				ids = append(ids, call.CallID)
				items = append(items, responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name))
			}
			for _, item := range reply.Output {
				call := item.AsFunctionCall()
				result := responses.ResponseInputItemParamOfFunctionCallOutput(weather(t, call.Name, call.Arguments))
				result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
				items = append(items, result)
			}
			p.Input.OfInputItemList = items
			reply = response(t, c, p, stream)
			require.Equal(t, "sunny in Oslo, sunny in "+mode(stream), reply.OutputText())
			messages, made := received(t, up, prompt)
			require.Len(t, made, 2)
			require.Equal(t, ids, []string{made[0].ID, made[1].ID})
			require.Equal(t, []said{{"tool", "sunny in Oslo", ids[0]}, {"tool", "sunny in " + mode(stream), ids[1]}},
				messages[len(messages)-2:])
		})
	})

	t.Run("STOP-02 STOP-04 STOP-05 STOP-07 RESP-09 stop sequences", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			for _, stop := range []any{"END", []string{"never", "END"}} {
				reply := response(t, c, inputText("it begins here END and goes on"), stream, option.WithJSONSet("stop", stop))
				require.Equal(t, "it begins here ", reply.OutputText())
				require.EqualValues(t, "completed", reply.Status)
			}
		})
	})

	t.Run("GEN-11 RESP-04 RESP-06 ten turns reach the route in order", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			want := conversation("responses " + mode(stream))
			p := responses.ResponseNewParams{Instructions: openai.String(want[0].Text)}
			for _, m := range want[1:] {
				p.Input.OfInputItemList = append(p.Input.OfInputItemList,
					responses.ResponseInputItemParamOfMessage(m.Text, responses.EasyInputMessageRole(m.Role)))
			}
			last := want[len(want)-1].Text
			require.Equal(t, last, response(t, c, p, stream).OutputText())
			got, _ := received(t, up, last)
			require.Equal(t, want, got)
		})
	})

	t.Run("a prompt of 150,000 tokens", func(t *testing.T) {
		t.Parallel()
		modes(t, func(t *testing.T, stream bool) {
			p := inputText("in short, " + mode(stream))
			p.Instructions = openai.String(longPrompt("responses"))
			reply := response(t, c, p, stream)
			require.Equal(t, "in short, "+mode(stream), reply.OutputText())
			require.EqualValues(t, 150_000+1+2+3, reply.Usage.InputTokens)
			require.Equal(t, price(reply.Usage.InputTokens, 3), billed(t, reply.Usage.JSON.ExtraFields).Microcents)
		})
	})
}
