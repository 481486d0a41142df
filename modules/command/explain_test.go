package command

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/routing"
)

const explained = `
provider "up" {
  plugin = "echo"
}
route "small" {
  provider       = "up"
  model          = "small"
  context_window = 8000
  max_output     = 4000
  quality        = 0.5
  price {
    input  = 0.1
    output = 0.5
  }
}
route "coder" {
  provider       = "up"
  model          = "coder"
  context_window = 200000
  max_output     = 64000
  region         = "eu"
  offers         = ["tools"]
  quality {
    default = 0.6
    code    = 0.95
  }
  price {
    input  = 3
    output = 15
  }
}
route "thinker" {
  provider       = "up"
  model          = "thinker"
  context_window = 200000
  max_output     = 64000
  reasons        = true
  quality        = 0.96
  bills_past_allowance = true
  price {
    input  = 3
    output = 15
  }
}
profile "max" {
  cost         = 0.1
  quality      = 0.9
  keep_quality = 0.9
  shadow {
    route = "small"
    share = 0.25
  }
}
profile "budget" {
  cost    = 1
  quality = 0
  shadow {
    route = "small"
    share = 1
  }
}
plan "floor" {
  default_profile = "budget"
  requires {
    region = ["eu"]
  }
}
`

// TestExplain is `gateway explain`: each candidate with what is expected of it, and each other route with the reason.
func TestExplain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	hcl := file("gateway.hcl", explained)
	code := file("code.json", `{"model":"service/auto","max_tokens":500,"messages":[{"role":"user","content":`+
		`"Implement a lock-free queue in Go with hazard pointers, and show that it is linearizable."}]}`)
	explain := func(t *testing.T, args ...string) admin.Explanation {
		return runJSON[admin.Explanation](t, append([]string{"explain", "--hcl", hcl}, args...)...)
	}
	routes := func(v admin.Explanation) (names []string) {
		for _, c := range v.Candidates {
			names = append(names, c.Route)
		}
		return names
	}
	t.Run("a request", func(t *testing.T) {
		t.Parallel()
		v := explain(t, code, "--profile", "max")
		require.Equal(t, []string{"coder", "small", "thinker"}, routes(v), "ALLOW-20 thoughts could use 500 tokens up")
		require.Equal(t, "chat", v.Family)
		require.Equal(t, "max", v.Profile.Name)
		require.Equal(t, int64(500), v.Allowance)
		require.Greater(t, v.Kinds["code"], 0.3)
		first, last := v.Candidates[0], v.Candidates[2]
		require.True(t, first.Keeps)
		require.GreaterOrEqual(t, first.Quality, v.KeepFrom)
		require.Positive(t, v.KeepFrom)
		require.Greater(t, v.Candidates[2].Quality, first.Quality, "the one that may not answer is the best")
		require.LessOrEqual(t, v.KeepFrom, first.Quality, "and others are not measured by it")
		require.Greater(t, first.ByKind["code"], first.ByKind["math"])
		require.Positive(t, first.Output)
		require.LessOrEqual(t, first.Output, 500.0)
		require.InDelta(t, float64(v.InputTokens)*300+first.Output*1500, first.Cost, 1)
		require.True(t, last.Cramped)
		require.Greater(t, last.Hold, int64(64_000*1500), "BILL-11 the longest reply that it can bill")
		require.GreaterOrEqual(t, first.Hold, int64(500*1500))
		require.Less(t, first.Hold, int64(600*1500), "BILL-09 its allowance")
		require.Empty(t, v.Rejected)
		require.Empty(t, v.Refusal)
	})
	t.Run("GAP-127 what the preset of a provider refuses", func(t *testing.T) {
		t.Parallel()
		picky := file("picky.hcl", `provider "local" {
  plugin = "openai"
  config {
    preset = "ollama"
  }
}
provider "echo" {
  plugin = "echo"
}
`+presetRoute("forgetful", "local")+presetRoute("other", "echo"))
		const tools = `{"model":"auto","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function",` +
			`"function":{"name":"f"}}]`
		v := runJSON[admin.Explanation](t, "explain", "--hcl", picky, file("forced.json", tools+`,"tool_choice":"required"}`))
		require.Equal(t, []string{"other"}, routes(v))
		require.Len(t, v.Rejected, 1)
		require.Equal(t, "forgetful", v.Rejected[0].Route)
		require.Contains(t, v.Rejected[0].Reason, "it cannot be made to call a tool")
		v = runJSON[admin.Explanation](t, "explain", "--hcl", picky, file("free.json", tools+`}`))
		require.Len(t, v.Candidates, 2)
	})
	t.Run("PROF-09 effort, and a route that offers no tools", func(t *testing.T) {
		t.Parallel()
		v := explain(t, file("tools.json", `{"model":"auto","input":"What is the weather?","reasoning_effort":"low",`+
			`"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}`))
		require.Equal(t, "responses", v.Family)
		require.Equal(t, "budget", v.Profile.Name)
		require.Equal(t, []string{"coder"}, routes(v))
		require.Equal(t, []string{"tools"}, v.Needs)
		without := "it does not offer tools, which the request needs"
		require.Equal(t, []routing.Refused{{Route: "small", Reason: without}, {Route: "thinker", Reason: without}},
			v.Rejected)
		require.Positive(t, v.Candidates[0].Quality)
	})
	t.Run("a floor", func(t *testing.T) {
		t.Parallel()
		v := explain(t, code, "--plan", "floor")
		require.Equal(t, "budget", v.Profile.Name, "GAP-118 the plan's default")
		require.Equal(t, []string{"coder"}, routes(v))
		require.Len(t, v.Rejected, 2)
		require.Equal(t, routing.ErrRequired.Error(), v.Rejected[0].Reason)
	})
	t.Run("ALLOW-05 a request that would be refused", func(t *testing.T) {
		t.Parallel()
		v := explain(t, file("large.json",
			`{"model":"auto","max_tokens":300000,"messages":[{"role":"user","content":"hi"}]}`),
			"--family", "chat")
		require.Equal(t, routing.ErrTooLarge.Error(), v.Refusal)
		require.Empty(t, v.Candidates)
		require.Len(t, v.Rejected, 3)
	})
	t.Run("for people", func(t *testing.T) {
		t.Parallel()
		text, err := run(t, "explain", code, "--hcl", hcl, "--profile", "max")
		require.NoError(t, err)
		for _, want := range []string{"chat request, profile max", "an allowance of 500", "code (", "keep_quality = 0.9",
			"ROUTE", "coder", "keeps", "the allowance is tiny"} {
			require.Contains(t, text, want)
		}
		text, err = run(t, "explain", code, "--hcl", hcl, "--plan", "floor")
		require.NoError(t, err)
		require.Contains(t, text, "Only cost counts with this profile: the cheapest is first.")
		require.Contains(t, text, "Shadow: it is not compared with small: the route is not what the account or its "+
			"plan requires")
		text, err = run(t, "explain", code, "--hcl", hcl, "--profile", "budget")
		require.NoError(t, err)
		require.Contains(t, text, "Shadow: it is not compared with small: the route is planned first, and answers it itself.")
		text, err = run(t, "explain", code, "--hcl", hcl, "--profile", "max")
		require.NoError(t, err)
		require.Contains(t, text, "Shadow: 25% of such requests are sent to small as well, for comparison and at your cost.")
		text, err = run(t, "explain", code, "--hcl", hcl, "--plan", "floor")
		require.NoError(t, err)
		require.Contains(t, text, "small: the route is not what the account or its plan requires")
	})
	const hi = `{"model":"auto","messages":[{"role":"user","content":"hi"}]}`
	for name, tc := range map[string]struct {
		body string
		args []string
		says string
	}{
		"no JSON":       {`{`, nil, "400"},
		"no such model": {`{"model":"gpt-x/y","messages":[]}`, nil, `does not accept the model "gpt-x/y"`},
		"no family":     {`{}`, []string{"--family", "x"}, "chat, messages, responses"},
		"no plan":       {hi, []string{"--plan", "x"}, `no plan "x"`},
		"no profile":    {hi, []string{"--profile", "x"}, "budget"},
		"media": {`{"model":"auto","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`,
			nil, "400 unsupported_content"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "body.json")
			require.NoError(t, os.WriteFile(path, []byte(tc.body), 0o600))
			_, err := run(t, append([]string{"explain", path, "--hcl", hcl}, tc.args...)...)
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// presetRoute is a route of a provider.
func presetRoute(name, provider string) string {
	return fmt.Sprintf(`route %q {
  provider       = %q
  model          = "m"
  context_window = 32768
  max_output     = 4096
  quality        = 0.5
  offers         = ["tools"]
  price {
    input  = 1
    output = 1
  }
}
`, name, provider)
}
