package routing

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// About says which trained model it is that predicts.
type About struct {
	File    string     `json:"file,omitempty"` // "" for the one that is built in
	SHA256  string     `json:"sha256"`         // of the file's content, in hex
	Trained *time.Time `json:"trained,omitempty"`
	Prompts int        `json:"prompts"` // that it was trained on
	Models  int        `json:"models"`  // whose answers it has seen
	// Signals is the fingerprint of what it makes of requests: another model reads those that are kept of it where that
	// is the same.
	Signals string `json:"signals"`
	// Taught: outcomes of this gateway have taught it something since.
	Taught bool `json:"taught,omitempty"`
}

// String names the model for people.
func (a About) String() string {
	name := "the model that is built in"
	if a.File != "" {
		name = a.File
	}
	if a.Taught {
		name += ", with what outcomes have taught it"
	}
	text := fmt.Sprintf("%s (%.*s", name, config.FingerprintDigits, a.SHA256)
	if a.Trained != nil {
		text += ", trained " + a.Trained.UTC().Format("2006-01-02 15:04 MST")
	}
	return text + ")"
}

func aboutOf(m *predict.Model) About {
	a := About{Signals: fmt.Sprintf("%08x", m.Fingerprint())}
	if m.Trained > 0 {
		a.Trained = new(time.Unix(m.Trained, 0).UTC())
	}
	for i := range m.Pools {
		a.Prompts += m.Pools[i].Rows
		a.Models += len(m.Pools[i].Models)
	}
	return a
}

// lastRead is the predictor of the file that was read last: a configuration is read more often than its model changes.
var lastRead atomic.Pointer[Predictor]

// ReadPredictor makes a predictor of a model file's content. Its error is one of package predict, and says what to do.
func ReadPredictor(content []byte) (*Predictor, error) {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	if last := lastRead.Load(); last != nil && last.about.SHA256 == digest {
		return last, nil
	}
	m, err := predict.Decode(content)
	if err != nil {
		return nil, err
	}
	p := NewPredictor(m)
	p.about.SHA256 = digest
	lastRead.Store(p)
	return p, nil
}

// ErrOtherBase says that a model was taught on top of another one than the one that is asked for.
var ErrOtherBase = errors.New("it was taught on top of another model")

// ReadTaught is ReadPredictor for a model that outcomes have taught something on top of a base: it makes the same of
// requests.
func ReadTaught(content []byte, base About) (*Predictor, About, error) {
	m, err := predict.Decode(content)
	if err != nil {
		return nil, About{}, err
	}
	p := NewPredictor(m)
	p.about.SHA256 = fmt.Sprintf("%x", sha256.Sum256(content))
	if p.about.Signals != base.Signals {
		return nil, About{}, ErrOtherBase
	}
	p.about.File, p.about.Taught = base.File, true
	return p, p.about, nil
}

// ReadModel is ReadPredictor for who loads a configuration.
func ReadModel(content []byte) (config.Model, error) {
	p, err := ReadPredictor(content)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// PredictorOf is the predictor of a configuration.
func PredictorOf(cfg *config.Config) *Predictor {
	if p, ok := cfg.Predictor.Model.(*Predictor); ok {
		return p
	}
	return DefaultPredictor()
}

// ModelOf says which model predicts for a configuration.
func ModelOf(cfg *config.Config) About {
	a := PredictorOf(cfg).about
	a.File = cfg.Predictor.File
	return a
}
