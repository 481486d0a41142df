package conform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/llm"
)

// conformedSchema is what becomes of a tool's schema.
func conformedSchema(t require.TestingT, schema string, refused ...string) string {
	req := &llm.Request{Messages: []llm.Message{said(llm.RoleUser, "u")},
		Tools: []llm.Tool{{Name: "f", Schema: json.RawMessage(schema)}}}
	fit, _ := conformed(t, req, refused...)
	return string(fit.Tools[0].Schema)
}

// TestSchemasOfOpenAPI proves GAP-127 for what Google does not read of schemas, by what was reported.
func TestSchemasOfOpenAPI(t *testing.T) {
	t.Parallel()
	const anything = `"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"},` +
		`{"type":"array","items":{"type":"string"}}],"nullable":true`
	for name, c := range map[string]struct{ given, want string }{
		"an empty one": {`{}`, `{"type":"object"}`},
		"keywords that it does not have": {
			`{"$schema":"x","type":"object","additionalProperties":false,"properties":{"a":{"type":"string",` +
				`"default":"x","examples":["y"],"description":"d"},"b":{"type":"integer","exclusiveMinimum":0,` +
				`"maximum":9}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"d"},"b":{"type":"integer",` +
				`"maximum":9}}}`,
		},
		"a property by the name of a keyword": {
			`{"type":"object","properties":{"$schema":{"type":"string"},"const":{"type":"string"}}}`,
			`{"type":"object","properties":{"$schema":{"type":"string"},"const":{"type":"string"}}}`,
		},
		"null among types (zed #53919)": {
			`{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x","y"]}}}`,
			`{"type":"object","properties":{"a":{"type":"string","enum":["x","y"],"nullable":true}}}`,
		},
		"several types (api-client #2570)": {
			`{"type":"object","properties":{"a":{"type":["string","integer"],"minLength":2,"minimum":1,` +
				`"description":"d"}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string","minLength":2},{"type":"integer",` +
				`"minimum":1}],"description":"d"}}}`,
		},
		"a constant (zed #44875)": {
			`{"type":"object","properties":{"a":{"anyOf":[{"const":"x"},{"const":"y","description":"d"}]},` +
				`"b":{"type":"number","const":1}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string","enum":["x"]},{"type":"string",` +
				`"enum":["y"],"description":"d"}]},"b":{"type":"number"}}}`,
		},
		"an enum of no texts (opencode #2687)": {
			`{"type":"object","properties":{"a":{"type":"boolean","enum":[true]},"b":{"enum":[1,2]},"c":{"enum":["x",` +
				`""]}}}`,
			`{"type":"object","properties":{"a":{"type":"boolean"},"b":{` + anything + `},"c":{` + anything + `}}}`,
		},
		"null among alternatives": {
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"title":"A"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","nullable":true,"title":"A"}}}`,
		},
		"alternatives by the other word": {
			`{"type":"object","properties":{"a":{"oneOf":[{"type":"string","format":"uri"},{"type":"object",` +
				`"properties":{"u":true}}]}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"object","properties":{"u":{` + anything +
				`}}}]}}}`,
		},
		"all of several": {
			`{"type":"object","properties":{"a":{"allOf":[{"$ref":"#/$defs/a"},{"properties":{"y":{"type":"string"}},` +
				`"required":["y"]}]}},"$defs":{"a":{"type":"object","properties":{"x":{"type":"number"}}}}}`,
			`{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"number"},` +
				`"y":{"type":"string"}},"required":["y"]}}}`,
		},
		"all of one, for its words": {
			`{"type":"object","properties":{"a":{"allOf":[{"type":"string","enum":["x"]}],"description":"d"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","enum":["x"]}}}`,
		},
		"an array of what is not said": {
			`{"type":"object","properties":{"a":{"type":"array"},"b":{"items":{"type":"string"}}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{` + anything +
				`}},"b":{"type":"array","items":{"type":"string"}}}}`,
		},
		"what is required and no property": {
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a","b"]}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`,
		},
		"what is no schema": {
			`{"type":"object","properties":{"a":1,"b":{"type":"string"}},"required":["a","b"]}`,
			`{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]}`,
		},
		"alternatives at the root": {
			`{"anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"type":"string"},` +
				`"b":{"type":"string"}},"required":["a","b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]}`,
		},
		"a reference to nothing": {
			`{"type":"object","properties":{"a":{"$ref":"#/gone","description":"d"}}}`,
			`{"type":"object","properties":{"a":{` + anything + `,"description":"d"}}}`,
		},
		"what is of an object, unsaid": {
			`{"type":"object","properties":{"a":{"properties":{"x":{"type":"string"}}}}}`,
			`{"type":"object","properties":{"a":{"type":"object","properties":{"x":{"type":"string"}}}}}`,
		},
		"what may be null": {
			`{"type":"object","properties":{"a":{"type":"string","nullable":true,"examples":[]}}}`,
			`{"type":"object","properties":{"a":{"type":"string","nullable":true}}}`,
		},
		"one alternative of two that fits": {
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"number","multipleOf":2}]}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"number"}]}}}`,
		},
		"what fits": {`{ "type": "object" }`, `{ "type": "object" }`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := conformedSchema(t, c.given, "schema_beyond_openapi")
			require.JSONEq(t, c.want, got)
			require.Equal(t, got, conformedSchema(t, got, "schema_beyond_openapi"), "what fits stays")
		})
	}
	t.Run("what fits is not touched", func(t *testing.T) {
		t.Parallel()
		const fitting = `{ "type": "object", "properties": { "a": { "anyOf": [{"type":"string"}], "title": "A" },` +
			` "b": { "type": "array", "items": { "type": "string", "enum": ["x"], "nullable": false } } }, "required": ["a"] }`
		require.Equal(t, fitting, conformedSchema(t, fitting, "schema_beyond_openapi"))
	})
	t.Run("each of many is merged", func(t *testing.T) {
		t.Parallel()
		var given, want []string
		for i := range 10 {
			name := fmt.Sprintf(`"p%d":`, i)
			given = append(given, name+`{"allOf":[{"properties":{"x":{"type":"string"}}}]}`)
			want = append(want, name+`{"type":"object","properties":{"x":{"type":"string"}}}`)
		}
		const begin, end = `{"type":"object","properties":{`, `}}`
		require.JSONEq(t, begin+strings.Join(want, ",")+end,
			conformedSchema(t, begin+strings.Join(given, ",")+end, "schema_beyond_openapi"))
	})
	t.Run("what refers to itself has an end", func(t *testing.T) {
		t.Parallel()
		const node = `{"allOf":[{"$ref":"#/$defs/n"}]}`
		given := `{"type":"object","properties":{"n":` + node + `},"$defs":{"n":{"type":"object","properties":{"l":` + node +
			`,"r":` + node + `,"s":{"type":"object","anyOf":[{"$ref":"#/$defs/n"}]}}}}}`
		got := conformedSchema(t, given, "schema_beyond_openapi")
		require.NotContains(t, got, "$ref")
		require.Less(t, len(got), 6*len(given))
	})
}

// schemaOf draws a schema of what clients write.
func schemaOf(t *rapid.T, depth int) any {
	if rapid.IntRange(0, 12).Draw(t, "bare") == 0 {
		return rapid.SampledFrom([]any{true, map[string]any{}, map[string]any{"$ref": "#/$defs/d"}}).Draw(t, "schema")
	}
	s := map[string]any{}
	some := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	kinds := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"string", "number", "integer", "boolean", "array",
		"object", "null"}), 0, 2, rapid.ID[string]).Draw(t, "types")
	switch len(kinds) {
	case 1:
		s["type"] = kinds[0]
	case 2:
		s["type"] = []any{kinds[0], kinds[1]}
	}
	keywords := map[string][]any{
		"enum":  {[]any{"a", "b"}, []any{"a", nil}, []any{1, 2}, []any{""}, []any{}},
		"const": {"a", 1, nil}, "description": {"d", 7}, "format": {"date-time", "uri"}, "minLength": {1}, "pattern": {"^a"},
		"minimum": {1}, "exclusiveMaximum": {5}, "maxItems": {1}, "required": {[]any{"a"}, []any{"a", "z"}},
		"additionalProperties": {false, true}, "nullable": {true}, "default": {"a"}, "minProperties": {1},
	}
	for _, name := range slices.Sorted(maps.Keys(keywords)) {
		if some(name) {
			s[name] = rapid.SampledFrom(keywords[name]).Draw(t, "value")
		}
	}
	if depth == 0 {
		return s
	}
	if slices.Contains(kinds, "object") && some("properties") { // which are of objects where nothing else is said
		inside := map[string]any{}
		for _, name := range []string{"a", "type", "b"} {
			if some(name) {
				inside[name] = schemaOf(t, depth-1)
			}
		}
		s["properties"] = inside
	}
	if slices.Contains(kinds, "array") && some("items") {
		s["items"] = schemaOf(t, depth-1)
	}
	if some("not") {
		s["not"] = schemaOf(t, depth-1)
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf"} {
		if some(name) {
			s[name] = []any{schemaOf(t, depth-1), schemaOf(t, depth-1)}
		}
	}
	return s
}

// TestSchemasOfOpenAPITakeWhatTheyTook: what a client's schema takes, that of the upstream takes.
func TestSchemasOfOpenAPITakeWhatTheyTook(t *testing.T) {
	t.Parallel()
	values := []any{map[string]any{}}
	inner := []any{"a", "b", "", 1.0, 2.5, true, nil, map[string]any{}, map[string]any{"a": "a", "b": 1.0}}
	for _, v := range append(inner, []any{}, []any{"a"}) {
		values = append(values, map[string]any{"a": v}, map[string]any{"a": "a", "b": v}, map[string]any{"type": v, "z": v})
	}
	rapid.Check(t, func(t *rapid.T) {
		drawn := map[string]any{"type": "object", "properties": map[string]any{"a": schemaOf(t, 2), "type": schemaOf(t, 1)}}
		if other, ok := schemaOf(t, 2).(map[string]any); ok && rapid.Bool().Draw(t, "whatever") {
			delete(other, "$ref")
			drawn = other
		}
		drawn["$defs"] = map[string]any{"d": schemaOf(t, 1)}
		raw, err := json.Marshal(drawn)
		require.NoError(t, err)
		got := conformedSchema(t, string(raw), "schema_beyond_openapi")
		require.Equal(t, got, conformedSchema(t, got, "schema_beyond_openapi"), "what fits stays")
		var sent any
		require.NoError(t, json.Unmarshal([]byte(got), &sent))
		before, after := compiled(drawn), compiled(nulled(sent))
		require.NotNil(t, after, "%s", got)
		for _, v := range values {
			if before != nil && before.Validate(v) == nil {
				require.NoError(t, after.Validate(v), "%s\nas %s\nof %v", raw, got, v)
			}
		}
	})
}

// compiled is nil for what is no schema.
func compiled(schema any) *jsonschema.Schema {
	raw, _ := json.Marshal(schema)
	read, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	if c.AddResource("s", read) != nil {
		return nil
	}
	s, _ := c.Compile("s")
	return s
}

// nulled says in JSON Schema what OpenAPI says with nullable.
func nulled(schema any) any {
	s, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	if properties, ok := s["properties"].(map[string]any); ok {
		for name, one := range properties {
			properties[name] = nulled(one)
		}
	}
	if items, ok := s["items"]; ok {
		s["items"] = nulled(items)
	}
	branches, _ := s["anyOf"].([]any)
	for i := range branches {
		branches[i] = nulled(branches[i])
	}
	if s["nullable"] == true {
		return map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
	}
	return s
}
