package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	shape := Object{
		"n": Count, "word": Words{"a", "b"}, "list": List{Object{"x?": Text}}, "one": exactly(1), "yes": exactly(true),
		"maybe": nullable(Flag), "any": JSON, "none": nothing, "real": Number,
	}
	const good = `{"n":0,"word":"b","list":[{"x":"y"},{}],"one":1,"yes":true,"maybe":null,"any":{"q":1},"none":[],` +
		`"real":0.5}`
	require.NoError(t, check("thing", shape, []byte(good)))
	for _, tt := range []struct{ text, want string }{
		{`{`, "unexpected EOF"},
		{good + "1", "something follows"},
		{`[]`, "thing is not an object but a value of type []interface {}"},
		{`{"n":0}`, "thing.any is missing"},
		{good[:len(good)-1] + `,"more":1}`, "thing.more is not in the schema"},
		{good[:len(good)-1] + `,"n":-1}`, "thing.n is not a whole number from 0"},
		{good[:len(good)-1] + `,"n":1.5}`, "thing.n is not a whole number from 0"},
		{good[:len(good)-1] + `,"n":"1"}`, "thing.n is not a whole number from 0"},
		{good[:len(good)-1] + `,"word":"c"}`, "thing.word is not one of a, b"},
		{good[:len(good)-1] + `,"list":{}}`, "thing.list is not an array"},
		{good[:len(good)-1] + `,"list":[{},{"x":1}]}`, "thing.list[1].x is not a text"},
		{good[:len(good)-1] + `,"one":2}`, "thing.one is not 1"},
		{good[:len(good)-1] + `,"one":"1"}`, "thing.one is not 1"},
		{good[:len(good)-1] + `,"yes":false}`, "thing.yes is not true"},
		{good[:len(good)-1] + `,"maybe":0}`, "thing.maybe is not null but a value of type json.Number; or thing.maybe is " +
			"not true or false"},
		{good[:len(good)-1] + `,"any":[]}`, "thing.any is not an object"},
		{good[:len(good)-1] + `,"none":[1]}`, "thing.none is not an empty array"},
		{good[:len(good)-1] + `,"real":"1"}`, "thing.real is not a number"},
	} {
		require.ErrorContains(t, check("thing", shape, []byte(tt.text)), tt.want, tt.text)
	}
}

func TestFamilies(t *testing.T) {
	t.Parallel()
	require.Nil(t, Of("other"))
	const (
		chatFailure = `data: {"error":{"message":"m","type":"t","code":"c"},"usage":{"prompt_tokens":0,` +
			`"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0},` +
			`"completion_tokens_details":{"reasoning_tokens":0},"billing_pending":true}}` + "\n\n"
		responsesFailure = `data: {"type":"error","sequence_number":0,"code":"c","message":"m","param":null,"usage":` +
			`{"input_tokens":0,"output_tokens":0,"total_tokens":0,"input_tokens_details":{"cached_tokens":0,` +
			`"cache_write_tokens":0},"output_tokens_details":{"reasoning_tokens":0},"billing_pending":true}}` + "\n\n"
		messagesFailure = `data: {"type":"error","error":{"type":"t","message":"m"},"usage":{"input_tokens":0,` +
			`"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"billing_pending":true}}` + "\n\n"
	)
	for _, tt := range []struct {
		family, stream, want string
	}{
		{"chat", chatFailure + "data: [DONE]\n\n", ""},
		{"chat", strings.Replace(chatFailure, `"total_tokens":0`, `"total_tokens":1`, 1),
			"event.usage.total_tokens is not 0"},
		{"chat", strings.Replace(chatFailure, `true}}`, `false}}`, 1), "event.usage.billing_pending is not true"},
		{"chat", strings.Replace(chatFailure, `"total_tokens":0`, `"total_tokens":0,"billed_microcents":0`, 1),
			"billed_microcents is not in the schema"},
		{"chat", "data: {\"error\":{\"message\":\"m\",\"type\":\"t\"},\"usage\":{\"billing_pending\":true}}\n\n",
			"event.error.code is missing"},
		{"chat", "data: {\"id\":\"x\"}\n\n", "event.choices is missing"},
		{"chat", ": keepalive\n\ndata: {\"cut", ""},
		{"responses", "event: error\n" + responsesFailure, ""},
		{"responses", strings.Replace(responsesFailure, `"reasoning_tokens":0`, ``, 1), "reasoning_tokens is missing"},
		{"responses", "data: {\"type\":\"error\"}\n\n", "event.code is missing"},
		{"responses", "data: {\"type\":\"response.tired\"}\n\n", "has none like it"},
		{"responses", "data: 5\n\n", "is not an object"},
		{"messages", "event: ping\ndata: {\"type\":\"ping\"}\n\n", ""},
		{"messages", "event: ping\ndata: {\"type\":\"ping\",\"index\":1}\n\n", "event.index is not in the schema"},
		{"messages", messagesFailure, ""},
		{"messages", strings.Replace(messagesFailure, `"cache_read_input_tokens":0,`, ``, 1),
			"event.usage.cache_read_input_tokens is missing"},
		{"messages", "data: x\n\n", "reading an event"},
	} {
		err := Of(tt.family).Stream([]byte(tt.stream))
		if tt.want == "" {
			require.NoError(t, err, tt.stream)
		} else {
			require.ErrorContains(t, err, tt.want, tt.stream)
		}
	}
	require.NoError(t, Of("messages").Count([]byte(`{"input_tokens":1}`)))
	require.ErrorContains(t, Of("messages").Count([]byte(`{}`)), "token count.input_tokens is missing")
	for _, name := range []string{"chat", "responses"} {
		require.NoError(t, Of(name).Failure([]byte(`{"error":{"code":"c","message":"m","type":"t","param":"model"}}`)))
		require.ErrorContains(t, Of(name).Failure([]byte(`{"error":{"code":"c","message":"m","type":"t","param":null}}`)),
			"param is not model")
	}
	require.NoError(t, Of("messages").Failure([]byte(`{"type":"error","error":{"type":"t","message":"m"}}`)))
	require.ErrorContains(t, Of("messages").Failure(
		[]byte(`{"type":"error","error":{"type":"t","message":"m","code":"c"}}`)), "code is not in the schema")
	require.ErrorContains(t, Of("chat").Body([]byte(`{}`)), "body.choices is missing")
}
