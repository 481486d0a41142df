package contracttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowance is the member that gives a shape's output allowance.
func allowance(sh shape, tokens int64) string {
	if sh.Name == "responses" {
		return fmt.Sprintf(`"max_output_tokens":%d`, tokens)
	}
	return fmt.Sprintf(`"max_tokens":%d`, tokens)
}

// prompt makes a text whose request is estimated at exactly so many tokens; it begins with the caller's mark.
func (c *caller) prompt(t testing.TB, tokens int64) string {
	t.Helper()
	body := func(text string) string { return shapeOf("messages").Body(text) }
	text := c.Mark + strings.Repeat(" a", int(tokens-c.Count(t, body(c.Mark))))
	require.Equal(t, tokens, c.Count(t, body(text)), "one token a letter")
	return text
}
