package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestExplainStrategies: which strategy a request goes through, and why not another.
func TestExplainStrategies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	hcl := file("gateway.hcl", explained+`
strategy "both" {
  when  = profile == "max"
  kind  = "panel"
  seats = ["small", "coder"]
  judge = "coder"
}
strategy "climb" {
  when  = account.plan == "floor" || request.turns > 90
  kind  = "cascade"
  steps = ["small", "coder"]
}
`)
	body := file("body.json", `{"model":"service/auto","max_tokens":2000,"messages":[{"role":"user","content":"Hello"}]}`)
	v := runJSON[admin.Explanation](t, "explain", "--hcl", hcl, body, "--profile", "max")
	require.Len(t, v.Strategies, 2)
	both, climb := v.Strategies[0], v.Strategies[1]
	require.True(t, both.Chosen)
	require.Equal(t, "panel of small, coder; judged by coder", both.What)
	require.Equal(t, `profile == "max"`, both.When)
	require.Positive(t, both.Cost)
	require.Positive(t, v.Difficulty)
	require.Less(t, v.Difficulty, 1.0)
	holds := map[string]int64{}
	for _, c := range v.Candidates {
		holds[c.Route] = c.Hold
	}
	require.Greater(t, both.Hold, holds["small"]+2*holds["coder"],
		"GAP-49 the sum over its calls, and what the judge reads")
	require.False(t, climb.Chosen)
	require.Equal(t, routing.ErrBehind.Error(), climb.Reason, "the first whose condition holds is the one")
	require.Equal(t, "first", v.Steps.Kind)
	require.Equal(t, routing.Outline{Kind: "panel", Steps: []routing.Outline{{Kind: "try", Route: "small"},
		{Kind: "try", Route: "coder"}, {Kind: "try", Route: "coder"}}}, v.Steps.Steps[0])
	require.Len(t, v.Steps.Steps, 1+len(v.Candidates))

	out, err := run(t, "explain", "--hcl", hcl, body, "--profile", "max")
	require.NoError(t, err)
	require.Contains(t, out, "It goes through this one")
	require.Contains(t, out, "Not used: another one comes first.")
	out, err = run(t, "explain", "--hcl", hcl, body)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(out, "Not used: `when` does not hold."), out)

	floor := runJSON[admin.Explanation](t, "explain", "--hcl", hcl, body, "--plan", "floor")
	require.Contains(t, floor.Strategies[1].Reason, routing.ErrPart.Error(), "the plan requires what a step is not")
	require.Nil(t, floor.Steps)
}
