package reply

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
)

// example is a message as the wording says it.
func example(wording string) string {
	return strings.NewReplacer("*", "x-1", "#", "4711", "~", "This text ").Replace(wording)
}

// TestTable: each row is reached by what it says, so that none is dead or shadowed by a row of another kind.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, rows := range [][]byWord{words, weakWords} {
		for _, row := range rows {
			name := strings.TrimPrefix(row.word, "=")
			got, ok := (&refusalBody{}).word(rows, []string{name})
			require.True(t, ok, name)
			require.Equal(t, row.kind, got.kind, name)
			require.Equal(t, plain(name), name, "rows are written as words are compared")
			if strings.HasPrefix(row.word, "=") {
				_, ok = (&refusalBody{}).word(rows, []string{name + "9"})
				require.False(t, ok, "the whole of %s", name)
			}
		}
	}
	for _, row := range wordings {
		text := example(row.wording)
		_, ok := (&refusalBody{}).wording([]string{text})
		require.True(t, ok, text)
		got, _ := (&refusalBody{}).wording([]string{text})
		require.Equal(t, row.kind, got.kind, text)
	}
}

// TestEchoes: services repeat what a client sent. Nothing of that decides anything.
func TestEchoes(t *testing.T) {
	t.Parallel()
	echoes := []struct{ name, form string }{
		{"quoted", `Invalid value: '%s'. Supported values are: 'system' and 'user'.`},
		{"double", `Unexpected role "%s" after role "user"`},
		{"in backticks", "messages.1.role: `%s` is not a role"},
		{"a place", `messages[0].content: %s`},
		{"behind", `Could not parse the request: %s`},
		{"first", `'%s' is not of type 'object' - 'messages.0'`},
		{"in brackets", `Value {%s} is not allowed`},
		{"angle quotes", `Rolle «%s» ist unbekannt`},
		{"a line", "Template failed\n%s"},
		{"as JSON", `Invalid content: {"error":{"message":"%s"}}`},
	}
	statuses := []struct {
		code int
		want llm.ErrorKind
	}{{400, llm.ErrRejected}, {422, llm.ErrRejected}, {500, llm.ErrUpstream}, {429, llm.ErrCapacity},
		{401, llm.ErrCredentials}}
	for i, row := range wordings {
		text := example(row.wording)
		for j, echo := range echoes {
			status := statuses[(i+j)%len(statuses)] // which has no part in what a text says
			message := fmt.Sprintf(echo.form, text)
			quoted, err := json.Marshal(message)
			require.NoError(t, err)
			for _, body := range []string{
				`{"error":{"type":"invalid_request_error","message":` + string(quoted) + `}}`,
				`{"detail":` + string(quoted) + `}`, `{"error":` + string(quoted) + `}`, message,
			} {
				if status.code != 400 && body[0] == '{' && strings.Contains(body, `"type"`) {
					continue // the type says what the status contradicts
				}
				got := Refusal(status.code, "", []byte(body))
				require.Equal(t, status.want, got.Kind, "GAP-126 %s: %d %s", echo.name, status.code, body)
			}
		}
		quoted, err := json.Marshal(text)
		require.NoError(t, err)
		got := Refusal(422, "", []byte(`{"detail":[{"type":"string_type","loc":["body","messages",0,`+string(quoted)+`],`+
			`"msg":"Input should be a valid string","input":`+string(quoted)+`,"ctx":{"error":`+string(quoted)+`}}]}`))
		require.Equal(t, llm.ErrRejected, got.Kind, "GAP-126 FastAPI's list: %s", text)
	}
}
