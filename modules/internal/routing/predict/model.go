package predict

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Kind is a kind of work. Operators say how good their routes are by kind.
type Kind int

// The kinds of work.
const (
	Knowledge Kind = iota // questions and whatever is nothing else
	Code
	Math
	Tools
	Writing
	NumKinds
)

var kindNames = [NumKinds]string{"default", "code", "math", "tools", "writing"}

// String is the kind's name in a configuration.
func (k Kind) String() string { return kindNames[k] }

// KindOf is the kind with a name.
func KindOf(name string) (k Kind, ok bool) {
	at := slices.Index(kindNames[:], name)
	return Kind(at), at >= 0
}

const (
	// NumStats is how many plain statistics there are.
	NumStats = int(numStats)
	// Buckets is into how many buckets n-grams of words are hashed, and those of characters into as many more.
	Buckets = buckets
	// MaxHeads is how many text regressions a model has at most.
	MaxHeads = 54
	// MaxTasks is how many tasks of a pool are told apart at most.
	MaxTasks = 64
	// KnownBits is how many hashes of word n-grams are told apart to know which text is new.
	KnownBits = 1 << knownBits
	knownBits = 19
	maxLanes  = MaxHeads + 1
	maxX      = MaxHeads + NumStats
	// MaxFile is how long a model file is at most.
	MaxFile = 6 << 20
)

// Model is what was learned: weights and tables, and no text. It is never changed and may be used by many at once.
//
// A conversation's n-grams, weighted by how rare they are, and its statistics give a number for each head: linear
// regressions on what the models of a pool made of the prompts of their data sets. These numbers and the statistics
// are what each pool's small regressions of quality, output and cost read.
type Model struct {
	Mean, Dev []float32 // of each statistic

	// Table has one row of Lanes bytes for each bucket, words before characters: each head's weight, offset by 128,
	// and last what the n-gram adds to the norm of the vector.
	Lanes int
	Table []byte
	Scale []float32 // of each lane

	Heads []Head
	Pools []Pool
	// Whiten makes heads and statistics independent of each other, each with a variance of about 1 within a task: the
	// rows of a lower triangle.
	Whiten []float32
	// EaseScale is what the mean of the pools' difficulties is multiplied by: they agree less on a prompt than each of
	// them is right.
	EaseScale float32
	// Grader tells difficulty, kind of work and length of the reply; nil in a model that was trained without graded
	// prompts.
	Grader *Grader
	// Known has a bit for each hash of a word n-gram, set if training has seen it often enough; Familiar is the median
	// share of such n-grams in training's own prompts.
	Known    []uint64
	Familiar float32
	// Trained is when, in Unix seconds; 0 where nobody has said. It does not matter for what the model predicts.
	Trained int64
	// Reference is the workload by which the rates of profiles are set; none in a model that was trained without.
	Reference []Sample
}

// Head is a regression on text and statistics; the text's part of its weights is in the table.
type Head struct {
	Stats     []float32 // none where it is of words alone
	Mean, Dev float32   // of what it gives for prompts that it was not trained on
}

// Linear is a regression on heads and statistics.
type Linear struct {
	Bias    float32
	Weights []float32
}

// Pool is models that were put to the same prompts.
type Pool struct {
	Datasets []string
	Models   []string
	Rows     int
	// Calls: all of the prompts are for calls of tools.
	Calls bool
	// Outcomes: it was learned from outcomes of requests, of which the model has seen signals and no text
	// (learn.TrainOutcomes). It says nothing of how easy prompts are for others, nor which tasks those know.
	Outcomes bool
	// Own are the pool's own heads: the directions in which regressions of its models' scores on text differ most.
	Own []int
	// Difficulty is the log odds that the prompt is answered better than the mean, for any model.
	Difficulty Linear
	Tasks      []Task
	// Near is how far from the nearest of the tasks almost all of the pool's own prompts are at most (squared).
	Near float32
	// Within is by how much the prompt is easier than its task, in log odds.
	Within  Linear
	Routes  []Route
	Margins []Margin // for keeping a share of the best route's quality
}

