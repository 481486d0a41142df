package learn

import (
	"archive/zip"
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// Graded is a prompt with what somebody judged of it: see graded/README.md for the fields.
type Graded struct {
	ID     string `json:"id"`
	Grade  int    `json:"grade"` // 1 to 5; 0 where nobody graded it
	Kind   string `json:"kind"`
	Lang   string `json:"lang"`
	Out    int    `json:"out"` // tokens of a good reply
	Same   string `json:"same"`
	Prompt string `json:"prompt"`
}

// Corpus is graded prompts, and what programs dress prompts in.
type Corpus struct {
	Prompts []Graded
	Dresses Dresses
}

// Held reports whether a prompt is kept out of training, as a third is: by its id, or by what it says the same as.
func (g *Graded) Held() bool { return heldOut(g.key()) }

// key is what a prompt goes by: its id, or what it says the same as.
func (g *Graded) key() string {
	if g.Same != "" {
		return g.Same
	}
	return g.ID
}

func heldOut(key string) bool {
	h := fnv.New32a()
	h.Write([]byte(key))
	return h.Sum32()>>8%3 == 0
}

// Work is the kind of work that a prompt is.
func (g *Graded) Work() predict.Kind { return predict.KindOfSort(predict.SortOf(g.Kind)) }

// Ease is how much easier than usual a prompt of a grade is, in log odds: a route whose quality is usually .55, .75 or
// .95 serves one of grade 1 in 97, 99 and 99.8 of 100 cases, of grade 3 in 57, 77 and 95, of grade 5 in 8, 18 and 58.
var Ease = [6]float64{1: 3.3, 2: 1.5, 3: 0.1, 4: -1.3, 5: -2.6}

// packed are graded prompts and dresses: graded, as a zip file.
//
//go:embed corpus.zip
var packed []byte

// BuiltInCorpus is the one that the program has for training: its copy of the folder graded.
func BuiltInCorpus() (*Corpus, error) {
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, fmt.Errorf("unpacking the graded prompts: %w", err)
	}
	return ReadCorpus(z)
}

// ReadCorpus reads graded prompts from the *.jsonl files of a folder and of its folder "tools", and dresses from its
// folder "dress". Errors name file and line.
func ReadCorpus(dir fs.FS) (*Corpus, error) {
	c := &Corpus{}
	var files []string
	for _, pattern := range []string{"*.jsonl", "more/*.jsonl", "tools/*.jsonl"} {
		list, err := fs.Glob(dir, pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, list...)
	}
	slices.Sort(files)
	for _, file := range files {
		if err := eachLine(dir, file, func(g *Graded) error {
			if g.Prompt == "" || g.Grade < 0 || g.Grade > 5 {
				return errors.New("a prompt has no text, or no grade from 1 to 5")
			}
			c.Prompts = append(c.Prompts, *g)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	if len(c.Prompts) == 0 {
		return nil, errors.New("the folder holds no *.jsonl file of graded prompts: name the folder that does")
	}
	if err := c.Dresses.read(dir); err != nil {
		return nil, err
	}
	return c, nil
}

// eachLine decodes the lines of a file.
func eachLine[T any](dir fs.FS, file string, use func(*T) error) error {
	text, err := fs.ReadFile(dir, file)
	if err != nil {
		return fmt.Errorf("reading graded prompts: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for at := 1; lines.Scan(); at++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		one := new(T)
		err := json.Unmarshal(lines.Bytes(), one)
		if err == nil {
			err = use(one)
		} else {
			err = ofJSON(err)
		}
		if err != nil {
			return fmt.Errorf("reading line %d of %s: %w", at, path.Clean(file), err)
		}
	}
	return lines.Err()
}
