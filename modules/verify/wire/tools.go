package wire

import (
	"fmt"
	"strings"
)

// Function is a tool that a request declares; Schema is JSON, "" for none.
type Function struct{ Name, Description, Schema string }

// Tools is the member that declares functions in the shape's native form.
func (s Shape) Tools(functions ...Function) string {
	schema := map[string]string{"chat": "parameters", "responses": "parameters", "messages": "input_schema"}[s.Name]
	list := make([]string, len(functions))
	for i, f := range functions {
		fields := `"name":` + Quote(f.Name)
		if f.Description != "" {
			fields += `,"description":` + Quote(f.Description)
		}
		if f.Schema != "" {
			fields += "," + Quote(schema) + ":" + f.Schema
		}
		switch s.Name {
		case "chat":
			list[i] = `{"type":"function","function":{` + fields + `}}`
		case "responses":
			list[i] = `{"type":"function",` + fields + `}`
		default:
			list[i] = `{` + fields + `}`
		}
	}
	return `"tools":[` + strings.Join(list, ",") + "]"
}

// Forced is the member that demands a call of some tool.
func (s Shape) Forced() string {
	if s.Name == "messages" {
		return `"tool_choice":{"type":"any"}`
	}
	return `"tool_choice":"required"`
}

// Answered is the conversation after a reply to text with these calls: the user's turn, the calls as they came, and a
// result for each.
func (s Shape) Answered(text string, calls []ToolCall, results ...string) string {
	user := `{"role":"user","content":` + Quote(text) + `}`
	var said, heard []string
	for i, c := range calls {
		switch s.Name {
		case "chat":
			said = append(said, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, c.ID, c.Name,
				Quote(c.Arguments)))
			heard = append(heard, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%s}`, c.ID, Quote(results[i])))
		case "responses":
			said = append(said, fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":%q,"arguments":%s}`, c.ID, c.Name,
				Quote(c.Arguments)))
			heard = append(heard, fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%s}`, c.ID,
				Quote(results[i])))
		default:
			said = append(said, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.ID, c.Name, c.Arguments))
			heard = append(heard, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%s}`, c.ID, Quote(results[i])))
		}
	}
	turns := func(open string, list []string, end string) string { return open + strings.Join(list, ",") + end }
	switch s.Name {
	case "chat":
		return turns(`"messages":[`+user+`,{"role":"assistant","content":null,"tool_calls":[`, said, "]},") +
			turns("", heard, "]")
	case "responses":
		return turns(`"input":[`+user+",", said, ",") + turns("", heard, "]")
	}
	return turns(`"messages":[`+user+`,{"role":"assistant","content":[`, said, "]},") +
		turns(`{"role":"user","content":[`, heard, "]}]")
}
