package rules

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// example is a text, and a term that is in it for a reader.
type example struct{ Kind, Term, Text string }

func examples(t *testing.T, path string) (list []example) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e [3]string
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e), "%s", lines.Text())
		list = append(list, example{e[0], e[1], e[2]})
	}
	return list
}

// TestTables is what a screening finds and what it does not (issue 26, 12): a term in a hundred clothes, and texts
// that only look like one. Each text is screened for its own term, as a word.
func TestTables(t *testing.T) {
	t.Parallel()
	for path, found := range map[string]bool{"testdata/evasions.jsonl": true, "testdata/innocents.jsonl": false} {
		list := examples(t, path)
		require.GreaterOrEqual(t, len(list), 200)
		for _, e := range list {
			set := compiled(t, Rule{Name: "r", Action: Block, Terms: []string{e.Term}})
			if found != (len(set.Match(e.Text)) > 0) {
				t.Errorf("%s: %s: %q in %q: found should be %t", path, e.Kind, e.Term, e.Text, found)
			}
		}
	}
}
