package decode_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/internal/decode"
	"github.com/fareway/fareway/plugins/llm"
)

// readers are the three forms, each with how a schema's members are written in it.
var readers = []struct {
	name   string
	read   func(decode.Value) *llm.Format
	schema func(members string) string
}{
	{"nested", decode.Value.NestedFormat, func(m string) string {
		return `{"type":"json_schema","json_schema":{` + m +
			`}}`
	}},
	{"flat", decode.Value.FlatFormat, func(m string) string { return `{"type":"json_schema",` + m + `}` }},
	{"schema only", decode.Value.SchemaFormat, func(m string) string { return `{"type":"json_schema",` + m + `}` }},
}

func TestFormat(t *testing.T) {
	t.Parallel()
	no := false
	object := `"schema":{"type":"object"}`
	long := strings.Repeat("n", 64)
	for _, r := range readers {
		read := func(t *testing.T, text string) (*llm.Format, *families.Error) {
			t.Helper()
			var check decode.Check
			return r.read(check.Field("format", view(t, text))), check.Err()
		}
		for name, tt := range map[string]struct {
			members string
			want    llm.Format
		}{
			"STRUCT-26 the default name": {object, llm.Format{Name: "response"}},
			"STRUCT-25 64 letters":       {object + `,"name":"` + long + `"`, llm.Format{Name: long}},
			"STRUCT-25 all characters":   {object + `,"name":"aZ_-09"`, llm.Format{Name: "aZ_-09"}},
			"STRUCT-27 STRUCT-28": {object + `,"name":"n","description":"d","strict":false`,
				llm.Format{Name: "n", Description: "d", Strict: &no}},
			"GAP-79 null is absent": {object + `,"name":null,"description":null,"strict":null`,
				llm.Format{Name: "response"}},
			"GAP-79 unknown keys":         {object + `,"nullable":5`, llm.Format{Name: "response"}},
			"the schema is kept, compact": {`"schema": { "type" : "object" }`, llm.Format{Name: "response"}},
		} {
			t.Run(name+" "+r.name, func(t *testing.T) {
				t.Parallel()
				f, err := read(t, r.schema(tt.members))
				require.Nil(t, err)
				tt.want.Kind, tt.want.Schema = llm.FormatJSONSchema, []byte(`{"type":"object"}`)
				require.Equal(t, &tt.want, f)
			})
		}
		for name, text := range map[string]string{
			"STRUCT-24 a string":         r.schema(`"schema":"x"`),
			"STRUCT-24 an array":         r.schema(`"schema":[]`),
			"STRUCT-24 null":             r.schema(`"schema":null`),
			"STRUCT-24 a number":         r.schema(`"schema":5`),
			"STRUCT-24 GAP-79 missing":   r.schema(`"name":"n"`),
			"STRUCT-25 65 letters":       r.schema(object + `,"name":"n` + long + `"`),
			"STRUCT-25 empty":            r.schema(object + `,"name":""`),
			"STRUCT-25 a blank":          r.schema(object + `,"name":"a b"`),
			"STRUCT-25 an accent":        r.schema(object + `,"name":"é"`),
			"STRUCT-25 a number":         r.schema(object + `,"name":5`),
			"STRUCT-27 a number":         r.schema(object + `,"description":5`),
			"STRUCT-28 a string":         r.schema(object + `,"strict":"true"`),
			"STRUCT-29 not an object":    `"json"`,
			"STRUCT-29 an array":         `[]`,
			"STRUCT-29 no type":          `{}`,
			"STRUCT-29 type null":        `{"type":null}`,
			"STRUCT-29 type not a text":  `{"type":5}`,
			"STRUCT-29 no schema at all": strings.Replace(r.schema(""), ",}", "}", 1),
		} {
			t.Run(name+" "+r.name, func(t *testing.T) {
				t.Parallel()
				_, err := read(t, text)
				require.NotNil(t, err)
				require.Equal(t, families.InvalidRequest, err.Code)
				require.Contains(t, err.Message, "format")
			})
		}
		t.Run("STRUCT-30 another type "+r.name, func(t *testing.T) {
			t.Parallel()
			for _, text := range []string{`{"type":"grammar"}`, `{"type":""}`, `{"type":"JSON_OBJECT"}`} {
				_, err := read(t, text)
				require.NotNil(t, err, text)
				require.Equal(t, families.UnsupportedField, err.Code)
			}
		})
		t.Run("STRUCT-08 STRUCT-09 STRUCT-30 text and object "+r.name, func(t *testing.T) {
			t.Parallel()
			for text, want := range map[string]*llm.Format{
				`{"type":"text"}`:        nil,
				`{"type":"json_object"}`: {Kind: llm.FormatJSONObject},
			} {
				f, err := read(t, text)
				if r.name == "schema only" {
					require.NotNil(t, err, text)
					require.Equal(t, families.UnsupportedField, err.Code)
					continue
				}
				require.Nil(t, err)
				require.Equal(t, want, f)
			}
		})
		t.Run("absent "+r.name, func(t *testing.T) {
			t.Parallel()
			f, err := read(t, `null`)
			require.Nil(t, err)
			require.Nil(t, f)
		})
	}
	t.Run("STRUCT-10 json_schema has to be there", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{`{"type":"json_schema"}`, `{"type":"json_schema","json_schema":null}`,
			`{"type":"json_schema","json_schema":"x"}`} {
			var check decode.Check
			check.Field("format", view(t, text)).NestedFormat()
			require.NotNil(t, check.Err(), text)
			require.Equal(t, families.InvalidRequest, check.Err().Code)
		}
	})
}
