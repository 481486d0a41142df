package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/llm"
)

// TestStructuredOutput is about the field; what it may hold is tested with the rules that families share.
func TestStructuredOutput(t *testing.T) {
	t.Parallel()
	yes := true
	for name, tt := range map[string]struct {
		members string
		want    *llm.Format
	}{
		"STRUCT-08 STRUCT-17 text": {`"response_format":{"type":"text"}`, nil},
		"STRUCT-09 json_object":    {`"response_format":{"type":"json_object"}`, &llm.Format{Kind: llm.FormatJSONObject}},
		"STRUCT-10 json_schema": {`"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d",` +
			`"schema":{"type":"object"},"strict":true}}`,
			&llm.Format{Kind: llm.FormatJSONSchema, Name: "n", Description: "d", Schema: []byte(`{"type":"object"}`),
				Strict: &yes}},
		"STRUCT-01 null":                      {`"response_format":null`, nil},
		"other families' fields are not read": {`"text":5,"output_format":5,"output_config":5`, nil},
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
		"STRUCT-10 no json_schema": {`"response_format":{"type":"json_schema"}`, families.InvalidRequest},
		"STRUCT-29 no type":        {`"response_format":{}`, families.InvalidRequest},
		"STRUCT-29 false":          {`"response_format":false`, families.InvalidRequest},
		"STRUCT-30 grammar":        {`"response_format":{"type":"grammar"}`, families.UnsupportedField},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := family.Decode(t, with(tt.members), families.Rules{StructuredOutput: true})
			require.NotNil(t, err)
			require.Equal(t, tt.code, err.Code)
		})
	}
}
