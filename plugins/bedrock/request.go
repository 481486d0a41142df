package bedrock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	smithydocument "github.com/aws/smithy-go/document"

	"github.com/fareway/fareway/plugins/internal/encode"
	"github.com/fareway/fareway/plugins/internal/reply"
	"github.com/fareway/fareway/plugins/llm"
)

// highestTemperature is the end of Bedrock's range.
const highestTemperature = 1

// markedTurns is how many of the user's last turns are marked. With the tools and the instructions these are the four
// marks that a request may have.
const markedTurns = 2

// refuses is what Bedrock refuses for a model, see llm.Restrictions. API reference, ToolSpecification, ToolUseBlock
// and ToolResultBlock, November 2026: names and ids match [a-zA-Z0-9_-]+ and have up to 64 characters. A tool's
// schema is of an object (Kiro #11027, senpi #1947); texts are not blank, and the user begins.
func refuses(model string) []string {
	if strings.Contains(model, "amazon.nova") {
		return refusedByNova
	}
	return refusedByNova[1:]
}

var refusedByNova = []string{"schema_root_keywords", "call_ids_over_64", "call_id_symbols", "tool_names_over_64",
	"tool_name_symbols", "schema_without_type", "schema_without_properties", "schema_root_unions", "assistant_first",
	"system_alone", "blank_text"}

// encodeRequest makes a request. It sends what the canonical request says, which package conform has made such as
// Bedrock takes it, in the order that Bedrock wants it, and leaves out what Bedrock would refuse:
//
//   - system messages, wherever they stand, go to `system`, for there is no such turn;
//   - the results of tools and what the user says after them are one turn, results first;
//   - stop sequences that are blank, and blanks at the end of a reply to go on with, are left out;
//   - a temperature over 1 is left out, and so are "stop" and "temperature" where req.Unsupported names them;
//   - what was thought before a call goes back with it, where it is known (req.States), for models demand it;
//   - there is no choice to call no tool: then none are offered, unless the conversation has calls, for which tools
//     must be there;
//   - a json_object format is left out: Bedrock can enforce a schema only.
func encodeRequest(req *llm.Request, mark *types.CachePointBlock, alsoTools bool,
) (*bedrockruntime.ConverseStreamInput, error) {
	in := &bedrockruntime.ConverseStreamInput{ModelId: &req.Model, InferenceConfig: &types.InferenceConfiguration{
		MaxTokens: aws.Int32(int32(min(req.MaxTokens, math.MaxInt32)))}}
	if t := req.Temperature; t != nil && *t <= highestTemperature && !encode.Refused(req, "temperature") {
		in.InferenceConfig.Temperature = aws.Float32(float32(*t))
	}
	if !encode.Refused(req, "stop") {
		for _, stop := range req.Stop {
			if strings.TrimSpace(stop) != "" {
				in.InferenceConfig.StopSequences = append(in.InferenceConfig.StopSequences, stop)
			}
		}
	}
	if err := setConversation(in, req, mark); err != nil {
		return nil, err
	}
	if f := req.Format; f != nil && f.Kind == llm.FormatJSONSchema {
		schema := types.JsonSchemaDefinition{Schema: aws.String(string(f.Schema)), Name: text(f.Name),
			Description: text(f.Description)}
		in.OutputConfig = &types.OutputConfig{TextFormat: &types.OutputFormat{Type: types.OutputFormatTypeJsonSchema,
			Structure: &types.OutputFormatStructureMemberJsonSchema{Value: schema}}}
	}
	var err error
	if !alsoTools {
		mark = nil
	}
	in.ToolConfig, err = tools(req, mark)
	return in, err
}

// text is nil for "".
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// turn is a run of messages that are one turn of Bedrock's.
type turn struct {
	role    types.ConversationRole
	results []types.ContentBlock // which come before the others
	others  []types.ContentBlock
	spoken  int // how many of the others stand before the reply's last text
}

func beginTurn(assistant bool) *turn {
	if assistant {
		return &turn{role: types.ConversationRoleAssistant}
	}
	return &turn{role: types.ConversationRoleUser}
}

// setConversation sets `system` and `messages`, with marks at the end of the last turns of the user.
func setConversation(in *bedrockruntime.ConverseStreamInput, req *llm.Request, mark *types.CachePointBlock) error {
	turns, err := encode.Turns(req.Messages, beginTurn, func(t *turn, m *llm.Message) error {
		t.add(m, req.States)
		return nil
	})
	if err != nil {
		return err
	}
	trimEnd(turns[len(turns)-1])
	in.System = system(req.Messages, mark)
	in.Messages = make([]types.Message, len(turns))
	asked := 0 // turns of the user, from the last one
	for i, t := range slices.Backward(turns) {
		content := append(t.results, t.others...)
		if t.role == types.ConversationRoleUser {
			if asked++; asked <= markedTurns && mark != nil {
				content = append(content, &types.ContentBlockMemberCachePoint{Value: *mark})
			}
		}
		in.Messages[i] = types.Message{Role: t.role, Content: content}
	}
	return nil
}

// trimEnd takes the white space from the end of a last turn that is the model's own, which Bedrock refuses.
func trimEnd(last *turn) {
	if last.role != types.ConversationRoleAssistant {
		return
	}
	if end, ok := last.others[len(last.others)-1].(*types.ContentBlockMemberText); ok {
		end.Value = strings.TrimRight(end.Value, " \t\r\n")
	}
}

