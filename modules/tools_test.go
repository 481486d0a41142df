package modules_test

// function is a tool that a request declares; Schema is JSON, "" for none.
type function struct{ Name, Description, Schema string }

// tools is the member that declares functions in a shape's native form.
func tools(sh shape, list ...function) string {
	out := `"tools":[`
	for i, f := range list {
		if i > 0 {
			out += ","
		}
		fields := `"name":` + quote(f.Name)
		if f.Description != "" {
			fields += `,"description":` + quote(f.Description)
		}
		if f.Schema != "" {
			fields += map[string]string{"chat": `,"parameters":`, "responses": `,"parameters":`, "messages": `,"input_schema":`}[sh.Name] + f.Schema
		}
		switch sh.Name {
		case "chat":
			out += `{"type":"function","function":{` + fields + `}}`
		case "responses":
			out += `{"type":"function",` + fields + `}`
		default:
			out += `{` + fields + `}`
		}
	}
	return out + "]"
}
