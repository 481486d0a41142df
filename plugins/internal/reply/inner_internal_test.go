package reply

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a text begins with is read as JSON, whether JSON printed it or Python, whatever stands behind it (GAP-126).
func TestInnerJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"GAP-126 JSON, and text behind it":     {`{"a": [1, true]}. See {x}`, `{"a": [1, true]}`},
		"GAP-126 JSON's escapes":               {`{"a\/b": "\u00e4\n\"'"}`, `{"a/b": "ä\n\"'"}`},
		"GAP-126 a dict":                       {`{'a': 'it "is"', 'b': [None, True]}`, `{"a":"it \"is\"","b":[null,true]}`},
		"GAP-126 a dict with an apostrophe":    {`{'a': "it's", 'b': 'it\'s "so"'}`, `{"a":"it's","b":"it's \"so\""}`},
		"GAP-126 a dict's escapes":             {`{'a': '\xe4\u20ac\\\n'}`, `{"a":"ä€\\\n"}`},
		"GAP-126 brackets within texts":        {`{'a': '}]{'} tail`, `{"a":"}]{"}`},
		"GAP-126 a list":                       {`[{'a': 1}]`, `[{"a":1}]`},
		"GAP-126 cut off":                      {`{'a': 'b`, ""},
		"GAP-126 cut off behind a backslash":   {`{'a': 'b\`, ""},
		"GAP-126 never closed":                 {`{'a': [1`, ""},
		"GAP-126 other names than constants":   {`{'a': Nothing}`, ""},
		"GAP-126 an object of a class":         {`{'a': <Response [400]>}`, "no JSON"},
		"GAP-126 nothing":                      {``, ""},
		"GAP-126 what closes and never opened": {`]`, "no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := innerJSON(c.text)
			switch c.want {
			case "":
				require.Empty(t, got)
			case "no JSON":
				require.False(t, json.Valid(got), string(got))
			default:
				require.JSONEq(t, c.want, string(got))
			}
		})
	}
}
