package upstream_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// admin makes one request to an admin path and returns its status and body.
func admin(t *testing.T, s *upstream.Server, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(withTimeout(t), method, s.URL()+"/_fake/"+path, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

func TestAdminDrivesTheFake(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	status, body := admin(t, s, http.MethodPut, "script", `{
		"models": {"m": {"usage": "always", "steps": [
			{"do": "text", "text": "a ", "times": 3, "every": "1ms"}, {"do": "wait", "gate": "go"},
			{"do": "finish", "text": "stop"}, {"do": "usage", "usage": {"prompt": 7, "completion": 8, "cached": 0}}, {"do": `+
		`"done"}]}},
		"default": {"steps": [{"do": "text", "text": "default"}, {"do": "done"}]}}`)
	require.Equal(t, http.StatusNoContent, status, body)
	status, body = admin(t, s, http.MethodPost, "queue", `{"steps": [{"do": "error", "error": {"status": 503}}]}`)
	require.Equal(t, http.StatusNoContent, status, body)

	require.Equal(t, http.StatusServiceUnavailable, post(withTimeout(t), t, s, streamed).StatusCode,
		"the queue comes first")
	resp := post(withTimeout(t), t, s, strings.Replace(streamed, `"m"`, `"other"`, 1))
	text, err := read(resp)
	require.NoError(t, err)
	require.Contains(t, text, "default")

	resp = post(withTimeout(t), t, s, streamed)
	status, _ = admin(t, s, http.MethodGet, "gates/go?n=1", "")
	require.Equal(t, http.StatusNoContent, status)
	status, _ = admin(t, s, http.MethodPost, "gates/go", "")
	require.Equal(t, http.StatusNoContent, status)
	text, err = read(resp)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(text, `"content":"a "`))
	require.Contains(t, text, `"prompt_tokens":7`)

	status, _ = admin(t, s, http.MethodGet, "arrived/3", "")
	require.Equal(t, http.StatusNoContent, status)
	_, body = admin(t, s, http.MethodGet, "records/3", "")
	var rec upstream.Record
	require.NoError(t, json.Unmarshal([]byte(body), &rec))
	require.Equal(t, upstream.OutcomeWhole, rec.Outcome)
	require.EqualValues(t, 8, rec.Reported.Completion)
	require.JSONEq(t, streamed, string(rec.Body))
	status, _ = admin(t, s, http.MethodGet, "idle", "")
	require.Equal(t, http.StatusNoContent, status)
	_, body = admin(t, s, http.MethodGet, "records", "")
	var all []upstream.Record
	require.NoError(t, json.Unmarshal([]byte(body), &all))
	require.Len(t, all, 3)
}

func TestBadScriptsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"not JSON":      {`{`, "reading a script"},
		"unknown field": {`{"queue": [{"step": []}]}`, `"step"`},
		"unknown step": {`{"queue": [{"steps": [{"do": "done"}, {"do": "sing"}]}]}`,
			`queue[0]: steps[1]: there is no step "sing"`},
		"no gate": {`{"models": {"m": {"steps": [{"do": "wait"}]}}}`, `models["m"]: steps[0]: a wait needs`},
		"no status": {`{"default": {"steps": [{"do": "error", "error": {}}]}}`,
			"default: steps[0]: an error needs a status"},
		"no such mode":   {`{"default": {"usage": "often", "steps": []}}`, `usage "often"`},
		"no such end":    {`{"default": {"wire": {"break": {"at": 1, "how": "bang"}}, "steps": []}}`, `how "bang"`},
		"no such line":   {`{"default": {"wire": {"line_end": "lfcr"}, "steps": []}}`, `line_end "lfcr"`},
		"bad duration":   {`{"default": {"steps": [{"do": "sleep", "every": "soon"}]}}`, "duration"},
		"something else": {`{} {}`, "after the JSON value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := upstream.ParseScript([]byte(c.script))
			require.ErrorContains(t, err, c.want)
		})
	}
	s := upstream.Start(t, upstream.Options{})
	for path, body := range map[string]string{"script": `{"x":1}`, "queue": `{"steps":[{"do":"sing"}]}`} {
		method := map[string]string{"script": http.MethodPut, "queue": http.MethodPost}[path]
		status, _ := admin(t, s, method, path, body)
		require.Equal(t, http.StatusBadRequest, status)
	}
	for _, path := range []string{"records/x", "arrived/0", "gates/g?n=x"} {
		status, _ := admin(t, s, http.MethodGet, path, "")
		require.Equal(t, http.StatusBadRequest, status, path)
	}
}

func TestOnlyTheLatestRecordsAreKept(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{Keep: 2})
	for range 5 {
		_, err := read(post(withTimeout(t), t, s, streamed))
		require.NoError(t, err)
	}
	require.NoError(t, s.Idle(withTimeout(t)))
	records := s.Records()
	require.Len(t, records, 2)
	require.EqualValues(t, 5, records[1].N)
}

func TestBodyThatIsNotJSONIsKept(t *testing.T) {
	t.Parallel()
	s := upstream.Start(t, upstream.Options{})
	require.Equal(t, http.StatusBadRequest, post(withTimeout(t), t, s, "no \"JSON\"").StatusCode)
	rec, err := s.Ended(withTimeout(t), 1)
	require.NoError(t, err)
	require.Equal(t, upstream.OutcomeRefused, rec.Outcome)
	require.JSONEq(t, `"no \"JSON\""`, string(rec.Body))
}
