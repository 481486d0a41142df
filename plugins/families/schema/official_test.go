package schema

import (
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicshared "github.com/anthropics/anthropic-sdk-go/shared"
	"github.com/openai/openai-go/v3"
	oresponses "github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"
)

// TestOfficialTypes compares each object of the schema with the official library's type for it: what that requires is
// required here, and what is here is there, but for what the contract adds or leaves out.
func TestOfficialTypes(t *testing.T) {
	t.Parallel()
	// Not in the contract's family (GAP-12, GAP-46, E18, GAP-66, GAP-109): fields of services that the gateway does not
	// have.
	const (
		responseLeft = "access_programs"
		messageLeft  = "container diagnostics stop_details"
		usageLeft    = "cache_creation inference_geo output_tokens_details server_tool_use service_tier speed"
		errorLeft    = "param" // but for an unknown model, and in no frame (GAP-46)
		failureLeft  = "request_id"
		cacheLeft    = " cache_creation_input_tokens cache_read_input_tokens"
		billed       = "billed_microcents billing_pending"
		pending      = "billing_pending"
	)
	for _, tt := range []struct {
		object   Object
		official any
		left     string // required there, and left out
		added    string // here alone
	}{
		{completion, openai.ChatCompletion{}, "", ""},
		{chatChoice, openai.ChatCompletionChoice{}, "", ""},
		{chatMessage, openai.ChatCompletionMessage{}, "", ""},
		{chatCall, openai.ChatCompletionMessageFunctionToolCall{}, "", ""},
		{chatUsage, openai.CompletionUsage{}, "", billed},
		{chunk, openai.ChatCompletionChunk{}, "", ""},
		{chunkChoice, openai.ChatCompletionChunkChoice{}, "", ""},
		{chatDelta, openai.ChatCompletionChunkChoiceDelta{}, "", ""},
		{chatCallDelta, openai.ChatCompletionChunkChoiceDeltaToolCall{}, "", ""},

		{chatUnsettled, openai.CompletionUsage{}, "", pending},
		{codedError, shared.ErrorObject{}, errorLeft, ""},
		{chatFailedError, shared.ErrorObject{}, errorLeft, ""},

		{response, oresponses.Response{}, responseLeft, "store presence_penalty frequency_penalty"},
		{responseUsage, oresponses.ResponseUsage{}, "", billed},
		{failedResponse, oresponses.Response{}, responseLeft, "store presence_penalty frequency_penalty"},
		{responseUnsettled, oresponses.ResponseUsage{}, "", pending},
		{responseUnsettled["input_tokens_details"].(Object), oresponses.ResponseUsageInputTokensDetails{}, "", ""},
		{responseUnsettled["output_tokens_details"].(Object), oresponses.ResponseUsageOutputTokensDetails{}, "", ""},
		{responseUsage["input_tokens_details"].(Object), oresponses.ResponseUsageInputTokensDetails{}, "", ""},
		{responseUsage["output_tokens_details"].(Object), oresponses.ResponseUsageOutputTokensDetails{}, "", ""},
		{responseError, oresponses.ResponseError{}, "", ""},
		{outputMessage, oresponses.ResponseOutputMessage{}, "", ""},
		{outputText, oresponses.ResponseOutputText{}, "", ""},
		{functionCall, oresponses.ResponseFunctionToolCall{}, "", ""},
		{functionTool, oresponses.FunctionTool{}, "", ""},
		{responseEvents["response.created"], oresponses.ResponseCreatedEvent{}, "", ""},
		{responseEvents["response.in_progress"], oresponses.ResponseInProgressEvent{}, "", ""},
		{responseEvents["response.completed"], oresponses.ResponseCompletedEvent{}, "", ""},
		{responseEvents["response.incomplete"], oresponses.ResponseIncompleteEvent{}, "", ""},
		{responseEvents["response.failed"], oresponses.ResponseFailedEvent{}, "", ""},
		{responseEvents["response.output_item.added"], oresponses.ResponseOutputItemAddedEvent{}, "", ""},
		{responseEvents["response.output_item.done"], oresponses.ResponseOutputItemDoneEvent{}, "", ""},
		{responseEvents["response.content_part.added"], oresponses.ResponseContentPartAddedEvent{}, "", ""},
		{responseEvents["response.content_part.done"], oresponses.ResponseContentPartDoneEvent{}, "", ""},
		{responseEvents["response.output_text.delta"], oresponses.ResponseTextDeltaEvent{}, "", ""},
		{responseEvents["response.output_text.done"], oresponses.ResponseTextDoneEvent{}, "", ""},
		{responseEvents["response.function_call_arguments.delta"], oresponses.ResponseFunctionCallArgumentsDeltaEvent{}, "",
			""},
		{responseEvents["response.function_call_arguments.done"], oresponses.ResponseFunctionCallArgumentsDoneEvent{}, "",
			"name"},
		{responseEvents["error"], oresponses.ResponseErrorEvent{}, "", "usage"},

		{message, anthropic.Message{}, messageLeft, ""},
		{messageUsage, anthropic.Usage{}, usageLeft + cacheLeft, billed},
		{messageStart, anthropic.Message{}, messageLeft, ""},
		{messageStart["usage"].(Object), anthropic.Usage{}, usageLeft + cacheLeft, ""},
		{textBlock, anthropic.TextBlock{}, "citations", ""},
		{toolUse, anthropic.ToolUseBlock{}, "", ""},
		{direct, anthropic.DirectCaller{}, "", ""},
		{messageUnsettled, anthropic.Usage{}, usageLeft, pending},
		{messageUnsettled, anthropic.MessageDeltaUsage{}, "output_tokens_details server_tool_use", pending},
		{messageFailure, anthropicshared.ErrorResponse{}, failureLeft, ""},
		{messageEvents["error"], anthropicshared.ErrorResponse{}, failureLeft, "usage"},
		{messageError, anthropicshared.InvalidRequestError{}, "", ""},
		{messageEvents["message_start"], anthropic.MessageStartEvent{}, "", ""},
		{messageEvents["content_block_start"], anthropic.ContentBlockStartEvent{}, "", ""},
		{messageEvents["content_block_delta"], anthropic.ContentBlockDeltaEvent{}, "", ""},
		{messageEvents["content_block_stop"], anthropic.ContentBlockStopEvent{}, "", ""},
		{messageEvents["message_delta"], anthropic.MessageDeltaEvent{}, "", ""},
		{messageEvents["message_delta"]["delta"].(Object), anthropic.MessageDeltaEventDelta{}, "container stop_details", ""},
		{messageEvents["message_delta"]["usage"].(Object), anthropic.MessageDeltaUsage{}, usageLeft + cacheLeft, billed},
		{messageEvents["message_stop"], anthropic.MessageStopEvent{}, "", ""},
	} {
		typ := reflect.TypeOf(tt.official)
		t.Run("GAP-116 GAP-129 "+typ.String(), func(t *testing.T) {
			t.Parallel()
			official := make(map[string]bool)
			for i := range typ.NumField() {
				field := typ.Field(i)
				name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
				if name == "" || name == "-" {
					continue
				}
				_, constant := field.Tag.Lookup("default")
				official[name] = true
				if field.Tag.Get("api") != "required" && !constant && options != "required" {
					continue
				}
				if has(tt.left, name) {
					require.NotContains(t, tt.object, name, "is listed as left out")
				} else {
					require.Contains(t, tt.object, name, "is required")
				}
			}
			for name := range tt.object {
				name = strings.TrimSuffix(name, "?")
				require.True(t, official[name] != has(tt.added, name), "%s is there: %v", name, official[name])
			}
		})
	}
}

func has(words, word string) bool {
	for w := range strings.FieldsSeq(words) {
		if w == word {
			return true
		}
	}
	return false
}
