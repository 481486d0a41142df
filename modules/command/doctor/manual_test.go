package doctor

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/golden"
)

var manualTable = regexp.MustCompile(`(?s)(<!-- table of checks: go test ./modules/command/doctor -update -->\n)` +
	`(.*?)(<!-- end -->\n)`)

// TestManual: the manual's table is made of the table of checks.
func TestManual(t *testing.T) {
	t.Parallel()
	const file = "../../manual/operating.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("| group | check | looks at | worst |\n|---|---|---|---|\n")
	group := ""
	for _, c := range Checks() {
		shown := ""
		if c.About != group {
			group, shown = c.About, c.About
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", shown, c.Name, strings.ReplaceAll(c.Looks, "|", "\\|"), c.Worst)
	}
	require.True(t, manualTable.Match(text))
	golden.Equal(t, file, []byte(manualTable.ReplaceAllString(string(text), "${1}"+b.String()+"${3}")))
}
