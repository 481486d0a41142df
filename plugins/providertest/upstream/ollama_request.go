package upstream

import (
	"encoding/json"
	"slices"
	"time"
)

// ollamaFields are the fields of a chat in Ollama's own API that the fake knows. The service ignores others.
var ollamaFields = []string{"model", "messages", "tools", "format", "options", "stream", "keep_alive", "think",
	"truncate", "shift"}

// decodeOllama reads a chat in Ollama's own API (api/types.go, ChatRequest).
func decodeOllama(body []byte) (*Request, error) {
	return decode(body, &Request{IncludeUsage: true, Stream: true, Cuts: true}, ollamaFields, ollamaSwitches,
		ollamaMessages, ollamaTools, ollamaOptions, ollamaFormat)
}

func ollamaSwitches(root object, req *Request) error {
	var err error
	if root.has("stream") {
		if req.Stream, err = root.optionalBool("stream"); err != nil {
			return err
		}
	}
	if root.has("truncate") {
		if req.Cuts, err = root.optionalBool("truncate"); err != nil {
			return err
		}
	}
	if _, err = root.optionalBool("shift"); err != nil {
		return err
	}
	switch think := root.fields["think"].(type) {
	case nil, bool:
	case string:
		if !slices.Contains([]string{"low", "medium", "high", "max"}, think) {
			return invalid("think", "must be a boolean, low, medium, high or max")
		}
	default:
		return invalid("think", "must be a boolean, low, medium, high or max")
	}
	switch keep := root.fields["keep_alive"].(type) {
	case nil, json.Number:
	case string:
		if _, err := time.ParseDuration(keep); err != nil {
			return invalid("keep_alive", "must be a duration or a number of seconds")
		}
	default:
		return invalid("keep_alive", "must be a duration or a number of seconds")
	}
	return nil
}

func ollamaMessages(root object, req *Request) error {
	return root.each("messages", func(m object) error {
		err := m.only("role", "content", "thinking", "tool_calls", "tool_name", "tool_call_id")
		if err != nil {
			return err
		}
		var out Message
		if out.Role, err = m.text("role"); err != nil {
			return err
		}
		if !slices.Contains([]string{"system", "user", "assistant", "tool"}, out.Role) {
			return invalid(m.at("role"), "must be system, user, assistant or tool")
		}
		if out.Text, err = m.text("content"); err != nil {
			return err
		}
		if m.has("thinking") {
			thought, err := m.text("thinking")
			if err != nil {
				return err
			}
			out.Reasoning = &thought
		}
		if out.ToolCallID, err = m.optionalText("tool_call_id"); err != nil {
			return err
		}
		if out.Role == "tool" {
			if _, err = m.text("tool_name"); err != nil {
				return err
			}
		}
		err = m.each("tool_calls", func(call object) error {
			if err := call.only("id", "function"); err != nil {
				return err
			}
			id, err := call.optionalText("id")
			if err != nil {
				return err
			}
			function, err := call.object("function")
			if err != nil {
				return err
			}
			name, err := function.text("name")
			if err != nil {
				return err
			}
			arguments, err := function.object("arguments")
			if err != nil {
				return err
			}
			out.Calls = append(out.Calls, PastCall{ID: id, Name: name, Arguments: string(mustMarshal(arguments.fields))})
			return function.only("index", "name", "arguments")
		})
		req.Messages = append(req.Messages, out)
		return err
	})
}

func ollamaTools(root object, req *Request) error {
	return root.each("tools", func(tool object) error {
		function, err := chatFunctionOf(tool)
		if err != nil {
			return err
		}
		if err := function.only("name", "description", "parameters"); err != nil {
			return err
		}
		offered, err := functionOf(function)
		if err != nil {
			return err
		}
		req.Tools = append(req.Tools, offered)
		_, err = function.object("parameters")
		return err
	})
}

func ollamaOptions(root object, req *Request) error {
	if !root.has("options") {
		return nil
	}
	options, err := root.object("options")
	if err != nil {
		return err
	}
	if err := options.only("num_ctx", "num_predict", "temperature", "stop", "top_p", "top_k", "seed"); err != nil {
		return err
	}
	const hottest = 2
	if err := options.number("temperature", 0, hottest); err != nil {
		return err
	}
	if req.MaxTokens, err = options.positive("num_predict"); err != nil {
		return err
	}
	if req.Room, err = options.positive("num_ctx"); err != nil {
		return err
	}
	stops, err := options.list("stop")
	for _, v := range stops {
		s, ok := v.(string)
		if !ok {
			return invalid(options.at("stop"), "must be strings")
		}
		req.Stop = append(req.Stop, s)
	}
	return err
}

func ollamaFormat(root object, _ *Request) error {
	switch format := root.fields["format"].(type) {
	case nil, map[string]any:
		return nil
	case string:
		if format == "json" {
			return nil
		}
	}
	return invalid("format", "must be json or a schema")
}
