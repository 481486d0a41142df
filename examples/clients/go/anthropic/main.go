// The official Anthropic library for Go: asks for the weather, runs the tool, and tells the answer. The scripts in
// ../../node say how it is called; run.mjs there has the shape of what it prints.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

var (
	streamed bool
	ran      = []string{}
)

// weather is the tool.
func weather(arguments []byte) (string, error) {
	var in struct{ City string }
	if err := json.Unmarshal(arguments, &in); err != nil {
		return "", fmt.Errorf("reading the tool's arguments: %w", err)
	}
	ran = append(ran, in.City)
	return "sunny in " + in.City, nil
}

func main() {
	if len(os.Args) < 3 {
		log.Fatalf("usage: FAREWAY_URL=http://127.0.0.1:8484 FAREWAY_KEY=... %s messages plain|streamed [MODEL]", os.Args[0])
	}
	streamed = os.Args[2] == "streamed"
	if os.Args[1] != "messages" {
		log.Fatalf("this library does not speak %s: choose messages", os.Args[1])
	}
	model := anthropic.Model("service/auto")
	if len(os.Args) > 3 {
		model = os.Args[3]
	}
	client := anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(os.Getenv("FAREWAY_URL")),
		option.WithAuthToken(os.Getenv("FAREWAY_KEY")), option.WithMaxRetries(0))
	text, err := messages(context.Background(), client, model)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"text": text, "ran": ran}); err != nil {
		log.Fatal(err)
	}
}

func messages(ctx context.Context, client anthropic.Client, model anthropic.Model) (string, error) {
	params := anthropic.MessageNewParams{
		Model:     model,
		MaxTokens: 1000,
		Messages:  []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("weather in Oslo"))},
		Tools: []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
			Properties: map[string]any{"city": map[string]any{"type": "string"}}, Required: []string{"city"}}, "get_weather")},
	}
	for {
		reply, err := message(ctx, client, params)
		if err != nil {
			return "", err
		}
		var text string
		var results []anthropic.ContentBlockParamUnion
		for _, block := range reply.Content {
			switch block := block.AsAny().(type) {
			case anthropic.TextBlock:
				text += block.Text
			case anthropic.ToolUseBlock:
				result, err := weather(block.Input)
				if err != nil {
					return "", err
				}
				results = append(results, anthropic.NewToolResultBlock(block.ID, result, false))
			}
		}
		if len(results) == 0 {
			return text, nil
		}
		params.Messages = append(params.Messages, reply.ToParam(), anthropic.NewUserMessage(results...))
	}
}

func message(ctx context.Context, client anthropic.Client, params anthropic.MessageNewParams) (*anthropic.Message,
	error) {
	if !streamed {
		return client.Messages.New(ctx, params)
	}
	var whole anthropic.Message
	stream := client.Messages.NewStreaming(ctx, params)
	for stream.Next() {
		if err := whole.Accumulate(stream.Current()); err != nil {
			return nil, fmt.Errorf("putting the stream together: %w", err)
		}
	}
	return &whole, stream.Err()
}
