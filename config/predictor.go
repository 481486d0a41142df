package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Predictor says by which trained model routes are compared. The zero value is the one that is built in.
type Predictor struct {
	File   string // absolute, "" for the model that is built in
	SHA256 string // of its content, in hex
	Model  Model  // what was read of it; nil for the built-in one, and where nobody has read it
	// Provider predicts what it knows before the model does, "" for nobody. What follows is about it.
	Provider string
	Deadline time.Duration
	MaxText  int64 // bytes of a conversation that it is sent, from its end
}

// MarshalJSON prints the file and the beginning of its digest, so that another content is seen as a change.
func (p Predictor) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Model  string `json:"model,omitempty"`
		SHA256 string `json:"sha256,omitempty"`

		Provider string `json:"provider,omitempty"`
		Deadline string `json:"deadline,omitempty"`
		MaxText  int64  `json:"max_text,omitempty"`
	}{p.File, p.Fingerprint(), p.Provider, shownUnlessZero(p.Deadline), p.MaxText})
}

// FingerprintDigits is how many hex digits of a model file's SHA-256 people are shown.
const FingerprintDigits = 12

// Fingerprint is the beginning of the file's SHA-256, "" for the model that is built in.
func (p Predictor) Fingerprint() string { return p.SHA256[:min(len(p.SHA256), FingerprintDigits)] }

// Model is a trained model, as whoever routes has read it of its file.
type Model interface {
	// Knows reports whether it was trained on answers of a model that a service calls so.
	Knows(model string) bool
	// Figures are how good that model was at what was recorded, from 0 to 1, and at the kinds of work for which that is
	// known to be another number; ok is false where it does not know the model.
	Figures(model string) (quality float64, by map[string]float64, ok bool)
	// Models are the names that it knows.
	Models() []string
}

// maxModel is the size, in bytes, over which a model file is refused unread: several times what one can have.
const maxModel = 32 << 20

// trained is the predictor's model while a file is loaded.
type trained struct {
	model Model
	at    hcl.Range // of the path
	asked []string  // models of routes for which it is asked
	found bool      // one of them is known to it
	// figured: a quality is as it says. byTable is where one is as the table says, which measures something else.
	figured bool
	byTable hcl.Range
}

// ask notes that what a route is expected to reach depends on the model.
func (t *trained) ask(model string) {
	t.asked = append(t.asked, model)
	t.found = t.found || t.model != nil && t.model.Knows(model)
}

func (t *trained) figures(model string) (quality float64, by map[string]float64, ok bool) {
	if t.model == nil {
		return 0, nil, false
	}
	quality, by, ok = t.model.Figures(model)
	t.figured = t.figured || ok
	return quality, by, ok
}

// shownUnlessZero is a duration as people write it, "" for none.
func shownUnlessZero(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// maxPredicting is the longest that a request may wait for who predicts.
const maxPredicting = 10 * time.Second

// minPredicted is the least text that a provider may be sent to predict by, in bytes.
const minPredicted = 1 << 10

// classifier reads which provider predicts, and how.
func (s *section) classifier(out *Predictor, providers map[string]hcl.Range, cfg *Config) {
	name, at, ok := s.capableProvider(cfg, providers, "predict", "or leave it out", "deadline", "max_text")
	if at == (hcl.Range{}) {
		return
	}
	out.Deadline, out.MaxText = 5*time.Millisecond, 16<<10
	s.duration("deadline", &out.Deadline)
	if s.size("max_text", &out.MaxText); out.MaxText < minPredicted {
		s.fail(s.anyOf("max_text"), "Invalid size", "max_text must be at least \"1KiB\": less tells little of a request.")
	}
	if ok {
		out.Provider = name
	}
}

// readPredictor decodes the block, and reads the file that it names.
func (l *loader) readPredictor(file *section, providers map[string]hcl.Range) (p Predictor) {
	for _, block := range file.blocks["predictor"] {
		s := l.open(block, &predictorGrammar)
		s.classifier(&p, providers, l.config)
		if s.attributes["model"] == nil && s.attributes["provider"] == nil && !l.diags.HasErrors() {
			s.fail(block.TypeRange, "Nothing to predict by", "Name a `model`, or a `provider` whose plugin predicts, or leave "+
				"the block out: then the model that is built in predicts.")
		}
		var path string
		v, ok := s.text("model", &path)
		if !ok {
			continue
		}
		if v.outside {
			s.refuse(v, "must be written out, for it names a file that decides where requests go")
			continue
		}
		name := beside(l.dir(v.at), path)
		if !isPrintable(name) {
			s.fail(v.at, "Unprintable name of a file", "It has signs in it that no message can show. Rename the file.")
			continue
		}
		content, err := l.outside.model(name)
		if err != nil {
			s.fail(v.at, fmt.Sprintf("Unreadable file %q", clip(name)), modelAdvice(err))
			continue
		}
		p.File, p.SHA256 = name, digest(content)
		l.predictor.at = v.at
		if l.opts.Model == nil {
			continue
		}
		if p.Model, err = l.opts.Model(content); err != nil {
			s.fail(v.at, fmt.Sprintf("%q is no model that can be used", clip(path)), capital(sentence(err.Error())))
		}
		l.predictor.model = p.Model
	}
	return p
}

// modelAdvice is the next step where a model file cannot be read.
func modelAdvice(err error) string {
	const train = "train one with `fareway gateway route train --recorded DIR --out FILE`"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "There is no such file on this machine. Copy it here, " + train + ", or leave the block out: then the model " +
			"that is built in predicts. A relative path starts in the folder of the file that names it."
	case errors.Is(err, errNotRegular):
		return "It is a folder, a device or a pipe. Name a model file, or " + train + "."
	case errors.Is(err, errTooLarge):
		return "It is larger than 32 MiB, and no model is. Name a model file, or " + train + "."
	}
	return fileAdvice(err)
}

