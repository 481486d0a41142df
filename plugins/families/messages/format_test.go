package messages_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// TestStructuredOutput is about the fields; what they may hold is tested with the rules that families share.
func TestStructuredOutput(t *testing.T) {
	t.Parallel()
	const format = `{"type":"json_schema","schema":{"type":"object"}}`
	schema := &llm.Format{Kind: llm.FormatJSONSchema, Name: "response", Schema: []byte(`{"type":"object"}`)}
	for name, tt := range map[string]struct {
		members string
		want    *llm.Format
	}{
		"STRUCT-14 output_format":             {`"output_format":` + format, schema},
		"STRUCT-15 output_config.format":      {`"output_config":{"effort":"low","format":` + format + `}`, schema},
		"STRUCT-16 one of them null":          {`"output_format":null,"output_config":{"format":` + format + `}`, schema},
		"STRUCT-16 the other null":            {`"output_format":` + format + `,"output_config":{"format":null}`, schema},
		"STRUCT-14 null":                      {`"output_format":null,"output_config":null`, nil},
		"STRUCT-15 other members":             {`"output_config":{"effort":"low"}`, nil},
		"other families' fields are not read": {`"response_format":5,"text":5`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := family.Decode(t, with(tt.members), families.Rules{StructuredOutput: true})
			require.Nil(t, err)
			require.Equal(t, tt.want, req.LLM.Format)
		})
	}
	for name, tt := range map[string]struct {
		members string
		code    families.Code
	}{
		"STRUCT-16 both": {`"output_format":` + format + `,"output_config":{"format":` + format + `}`,
			families.InvalidRequest},
		"STRUCT-14 no schema":               {`"output_format":{"type":"json_schema"}`, families.InvalidRequest},
		"STRUCT-29 not an object":           {`"output_format":"json"`, families.InvalidRequest},
		"STRUCT-29 the other not an object": {`"output_config":7`, families.InvalidRequest},
		"STRUCT-30 json_object":             {`"output_format":{"type":"json_object"}`, families.UnsupportedField},
		"STRUCT-30 text":                    {`"output_config":{"format":{"type":"text"}}`, families.UnsupportedField},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := family.Decode(t, with(tt.members), families.Rules{StructuredOutput: true})
			require.NotNil(t, err)
			require.Equal(t, tt.code, err.Code)
		})
	}
	t.Run("STRUCT-05 STRUCT-06 GAP-76 off, nothing of it is read", func(t *testing.T) {
		t.Parallel()
		require.Nil(t, accepted(t, with(`"output_format":`+format+`,"output_config":7`)).LLM.Format)
	})
}
