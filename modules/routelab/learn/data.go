package learn

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/llm"
)

// Dataset is one file of recorded answers: what each of several models made of the same prompts.
type Dataset struct {
	Name   string // the file's name up to its first dot
	Models []string
	Rows   []Row
}

// Row is one prompt, with what each model (in the order of Dataset.Models) made of it.
type Row struct {
	ID, Task string
	Prompt   string
	Tools    []llm.Tool

	Score  []float64 // 0 to 1
	Output []float64 // tokens, NaN where unknown
	Cost   []float64 // US dollars, NaN where unknown
	Input  float64   // tokens
	// Answer is an id of each model's answer: models with the same one answered the same; -1 for none. nil where answers
	// cannot be compared.
	Answer []int
}

// Compares reports whether answers can be compared, on all prompts.
func (d *Dataset) Compares() bool {
	return !slices.ContainsFunc(d.Rows, func(r Row) bool { return r.Answer == nil })
}

// Request is the row as a client would send it.
func (r *Row) Request() *llm.Request {
	return &llm.Request{
		Messages: []llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{llm.Text(r.Prompt)}}},
		Tools:    r.Tools,
	}
}

// The lines of a file.
type (
	header struct {
		Dataset string   `json:"dataset"`
		Models  []string `json:"models"`
	}
	line struct {
		ID     json.RawMessage `json:"id"`
		Task   string          `json:"g"`
		Prompt *string         `json:"prompt"`
		Score  []*float64      `json:"s"`
		Output []*float64      `json:"o"`
		Input  float64         `json:"i"`
		Cost   []*float64      `json:"c"`
		Answer []int           `json:"a"`
		Tools  string          `json:"tools"`
		NTools int             `json:"ntools"`
	}
	prices struct {
		Prices map[string][2]float64 `json:"prices"`
	}
)

// ReadDir reads all *.jsonl.gz and *.jsonl files of a folder, in the order of their names, and its prices.json where
// it has one. Errors name file and line.
func ReadDir(dir string) ([]*Dataset, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file: name the folder that it is in", dir)
	}
	list, err := readPrices(filepath.Join(dir, "prices.json"))
	if err != nil {
		return nil, err
	}
	var all []*Dataset
	err = EachFile(dir, func(file string, r io.Reader) error {
		d, at, err := read(r, list)
		if err != nil {
			return fmt.Errorf("reading line %d of %s: %w", at, file, err)
		}
		d.Name, _, _ = strings.Cut(filepath.Base(file), ".")
		if slices.ContainsFunc(all, func(o *Dataset) bool { return o.Name == d.Name }) {
			return fmt.Errorf("%s is a second file of the data set %q: give it another name before the first dot, or "+
				"remove it", file, d.Name)
		}
		all = append(all, d)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no *.jsonl.gz or *.jsonl file of recorded answers: name the folder that does", dir)
	}
	return all, nil
}

// EachFile gives read all *.jsonl.gz and *.jsonl files of a folder, unpacked, in the order of their names. An error of
// read ends it.
func EachFile(dir string, read func(file string, r io.Reader) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the folder: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".jsonl.gz") && !strings.HasSuffix(e.Name(), ".jsonl") {
			continue
		}
		if err := readFile(filepath.Join(dir, e.Name()), read); err != nil {
			return err
		}
	}
	return nil
}

func readPrices(file string) (map[string][2]float64, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the prices: %w", err)
	}
	var p prices
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("reading the prices in %s: %w", file, ofJSON(err))
	}
	for model, price := range p.Prices {
		if min(price[0], price[1]) < 0 {
			return nil, fmt.Errorf("reading the prices in %s: a price of %s is negative", file, model)
		}
	}
	return p.Prices, nil
}

func readFile(file string, read func(file string, r io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("reading %s: it is not packed by gzip (%w): pack it, or name it .jsonl", file, err)
		}
	}
	return read(file, r)
}

// read reads one file. at is the line that it came to.
func read(r io.Reader, list map[string][2]float64) (d *Dataset, at int, err error) {
	b := bufio.NewReaderSize(r, 1<<20)
	d = &Dataset{}
	for at = 1; ; at++ {
		text, err := b.ReadBytes('\n')
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, at, errors.New("the packed file ends too early: fetch it again")
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, at, err
		}
		end := err != nil
		if len(strings.TrimSpace(string(text))) > 0 {
			if at == 1 {
				err = d.header(text)
			} else {
				err = d.line(text)
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, at, err
			}
		}
		if end {
			break
		}
	}
	if len(d.Models) == 0 {
		return nil, 1, errors.New("the file is empty: its first line is a header with `models`")
	}
	if len(d.Rows) == 0 {
		return nil, at, errors.New("the file has a header and no prompts")
	}
	d.price(list)
	return d, at, nil
}

