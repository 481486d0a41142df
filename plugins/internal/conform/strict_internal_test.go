package conform

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClosed: what a service would refuse as strict is not strict.
func TestClosed(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]bool{
		`{"type":"object","properties":{},"additionalProperties":false}`:                                       true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`: true,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["b"],"additionalProperties":false}`: false,
		`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`:                  false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`:                              false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":true}`:  false,
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":{}}`:    false,
		`{"type":"object"}`:                  false,
		`{}`:                                 false,
		`[]`:                                 false,
		`{"type":"array","items":{}}`:        false,
		within(`{"type":"object"}`):          false,
		within(`{"type":["object","null"]}`): false,
		within(`{"properties":{}}`):          false,
		within(`{"type":["string","null"]}`): true,
		within(`{"type":"array","items":{"type":"object"}}`):                                                   false,
		within(`{"type":"array","items":{"type":"string"}}`):                                                   true,
		within(`{"anyOf":[{"type":"string"},{"type":"object"}]}`):                                              false,
		within(`{"anyOf":[{"type":"string"},{"$ref":"#/$defs/x"}]}`):                                           true,
		within(`{"oneOf":[{"type":"string"}]}`):                                                                false,
		within(`true`):                                                                                         true,
		`{"type":"object","properties":{},"additionalProperties":false,"$defs":{"x":{"type":"object"}}}`:       false,
		`{"type":"object","properties":{},"additionalProperties":false,"definitions":{"x":{"type":"object"}}}`: false,
	} {
		require.Equal(t, want, closed([]byte(schema)), schema)
	}
}

// within is a schema with another one in it.
func within(schema string) string {
	return `{"type":"object","properties":{"a":` + schema + `},"required":["a"],"additionalProperties":false}`
}