// checkPredictor finds a model that was trained for other routes.
func (l *loader) checkPredictor() {
	t := &l.predictor
	if t.figured && t.byTable != (hcl.Range{}) {
		l.warn(t.byTable, "Qualities of two measures", "This \"auto\" is what a public benchmark has measured, and another "+
			"one what the predictor's model file has seen at your own requests: they do not compare. Write a number here.")
	}
	if t.model == nil || len(t.asked) == 0 || t.found {
		return
	}
	known := t.model.Models()
	slices.Sort(known)
	some := known[:min(len(known), 5)]
	text := strings.Join(some, ", ")
	if more := len(known) - len(some); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	l.fail(t.at, "The model knows none of these routes", fmt.Sprintf("It was trained on answers of %s; the routes with "+
		"`weight` or quality = \"auto\" have other models. Train one on answers of those, with the names that `model` has "+
		"in the routes, or leave the block out.", text))
}

// model reads a file of a trained model, which belongs to the configuration from then on.
func (o *outside) model(path string) ([]byte, error) {
	content, known := o.files[path]
	if !known {
		o.names = append(o.names, path)
		content, o.errors[path] = readBounded(path, maxModel)
		o.files[path] = content
	}
	return content, o.errors[path]
}

// namedModels are the files that predictor blocks name, for those who want to know whether they have changed.
func (l *loader) namedModels(blocks hclsyntax.Blocks) {
	for path, attr := range l.pathsOf(blocks, "predictor", "model") {
		name := beside(l.dir(attr.NameRange), path)
		if _, known := l.outside.files[name]; known {
			continue
		}
		l.outside.names = append(l.outside.names, name)
		l.outside.digests[name], l.outside.errors[name] = modelDigests.of(name)
	}
}

// modelDigests spares who looks at a configuration each second the reading of some megabytes.
var modelDigests = digests{seen: make(map[string]seenFile)}

// readAgain is after how many looks a file is read again, whatever its time and size say: there are file systems
// without useful ones.
const readAgain = 60

// digests are those of files that were as they are when they were read.
type digests struct {
	mu   sync.Mutex
	seen map[string]seenFile
}

type seenFile struct {
	info   fs.FileInfo
	digest string
	looks  int
}

// of is the hex SHA-256 of a file's content. It is read where it is another file, of another time or size.
func (d *digests) of(path string) (string, error) {
	info, err := statRegular(path, maxModel)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.seen[path]; ok && os.SameFile(info, last.info) && info.Size() == last.info.Size() &&
		info.ModTime().Equal(last.info.ModTime()) && last.looks < readAgain {
		last.looks++
		d.seen[path] = last
		return last.digest, nil
	}
	content, err := readBounded(path, maxModel)
	if err != nil {
		return "", err
	}
	const many = 100 // of configurations that nobody looks at any more
	if len(d.seen) >= many {
		clear(d.seen)
	}
	d.seen[path] = seenFile{info: info, digest: digest(content)}
	return d.seen[path].digest, nil
}
