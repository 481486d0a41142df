package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/llm"
)

// TestStructuredOutput is about the field; what it may hold is tested with the rules that families share.
func TestStructuredOutput(t *testing.T) {
	t.Parallel()
	decode := func(t *testing.T, members string) (*families.Request, *families.Error) {
		t.Helper()
		doc, err := families.Parse([]byte(with(members)))
		require.Nil(t, err)
		return chat.Server{}.Decode(doc, families.Rules{StructuredOutput: true})
	}
	yes := true
	for name, tt := range map[string]struct {
		members string
		want    *llm.Format
	}{
		"STRUCT-08 STRUCT-17 text": {`"response_format":{"type":"text"}`, nil},
		"STRUCT-09 json_object":    {`"response_format":{"type":"json_object"}`, &llm.Format{Kind: llm.FormatJSONObject}},
		"STRUCT-10 json_schema": {`"response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":{"type":"object"},"strict":true}}`,
			&llm.Format{Kind: llm.FormatJSONSchema, Name: "n", Description: "d", Schema: []byte(`{"type":"object"}`), Strict: &yes}},
		"STRUCT-01 null":                      {`"response_format":null`, nil},
		"other families' fields are not read": {`"text":5,"output_format":5,"output_config":5`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := decode(t, tt.members)
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
			_, err := decode(t, tt.members)
			require.NotNil(t, err)
			require.Equal(t, tt.code, err.Code)
		})
	}
}

// TestFormatRoundTrip: what a provider sends upstream is read here as the same format.
func TestFormatRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := &llm.Format{Kind: rapid.SampledFrom([]llm.FormatKind{llm.FormatJSONObject, llm.FormatJSONSchema}).Draw(t, "kind")}
		if want.Kind == llm.FormatJSONSchema {
			want.Name = rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "name")
			want.Description = rapid.String().Draw(t, "description")
			want.Schema = []byte(rapid.SampledFrom([]string{`{}`, `{"type":"object"}`}).Draw(t, "schema"))
			if rapid.Bool().Draw(t, "has strict") {
				strict := rapid.Bool().Draw(t, "strict")
				want.Strict = &strict
			}
		}
		body, err := chat.EncodeRequest(nil, &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text("hi")}}}, MaxTokens: 10, Model: "m", Format: want})
		require.NoError(t, err)
		doc, refusal := families.Parse(body)
		require.Nil(t, refusal)
		req, refusal := chat.Server{}.Decode(doc, families.Rules{StructuredOutput: true})
		require.Nil(t, refusal)
		require.Equal(t, want, req.LLM.Format)
	})
}
