package contracttest

import (
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	ooption "github.com/openai/openai-go/v3/option"
	oresponses "github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
)

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