// Task is one of those that a pool's models were put to.
type Task struct {
	Odds   Linear    // of the prompt being of this task: a softmax of all tasks' odds says how likely it is
	Centre []float32 // mean heads and statistics of its prompts, whitened
	Within Linear    // added to Pool.Within, as the prompt is of this task; none where it has few prompts
}

// Route is what was learned of one model.
type Route struct {
	Mean       float32   // score
	Lines      int       // of outcomes that it was learned from; 0: Pool.Rows
	Expected   float32   // of the unknown: what is usual at its price, and of what it is better what other tasks can tell
	Quality    Linear    // log odds, added to the pool's difficulty
	ByTask     []float32 // mean score on each of the pool's tasks
	Shift      float32   // added to the log odds of the mean over tasks
	Slope      float32   // of the pool's difficulty, added to them
	Components []float32 // with them, the pool's own heads and Mean: another prediction of the score
	Output     *Linear   // log of output tokens, nil where no data set has them
	Cost       *Linear   // log of the cost in US dollars, nil where no data set has it
}

const magic = "fareway route model 7\n"

// ErrModel is wrapped by errors about a model file that cannot be used.
var ErrModel = errors.New("the model file is not usable: train it again with `fareway gateway route train`")

// Encode makes a model file: its kind, a checksum, and the model.
func (m *Model) Encode() ([]byte, error) {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(m); err != nil {
		return nil, fmt.Errorf("encoding the model: %w", err)
	}
	sum := sha256.Sum256(body.Bytes())
	file := slices.Concat([]byte(magic), sum[:], body.Bytes())
	if len(file) > MaxFile {
		return nil, fmt.Errorf("the model has %d bytes, more than the %d that it may: train it on fewer data sets",
			len(file), MaxFile)
	}
	return file, nil
}

// Decode reads a model file. All errors wrap ErrModel.
func Decode(file []byte) (*Model, error) {
	if len(file) > MaxFile {
		return nil, fmt.Errorf("%w (it is larger than %d bytes)", ErrModel, MaxFile)
	}
	rest, ok := bytes.CutPrefix(file, []byte(magic))
	if !ok {
		return nil, otherVersion(file)
	}
	if len(rest) < sha256.Size {
		return nil, fmt.Errorf("%w (it is cut off)", ErrModel)
	}
	sum, body := rest[:sha256.Size], rest[sha256.Size:]
	if have := sha256.Sum256(body); !bytes.Equal(sum, have[:]) {
		return nil, fmt.Errorf("%w (its checksum is wrong: it was cut short, or changed; copy it again)", ErrModel)
	}
	m := &Model{}
	if err := gob.NewDecoder(bytes.NewReader(body)).Decode(m); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrModel, err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrModel, err)
	}
	return m, nil
}

// check makes sure that no use of the model can reach beyond its tables.
func (m *Model) check() error {
	c := checker{m: m, wide: len(m.Heads) + NumStats}
	if err := c.checkTables(); err != nil {
		return err
	}
	for i := range m.Heads {
		h := &m.Heads[i]
		c.require(len(h.Stats) == 0 || len(h.Stats) == NumStats, "a head is of another size")
		c.add(h.Stats, []float32{h.Mean, h.Dev})
	}
	if m.Grader != nil {
		list, err := m.checkGrader()
		c.errs = append(c.errs, err)
		c.add(list...)
	}
	for i := range m.Pools {
		c.checkPool(&m.Pools[i])
	}
	for i := range m.Reference {
		s := &m.Reference[i]
		c.require(len(s.Signal) == m.PackedSize() && s.Input >= 1 && s.Turns >= 0 && s.Share > 0,
			"a request of its reference workload is not whole")
		c.add([]float32{s.Share})
	}
	return cmp.Or(c.checkNumbers(), errors.Join(c.errs...))
}

// checker collects what is wrong with a model, and all its numbers.
type checker struct {
	m       *Model
	wide    int // heads and statistics
	errs    []error
	numbers [][]float32
}

func (c *checker) require(holds bool, problem string) {
	if !holds {
		c.errs = append(c.errs, errors.New(problem))
	}
}

