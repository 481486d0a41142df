package routing

import (
	"encoding/binary"
	"math"

	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// sample is a request of the reference workload: what a configuration's rates are set on.
type sample struct {
	in    Input // all of it that is no configuration's
	share float64
}

// workload is the one that the predictor's model ships or, where it ships none, the usual requests. Shares sum to 1.
func (p *Predictor) workload() []sample {
	var list []sample
	if p != nil {
		list = p.reference()
	}
	if len(list) == 0 {
		list = usualWorkload()
	}
	sum := 0.0
	for i := range list {
		sum += list[i].share
	}
	for i := range list {
		list[i].share /= sum
		list[i].in.Predictor = p
	}
	return list
}

func (p *Predictor) reference() []sample {
	reference := p.model.Reference
	list := make([]sample, len(reference))
	signals := make([]byte, 0, len(reference)*(4+p.model.PackedSize()))
	for i := range reference {
		s := &reference[i]
		from := len(signals)
		signals = append(binary.LittleEndian.AppendUint32(signals, p.print), s.Signal...)
		list[i] = sample{share: float64(s.Share), in: begun(int(s.Turns), Input{InputTokens: int64(s.Input),
			Needs:  Needs{Tools: s.Tools},
			Traits: &Traits{Turns: int(s.Turns), Signal: signals[from:len(signals):len(signals)]}})}
	}
	return list
}

// begun is a request of a conversation that had so many turns, of which nothing is remembered and no upstream has
// anything in its cache: it costs the mean of this turn and of as many to come.
func begun(turns int, in Input) Input {
	if turns > 0 {
		in.Past = new(Past)
	}
	return in
}

// usual is a usual request, in place of what a predictor would read.
type usual struct {
	work   predict.Work
	output float64 // tokens
}

// show makes a predictor see that.
func (u *usual) show(s *sight) {
	s.signal.Kinds, s.signal.Trust = u.work.Kinds, 0
	s.now, s.output = u.work, u.output
}

// usualKinds are usual requests by kind of work, usualGrades how hard they are, and usualSigns how much of a kind
// shows: rough numbers, as traffic of chats and agents goes, for models that ship no workload of their own.
var (
	usualKinds = [...]struct {
		kind   predict.Kind
		share  float64
		input  int64
		output float64
		turns  int
		tools  bool
	}{
		{kind: predict.Knowledge, share: 0.30, input: 400, output: 400},
		{kind: predict.Knowledge, share: 0.10, input: 3_000, output: 500, turns: 4},
		{kind: predict.Code, share: 0.15, input: 1_500, output: 800},
		{kind: predict.Code, share: 0.10, input: 12_000, output: 300, turns: 6, tools: true},
		{kind: predict.Tools, share: 0.10, input: 4_000, output: 150, turns: 2, tools: true},
		{kind: predict.Math, share: 0.10, input: 300, output: 900},
		{kind: predict.Writing, share: 0.15, input: 500, output: 700},
	}
	usualGrades = [...]struct {
		share  float64
		ease   float32 // log odds
		output float64 // times
	}{
		{share: 0.25, ease: 3, output: 0.3},
		{share: 0.30, ease: 1, output: 0.7},
		{share: 0.25, ease: 0, output: 1},
		{share: 0.15, ease: -1, output: 1.5},
		{share: 0.05, ease: -2, output: 2},
	}
	usualSigns = [...]float32{0.9, 0.5}
)

func usualWorkload() (list []sample) {
	for _, k := range usualKinds {
		for _, g := range usualGrades {
			for _, sign := range usualSigns {
				u := &usual{output: math.Round(k.output * g.output)}
				u.work.Kinds[predict.Knowledge], u.work.Ease = 1-sign, g.ease
				u.work.Kinds[k.kind] += sign
				list = append(list, sample{share: k.share * g.share, in: begun(k.turns, Input{InputTokens: k.input,
					Needs: Needs{Tools: k.tools}, Traits: &Traits{Turns: k.turns}, usual: u})})
			}
		}
	}
	return list
}

// longWork is the mean of the workload's requests that are long, and as hard as routes' qualities are said for: what
// is expected of the turns that follow a long first prompt.
func (p *Predictor) longWork() *predict.Work {
	mean := new(predict.Work)
	list, seen := p.workload(), 0.0
	for i := range list {
		if list[i].in.InputTokens < longPrompt {
			continue
		}
		if s := list[i].in.read(); s != nil {
			seen += list[i].share
			mean.Toward(&s.now, float32(list[i].share/seen))
			p.done(s)
		}
	}
	if seen == 0 {
		mean.Kinds[predict.Knowledge] = 1
	}
	mean.Ease = 0
	return mean
}
