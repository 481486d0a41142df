package admin

import (
	"slices"
	"strings"

	"github.com/aryann/difflib"
)

// Difference is what is different between the texts of two configurations.
type Difference struct {
	From  int64            `json:"from"`
	To    int64            `json:"to"`
	Files []FileDifference `json:"files"`
}

// FileDifference is one of their files.
type FileDifference struct {
	Path string `json:"path"`
	Diff string `json:"diff"` // lines that begin with "+", "-" or " "
}

// DiffOf says what is different in the texts of two configurations.
func DiffOf(from, to Configuration) Difference {
	v := Difference{From: from.Number, To: to.Number, Files: []FileDifference{}}
	before, after := textsOf(from), textsOf(to)
	var paths []string
	for _, list := range [...][]KeptFile{from.Files, to.Files} {
		for _, f := range list {
			if !slices.Contains(paths, f.Path) && before[f.Path] != after[f.Path] {
				paths = append(paths, f.Path)
			}
		}
	}
	for _, path := range paths {
		v.Files = append(v.Files, FileDifference{path, lineDiff(before[path], after[path])})
	}
	return v
}

func textsOf(c Configuration) map[string]string {
	texts := make(map[string]string)
	for _, f := range c.Files {
		if f.Text != nil {
			texts[f.Path] = *f.Text
		}
	}
	return texts
}

// around is how many equal lines are shown before and after different ones.
const around = 3

// lineDiff shows different lines with some around them.
func lineDiff(before, after string) string {
	records := difflib.Diff(strings.Split(before, "\n"), strings.Split(after, "\n"))
	near := make([]bool, len(records))
	for i, r := range records {
		if r.Delta != difflib.Common {
			for j := max(0, i-around); j <= min(len(records)-1, i+around); j++ {
				near[j] = true
			}
		}
	}
	signs := map[difflib.DeltaType]string{difflib.Common: " ", difflib.LeftOnly: "-", difflib.RightOnly: "+"}
	var b strings.Builder
	gap := false
	for i, r := range records {
		if !near[i] {
			gap = true
			continue
		}
		if gap {
			b.WriteString("...\n")
			gap = false
		}
		b.WriteString(strings.TrimRight(signs[r.Delta]+r.Payload, " ") + "\n")
	}
	return b.String()
}
