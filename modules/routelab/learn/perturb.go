package learn

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// Only is the part of a data set that is of a task.
func (d *Dataset) Only(task string) *Dataset {
	return d.filter(func(r *Row) bool { return r.Task == task })
}

func (d *Dataset) filter(keep func(*Row) bool) *Dataset {
	out := &Dataset{Name: d.Name, Models: d.Models}
	for i := range d.Rows {
		if keep(&d.Rows[i]) {
			out.Rows = append(out.Rows, d.Rows[i])
		}
	}
	return out
}

// Without is data sets without a task, and without what asks the same questions under another name.
func Without(sets []*Dataset, task string) []*Dataset {
	asked := map[uint64]bool{}
	for _, d := range sets {
		for i := range d.Rows {
			if d.Rows[i].Task == task {
				asked[question(d.Rows[i].Prompt)] = true
			}
		}
	}
	var out []*Dataset
	for _, d := range sets {
		if d = d.filter(func(r *Row) bool { return !asked[question(r.Prompt)] }); len(d.Rows) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// Fold splits data sets into what a model may be trained on and what it is judged by, so that no question is in both.
func Fold(sets []*Dataset, fold, n int) (train, held []*Dataset) {
	in := func(r *Row) bool { return int(question(r.Prompt)>>20%uint64(n)) == fold }
	for _, d := range sets {
		train = append(train, d.filter(func(r *Row) bool { return !in(r) }))
		held = append(held, d.filter(in))
	}
	return train, held
}

// Shuffle is a copy of a data set in which the options of each prompt stand in another order, with the letters as they
// were, and instructions are said in other words.
func Shuffle(d *Dataset, seed uint64) *Dataset {
	random := rand.New(rand.NewPCG(seed, 3))
	out := &Dataset{Name: d.Name, Models: d.Models, Rows: slices.Clone(d.Rows)}
	for i := range out.Rows {
		out.Rows[i].Prompt = rephrase(shuffleOptions(out.Rows[i].Prompt, random))
	}
	return out
}

// shuffleOptions shuffles each run of lines that are options.
func shuffleOptions(prompt string, random *rand.Rand) string {
	lines := strings.Split(prompt, "\n")
	for i := 0; i < len(lines); {
		j := i
		for j < len(lines) && optionLine(lines[j]) {
			j++
		}
		if run := lines[i:j]; len(run) > 1 {
			texts := make([]string, len(run))
			marks := make([]string, len(run))
			for k, line := range run {
				cut := strings.IndexAny(line, ".):") + 1
				marks[k], texts[k] = line[:cut], line[cut:]
			}
			random.Shuffle(len(texts), func(a, b int) { texts[a], texts[b] = texts[b], texts[a] })
			for k := range run {
				run[k] = marks[k] + texts[k]
			}
		}
		i = max(j, i+1)
	}
	return strings.Join(lines, "\n")
}

var rephrased = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(?m)^Print only a single choice .* without explanation\.`),
		"Reply with the letter of one option and nothing else."},
	{regexp.MustCompile(`Please answer with the letter of the correct answer\.`),
		"Which option is right? Give its letter."},
	{regexp.MustCompile(`(?m)^Options:$`), "Choose one of these:"},
	{regexp.MustCompile(`(?m)^Question: ?`), "Here is a question. "},
	{regexp.MustCompile(`Answer:(\s*)\z`), "Your answer is:$1"},
	{regexp.MustCompile(`(?m)^Write a (python )?function (to|that)`), "Please give me a ${1}function $2"},
	{regexp.MustCompile(`You are given a Python function and an assertion containing an input to the function\. .*`),
		"Below is some Python. Which value has to stand behind the last line for it to hold? Say only that."},
}

// rephrase says instructions in other words, and puts some before a prompt that has none.
func rephrase(prompt string) string {
	before := prompt
	for _, r := range rephrased {
		prompt = r.from.ReplaceAllString(prompt, r.to)
	}
	if prompt == before {
		return fmt.Sprintf("Please help me with this.\n%s", prompt)
	}
	return prompt
}
