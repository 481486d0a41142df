package config

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
)

// What a file may have is exactly what the messages say, wherever in the file it stands.
func TestGuardLimits(t *testing.T) {
	t.Parallel()
	repeat := strings.Repeat
	refused := func(text string) string {
		tokens, diags := hclsyntax.LexConfig([]byte(text), "f", hcl.InitialPos)
		require.False(t, diags.HasErrors(), text)
		_, summary, _ := guard(tokens)
		return summary
	}
	for _, before := range []string{
		"", "}}}\n", "])\n", "a = [1]\n", "a = (1)\n", "a = \"x${b}\"\n", "a = <<E\nx\nE\n", "b {\n}\n", "a = {\n}\n",
		"a = \"%{if b}x%{endif}\"\n",
		"a = " + repeat("!", 400) + "b\n", repeat("c = -1\nd = [-1]\ne = \"${-1}\"\n", 501),
	} {
		for opening, closing := range map[string]string{"[": "]", "(": ")", "{b=": "}", `"${`: `}"`} {
			deep := func(n int) string { return before + "a = " + repeat(opening, n) + "1" + repeat(closing, n) + "\n" }
			levels := maxNesting / len(closing) // a template in quotes is two
			require.Empty(t, refused(deep(levels)), "%s after %.20s", opening, before)
			require.Equal(t, "Nested too deeply", refused(deep(levels+1)), "%s after %.20s", opening, before)
		}
		require.Empty(t, refused(before+repeat("b {\n", maxNesting)+repeat("}\n", maxNesting)), before)
		require.Equal(t, "Nested too deeply", refused(before+repeat("b {\n", maxNesting+1)), before)

		require.Empty(t, refused(before+"a = "+repeat("!", maxOperators)+"b\na = -1\n"), before)
		require.Equal(t, "Expression too long", refused(before+"a = "+repeat("!", maxOperators+1)+"b\n"), before)
	}
	for _, lines := range []string{
		"a = [\n" + repeat("-1,\n", maxOperators+1) + "]", "a = \"${" + repeat("\n-", maxOperators+1) + "1}\"",
	} {
		require.Equal(t, "Expression too long", refused(lines), "a line is no end within brackets and templates")
	}
	require.Empty(t, refused("a = "+repeat("1", maxDigits)))
	require.Equal(t, "Number too long", refused("a = "+repeat("1", maxDigits+1)))
}
