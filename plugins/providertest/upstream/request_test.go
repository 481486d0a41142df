package upstream_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestBadRequestsAreRefused: each body has one mistake that the real service refuses.
func TestBadRequestsAreRefused(t *testing.T) {
	t.Parallel()
	const (
		user = `"messages":[{"role":"user","content":"x"}]`
		call = `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		tool = `"tools":[{"type":"function","function":{"name":"f"}}]`
	)
	s := upstream.Start(t, upstream.Options{Models: []string{"m"}})
	for name, c := range map[string]struct{ body, param string }{
		"not JSON":           {`{`, ""},
		"two values":         {`{"model":"m",` + user + `}{}`, ""},
		"not an object":      {`[]`, ""},
		"no model":           {`{` + user + `}`, "model"},
		"model not a string": {`{"model":1,` + user + `}`, "model"},
		"long name": {`{"model":"m",` + user + `,"tools":[{"type":"function","function":{"name":"` +
			strings.Repeat("f", 65) + `"}}]}`, "tools[0].function.name"},
		"unknown field":         {`{"model":"m",` + user + `,"routes":["a"]}`, "routes"},
		"no messages":           {`{"model":"m"}`, "messages"},
		"empty messages":        {`{"model":"m","messages":[]}`, "messages"},
		"message not an object": {`{"model":"m","messages":["x"]}`, "messages[0]"},
		"unknown role":          {`{"model":"m","messages":[{"role":"model","content":"x"}]}`, "messages[0].role"},
		"no content":            {`{"model":"m","messages":[{"role":"user"}]}`, "messages[0].content"},
		"null content": {`{"model":"m","messages":[{"role":"assistant","content":null}]}`,
			"messages[0].content"},
		"unknown part": {`{"model":"m","messages":[{"role":"user","content":[{"type":"input_text",` +
			`"text":"x"}]}]}`, "messages[0].content[0].type"},
		"part with more fields": {`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x",` +
			`"cache_control":{}}]}]}`, "messages[0].content[0].cache_control"},
		"text not a string": {`{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}`,
			"messages[0].content[0].text"},
		"result without a call": {`{"model":"m","messages":[{"role":"tool","tool_call_id":"c1","content":"x"}]}`,
			"messages[0].tool_call_id"},
		"result without an id": {`{"model":"m","messages":[` + call + `,{"role":"tool","content":"x"}]}`,
			"messages[1].tool_call_id"},
		"call without a result": {`{"model":"m","messages":[` + call + `]}`, "messages"},
		"call overtaken": {`{"model":"m","messages":[` + call + `,{"role":"user","content":"x"}]}`,
			"messages[1]"},
		"two results": {`{"model":"m","messages":[` + call +
			`,{"role":"tool","tool_call_id":"c1","content":"x"},{"role":"tool","tool_call_id":"c1","content":"x"}]}`,
			"messages[2].tool_call_id"},
		"call without arguments": {`{"model":"m","messages":[` + strings.Replace(call, `,"arguments":"{}"`, "", 1) +
			`]}`, "messages[0].tool_calls[0].function.arguments"},
		"call of another type": {`{"model":"m","messages":[` + strings.Replace(call, `"type":"function"`,
			`"type":"custom"`, 1) + `]}`, "messages[0].tool_calls[0].type"},
		"max_tokens 0":   {`{"model":"m",` + user + `,"max_tokens":0}`, "max_tokens"},
		"max_tokens 1.5": {`{"model":"m",` + user + `,"max_tokens":1.5}`, "max_tokens"},
		"both allowances": {`{"model":"m",` + user + `,"max_tokens":1,"max_completion_tokens":1}`,
			"max_tokens"},
		"temperature too high":   {`{"model":"m",` + user + `,"temperature":2.5}`, "temperature"},
		"several choices":        {`{"model":"m",` + user + `,"n":2}`, "n"},
		"five stop sequences":    {`{"model":"m",` + user + `,"stop":["a","b","c","d","e"]}`, "stop"},
		"an empty stop sequence": {`{"model":"m",` + user + `,"stop":[""]}`, "stop[0]"},
		"stream not a boolean":   {`{"model":"m",` + user + `,"stream":"yes"}`, "stream"},
		"stream_options without stream": {`{"model":"m",` + user + `,"stream_options":{"include_usage":true}}`,
			"stream_options"},
		"unknown stream option": {`{"model":"m",` + user + `,"stream":true,"stream_options":{"usage":true}}`,
			"stream_options.usage"},
		"no tools": {`{"model":"m",` + user + `,"tools":[]}`, "tools"},
		"flat tool": {`{"model":"m",` + user + `,"tools":[{"type":"function","name":"f"}]}`,
			"tools[0].function"},
		"bad function name": {`{"model":"m",` + user +
			`,"tools":[{"type":"function","function":{"name":"a b"}}]}`, "tools[0].function.name"},
		"parameters not an object": {`{"model":"m",` + user +
			`,"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]}`, "tools[0].function.parameters"},
		"choice without tools": {`{"model":"m",` + user + `,"tool_choice":"auto"}`, "tool_choice"},
		"unknown choice":       {`{"model":"m",` + user + `,` + tool + `,"tool_choice":"any"}`, "tool_choice"},
		"choice of another function": {`{"model":"m",` + user + `,` + tool +
			`,"tool_choice":{"type":"function","function":{"name":"g"}}}`, "tool_choice"},
		"unknown format": {`{"model":"m",` + user + `,"response_format":{"type":"xml"}}`,
			"response_format.type"},
		"format without a name": {`{"model":"m",` + user +
			`,"response_format":{"type":"json_schema","json_schema":{"schema":{}}}}`, "response_format.json_schema.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := post(withTimeout(t), t, s, c.body)
			body, err := read(resp)
			require.NoError(t, err)
			require.Equal(t, http.StatusBadRequest, resp.StatusCode, body)
			if c.param == "" {
				require.Contains(t, body, `"param":null`)
			} else {
				require.Contains(t, body, `"param":"`+c.param+`"`)
			}
		})
	}
	t.Run("unknown model", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, http.StatusNotFound, post(withTimeout(t), t, s, `{"model":"n",`+user+`}`).StatusCode)
	})
	t.Run("null is absent", func(t *testing.T) {
		t.Parallel()
		resp := post(withTimeout(t), t, s, `{"model":"m",`+user+
			`,"stop":null,"tools":null,"max_tokens":null,"stream":null,"temperature":null}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
	t.Run("another content type", func(t *testing.T) {
		t.Parallel()
		resp, err := http.Post(s.BaseURL()+"/chat/completions", "text/plain", strings.NewReader(`{"model":"m",`+user+`}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	})
	t.Run("another path", func(t *testing.T) {
		t.Parallel()
		resp, err := http.Get(s.URL() + "/v1/completions")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusNotFound, resp.StatusCode)
	})
}
