package routing

import (
	"math"
	"sync"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
	"github.com/fareway/fareway/plugins/llm"
)

// Predictor tells what is expected of each route for one request. Many may use it at once; nil knows nothing.
//
// The quality of a route is what the operator says of it, weighed by what kinds of work the request seems to be of,
// and corrected by how difficult that seems, as far as the text is like what the model was trained on. Where the
// operator gives that a weight, and models of this name were trained on, it is joined with what was learned of them.
// What came of requests (Learned) changes that.
type Predictor struct {
	model  *predict.Model
	output predict.Output
	known  *known    // which models it was trained on
	print  uint32    // the model's fingerprint
	free   sync.Pool // of *sight
	about  About
}

// NewPredictor makes a predictor of a trained model.
func NewPredictor(m *predict.Model) *Predictor {
	p := &Predictor{model: m, output: m.Output(), print: m.Fingerprint(), known: knownIn(m), about: aboutOf(m)}
	p.free.New = func() any { return &sight{from: p, features: predict.NewFeatures()} }
	return p
}

// DefaultPredictor is of the model that is built in.
var DefaultPredictor = sync.OnceValue(func() *Predictor {
	p := NewPredictor(predict.Default())
	p.about.SHA256 = predict.DefaultSHA256()
	return p
})

// sight is what a predictor sees of one request.
type sight struct {
	from     *Predictor
	features *predict.Features
	signal   predict.Signal
	output   float64
	learned  Learned
	// now is what the request is about, and work what it and the turns before and to come are, where there were some.
	now  predict.Work
	work *predict.Work
	mean predict.Work
}

// read looks at a request. It returns nil where there is nothing to look at, or looking fails: a request never fails
// for the predictor's sake. What it returns is for done.
func (p *Predictor) read(req *llm.Request) (s *sight) {
	if p == nil || req == nil {
		return nil
	}
	s, _ = p.free.Get().(*sight)
	defer func() {
		if recover() != nil {
			s = nil // whatever state it is in
		}
	}()
	s.features.Read(req)
	p.model.Look(s.features, &s.signal)
	s.output = p.output.Of(&s.signal)
	return s
}

// done gives back what read returned.
func (p *Predictor) done(s *sight) { p.free.Put(s) }

// of is a route's expected quality, from 0 to 1, and how many tokens it is expected to write.
func (s *sight) of(r *config.Route) (quality, output float64) {
	prior := priorOf(r)
	quality, output = s.now.Quality(&prior), s.output
	if r.Reasons {
		output *= predict.Thinking
	}
	if r.QualityWeight > 0 {
		quality, output = s.blend(s.from.known.of(r.Model), &prior, quality, output)
	}
	if math.IsNaN(quality) || math.IsNaN(output) {
		return r.Quality, ExpectedOutput
	}
	if s.work != nil {
		quality = min(max(quality+s.work.Quality(&prior)-s.now.Quality(&prior), 0), 1)
	}
	return s.learned.on(r, &s.signal.Kinds, quality), output
}

// lasts makes what is expected that of the turns that the conversation is expected to have, of which this is the first
// and the others are taken to be like the mean of all so far. It returns that mean.
func (s *sight) lasts(past *Past, turns float64) Work {
	if past == nil || past.Work.Turns == 0 {
		return Work{}.and(&s.now)
	}
	work := past.Work.and(&s.now)
	s.mean = s.now
	s.mean.Toward(&work.Work, float32(1-1/turns))
	s.work = &s.mean
	return work
}

func priorOf(r *config.Route) predict.Prior {
	prior := predict.Flat(r.Quality)
	prior.Weight = float64(r.QualityWeight)
	if r.QualityBy != nil {
		for k := range prior.Quality {
			prior.Quality[k] = r.QualityFor(predict.Kind(k).String())
		}
	}
	return prior
}

// margin is what is added to a share of the best quality, so that it is kept in truth. Without a prediction, nothing
// is known of its errors.
func (p *Predictor) margin(share float64) float64 {
	if p == nil {
		return 0
	}
	return p.model.MarginFor(share)
}
