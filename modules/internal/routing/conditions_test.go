package routing_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
)

// TestConditionsDecide: the first strategy whose condition holds comes before all, and each other one says why it
// does not.
func TestConditionsDecide(t *testing.T) {
	t.Parallel()
	const free, yes, no, broken = "", "request.turns == 0", "request.turns > 0", "0 / (request.input_tokens - 10) > 0"
	for name, tt := range map[string]struct {
		when []string // of each strategy; free competes with the routes
		want []string // why each is not used, "" for the one that is
	}{
		"one that holds":         {[]string{yes}, []string{""}},
		"one that does not":      {[]string{no}, []string{"does not hold"}},
		"one without a value":    {[]string{broken}, []string{"does not hold: evaluating"}},
		"two that hold":          {[]string{yes, yes}, []string{"", "another one comes first"}},
		"the second":             {[]string{no, yes}, []string{"does not hold", ""}},
		"behind one that failed": {[]string{broken, yes}, []string{"does not hold: evaluating", ""}},
		"before one that is free, and another": {[]string{yes, free, yes}, []string{"", "another one comes first",
			"another one comes first"}},
		"behind one that is free": {[]string{free, yes}, []string{"another one comes first", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{route("a", 0.5, 1), route("b", 0.9, 10)},
				Profile: config.Profile{Cost: 1}, InputTokens: 10, Strategies: strategies(t, tt.when)})
			require.NoError(t, err)
			require.Len(t, it.Options, len(tt.want))
			used := ""
			for i, want := range tt.want {
				o := it.Options[i]
				if want == "" {
					used = o.Strategy.Name
					require.NoError(t, o.Why)
					require.Equal(t, o.Step, it.Steps.Steps[0], "it is done first")
					continue
				}
				require.ErrorContains(t, o.Why, want, "strategy %d", i)
			}
			if used == "" {
				require.Nil(t, it.Strategy)
				return
			}
			require.Equal(t, used, it.Strategy.Name)
		})
	}
}

// strategies are strategies with these conditions, as a file has them.
func strategies(t *testing.T, when []string) []config.Strategy {
	var b strings.Builder
	b.WriteString(`
provider "p" {
  plugin = "echo"
}
route "a" {
  provider       = "p"
  model          = "echo"
  context_window = 32768
  max_output     = 8192
  quality        = 0.45
  price {
    input  = 3
    output = 5
  }
}
`)
	for i, text := range when {
		if text != "" {
			text = "when = " + text
		}
		fmt.Fprintf(&b, "strategy \"s%d\" {\n kind = \"cascade\"\n steps = [\"a\", \"a\"]\n %s\n}\n", i, text)
	}
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	c, diags := config.Load(t.Context(), path, config.Options{})
	require.False(t, diags.HasErrors(), "%v", diags)
	return c.Strategies
}
