package graded_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// prompt is a line of a file.
type prompt struct {
	ID     string `json:"id"`
	Grade  int    `json:"grade"`
	Kind   string `json:"kind"`
	Lang   string `json:"lang"`
	Out    int    `json:"out"`
	Same   string `json:"same"`
	Prompt string `json:"prompt"`
}

var (
	kinds = []string{"code", "math", "writing", "facts", "extract", "translate", "reason", "chat"}
	outs  = []int{5, 20, 60, 150, 400, 1000, 2500}
)

const (
	grades    = 5
	languages = 21
	parallel  = 20
	least     = 1500 // prompts
)

// read reads the files of a folder, by language.
func read(t *testing.T, folder string) map[string][]prompt {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	require.NoError(t, err)
	all := make(map[string][]prompt)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, len(b)+1)
		for lines.Scan() {
			var p prompt
			d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(&p), "%s: %s", file, lines.Bytes())
			require.Equal(t, strings.TrimSuffix(filepath.Base(file), ".jsonl"), p.Lang, p.ID)
			all[p.Lang] = append(all[p.Lang], p)
		}
		require.NoError(t, lines.Err())
	}
	return all
}

// TestGradedPrompts: GAP-131 what trains and judges the predictor has every grade of every kind in every language, no
// prompt twice, and no length that tells the grade.
func TestGradedPrompts(t *testing.T) {
	t.Parallel()
	all := read(t, ".")
	require.Equal(t, languages, len(all))
	ids, texts, count := make(map[string]bool), make(map[string]string), 0
	for lang, prompts := range all {
		cells, same := make(map[[2]any]int), make(map[string]bool)
		for _, p := range prompts {
			require.Regexp(t, "^"+lang+`-\d{4}$`, p.ID)
			check(t, &p, ids, texts)
			if p.Same != "" {
				require.False(t, same[p.Same], "%s has %s twice", lang, p.Same)
				same[p.Same] = true
				continue
			}
			cells[[2]any{p.Grade, p.Kind}]++
		}
		require.Equal(t, parallel, len(same), lang)
		require.Equal(t, grades*len(kinds), len(cells), "%s lacks a grade of a kind", lang)
		count += len(prompts)
	}
	require.GreaterOrEqual(t, count, least)
	for lang, prompts := range read(t, "more") {
		for _, p := range prompts {
			require.Regexp(t, "^"+lang+`(2-\d{4}|3-[a-d]\d{3})$`, p.ID)
			require.Empty(t, p.Same, p.ID)
			check(t, &p, ids, texts)
		}
	}
}

// check checks a prompt by itself, and that no other one has its id or text.
func check(t *testing.T, p *prompt, ids map[string]bool, texts map[string]string) {
	t.Helper()
	require.False(t, ids[p.ID], "%s is there twice", p.ID)
	text := strings.ToLower(strings.Join(strings.Fields(p.Prompt), " "))
	require.Empty(t, texts[text], "%s repeats another", p.ID)
	ids[p.ID], texts[text] = true, p.ID
	require.Contains(t, kinds, p.Kind, p.ID)
	require.Contains(t, outs, p.Out, p.ID)
	require.True(t, 1 <= p.Grade && p.Grade <= grades, p.ID)
	length := utf8.RuneCountInString(p.Prompt)
	require.True(t, 2 <= length && length <= 4000, "%s has %d characters", p.ID, length)
}

// TestParallelPrompts: GAP-131 the prompts that every language has are of the same grade, kind and length of reply.
func TestParallelPrompts(t *testing.T) {
	t.Parallel()
	all := read(t, ".")
	first := make(map[string]prompt)
	for _, p := range all["en"] {
		if p.Same != "" {
			first[p.Same] = p
		}
	}
	require.Equal(t, parallel, len(first))
	for _, prompts := range all {
		for _, p := range prompts {
			if p.Same == "" {
				continue
			}
			want := first[p.Same]
			require.Equal(t, []any{want.Grade, want.Kind, want.Out}, []any{p.Grade, p.Kind, p.Out}, p.ID)
		}
	}
}

// TestLengthTellsNoGrade: GAP-131 each grade has short prompts and long ones, and the middle one is of about the same
// length.
func TestLengthTellsNoGrade(t *testing.T) {
	t.Parallel()
	lengths := make([][]int, grades)
	for _, prompts := range read(t, ".") {
		for _, p := range prompts {
			if p.Same == "" {
				lengths[p.Grade-1] = append(lengths[p.Grade-1], utf8.RuneCountInString(p.Prompt))
			}
		}
	}
	for i, all := range lengths {
		slices.Sort(all)
		short, _ := slices.BinarySearch(all, 80)
		long, _ := slices.BinarySearch(all, 600)
		require.Greater(t, short*10, len(all), "grade %d: prompts under 80 characters", i+1)
		require.Greater(t, (len(all)-long)*10, len(all), "grade %d: prompts over 600 characters", i+1)
	}
}
