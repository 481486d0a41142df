package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnumerate(t *testing.T) {
	t.Parallel()
	require.Equal(t, "none", enumerate(nil))
	require.Equal(t, "a", enumerate([]string{"a"}))
	require.Equal(t, "a and b", enumerate([]string{"a", "b"}))
	require.Equal(t, "a, b and c", enumerate([]string{"a", "b", "c"}))
}

func TestSuggestionWithoutANearName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "There is no plan here; remove it.", suggestion("x", nil, "plan"))
	require.Equal(t, "The only plan here is starter.", suggestion("x", []string{"starter"}, "plan"))
	require.Equal(t, "The plans here are starter and team.", suggestion("x", []string{"starter", "team"}, "plan"))
}

func TestClip(t *testing.T) {
	t.Parallel()
	require.Equal(t, strings.Repeat("ä", 64), clip(strings.Repeat("ä", 64)))
	require.Equal(t, strings.Repeat("ä", 64)+"...", clip(strings.Repeat("ä", 65)))
}

func TestCapital(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "a": "A", "zone a": "Zone a", "A": "A", "`a": "`a", "{a": "{a",
		"ä": "ä"} {
		require.Equal(t, want, capital(text))
	}
}

// A name one byte too long is refused with the limit that it passes.
func TestLimitsOfNames(t *testing.T) {
	t.Parallel()
	gateway := func(line string) string {
		_, diags := loadText(t, "gateway {\n  "+line+"\n}\n"+minimal)
		return printed(t, diags)
	}
	require.Empty(t, gateway(`namespace = "`+strings.Repeat("n", 32)+`"`))
	require.Contains(t, gateway(`namespace = "`+strings.Repeat("n", 33)+`"`), "must be lower-case letters")
	require.Contains(t, gateway(`namespace = "`+strings.Repeat("n", 64)+`"`), "must be lower-case letters")
	require.Contains(t, gateway(`namespace = "`+strings.Repeat("n", 65)+`"`), "at most 64 bytes")
	require.Empty(t, gateway(`client_models = ["`+strings.Repeat("n", 256)+`"]`))
	require.Contains(t, gateway(`client_models = ["`+strings.Repeat("n", 257)+`"]`), "at most 256 bytes")
}