func (d *Dataset) header(text []byte) error {
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("decoding the header: %w", ofJSON(err))
	}
	if len(h.Models) == 0 {
		return errors.New("the header has no `models`")
	}
	for i, m := range h.Models {
		if m == "" || slices.Contains(h.Models[:i], m) {
			return fmt.Errorf("the header's `models` has %q twice, or an empty name", m)
		}
	}
	d.Models = h.Models
	return nil
}

func (d *Dataset) line(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("decoding a prompt: %w", ofJSON(err))
	}
	m := len(d.Models)
	switch {
	case l.Prompt == nil:
		return errors.New("the field `prompt` is missing")
	case len(l.Score) != m:
		return fmt.Errorf("the field `s` has %d scores for the %d models of the header", len(l.Score), m)
	case l.Output != nil && len(l.Output) != m:
		return fmt.Errorf("the field `o` has %d numbers for the %d models of the header", len(l.Output), m)
	case l.Cost != nil && len(l.Cost) != m:
		return fmt.Errorf("the field `c` has %d costs for the %d models of the header", len(l.Cost), m)
	}
	if l.Answer != nil && len(l.Answer) != m {
		return fmt.Errorf("the field `a` has %d answers for the %d models of the header", len(l.Answer), m)
	}
	row := Row{Answer: l.Answer, ID: strings.Trim(string(l.ID), `"`), Task: l.Task, Prompt: *l.Prompt, Input: l.Input}
	for k, s := range l.Score {
		if s == nil || *s < 0 || *s > 1 {
			return fmt.Errorf("the score of %s is missing or not between 0 and 1", d.Models[k])
		}
		row.Score = append(row.Score, *s)
	}
	negative := func(n *float64) bool { return n != nil && *n < 0 }
	if l.Input < 0 || slices.ContainsFunc(l.Output, negative) || slices.ContainsFunc(l.Cost, negative) {
		return errors.New("a number of tokens or a cost (`i`, `o`, `c`) is negative: leave out what is not known, or " +
			"write null")
	}
	row.Output, row.Cost = known(l.Output, m), known(l.Cost, m)
	if l.Tools != "" {
		row.Tools = tools(l.Tools, l.NTools)
	}
	d.Rows = append(d.Rows, row)
	return nil
}

// ofJSON says which field is of a wrong type, in words of the file and not of this program.
func ofJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	if wrong.Field == "" {
		return fmt.Errorf("it is of the type %s, and no object", wrong.Value)
	}
	return fmt.Errorf("the field `%s` is of a wrong type or out of range: %s", wrong.Field, wrong.Value)
}

// known copies numbers, with NaN for those that are not there.
func known(list []*float64, n int) []float64 {
	out := make([]float64, n)
	for k := range out {
		out[k] = math.NaN()
		if k < len(list) && list[k] != nil {
			out[k] = *list[k]
		}
	}
	return out
}

// tools reads the functions of a prompt. What is no list of functions still counts, as that many functions whose
// schemas are as long together.
func tools(text string, n int) []llm.Tool {
	var list []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	if json.Unmarshal([]byte(text), &list) != nil || len(list) == 0 {
		out := make([]llm.Tool, max(n, 1))
		out[0].Schema = json.RawMessage(text)
		return out
	}
	out := make([]llm.Tool, len(list))
	for i, t := range list {
		out[i] = llm.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters}
	}
	return out
}

// price fills in the costs that the file does not have: from the tokens of each answer and list prices.
func (d *Dataset) price(list map[string][2]float64) {
	for k, model := range d.Models {
		p, ok := list[model]
		if !ok {
			continue
		}
		var sum, n float64
		for i := range d.Rows {
			if o := d.Rows[i].Output[k]; !math.IsNaN(o) {
				sum, n = sum+o, n+1
			}
		}
		if n == 0 {
			continue
		}
		for i := range d.Rows {
			r := &d.Rows[i]
			if !math.IsNaN(r.Cost[k]) {
				continue
			}
			o := r.Output[k]
			if math.IsNaN(o) {
				o = sum / n
			}
			r.Cost[k] = (r.Input*p[0] + o*p[1]) / 1e6
		}
	}
}

// Priced are the models (by their place) whose costs are known for every prompt.
func (d *Dataset) Priced() []int {
	var out []int
	for k := range d.Models {
		if !slices.ContainsFunc(d.Rows, func(r Row) bool { return math.IsNaN(r.Cost[k]) }) {
			out = append(out, k)
		}
	}
	return out
}
