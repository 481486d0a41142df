package command

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/golden"
)

// offering is a service with models, in the form of OpenRouter's list where it says more than names.
func offering(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"data":[{"id":"maker/large:free","context_length":400000,"pricing":{"prompt":"0.00000025",
			"completion":"0.000002","input_cache_read":"0.000000025"},"top_provider":{"max_completion_tokens":128000},
			"supported_parameters":["tools","response_format","structured_outputs"]},
			{"id":"maker large:free"},{"id":"tiny \"${x}\" \\ %{y}","context_length":1024},{"id":"ctrl\u001b[31m"},
			{"id":"--"}]}`))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// What `gateway models` prints passes `gateway check`.
func TestModelsAreRoutesToPaste(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.hcl")
	provider := "provider \"up\" {\n  plugin = \"openai\"\n  start_timeout = \"1m\"\n  config {\n    base_url = \"" +
		offering(t) + "\"\n  }\n}\n"
	require.NoError(t, os.WriteFile(path, []byte(provider), 0o600), "without a route")
	out, err := run(t, "models", "up", "--data", dir)
	require.NoError(t, err, out)
	golden.Equal(t, "testdata/models.hcl", []byte(out))
	require.NotContains(t, out, "\x1b")

	require.NoError(t, os.WriteFile(path, []byte(provider+out), 0o600))
	checked, err := run(t, "check", path)
	require.NoError(t, err, checked)
	require.Contains(t, checked, "4 routes")

	few, err := run(t, "models", "up", "LARGE", "--file", path)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(few, "route \""))
	none, err := run(t, "models", "up", "nothing", "--file", path)
	require.NoError(t, err)
	require.Contains(t, none, "no such model")

	list := runJSON[[]modelView](t, "models", "up", "maker/", "--file", path)
	require.Equal(t, []modelView{{ID: "maker/large:free", ContextWindow: 400000, MaxOutput: 128000,
		Offers: []string{"tools", "json_object", "json_schema"},
		Price:  &priceView{Input: "0.25", Output: "2", CacheRead: "0.025"}}}, list)
}

func TestModelsSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "gateway.hcl")
	const gone = "http://127.0.0.1:1" // tcpmux: a port that was free a moment ago may be another test's by now
	require.NoError(t, os.WriteFile(path, []byte("provider \"away\" {\n  plugin = \"openai\"\n  config {\n"+
		"    base_url = \""+gone+"\"\n  }\n}\nprovider \"echo\" {\n  plugin = \"echo\"\n}\n"+
		"provider \"wrong\" {\n  plugin = \"openai\"\n}\n"),
		0o600))
	for args, want := range map[string]string{
		"away":      "check that it is running",
		"echo":      "cannot say what its upstream offers",
		"other":     "provider \"other\"",
		"wrong":     "setting base_url is needed",
		"away x y":  "one argument too many",
		"":          "PROVIDER is missing",
		"x --file=": "no such file",
	} {
		_, err := run(t, append([]string{"models", "--data", dir}, strings.Fields(args)...)...)
		if args == "x --file=" {
			_, err = run(t, "models", "x", "--file", filepath.Join(dir, "none.hcl"))
			require.Error(t, err)
			continue
		}
		require.ErrorContains(t, err, want, args)
	}
}
