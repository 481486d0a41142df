package upstream

import (
	"regexp"
	"slices"
)

// reader reads a part of a request.
type reader func(root object, req *Request) error

// decode reads a request as strictly as the official service does: its model, which every family has, and no fields
// but the known ones. The error is an *Error with status 400.
func decode(body []byte, req *Request, known []string, readers ...reader) (*Request, error) {
	root, err := parseObject(body)
	if err != nil {
		return nil, err
	}
	if err := root.only(known...); err != nil {
		return nil, err
	}
	if req.Model, err = root.text("model"); err != nil {
		return nil, err
	}
	for _, read := range readers {
		if err := read(root, req); err != nil {
			return nil, err
		}
	}
	return req, nil
}

var identifier = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// nameOf reads the name of a tool or of a schema, which has a limit.
func nameOf(o object, longest int) (string, error) {
	name, err := o.text("name")
	if err == nil && (!identifier.MatchString(name) || len(name) > longest) {
		err = invalid(o.at("name"), "must have 1 to %d letters, digits, underscores or dashes", longest)
	}
	return name, err
}

// longestFunction is the limit of names in the families that have functions.
const longestFunction = 64

// functionOf reads the name and the description of a function.
func functionOf(o object) (Tool, error) {
	name, err := nameOf(o, longestFunction)
	if err != nil {
		return Tool{}, err
	}
	description, err := o.optionalText("description")
	return Tool{Name: name, Description: description}, err
}

// toolMode reads a tool choice that is a word, "" for one that is none.
func toolMode(root object) (string, error) {
	mode, ok := root.fields["tool_choice"].(string)
	if ok && !slices.Contains([]string{"none", "auto", "required"}, mode) {
		return "", invalid("tool_choice", "must be none, auto, required or an object")
	}
	return mode, nil
}

// chosen checks the choice of one tool.
func chosen(o object, req *Request) error {
	name, err := o.text("name")
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(req.Tools, func(t Tool) bool { return t.Name == name }) {
		return invalid("tool_choice", "names a tool that is not among the tools")
	}
	return nil
}

// formatOf checks a format of the reply; described checks what describes a schema.
func formatOf(format object, described func() error) error {
	kind, err := format.text("type")
	if err != nil {
		return err
	}
	switch kind {
	case "text", "json_object":
		return format.only("type")
	case "json_schema":
		return described()
	}
	return invalid(format.at("type"), "must be text, json_object or json_schema")
}

// schemaOf checks what describes a schema in o, which may have these members besides.
func schemaOf(o object, beside ...string) error {
	if err := o.only(append(beside, "name", "description", "schema", "strict")...); err != nil {
		return err
	}
	if _, err := nameOf(o, longestFunction); err != nil {
		return err
	}
	_, err := o.object("schema")
	return err
}
