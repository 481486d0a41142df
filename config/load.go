package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// PluginRef says which program a provider block means.
type PluginRef struct {
	Plugin string // its name: "openai"
	SHA256 string // lower-case hex of the file's digest, or "" when it is not pinned
	Dir    string // absolute plugin_dir, or "" for built-in providers only
	// StartTimeout bounds the start in which it is asked for its settings. 0: the provider's default.
	StartTimeout time.Duration
}

// Overlay has texts that stand in for those of HCL files, by absolute path: of a configuration that is not installed
// yet, or no more. Where it has nil, the file is as if it were not there.
type Overlay map[string]*string

// Objection is what somebody else has against a configuration that is right in itself.
type Objection struct {
	// Block is the kind of the block that it is about, the first of them: "store". "", or one that the file has not: the
	// file as a whole.
	Block   string
	Summary string
	Detail  string
}

// Options are what Load needs from its surroundings.
type Options struct {
	// Schema says what a plugin accepts in its `config` block. It is called once for each distinct plugin of
	// the file; an error becomes a diagnostic at the provider's `plugin` attribute, so that its text is read
	// by people. Nil: no plugin has settings.
	Schema func(ctx context.Context, ref PluginRef) (settings.Schema, error)
	// Known are the models that a plugin which has answered Schema knows without asking its upstream. A price far from
	// what it says becomes a warning, and a missing one is proposed. Nil: none.
	Known func(ctx context.Context, ref PluginRef) []llm.Model
	// Can reports whether a plugin that has answered Schema has an optional part of the protocol: "screen" or "predict".
	// Nil: whoever starts it will see.
	Can func(ctx context.Context, ref PluginRef, capability string) bool
	// Try starts a provider for a moment, with settings that are right by its plugin's schema. What it objects to, a
	// line for each, becomes diagnostics at the settings that the lines name ("setting base_url must ..."). Nil: whoever
	// starts it will see.
	Try func(ctx context.Context, ref PluginRef, p Provider) error
	// Unconfined says what of a confine block cannot be had on this machine, and why; each becomes a warning. Nil:
	// nothing.
	Unconfined func(c Confine) []string
	// Env looks up environment variables for env("NAME"). Nil: os.LookupEnv.
	Env func(string) (string, bool)
	// Model reads a file of a trained model, for the predictor. Its error becomes a diagnostic at the file's name, so
	// that its text is read by people. Nil: whoever uses the file will see.
	Model func(content []byte) (Model, error)
	// Outside is told of each value that comes from the environment or by file("..."), before anybody is given it. It is
	// never to be shown. Nil: nobody is.
	Outside func(value string)
	// Overlay stands in for files.
	Overlay Overlay
	// Objections are what somebody else has against the configuration; each becomes an error.
	Objections []Objection
}

// Load reads, checks and freezes the configuration at path. The diagnostics are never nil, and hold all that was
// found: errors and warnings. The configuration is nil when there are errors.
func Load(ctx context.Context, path string, opts Options) (*Config, *Diagnostics) {
	return read(ctx, path, opts, (*loader).load)
}

// LoadLedger reads of the file at path what concerns the ledger, for who only looks at that: where it is and, in the
// configuration, the blocks gateway and plan. It needs neither a plugin nor the credentials of one, and what is wrong
// in other blocks does not matter. The configuration is nil when its blocks cannot be used, and the store the default
// one where there are errors: then where the ledger is is not known.
func LoadLedger(path string) (Store, *Config, *Diagnostics) {
	usable := false
	cfg, diags := read(context.Background(), path, Options{}, func(l *loader) *Config {
		file := l.file()
		if file == nil {
			return nil
		}
		l.diags.keepWithin(file.refused, "store") // and not those of other blocks
		for _, block := range file.refused {
			if block.Type == "store" && !l.diags.HasErrors() { // too much stands before it
				l.fail(block.DefRange(), "Unusable store block", "Run `fareway gateway check` and correct what it says first.")
			}
		}
		l.config.Store = l.store(file)
		if l.diags.HasErrors() {
			return nil
		}
		l.config.Gateway = l.gateway(file)
		l.plans(file)
		usable = !l.diags.HasErrors()
		*l.diags = Diagnostics{} // the ledger can be read without them
		return l.config
	})
	switch {
	case cfg == nil:
		return DefaultStore(), nil, diags
	case !usable:
		return cfg.Store, nil, diags
	}
	return cfg.Store, cfg, diags
}

