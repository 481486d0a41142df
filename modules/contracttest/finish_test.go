package contracttest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	ooption "github.com/openai/openai-go/v3/option"
	oresponses "github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestEndings is how each shape names the ways in which a reply ends.
func TestEndings(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	text := func(s string) []upstream.Step { return []upstream.Step{upstream.Text(s)} }
	five := upstream.Usage{Prompt: 5, Completion: 5}
	const stops = `"stop":["END"],"stop_sequences":["END"]`
	for _, tc := range []struct {
		name, members             string
		reply                     upstream.Reply
		text                      string
		chat, responses, messages string
		matched                   any // stop_sequence on messages
		clauses                   map[string]string
	}{
		{"natural end", `"foo":1`, script(five, "stop", text("Hello.")...), "Hello.", "stop", "completed", "end_turn", nil,
			map[string]string{"chat": "CHAT-30", "responses": "RESP-28", "messages": "MSG-20"}},
		{"stop sequence", stops, script(five, "stop", text("a END b")...), "a ", "stop", "completed", "stop_sequence", "END",
			map[string]string{"chat": "CHAT-29", "responses": "RESP-28 RESP-09", "messages": "MSG-18 MSG-09"}},
		{"stop sequence honoured upstream", stops, script(five, "stop", text("a ")...), "a ", "stop", "completed", "end_turn",
			nil,
			map[string]string{"chat": "CHAT-29", "responses": "RESP-28", "messages": "MSG-19"}},
		{"allowance", `"max_tokens":5,"max_output_tokens":5`, script(five, "length", text("Hel")...), "Hel", "length",
			"incomplete/max_output_tokens", "max_tokens", nil,
			map[string]string{"chat": "CHAT-31", "responses": "RESP-30 RESP-07", "messages": "MSG-21 MSG-02"}},
		{"content policy", `"foo":1`, script(five, "content_filter", text("Hel")...), "Hel", "content_filter",
			"incomplete/content_filter", "refusal", nil,
			map[string]string{"chat": "CHAT-32", "responses": "RESP-29", "messages": "MSG-22"}},
	} {
		finish := map[string]string{"chat": tc.chat, "responses": tc.responses, "messages": tc.messages}
		for _, sh := range shapes {
			t.Run(tc.clauses[sh.Name]+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				for _, mode := range modes {
					c := g.rich(t)
					c.Answers(tc.reply)
					a := c.Ask(sh, tc.members, mode.Field)
					o := outcomeOf(t, sh, a)
					require.Equal(t, tc.text, o.Text)
					require.Equal(t, finish[sh.Name], o.Finish)
					require.EqualValues(t, 5*300+5*1500, o.Billed(t))
					if sh.Name == "messages" {
						want, err := json.Marshal(tc.matched)
						require.NoError(t, err)
						require.Contains(t, string(a.Raw), `"stop_sequence":`+string(want))
					}
					if sh.Name == "responses" && !strings.Contains(tc.responses, "/") {
						require.Contains(t, string(a.Raw), `"incomplete_details":null`)
					}
				}
			})
		}
	}
}

// TestUsage is what a reply says of tokens and money.
func TestUsage(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	cached, reasoning := int64(4), int64(3)
	plain := script(upstream.Usage{Prompt: 10, Completion: 7, Reasoning: &reasoning}, "stop", upstream.Reasoning("hm"),
		upstream.Text("x"))
	warm := script(upstream.Usage{Prompt: 10, Completion: 7, Cached: &cached}, "stop", upstream.Text("x"))
	for _, tc := range []struct {
		name, shape string
		reply       upstream.Reply
		usage       string
	}{
		{"USE-01 USE-02 USE-04", "chat", plain,
			`{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":0},` +
				`"completion_tokens_details":{"reasoning_tokens":3}`},
		{"USE-01 USE-02 USE-04", "responses", plain,
			`{"input_tokens":10,"output_tokens":7,"total_tokens":17,"input_tokens_details":{"cached_tokens":0,` +
				`"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":3}`},
		{"USE-01 USE-02 USE-04", "messages", plain, `{"input_tokens":10,"output_tokens":7`},
		{"USE-01 cached", "chat", warm,
			`{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":4},` +
				`"completion_tokens_details":{"reasoning_tokens":0}`},
		{"USE-01 cached", "responses", warm,
			`{"input_tokens":10,"output_tokens":7,"total_tokens":17,"input_tokens_details":{"cached_tokens":4,` +
				`"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":0}`},
		{"USE-01 cached", "messages", warm, `{"input_tokens":6,"output_tokens":7,"cache_read_input_tokens":4`},
	} {
		for _, mode := range modes {
			t.Run(tc.name+" "+tc.shape+" "+mode.Name, func(t *testing.T) {
				t.Parallel()
				c := g.rich(t)
				c.Answers(tc.reply)
				before := c.Net()
				o := outcomeOf(t, shapeOf(tc.shape), c.Ask(shapeOf(tc.shape), mode.Field))
				require.Equal(t, before-c.Net(), o.Billed(t))
				require.EqualValues(t, 10*300+7*1500, o.Billed(t), "cached input has no price of its own here")
				require.Equal(t, false, o.Usage["billing_pending"])
				usage, err := wire.Decode([]byte(tc.usage + `,"billed_microcents":13500,"billing_pending":false}`))
				require.NoError(t, err)
				for name, want := range usage {
					require.Equal(t, want, o.Usage[name], name)
				}
			})
		}
	}
	for _, sh := range shapes {
		t.Run("USE-02 GAP-57 a reply whose charge is not proven "+sh.Name, func(t *testing.T) {
			t.Parallel()
			c := g.rich(t)
			c.Answers(upstream.Reply{Usage: upstream.UsageNever, Steps: hello.Steps})
			before := c.Net()
			o := outcomeOf(t, sh, c.Ask(sh, modes[0].Field))
			require.Equal(t, true, o.Usage["billing_pending"])
			require.Zero(t, o.Billed(t))
			require.Equal(t, before, c.Net())
			require.Zero(t, c.Balance().Held)
		})
	}
}

