// The official OpenAI library for Go: asks for the weather, runs the tool, and tells the answer. The scripts in
// ../../node say how it is called; run.mjs there has the shape of what it prints.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

const prompt = "weather in Oslo"

var (
	model    = "service/auto"
	streamed bool
	schema   = map[string]any{
		"type":       "object",
		"properties": map[string]any{"city": map[string]any{"type": "string"}},
		"required":   []string{"city"},
	}
	ran = []string{}
)

// weather is the tool.
func weather(arguments string) (string, error) {
	var in struct{ City string }
	if err := json.Unmarshal([]byte(arguments), &in); err != nil {
		return "", fmt.Errorf("reading the tool's arguments: %w", err)
	}
	ran = append(ran, in.City)
	return "sunny in " + in.City, nil
}

func main() {
	if len(os.Args) < 3 {
		log.Fatalf("usage: FAREWAY_URL=http://127.0.0.1:8484 FAREWAY_KEY=... %s chat|responses plain|streamed [MODEL]",
			os.Args[0])
	}
	streamed = os.Args[2] == "streamed"
	if len(os.Args) > 3 {
		model = os.Args[3]
	}
	client := openai.NewClient(option.WithBaseURL(os.Getenv("FAREWAY_URL")+"/v1"),
		option.WithAPIKey(os.Getenv("FAREWAY_KEY")),
		option.WithMaxRetries(0))
	families := map[string]func(context.Context, openai.Client) (string, error){"chat": chat, "responses": response}
	ask, ok := families[os.Args[1]]
	if !ok {
		log.Fatalf("this library does not speak %s: choose chat or responses", os.Args[1])
	}
	text, err := ask(context.Background(), client)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"text": text, "ran": ran}); err != nil {
		log.Fatal(err)
	}
}

func chat(ctx context.Context, client openai.Client) (string, error) {
	params := openai.ChatCompletionNewParams{
		Model:    model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "get_weather", Description: openai.String("Tells the weather in a city."), Parameters: schema})},
	}
	for {
		reply, err := completion(ctx, client, params)
		if err != nil {
			return "", err
		}
		message := reply.Choices[0].Message
		if len(message.ToolCalls) == 0 {
			return message.Content, nil
		}
		params.Messages = append(params.Messages, message.ToParam())
		for _, call := range message.ToolCalls {
			result, err := weather(call.Function.Arguments)
			if err != nil {
				return "", err
			}
			params.Messages = append(params.Messages, openai.ToolMessage(result, call.ID))
		}
	}
}

func completion(ctx context.Context, client openai.Client,
	params openai.ChatCompletionNewParams) (*openai.ChatCompletion, error) {
	if !streamed {
		return client.Chat.Completions.New(ctx, params)
	}
	var whole openai.ChatCompletionAccumulator
	stream := client.Chat.Completions.NewStreaming(ctx, params)
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			return nil, fmt.Errorf("the library does not take the chunk %s", stream.Current().RawJSON())
		}
	}
	return &whole.ChatCompletion, stream.Err()
}

func response(ctx context.Context, client openai.Client) (string, error) {
	input := responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(prompt,
		responses.EasyInputMessageRoleUser)}
	params := responses.ResponseNewParams{
		Model: model,
		Tools: []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", schema, false)},
	}
	for {
		params.Input.OfInputItemList = input
		reply, err := respond(ctx, client, params)
		if err != nil {
			return "", err
		}
		called := false
		for _, item := range reply.Output {
			if item.Type != "function_call" {
				continue
			}
			called = true
			call := item.AsFunctionCall()
			result, err := weather(call.Arguments)
			if err != nil {
				return "", err
			}
			output := responses.ResponseInputItemParamOfFunctionCallOutput(result)
			output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
			input = append(input, responses.ResponseInputItemParamOfFunctionCall(call.Arguments, call.CallID, call.Name), output)
		}
		if !called {
			return reply.OutputText(), nil
		}
	}
}

func respond(ctx context.Context, client openai.Client, params responses.ResponseNewParams) (*responses.Response,
	error) {
	if !streamed {
		return client.Responses.New(ctx, params)
	}
	var whole *responses.Response
	stream := client.Responses.NewStreaming(ctx, params)
	for stream.Next() {
		if stream.Current().Type == "response.completed" {
			completed := stream.Current().Response
			whole = &completed
		}
	}
	if stream.Err() == nil && whole == nil {
		return nil, fmt.Errorf("the stream has ended without response.completed")
	}
	return whole, stream.Err()
}
