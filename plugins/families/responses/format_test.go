package responses_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/responses"
	"github.com/fareway/fareway/plugins/llm"
)

// TestStructuredOutput is about the fields; what they may hold is tested with the rules that families share.
func TestStructuredOutput(t *testing.T) {
	t.Parallel()
	const flat = `"text":{"verbosity":"low","format":{"type":"json_schema","schema":{"type":"object"},"strict":true}}`
	const nested = `"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"},"strict":true}}`
	yes := true
	schema := &llm.Format{Kind: llm.FormatJSONSchema, Name: "response", Schema: []byte(`{"type":"object"}`), Strict: &yes}
	for name, tt := range map[string]struct {
		members string
		want    *llm.Format
		echo    string
	}{
		"STRUCT-11 text.format": {flat, schema,
			`{"type":"json_schema","name":"response","description":null,"schema":{"type":"object"},"strict":true}`},
		"STRUCT-12 response_format": {nested, schema,
			`{"type":"json_schema","name":"response","description":null,"schema":{"type":"object"},"strict":true}`},
		"STRUCT-13 text.format null": {nested + `,"text":{"format":null}`, schema,
			`{"type":"json_schema","name":"response","description":null,"schema":{"type":"object"},"strict":true}`},
		"STRUCT-13 response_format null": {flat + `,"response_format":null`, schema,
			`{"type":"json_schema","name":"response","description":null,"schema":{"type":"object"},"strict":true}`},
		"STRUCT-11 an object": {`"text":{"format":{"type":"json_object"}}`,
			&llm.Format{Kind: llm.FormatJSONObject}, `{"type":"json_object"}`},
		"STRUCT-11 STRUCT-17 text":            {`"text":{"format":{"type":"text"}}`, nil, `{"type":"text"}`},
		"STRUCT-08 STRUCT-17 chat-style text": {`"response_format":{"type":"text"}`, nil, `{"type":"text"}`},
		"STRUCT-11 other members of text":     {`"text":{"verbosity":"low"}`, nil, `{"type":"text"}`},
		"STRUCT-11 null":                      {`"text":null`, nil, `{"type":"text"}`},
		"other families' fields are not read": {`"output_format":5,"output_config":5`, nil, `{"type":"text"}`},
		"STRUCT-13 text without a format, too": {nested + `,"text":{}`, schema,
			`{"type":"json_schema","name":"response","description":null,"schema":{"type":"object"},"strict":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := family.Decode(t, with(tt.members), families.Rules{StructuredOutput: true})
			require.Nil(t, err)
			require.Equal(t, tt.want, req.LLM.Format)
			b := responses.Server{}.NewEncoder(req, families.Head{}).AppendReply(nil, new(llm.Reply), families.End{})
			require.Contains(t, string(b), `"text":{"format":`+tt.echo+`}`)
		})
	}
	for name, members := range map[string]string{
		"STRUCT-13 both":               flat + "," + nested,
		"STRUCT-13 both say text":      `"text":{"format":{"type":"text"}},"response_format":{"type":"text"}`,
		"STRUCT-29 text not an object": `"text":5`,
		"STRUCT-29 format":             `"text":{"format":"json"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := family.Decode(t, with(members), families.Rules{StructuredOutput: true})
			require.NotNil(t, err)
			require.Equal(t, families.InvalidRequest, err.Code)
		})
	}
	t.Run("STRUCT-04 GAP-76 off, a reply says text", func(t *testing.T) {
		t.Parallel()
		req := accepted(t, with(flat))
		require.Nil(t, req.LLM.Format)
		b := responses.Server{}.NewEncoder(req, families.Head{}).AppendReply(nil, new(llm.Reply), families.End{})
		require.Contains(t, string(b), `"text":{"format":{"type":"text"}}`)
	})
}