func (c *checker) add(numbers ...[]float32) { c.numbers = append(c.numbers, numbers...) }

// checkTables checks the tables, without which nothing else can be told.
func (c *checker) checkTables() error {
	m, heads := c.m, len(c.m.Heads)
	switch {
	case len(m.Mean) != NumStats || len(m.Dev) != NumStats:
		return errors.New("it has other statistics")
	case heads > MaxHeads || m.Lanes%8 != 0 || m.Lanes < heads+1 || m.Lanes > maxLanes+8 || len(m.Scale) != m.Lanes,
		len(m.Table) != 2*buckets*m.Lanes:
		return errors.New("its table is of another size")
	case len(m.Known) != KnownBits/64:
		return errors.New("its table of known text is of another size")
	case len(m.Whiten) != c.wide*(c.wide+1)/2:
		return errors.New("its table of how numbers vary is of another size")
	}
	c.add(m.Mean, m.Dev, m.Scale, []float32{m.Familiar, m.EaseScale}, m.Whiten)
	return nil
}

func (c *checker) checkLinear(l *Linear) {
	c.require(len(l.Weights) == c.wide, "a regression is of another size")
	c.add(l.Weights, []float32{l.Bias})
}

func (c *checker) checkPool(p *Pool) {
	c.require(len(p.Routes) == len(p.Models) && len(p.Routes) > 0, "a pool has not as many routes as models")
	for _, h := range p.Own {
		c.require(h >= 0 && h < len(c.m.Heads), "a pool has a head that is not there")
	}
	c.require(len(p.Tasks) <= MaxTasks, "a pool has too many tasks")
	c.checkLinear(&p.Difficulty)
	c.checkLinear(&p.Within)
	c.add([]float32{p.Near})
	for i := range p.Tasks {
		task := &p.Tasks[i]
		c.checkLinear(&task.Odds)
		if len(task.Within.Weights) > 0 {
			c.checkLinear(&task.Within)
		}
		c.require(len(task.Centre) == c.wide, "a centre is of another size")
		c.add(task.Centre)
	}
	for i := range p.Routes {
		r := &p.Routes[i]
		c.require(len(r.Components) == len(p.Own) && len(r.ByTask) == len(p.Tasks), "a route is of another size")
		c.checkLinear(&r.Quality)
		for _, l := range []*Linear{r.Output, r.Cost} {
			if l != nil {
				c.checkLinear(l)
			}
		}
		c.add(r.Components, r.ByTask, []float32{r.Mean, r.Expected, r.Shift, r.Slope})
	}
}

// checkNumbers makes sure that all numbers are some.
func (c *checker) checkNumbers() error {
	for _, list := range c.numbers {
		for _, v := range list {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return errors.New("it has a number that is none")
			}
		}
	}
	return nil
}

// Pool finds the models that a caller wants to choose from among those that were put to the same prompts: the
// smallest pool that has them all, and the place of each in it. The error names those that are not known.
func (m *Model) Pool(models []string) (*Pool, []int, error) {
	var best *Pool
	for i := range m.Pools {
		p := &m.Pools[i]
		if (best == nil || len(p.Models) < len(best.Models)) && p.has(models) {
			best = p
		}
	}
	if best == nil {
		return nil, nil, m.missing(models)
	}
	at := make([]int, len(models))
	for k, name := range models {
		at[k] = slices.Index(best.Models, name)
	}
	return best, at, nil
}

func (p *Pool) has(models []string) bool {
	return !slices.ContainsFunc(models, func(name string) bool { return !slices.Contains(p.Models, name) })
}

func (m *Model) missing(models []string) error {
	var unknown []string
	for _, name := range models {
		if !slices.ContainsFunc(m.Pools, func(p Pool) bool { return slices.Contains(p.Models, name) }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return errors.New("the model file knows each of the models, but from different data sets: train it on one " +
			"that has them together")
	}
	const most = 3
	more := ""
	if len(unknown) > most {
		more = fmt.Sprintf(" and %d more", len(unknown)-most)
		unknown = unknown[:most]
	}
	return fmt.Errorf("the model file does not know %q%s: train it on a data set that has them", unknown, more)
}
