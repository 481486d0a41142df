package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aryann/difflib"

	"github.com/fareway/fareway/modules/internal/human"
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

// mostCells bounds what comparing line by line takes: as many numbers as the one text has different lines times the
// other's. mostShown bounds how many lines are shown of texts that are further apart.
const (
	mostCells = 4 << 20
	mostShown = 1000
)

// lineDiff shows different lines with some around them.
func lineDiff(before, after string) string {
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	head := 0
	for head < min(len(old), len(now)) && old[head] == now[head] {
		head++
	}
	tail := 0
	for tail < min(len(old), len(now))-head && old[len(old)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	var records []difflib.DiffRecord
	for _, line := range old[max(0, head-around):head] {
		records = append(records, difflib.DiffRecord{Payload: line})
	}
	gap := head > around
	left, right := old[head:len(old)-tail], now[head:len(now)-tail]
	if len(left) <= mostCells/max(1, len(right)) {
		records = append(records, difflib.Diff(left, right)...)
	} else {
		records = append(records, allOf(left, difflib.LeftOnly)...)
		records = append(records, allOf(right, difflib.RightOnly)...)
	}
	for _, line := range old[len(old)-tail : len(old)-tail+min(tail, around)] {
		records = append(records, difflib.DiffRecord{Payload: line})
	}
	return showDiff(records, gap)
}

// allOf are the lines of a text of which none is looked for in the other one.
func allOf(lines []string, as difflib.DeltaType) (records []difflib.DiffRecord) {
	for i, line := range lines {
		if i == mostShown {
			line = fmt.Sprintf("... and %s more", human.Count(len(lines)-i, "line"))
		}
		records = append(records, difflib.DiffRecord{Payload: line, Delta: as})
		if i == mostShown {
			break
		}
	}
	return records
}

// showDiff shows what differs with some lines around it; gap: there are lines before all of them.
func showDiff(records []difflib.DiffRecord, gap bool) string {
	near := make([]bool, len(records))
	last := -1
	for i, r := range records {
		if r.Delta != difflib.Common {
			for j := max(0, i-around, last+1); j <= min(len(records)-1, i+around); j++ {
				near[j], last = true, j
			}
		}
	}
	signs := map[difflib.DeltaType]string{difflib.Common: " ", difflib.LeftOnly: "-", difflib.RightOnly: "+"}
	var b strings.Builder
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