// TestOfficialLibraries lets the libraries of both families read replies that are not streamed.
func TestOfficialLibraries(t *testing.T) {
	t.Parallel()
	g := startScripted(t, setup{})
	t.Run("HTTP-11 GEN-02 openai chat", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		api := openai.NewClient(ooption.WithBaseURL(c.URL+"/v1"), ooption.WithAPIKey(c.Key), ooption.WithMaxRetries(0))
		got, err := api.Chat.Completions.New(within(t),
			openai.ChatCompletionNewParams{Model: "service/auto",
				Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(c.Mark)}})
		require.NoError(t, err)
		require.Equal(t, "Hello", got.Choices[0].Message.Content)
		require.Equal(t, "stop", got.Choices[0].FinishReason)
		require.EqualValues(t, 12, got.Usage.TotalTokens)
		models, err := api.Models.List(within(t))
		require.NoError(t, err)
		require.Equal(t, "service/auto", models.Data[0].ID)
		entry, err := api.Models.Get(within(t), "service/auto")
		require.NoError(t, err)
		require.Equal(t, models.Data[0], *entry)
		var refused *openai.Error
		_, err = api.Models.Get(within(t), "nope")
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "model_not_found", refused.Code)
		require.Equal(t, "model", refused.Param)
	})
	t.Run("HTTP-11 GEN-02 openai responses", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		api := openai.NewClient(ooption.WithBaseURL(c.URL+"/v1"), ooption.WithAPIKey(c.Key), ooption.WithMaxRetries(0))
		got, err := api.Responses.New(within(t), oresponses.ResponseNewParams{Model: "auto",
			Input: oresponses.ResponseNewParamsInputUnion{OfString: openai.String(c.Mark)}})
		require.NoError(t, err)
		require.Equal(t, "Hello", got.OutputText())
		require.EqualValues(t, "completed", got.Status)
		require.EqualValues(t, 12, got.Usage.TotalTokens)
	})
	t.Run("HTTP-11 GEN-02 anthropic messages", func(t *testing.T) {
		t.Parallel()
		c := g.rich(t)
		for _, key := range []aoption.RequestOption{aoption.WithAPIKey(c.Key), aoption.WithAuthToken(c.Key)} {
			api := anthropic.NewClient(aoption.WithBaseURL(c.URL), key, aoption.WithMaxRetries(0))
			params := anthropic.MessageNewParams{Model: "claude-opus-5-5", MaxTokens: 100,
				Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(c.Mark))}}
			got, err := api.Messages.New(within(t), params)
			require.NoError(t, err)
			require.Equal(t, "Hello", got.Content[0].AsText().Text)
			require.EqualValues(t, "end_turn", got.StopReason)
			require.EqualValues(t, 2, got.Usage.OutputTokens)
			count, err := api.Messages.CountTokens(within(t),
				anthropic.MessageCountTokensParams{Model: "claude-opus-5-5", Messages: params.Messages})
			require.NoError(t, err)
			require.Positive(t, count.InputTokens)
			var refused *anthropic.Error
			params.Model = "nope"
			_, err = api.Messages.New(within(t), params)
			require.ErrorAs(t, err, &refused)
			require.Equal(t, 404, refused.StatusCode)
			require.Regexp(t, "^req_", refused.RequestID)
		}
	})
}
