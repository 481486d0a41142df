package families_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/families"
)

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ body, message string }{
		"HTTP-02 empty": {"", "The request body is empty: send a JSON object."},
		"HTTP-02 blank": {" \n", "The request body is empty: send a JSON object."},
		"HTTP-02 cut off": {`{"model":`,
			"The request body is not valid JSON: the text ends too early at byte 9."},
		"HTTP-02 array": {"[]", "The request body must be a JSON object, not of type array: send an object."},
		"HTTP-02 trailing data": {`{"model":"a"} x`,
			"The request body is not valid JSON: there is something after the end of the JSON text at byte 14."},
		"GAP-33 string": {`"x"`,
			"The request body must be a JSON object, not of type string: send an object."},
		"GAP-33 invalid UTF-8": {"{\"a\":\"\xff\"}",
			"The request body is not valid JSON: the text is not valid UTF-8 at byte 6."},
		"GAP-33 nested 1,001 deep": {`{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}",
			"nested more than 1000 deep at byte 1004."},
		"AUTH-16 api_key":              {`{"api_key":"hush-hush"}`, `The field "api_key" is named like a credential.`},
		"AUTH-16 null":                 {`{"cookie":null}`, `"cookie"`},
		"AUTH-16 authorization":        {`{"model":"a","authorization":{}}`, `"authorization"`},
		"AUTH-16 session_id":           {`{"session_id":1}`, `"session_id"`},
		"AUTH-16 Api-Key":              {`{"Api-Key":"x"}`, `"Api-Key"`},
		"AUTH-16 access_token":         {`{"access_token":"x"}`, `"access_token"`},
		"GAP-30 dots and blanks":       {`{" X.api Key":"x"}`, `" X.api Key"`},
		"GAP-30 escaped":               {`{"\u0073id":"x"}`, `"sid"`},
		"GAP-30 longest":               {`{"Proxy-Authorization":"x"}`, `"Proxy-Authorization"`},
		"GAP-30 stretched":             {`{"` + strings.Repeat("_", 1000) + `jwt":"x"}`, `The field "jwt" is`},
		"AUTH-17 metadata":             {`{"metadata":{"session_id":"x"}}`, `"session_id"`},
		"AUTH-17 deep inside metadata": {`{"metadata":{"a":[1,{"b":[{"token":null}]}]}}`, `"token"`},
		"AUTH-17 metadata sent twice":  {`{"metadata":{"password":1},"metadata":{}}`, `"password"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := families.Parse([]byte(test.body))
			require.Nil(t, doc)
			require.NotNil(t, err)
			require.Equal(t, 400, err.Status)
			require.Equal(t, families.InvalidRequest, err.Code)
			require.Contains(t, err.Message, test.message)
			require.NotContains(t, err.Message, "hush")
			require.Less(t, len(err.Message), 250)
		})
	}
}

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"GAP-33 nested 1,000 deep": `{"a":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + "}",
		"GAP-33 repeated names":    `{"a":1,"a":2}`,
		"GAP-33 blanks around":     " \r\n\t{} \n",
		"AUTH-17 user_id":          `{"metadata":{"user_id":"{\"session_id\":\"x\"}","conversation_id":"c"}}`,
		"AUTH-18 tool schema": `{"tools":[{"function":{"parameters":{"properties":{"api_key":{}}}}}],` +
			`"messages":[{"content":"token","session_id":1}]}`,
		"GAP-107 client_metadata": `{"client_metadata":{"session_id":"x"},"prompt_cache_key":"k",` +
			`"safety_identifier":"s","tokens":1,"max_tokens":5}`,
		"GAP-107 metadata that is a text":   `{"metadata":"session_id"}`,
		"GAP-107 metadata further down":     `{"a":{"metadata":{"session_id":"x"}}}`,
		"GAP-30 a letter of another script": `{"tоken":1}`, // a Cyrillic o
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := families.Parse([]byte(body))
			require.Nil(t, err)
		})
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ body, model, message string }{
		"a name":                 {`{"model":"service/auto"}`, "service/auto", ""},
		"GAP-08 byte for byte":   {`{"model":" Gpt\u002d6\n"}`, " Gpt-6\n", ""},
		"GAP-33 the last counts": {`{"model":1,"model":"auto"}`, "auto", ""},
		"MODEL-16 missing":       {`{}`, "", "model is required"},
		"MODEL-17 null":          {`{"model":null}`, "", "model is required"},
		"MODEL-17 empty":         {`{"model":""}`, "", "model must not be empty"},
		"GAP-08 a number":        {`{"model":7}`, "", "model must be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := families.Parse([]byte(test.body))
			require.Nil(t, err)
			model, err := doc.Model()
			require.Equal(t, test.model, model)
			if test.message == "" {
				require.Nil(t, err)
				return
			}
			require.Equal(t, families.InvalidRequest, err.Code)
			require.Equal(t, 400, err.Status)
			require.Contains(t, err.Message, test.message)
		})
	}
}

func TestObjectsAreCounted(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{}`: 1, `{"a":{"b":[{},{ }]}}`: 4, `{"a":["{{{"]}`: 1, `{"{":"}"}`: 1, `{"a":["\"{",{}]}`: 2, `{"a":["\\",{}]}`: 2,
		`{"a":["\\\"{",{}]}`: 2, `{"a":["{","{",{}]}`: 2, `{"a":[` + strings.Repeat("{},", 5000) + `{}]}`: 5002,
	} {
		doc, err := families.Parse([]byte(body))
		require.Nil(t, err)
		require.Equal(t, want, doc.Objects, body)
	}
}

func TestErrorShape(t *testing.T) {
	t.Parallel()
	t.Run("ERR-03 ERR-06 ERR-07 type equals the code but for two", func(t *testing.T) {
		t.Parallel()
		for _, code := range []families.Code{families.InvalidRequest, families.UnsupportedField, families.Authentication,
			families.BudgetExceeded,
			families.PermissionDenied, families.RateLimitExceeded, families.InternalError, families.UpstreamError,
			families.NoVisibleAnswer, families.FeatureUnavailable} {
			require.Equal(t, code, (&families.Error{Code: code}).Type())
		}
		require.Equal(t, families.InvalidRequest, (&families.Error{Code: families.UnsupportedContent}).Type())
		require.Equal(t, families.InvalidRequest, (&families.Error{Code: families.ModelNotFound}).Type())
	})
	t.Run("GEN-20 GAP-44 what cannot succeed unchanged", func(t *testing.T) {
		t.Parallel()
		for status, want := range map[int]bool{400: true, 401: true, 402: false, 403: false, 404: true, 405: true, 413: true,
			422: false, 429: false, 500: false, 502: false, 503: false, 504: false} {
			require.Equal(t, want, (&families.Error{Status: status, Code: families.UpstreamError}).Final(), status)
		}
		require.True(t, (&families.Error{Status: 503, Code: families.FeatureUnavailable}).Final())
		require.False(t, (&families.Error{Status: 400, Passing: true}).Final(), "GAP-119")
	})
	require.Equal(t, "invalid_request_error: m. The same request fails again.", families.Invalid("m.").Error())
	require.Equal(t, families.StreamError, (&families.Error{Code: families.UpstreamError,
		Frame: families.StreamError}).FrameCode())
	require.Equal(t, families.UpstreamError, (&families.Error{Code: families.UpstreamError}).FrameCode())
}
