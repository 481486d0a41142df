package rules

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

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

// TestTables is what a screening finds and what it does not: a term in a hundred clothes, and texts that only look
// like one. Each text is screened for its own term, as a word; what is found is found in JSON, too, as Go's encoder
// writes it, and with each character escaped, before a long text.
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
			if !found || e.Kind == "three layers" { // of escapes, with that of JSON
				continue
			}
			inside, err := json.Marshal(e.Text)
			require.NoError(t, err)
			for _, quoted := range []string{string(inside[1 : len(inside)-1]), escaped(e.Text)} {
				if len(search(set, func(s *Search) { s.AddQuoted(quoted + ". " + strings.Repeat("so ", 40)) })) == 0 {
					t.Errorf("%s: %s: %q is not found in %s", path, e.Kind, e.Term, quoted)
				}
			}
		}
	}
}

// escaped is a text with each of its characters as JSON may escape it.
func escaped(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&b, `\u%04x`, unit)
	}
	return b.String()
}
