package learn

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

// What requests to a gateway look like: shares of requests, argued in predict/README.md ("The reference workload").

// referenceSize is how many requests the reference workload has.
const referenceSize = 2000

// trafficKinds are the kinds of graded prompts, in the order of the tables below.
var trafficKinds = strings.Fields("facts reason chat extract translate writing code math tools")

// together is by how much grades are more frequent among prompts of a kind than they would be by themselves.
var together = [5][9]float64{
	{1.2, .3, 4, 1.3, 1.5, .9, .5, .7, 1.5},
	{1.5, .7, 1.3, 1.3, 1.6, 1.1, .8, .8, 1.3},
	{.9, 1.3, .5, .9, .6, 1.1, 1.2, .9, .8},
	{.4, 1.6, .15, .5, .3, .8, 1.3, 1.5, .4},
	{.3, 1.4, .1, .3, .2, .8, 1.5, 3, .2},
}

// segment is a part of the traffic.
type segment struct {
	share  float64
	kinds  [9]float64 // in the order of trafficKinds
	grades [5]float64
	input  [10]float64 // tokens: the quantiles below
	langs  [21]float64 // in the order of trafficLangs
	tools  float64     // share of requests that declare some
	result float64     // share of those with turns whose last message is a tool's
}

var (
	quantiles    = [10]float64{.01, .05, .1, .25, .5, .75, .9, .95, .99, 1}
	trafficLangs = strings.Fields("en zh es ru pt fr de ja it ar ko tr pl id vi uk nl hi cs sv he")
	segments     = [3]segment{
		{ // chat front ends
			share: .35, kinds: [9]float64{16, 22, 13, 8, 4, 21, 11, 3, 2}, grades: [5]float64{15, 32, 33, 16, 4},
			input: [10]float64{15, 60, 120, 400, 1200, 3300, 8500, 15000, 40000, 150000},
			langs: [21]float64{55, 8, 5.5, 5, 4.2, 3.5, 3.5, 2.8, 1.8, 2, 1.5, 1.4, 1, 1.1, .9, .7, .6, .7, .4, .25, .15},
			tools: .3, result: .05,
		},
		{ // coding and other agents
			share: .25, kinds: [9]float64{5, 9, 5, 4, .5, 4.5, 66, 1, 5}, grades: [5]float64{9, 26, 37, 21, 7},
			input: [10]float64{500, 2000, 4500, 11000, 26000, 60000, 115000, 165000, 330000, 1000000},
			langs: [21]float64{80, 6, 1.8, 2.6, 1.2, 1.2, 1.5, 1.6, .5, .2, .8, .4, .5, .3, .4, .4, .2, .1, .15, .1, .05},
			tools: .93, result: .85,
		},
		{ // apps and batch
			share: .4, kinds: [9]float64{14, 6, 4, 37, 9, 14, 9, 2, 5}, grades: [5]float64{30, 38, 23, 8, 1},
			input: [10]float64{20, 70, 130, 350, 1000, 2600, 7000, 13000, 35000, 200000},
			langs: [21]float64{76, 5.5, 3, 2.2, 2, 1.8, 2, 1.8, .9, .7, .8, .6, .5, .5, .4, .3, .3, .3, .2, .1, .1},
			tools: .2, result: .08,
		},
	}
	// turnsOf says how many turns of the assistant there were, by shares, for chats and for apps.
	turnsOf = map[int][][3]float64{
		0: {{.45, 0, 0}, {.18, 1, 1}, {.1, 2, 2}, {.13, 3, 5}, {.08, 6, 10}, {.05, 11, 30}, {.01, 31, 60}},
		2: {{.93, 0, 0}, {.05, 1, 5}, {.02, 6, 20}},
	}
)

// cells are the shares of each kind and grade, so that both margins hold.
func (s *segment) cells() (out [5][9]float64) {
	for g := range out {
		for k := range out[g] {
			out[g][k] = s.grades[g] * s.kinds[k] * together[g][k]
		}
	}
	total := func(list []float64) (sum float64) {
		for _, v := range list {
			sum += v
		}
		return sum
	}
	for range 50 {
		for g := range out {
			rows := total(out[g][:]) / s.grades[g] * total(s.grades[:])
			for k := range out[g] {
				out[g][k] /= rows
			}
		}
		for k := range s.kinds {
			sum := 0.0
			for g := range out {
				sum += out[g][k]
			}
			for g := range out {
				out[g][k] *= s.kinds[k] / total(s.kinds[:]) / sum
			}
		}
	}
	return out
}

// draw is a place in a list of shares.
func draw(random *rand.Rand, shares []float64) int {
	sum := 0.0
	for _, v := range shares {
		sum += v
	}
	at := random.Float64() * sum
	for i, v := range shares {
		if at -= v; at < 0 {
			return i
		}
	}
	return len(shares) - 1
}

