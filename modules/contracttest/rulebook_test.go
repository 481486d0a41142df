package contracttest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rulebook is where the ids of rules are explained: a heading or a bullet each. A clause that is a note binds nothing.
var rulebook = map[string]*regexp.Regexp{
	"CONTRACT.md":  regexp.MustCompile(`(?m)^- \*\*([A-Z]+-\d+)\*\* (\*\(note\)\*)?`),
	"DECISIONS.md": regexp.MustCompile(`(?m)^### (GAP-\d+) `),
	"EXAMPLES.md":  regexp.MustCompile(`(?m)^### (E\d\d) `),
}

// TestRulebook: every rule that is cited in code, tests and documents is in the rulebook, once, and every rule there
// that binds code is cited.
func TestRulebook(t *testing.T) {
	t.Parallel()
	known, areas := map[string]bool{}, []string{"E"} // whether it binds, by id
	for page, rule := range rulebook {
		text, err := os.ReadFile(filepath.Join("..", page))
		require.NoError(t, err)
		for _, m := range rule.FindAllSubmatch(text, -1) {
			id := string(m[1])
			require.NotContains(t, known, id, "%s explains it twice", page)
			known[id] = len(m) < 3 || len(m[2]) == 0
			if area, _, dash := strings.Cut(id, "-"); dash && !slices.Contains(areas, area) {
				areas = append(areas, area)
			}
		}
	}
	id := regexp.MustCompile(`\b(?:(?:` + strings.Join(areas[1:], "|") + `)-\d{1,3}|E[0-3]\d)\b`)
	cited := map[string][]string{} // files, by id
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			name := entry.Name()
			if len(name) > 2 && name[0] == '.' && name != ".ci" || name == "node_modules" || name == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		name := filepath.Base(path)
		listed := name == "register.tsv" || name == "CHANGELOG.md" || name == "rulebook_test.go"
		if _, page := rulebook[name]; page || listed || !isText(name) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range slices.Compact(slices.Sorted(slices.Values(id.FindAllString(string(text), -1)))) {
			cited[m] = append(cited[m], path)
		}
		return nil
	}))
	require.Greater(t, len(cited), 500, "the files are found")
	for _, id := range slices.Sorted(maps.Keys(cited)) {
		require.Contains(t, known, id, "%v cite a rule that the rulebook does not have", cited[id])
	}
	var unused []string
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if known[id] && len(cited[id]) == 0 {
			unused = append(unused, id)
		}
	}
	require.Empty(t, unused, "no code, test or document outside the rulebook names these")
}

// isText says that a file is one of those that people write.
func isText(name string) bool {
	return slices.Contains([]string{".go", ".md", ".hcl", ".txtar", ".proto", ".tmpl", ".sql", ".tsv", ".txt", ".js",
		".py", ".yml", ".sh"}, filepath.Ext(name)) || name == "Makefile" || name == "run"
}
