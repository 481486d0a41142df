package contracttest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestBackends: whatever service does the work, and whoever calls it, the client gets the same and pays the same.
// What was thought is charged as output, and not shown.
func TestBackends(t *testing.T) {
	t.Parallel()
	work := upstream.Usage{Prompt: 100, Completion: 30, Cached: llm.Count(40), Reasoning: llm.Count(10)}
	const cost = 100*300 + 30*1500 // at the standard prices, in microcents
	profile := filepath.Join(t.TempDir(), "credentials")
	require.NoError(t, os.WriteFile(profile, []byte("[default]\naws_access_key_id=a\naws_secret_access_key=b\n"), 0o600))
	for name, s := range map[string]setup{
		"anthropic": {Plugin: "anthropic", Settings: `prompt_caching = "1h"`},
		"responses": {Plugin: "responses"},
		"ollama":    {Plugin: "ollama"},
		"bedrock":   {Plugin: "bedrock", Settings: fmt.Sprintf("region = \"eu-central-1\"\nprofile_file = %q", profile)},
		"deepseek":  {Settings: `preset = "deepseek"`, Script: upstream.Options{Service: "deepseek"}},
		"mistral":   {Settings: `preset = "mistral"`, Script: upstream.Options{Service: "mistral"}},
		"gemini":    {Settings: `preset = "gemini"`, Script: upstream.Options{Service: "gemini"}},
		"xai":       {Settings: `preset = "xai"`, Script: upstream.Options{Service: "xai"}},
	} {
		for _, carry := range []string{"host", "process"} {
			t.Run(name+", carried by the "+carry, func(t *testing.T) {
				t.Parallel()
				s := s
				s.Carry = carry
				g := startScripted(t, s)
				for _, sh := range shapes {
					t.Run("USE-01 GAP-109 "+sh.Name, func(t *testing.T) {
						t.Parallel()
						c := g.rich(t)
						c.Answers(script(work, "stop", upstream.Reasoning("my thoughts"), upstream.Text("42")))
						require.Equal(t, "42", askBoth(t, c, sh).Text)
						a := c.Ask(sh)
						require.EqualValues(t, cost, outcomeOf(t, sh, a).Billed(t))
						require.NotContains(t, string(a.Raw), "my thoughts")
						require.Regexp(t, `^req-fake-\d+$`, c.Access(a.Header.Get("X-Request-Id"))["upstream_request_id"])
					})
				}
			})
		}
	}
}