// tokens draws a number of tokens, between whose quantiles the logarithm is straight.
func tokens(random *rand.Rand, by *[10]float64) float64 {
	u := random.Float64()
	i := 1
	for i < 9 && u > quantiles[i] {
		i++
	}
	at := min(max((u-quantiles[i-1])/(quantiles[i]-quantiles[i-1]), 0), 1)
	return math.Exp(math.Log(by[i-1]) + at*(math.Log(by[i])-math.Log(by[i-1])))
}

// Drawn is a request of the traffic.
type Drawn struct {
	Graded  *Graded
	Request *llm.Request
	Input   int32 // tokens
	Turns   int32
	Tools   bool
	Share   float64
}

// Traffic draws requests as a gateway gets them, of all of a corpus or of the part that is held out.
func (c *Corpus) Traffic(n int, heldOnly bool, seed uint64) []Drawn {
	random := rand.New(rand.NewPCG(seed, 12))
	type cell struct {
		kind, lang string
		grade      int
	}
	have := map[cell][]*Graded{}
	for i := range c.Prompts {
		if g := &c.Prompts[i]; !heldOnly || g.Held() {
			at := cell{g.Kind, g.Lang, g.Grade}
			have[at] = append(have[at], g)
		}
	}
	find := func(kind, lang string, grade int) *Graded {
		for _, lang := range []string{lang, "en"} {
			for _, step := range []int{0, -1, 1, -2, 2, -3, 3, -4, 4} {
				if list := have[cell{kind, lang, grade + step}]; len(list) > 0 && (lang == "en" || step == 0) {
					return list[random.IntN(len(list))]
				}
			}
		}
		return nil
	}
	var shares []float64
	var cells [len(segments)][5][9]float64
	for i := range segments {
		shares = append(shares, segments[i].share)
		cells[i] = segments[i].cells()
	}
	dressers := []*Dresser{c.Dresses.Dresser(true, seed), c.Dresses.Dresser(false, seed)}
	var out []Drawn
	for len(out) < n {
		at := draw(random, shares)
		s := &segments[at]
		var flat []float64
		for g := range cells[at] {
			flat = append(flat, cells[at][g][:]...)
		}
		pick := draw(random, flat)
		g := find(trafficKinds[pick%9], trafficLangs[draw(random, s.langs[:])], pick/9+1)
		if g == nil {
			continue
		}
		d := Drawn{Graded: g, Share: 1, Tools: random.Float64() < s.tools || g.Kind == "tools"}
		input := tokens(random, &s.input)
		if at == 1 {
			d.Turns = int32(max((input-8000)/850, 0))
		} else {
			row := turnsOf[at][draw(random, column(turnsOf[at]))]
			d.Turns = int32(row[1]) + int32(random.IntN(int(row[2]-row[1])+1))
		}
		d.Input = int32(max(input, float64(len(g.Prompt))/4, 1))
		d.Request = c.dressed(dressers[random.IntN(2)], random, g, at, &d)
		if d.Turns > 0 && d.Tools && random.Float64() < s.result {
			d.Request.Messages = append(d.Request.Messages, llm.Message{Role: llm.RoleAssistant,
				Parts: []llm.Part{{Call: &llm.ToolCall{ID: "1", Name: "read"}}}},
				llm.Message{Role: llm.RoleTool, CallID: "1", Parts: []llm.Part{llm.Text("ok")}})
		}
		out = append(out, d)
	}
	return out
}

// dressed is the request as such a client sends it.
func (c *Corpus) dressed(w *Dresser, random *rand.Rand, g *Graded, segment int, d *Drawn) *llm.Request {
	if len(c.Dresses.System) == 0 {
		return (&Row{Prompt: g.Prompt}).Request()
	}
	outfit := [][]string{{"bare", "page", "page", "history", "context"}, {"agent"},
		{"bare", "page", "page", "context"}}[segment]
	req := w.Dress(g.Prompt, outfit[random.IntN(len(outfit))])
	req.Tools = nil
	if d.Tools {
		req.Tools = w.Dress("", "tools").Tools
	}
	return req
}

func column(rows [][3]float64) (out []float64) {
	for _, r := range rows {
		out = append(out, r[0])
	}
	return out
}

// reference makes the model's reference workload. Its signals are the model's own.
func reference(m *predict.Model, c *Corpus, seed uint64) []predict.Sample {
	f, s := predict.NewFeatures(), &predict.Signal{}
	var out []predict.Sample
	for _, d := range c.Traffic(referenceSize, false, seed) {
		f.Read(d.Request)
		m.Look(f, s)
		out = append(out, predict.Sample{Signal: m.Pack(nil, s), Share: float32(d.Share), Input: d.Input, Turns: d.Turns,
			Tools: d.Tools})
	}
	slices.SortStableFunc(out, func(a, b predict.Sample) int { return int(a.Input) - int(b.Input) })
	return out
}
