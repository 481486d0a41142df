package builtin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	oresponses "github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// geminiRequest is a request of generateContent: Google's library has types for its members, and composes it of maps.
type geminiRequest struct {
	Contents          []*genai.Content        `json:"contents"`
	SystemInstruction *genai.Content          `json:"systemInstruction"`
	Tools             []*genai.Tool           `json:"tools"`
	ToolConfig        *genai.ToolConfig       `json:"toolConfig"`
	GenerationConfig  *genai.GenerationConfig `json:"generationConfig"`
}

// ownMembers are what services of chat completions have of their own, by the members that they stand in.
var ownMembers = []string{"reasoning_content", "extra_content", "thinking", "timings_per_token"}

// official checks a request against the types of its dialect's official library: members that they do not have are
// refused, those that they require have to be there, and values are of their kinds. Bedrock's requests are written by
// the official library, and Ollama's library is its server: of that the fake alone knows the fields.
func official(sent *upstream.Request) error {
	body, err := object(sent.Body)
	if err != nil {
		return err
	}
	switch sent.Family {
	case "chat":
		delete(body, "stream") // which the library adds
		return fits(without(body, ownMembers), reflect.TypeFor[openai.ChatCompletionNewParams](), "")
	case "responses":
		delete(body, "stream")
		return fits(body, reflect.TypeFor[oresponses.ResponseNewParams](), "")
	case "messages":
		delete(body, "stream")
		return fits(body, reflect.TypeFor[anthropic.MessageNewParams](), "")
	case "gemini":
		// In the URL's alphabet, which Google takes and Go's library does not.
		const unsigned = "skip_thought_signature_validator"
		plain := strings.ReplaceAll(string(sent.Body), unsigned, strings.ReplaceAll(unsigned, "_", "/"))
		d := json.NewDecoder(strings.NewReader(plain))
		d.DisallowUnknownFields()
		return d.Decode(&geminiRequest{})
	}
	return nil
}

func object(raw []byte) (m map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&m)
	return m, err
}

// without is a value without members of these names, but in what a client has written.
func without(v any, names []string) any {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range names {
			delete(v, name)
		}
		for name, inner := range v {
			if name != "parameters" && name != "schema" {
				v[name] = without(inner, names)
			}
		}
	case []any:
		for i := range v {
			v[i] = without(v[i], names)
		}
	}
	return v
}

// fits checks a value of JSON against a type of parameters as Stainless generates them (OpenAI, Anthropic).
func fits(v any, typ reflect.Type, path string) error {
	wrong := func(want string) error { return fmt.Errorf("%s: %v is no %s", path, v, want) }
	switch typ.Kind() {
	case reflect.Pointer:
		return fits(v, typ.Elem(), path)
	case reflect.Interface:
		return nil
	case reflect.String:
		if _, ok := v.(string); !ok {
			return wrong("text")
		}
	case reflect.Bool:
		if _, ok := v.(bool); !ok {
			return wrong("boolean")
		}
	case reflect.Int64, reflect.Float64:
		n, ok := v.(json.Number)
		if _, err := n.Int64(); !ok || typ.Kind() == reflect.Int64 && err != nil {
			return wrong("number")
		}
	case reflect.Slice:
		list, ok := v.([]any)
		for i := range list {
			if err := fits(list[i], typ.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		if !ok {
			return wrong("list")
		}
	case reflect.Map:
		members, ok := v.(map[string]any)
		for name, one := range members {
			if err := fits(one, typ.Elem(), path+"."+name); err != nil {
				return err
			}
		}
		if !ok {
			return wrong("object")
		}
	case reflect.Struct:
		switch {
		case strings.HasPrefix(typ.Name(), "Opt["):
			value, _ := typ.FieldByName("Value")
			return fits(v, value.Type, path)
		case isUnion(typ):
			return fitsOne(v, typ, path)
		}
		return fitsMembers(v, typ, path)
	default:
		return wrong(typ.String())
	}
	return nil
}

func isUnion(typ reflect.Type) bool {
	return typ.NumField() > 0 && strings.HasSuffix(typ.Field(0).Tag.Get("json"), ",inline")
}

// fitsOne checks that a value is one of several.
func fitsOne(v any, typ reflect.Type, path string) error {
	var all []error
	for i := range typ.NumField() {
		if typ.Field(i).Anonymous {
			continue
		}
		err := fits(v, typ.Field(i).Type, path)
		if err == nil {
			return nil
		}
		all = append(all, err)
	}
	return fmt.Errorf("as %s: %w", typ.Name(), errors.Join(all...))
}

func fitsMembers(v any, typ reflect.Type, path string) error {
	members, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: %v is no object", path, v)
	}
	known, extras := map[string]bool{}, false
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		constant, isConstant := field.Tag.Lookup("default")
		extras = extras || field.Tag.Get("api") == "extrafields"
		if name == "" || name == "-" {
			continue
		}
		known[name] = true
		required := field.Tag.Get("api") == "required" || isConstant && !strings.Contains(options, "omit")
		one, there := members[name]
		switch {
		case !there && required:
			return fmt.Errorf("%s: %s has no %s", path, typ.Name(), name)
		case !there, one == nil && !required:
			continue
		case isConstant && one != constant:
			return fmt.Errorf("%s.%s: %v is not %q", path, name, one, constant)
		}
		if err := fits(one, field.Type, path+"."+name); err != nil {
			return err
		}
	}
	for name := range members {
		if !known[name] && !extras {
			return fmt.Errorf("%s: %s has no member %s", path, typ.Name(), name)
		}
	}
	return nil
}

// TestOfficialTypesRefuse: the check of what is sent finds what is wrong with it.
func TestOfficialTypesRefuse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ family, body, wrong string }{
		{"chat", `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`, ""},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"x","mark":1}]}`, "no member mark"},
		{"chat", `{"model":"m"}`, "has no messages"},
		{"chat", `{"messages":[]}`, "has no model"},
		{"chat", `{"model":"m","messages":[{"role":"tool","content":"x"}]}`, "has no tool_call_id"},
		{"chat", `{"model":"m","messages":[{"role":"bot","content":"x"}]}`, "bot is not"},
		{"chat", `{"model":"m","messages":[],"max_tokens":1.5}`, "no number"},
		{"chat", `{"model":"m","messages":[],"tools":[{"type":"function","function":{"parameters":{}}}]}`, "has no name"},
		{"chat", `{"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f",` +
			`"parameters":{"thinking":1}}}],"thinking":{}}`, ""},
		{"responses", `{"model":"m","input":[{"type":"function_call","call_id":"c","name":"f"}]}`, "has no arguments"},
		{"responses", `{"model":"m","input":"x","messages":[]}`, "no member messages"},
		{"messages", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`,
			"has no max_tokens"},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result",` +
			`"content":[{"type":"text"}]}]}]}`, "has no"},
		{"gemini", `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`, ""},
		{"gemini", `{"contents":[{"role":"user","parts":[{"functionCall":{"name":"f","args":[]}}]}]}`, "array"},
		{"gemini", `{"contents":[{"role":"user","content":"x"}]}`, "unknown field"},
	} {
		err := official(&upstream.Request{Family: c.family, Body: []byte(c.body)})
		if c.wrong == "" {
			require.NoError(t, err, c.body)
		} else {
			require.ErrorContains(t, err, c.wrong, c.body)
		}
	}
}