func read(ctx context.Context, path string, opts Options, load func(*loader) *Config) (*Config, *Diagnostics) {
	diags := new(Diagnostics)
	src, err := readSource(path, opts.Overlay)
	if err != nil {
		diags.add(SeverityError, hcl.Range{Filename: path}, "Unreadable configuration", mainAdvice(err))
		return nil, diags
	}
	l := newLoader(ctx, opts.filled(), src, diags)
	config := load(l)
	diags.finish(&l.sources)
	if diags.HasErrors() {
		return nil, diags
	}
	return config, diags
}

func (o Options) filled() Options {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.Outside == nil {
		o.Outside = func(string) {}
	}
	return o
}

// mainAdvice is the next step when the file itself cannot be read.
func mainAdvice(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "There is no such file. Check the path; `gateway up` writes a starter file."
	}
	return sourceAdvice(err)
}

func sourceAdvice(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "The gateway's user may not read it. Change its owner or its mode."
	case errors.Is(err, errNotRegular):
		return "It is a folder, a device or a pipe. Name a regular file."
	case errors.Is(err, errTooLarge):
		return "It is larger than 4 MiB. A configuration is far smaller; is it the right file?"
	}
	return fmt.Sprintf("Reading it failed: %v.", err)
}

// loader carries one Load through its steps: it decodes block by block. Files are gathered and expressions evaluated
// by parts of their own, which know nothing of it, and neither does a section.
type loader struct {
	*reading
	gatherer
	evaluator
	known   map[string][]llm.Model // by provider: what its plugin knows of models, with its settings
	located located
	// predictor is the model by which routes are compared.
	predictor trained
	config    *Config
}

// reading is what is read, and what was found wrong with it.
type reading struct {
	ctx     context.Context
	opts    Options
	sources sources
	diags   *Diagnostics
	outside *outside
}

func newLoader(ctx context.Context, opts Options, src *source, diags *Diagnostics) *loader {
	r := &reading{ctx: ctx, opts: opts, diags: diags,
		sources: sources{named: make(map[string]*source), included: make(map[string]hcl.Range)}}
	var learned []string
	r.outside = newOutside(opts.Env, func(value string) {
		learned = append(learned, value)
		opts.Outside(value)
	})
	r.sources.add(src, hcl.Range{Filename: src.path})
	base := &hcl.EvalContext{Functions: functions()}
	base.Functions["env"] = textFunction("name", r.outside.env)
	return &loader{
		reading: r, gatherer: gatherer{reading: r}, known: make(map[string][]llm.Model),
		evaluator: evaluator{reading: r, base: base, contexts: make(map[string]*hcl.EvalContext)},
		located: located{sources: &r.sources, providers: make(map[string]providerPlace),
			outside: func() []string { return learned }},
		// What may be empty prints as [], not null.
		config: &Config{Path: src.abs, Plans: []Plan{}, planPlaces: make(map[string]string)},
	}
}

// show permits a range to be printed.
func (r *reading) show(at hcl.Range) {
	if src := r.sources.named[at.Filename]; src != nil {
		src.show(at)
	}
}

// textOf is what stands at a place.
func (r *reading) textOf(at hcl.Range) []byte {
	if src := r.sources.named[at.Filename]; src != nil {
		return at.SliceBytes(src.text)
	}
	return nil
}

// dir is the folder of the file that has a range.
func (r *reading) dir(at hcl.Range) string {
	src := r.sources.named[at.Filename]
	if src == nil {
		src = r.sources.main()
	}
	return filepath.Dir(src.abs)
}

// place says where something is. In the main file alone, its line is enough.
func (r *reading) place(at hcl.Range) string {
	if len(r.sources.all) == 1 {
		return fmt.Sprintf("on line %d", at.Start.Line)
	}
	return fmt.Sprintf("in %s on line %d", at.Filename, at.Start.Line)
}

func (r *reading) fail(at hcl.Range, summary, detail string) {
	r.diags.add(SeverityError, at, summary, detail)
}