// system are the texts of the system's messages, with a mark behind what stays in a conversation.
func system(messages []llm.Message, mark *types.CachePointBlock) (blocks []types.SystemContentBlock) {
	add := func(texts []llm.String) {
		for _, text := range texts {
			blocks = append(blocks, &types.SystemContentBlockMemberText{Value: text.String()})
		}
	}
	if mark == nil {
		add(encode.System(messages))
		return blocks
	}
	stays, rest := encode.SystemToKeep(messages)
	if add(stays); len(stays) > 0 {
		blocks = append(blocks, &types.SystemContentBlockMemberCachePoint{Value: *mark})
	}
	add(rest)
	return blocks
}

// add adds what a message says. What was thought before a call goes where it stood: before the text before it, or
// behind that.
func (t *turn) add(m *llm.Message, states map[string][]byte) {
	if m.Role == llm.RoleTool {
		t.results = append(t.results, result(m))
		return
	}
	for _, part := range m.Parts {
		if c := part.Call; c != nil {
			first, then := reply.ThoughtsOf(states[c.ID])
			t.others = append(slices.Insert(t.others, t.spoken, reasoning(first)...), reasoning(then)...)
			t.others = append(t.others, &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{
				ToolUseId: &c.ID, Name: &c.Name, Input: arguments(c)}})
			t.spoken = len(t.others)
		} else {
			t.others = append(t.others, &types.ContentBlockMemberText{Value: part.Text.String()})
		}
	}
}

// result is that of a call.
func result(m *llm.Message) types.ContentBlock {
	block := types.ToolResultBlock{ToolUseId: &m.CallID, Content: []types.ToolResultContentBlock{}}
	for _, part := range m.Parts {
		block.Content = append(block.Content, &types.ToolResultContentBlockMemberText{Value: part.Text.String()})
	}
	if m.IsError {
		block.Status = types.ToolResultStatusError
	}
	return &types.ContentBlockMemberToolResult{Value: block}
}

// arguments are those of a past call.
func arguments(c *llm.ToolCall) document.Interface {
	v, err := documentOf(encode.AppendArguments(nil, c))
	if err != nil {
		return document.NewLazyDocument(map[string]any{})
	}
	return v
}

// documentOf is an object of JSON as the library takes it: it writes the members in order of their names, each time
// the same.
func documentOf(raw []byte) (document.Interface, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is data after the JSON value")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a JSON object")
	}
	return document.NewLazyDocument(numbered(object)), nil
}

// numbered puts numbers into the form of the library, which keeps their digits.
func numbered(v any) any {
	switch v := v.(type) {
	case json.Number:
		return smithydocument.Number(v)
	case map[string]any:
		for name, member := range v {
			v[name] = numbered(member)
		}
	case []any:
		for i, element := range v {
			v[i] = numbered(element)
		}
	}
	return v
}

// tools are nil for none. A conversation with calls must have some.
func tools(req *llm.Request, mark *types.CachePointBlock) (*types.ToolConfiguration, error) {
	offered := req.Tools
	called := calledTools(req.Messages)
	config := &types.ToolConfiguration{}
	switch req.ToolChoice.Mode {
	case llm.ToolAuto:
	case llm.ToolNone:
		if len(called) == 0 {
			return nil, nil
		}
	case llm.ToolRequired:
		config.ToolChoice = &types.ToolChoiceMemberAny{}
	case llm.ToolNamed:
		config.ToolChoice = &types.ToolChoiceMemberTool{Value: types.SpecificToolChoice{Name: &req.ToolChoice.Name}}
	default:
		return nil, encode.UnknownChoice(req.ToolChoice.Mode)
	}
	if len(offered) == 0 {
		offered = called
	}
	if len(offered) == 0 {
		return nil, nil
	}
	for i := range offered {
		tool := &offered[i]
		schema, err := documentOf(tool.Schema)
		if err != nil {
			return nil, fmt.Errorf("encoding the schema of tool %d: %w", i, err)
		}
		config.Tools = append(config.Tools, &types.ToolMemberToolSpec{Value: types.ToolSpecification{Name: &tool.Name,
			Description: text(tool.Description), InputSchema: &types.ToolInputSchemaMemberJson{Value: schema}}})
	}
	if mark != nil {
		config.Tools = append(config.Tools, &types.ToolMemberCachePoint{Value: *mark})
	}
	return config, nil
}

// calledTools are those that a conversation has called, as far as they can be told by that.
func calledTools(messages []llm.Message) []llm.Tool {
	var called []llm.Tool
	seen := map[string]bool{}
	for _, m := range messages {
		for _, part := range m.Parts {
			if c := part.Call; c != nil && !seen[c.Name] {
				seen[c.Name] = true
				called = append(called, llm.Tool{Name: c.Name, Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
			}
		}
	}
	return called
}

// caching is how what is to be kept of a prompt is marked, nil for not at all, and whether tools are marked, too.
func (b *Bedrock) caching(model string) (mark *types.CachePointBlock, alsoTools bool) {
	mark = &types.CachePointBlock{Type: types.CachePointTypeDefault}
	switch b.settings.PromptCaching {
	case noCaching:
		return nil, false
	case "1h":
		mark.Ttl = types.CacheTTLOneHour
	case "", autoCaching:
		if !keeps(model) {
			return nil, false
		}
	}
	return mark, !strings.Contains(model, "amazon.nova")
}

// older are models of Anthropic that take no marks.
var older = []string{"claude-v2", "claude-instant", "claude-3-haiku", "claude-3-sonnet", "claude-3-opus",
	"claude-3-5-sonnet"}

// keeps reports whether the name of a model, or of a profile of several regions, says that it takes marks (user guide,
// "Supported models, regions, and limits" of prompt caching).
func keeps(model string) bool {
	for _, name := range older {
		if strings.Contains(model, name) {
			return false
		}
	}
	return strings.Contains(model, "anthropic.claude") || strings.Contains(model, "amazon.nova")
}
