// Package validate says whether a reply is good enough to be shown, by its form, and whether several replies say the
// same. It is pure, and knows nothing of routes: the steps of an itinerary that keep a reply back ask it.
package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/llm"
)

// Reply is what is judged: the text and the tool calls of a reply that is whole.
type Reply struct {
	Text  string
	Calls []*llm.ToolCall
	// Declined: the route's content policy ended it.
	Declined bool
	// Cut: it ended at its allowance.
	Cut bool
}

// Check returns nil for a reply that the validator accepts, otherwise why it does not, without a word of the reply. A
// validator that crashes does not accept.
func Check(validator string, req *llm.Request, r *Reply) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the validator crashed: %v", cause)
		}
	}()
	if strings.TrimSpace(r.Text) == "" && len(r.Calls) == 0 {
		return errors.New("it is empty")
	}
	if r.Cut {
		return errors.New("it ended at its allowance")
	}
	check, ok := checks[validator]
	if !ok {
		return fmt.Errorf("there is no validator %q", validator)
	}
	return check(req, r)
}

var checks = map[string]func(*llm.Request, *Reply) error{
	config.ValidNonEmpty:      func(*llm.Request, *Reply) error { return nil },
	config.ValidNotRefusal:    notRefusal,
	config.ValidJSON:          isJSON,
	config.ValidSchema:        bySchema,
	config.ValidToolArguments: toolArguments,
}

func isJSON(_ *llm.Request, r *Reply) error {
	if len(r.Calls) > 0 {
		return nil
	}
	if _, err := parse(Unfenced(r.Text)); err != nil {
		return errors.New("its text is not JSON")
	}
	return nil
}

func bySchema(req *llm.Request, r *Reply) error {
	if len(r.Calls) > 0 {
		return toolArguments(req, r)
	}
	v, err := parse(Unfenced(r.Text))
	if err != nil {
		return errors.New("its text is not JSON")
	}
	if req.Format == nil || len(req.Format.Schema) == 0 {
		return nil
	}
	return against(req.Format.Schema, v, "the text does not match the request's schema")
}

func toolArguments(req *llm.Request, r *Reply) error {
	for _, call := range r.Calls {
		at := -1
		for i := range req.Tools {
			if req.Tools[i].Name == call.Name {
				at = i
			}
		}
		if at < 0 {
			return errors.New("it calls a tool that the request does not have")
		}
		text := call.Arguments.String()
		if strings.TrimSpace(text) == "" {
			text = "{}" // GAP-84
		}
		v, err := parse(text)
		if err != nil {
			return errors.New("the arguments of a tool call are not JSON")
		}
		err = against(req.Tools[at].Schema, v, "the arguments of a tool call do not match the tool's schema")
		if err != nil {
			return err
		}
	}
	return nil
}

// against checks a value by a schema. A schema that is none accepts whatever there is: it is the client's, and its
// upstream may know more of it.
func against(schema json.RawMessage, v any, problem string) error {
	doc, err := parse(string(schema))
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	const here = "fareway:///schema"
	if err := c.AddResource(here, doc); err != nil {
		return nil //nolint:nilerr // see above
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	if compiled.Validate(v) != nil {
		return errors.New(problem)
	}
	return nil
}

// nothing loads no schema from anywhere: a client's schema must not make the gateway read files or call addresses.
type nothing struct{}

func (nothing) Load(string) (any, error) {
	return nil, errors.New("schemas are not loaded from elsewhere")
}

// parse reads one JSON value, with numbers as they are written.
func parse(text string) (any, error) {
	return jsonschema.UnmarshalJSON(strings.NewReader(text))
}

// Unfenced is a text without the fence of a code block around it, which models put around JSON.
func Unfenced(text string) string {
	text = strings.TrimSpace(text)
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	inner, ok = strings.CutSuffix(inner, "```")
	if !ok {
		return text
	}
	if _, rest, ok := strings.Cut(inner, "\n"); ok {
		return strings.TrimSpace(rest)
	}
	return text
}

// compact is JSON without blanks and with the keys of objects sorted; false where it is none.
func compact(text string) (string, bool) {
	v, err := parse(text)
	if err != nil {
		return "", false
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return "", false
	}
	return strings.TrimSpace(b.String()), true
}