func (r *reading) warn(at hcl.Range, summary, detail string) {
	r.diags.add(SeverityWarning, at, summary, detail)
}

// load parses the text, decodes block by block, checks references, and freezes.
func (l *loader) load() *Config {
	file := l.file()
	if file == nil {
		return nil
	}
	l.config.Gateway = l.gateway(file)
	l.config.Store = l.store(file)
	l.config.Limiter = l.limiter(file)
	l.config.Breaker = l.breaker(file)
	l.config.RetryBudget = l.retryBudget(file)
	providers := l.providers(file)
	l.config.Predictor = l.readPredictor(file, providers)
	l.config.Screening = l.screening(file, providers)
	l.routes(file, providers)
	l.checkPredictor()
	l.specials(file)
	l.profiles(file)
	l.strategies(file)
	l.plans(file)
	l.config.PreAuth = l.preAuth(file)
	l.config.Affinity = l.affinity(file)
	l.config.Telemetry = l.telemetry(file)
	l.config.DecisionLog = l.decisionLog(file)
	l.config.Outcomes = l.outcomes(file)
	l.config.Cache = l.cache(file)
	l.config.Portal = l.portal(file)
	l.config.Alerts = l.alerts(file)
	for _, o := range l.opts.Objections {
		at := file.header
		for _, block := range slices.Backward(file.blocks[o.Block]) {
			at = block.DefRange()
		}
		l.fail(at, o.Summary, o.Detail)
	}

	l.config.located = &l.located
	l.config.Files = l.files()
	l.config.Hash = hash(l.config.Files)
	return l.config
}

// file is the whole file with all that it includes, nil when there is nothing to go on with.
func (l *loader) file() *section {
	main := l.sources.main()
	body := l.gather(&included{source: main})
	if l.broken {
		return nil
	}
	whole := hcl.Range{Filename: main.path} // without a line: what is missing in the file is missing everywhere
	file := l.section("the file", whole, body, &fileGrammar)
	l.names(file.blocks)
	return file
}

// parse returns the body of one file, or nil when there is nothing to go on with.
func (g *gatherer) parse(src *source) *hclsyntax.Body {
	src.lex()
	if at, summary, detail := guard(src.tokens); summary != "" {
		src.showStatements()
		g.fail(at, summary, detail)
		return nil
	}
	text, includes := src.takeIncludes()
	file, diags := hclsyntax.ParseConfig(text, src.path, hcl.InitialPos)
	broken := slices.IndexFunc(diags, func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && d.Summary != redefined
	})
	if broken >= 0 {
		g.syntax(src, diags[broken])
		return nil
	}
	for _, d := range diags {
		if d.Summary == redefined && d.Subject != nil {
			src.show(*d.Subject)
			g.fail(*d.Subject, "Attribute set twice", "The same block sets it further up already. Keep one of the two.")
		}
	}
	src.parsed = true
	body := file.Body.(*hclsyntax.Body)
	body.Blocks = append(body.Blocks, includes...)
	slices.SortFunc(body.Blocks, func(a, b *hclsyntax.Block) int {
		return cmp.Compare(a.TypeRange.Start.Byte, b.TypeRange.Start.Byte)
	})
	return body
}

// redefined is the parser's one complaint that leaves the rest of the file meaningful.
const redefined = "Attribute redefined"

// syntax reports the first error of the parser only: those behind it are mostly its echoes.
func (g *gatherer) syntax(src *source, d *hcl.Diagnostic) {
	src.showStatements()
	src.seal()
	at := hcl.Range{Filename: src.path, Start: hcl.InitialPos, End: hcl.InitialPos}
	if d.Subject != nil {
		at = *d.Subject
	}
	detail := d.Detail
	if src.hides(at) && strings.ContainsAny(detail, `"[`) {
		// The parser repeats a piece of the text in some of its messages, in quotes or in brackets.
		detail = "The text here is not valid in HCL. In a quoted text write \\\\ for a backslash, \\\" for a quote, and " +
			"$${ for ${."
	}
	line, _ := src.line(at.Start.Byte)
	if first := src.firstToken(line); first < len(src.tokens) && string(src.tokens[first].Bytes) == "include" {
		detail = "Write the path in quotes, alone on its line:\n" + includeExample
	}
	g.fail(at, d.Summary, detail)
}
