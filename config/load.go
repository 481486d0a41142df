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
	"github.com/zclconf/go-cty/cty"

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
		*l.diags = Diagnostics{} // those of other blocks
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

// loader carries one Load through its steps.
type loader struct {
	ctx      context.Context
	opts     Options
	sources  sources
	diags    *Diagnostics
	outside  *outside
	scope    map[string]map[string]cty.Value // what `var` and `local` have, by name
	base     *hcl.EvalContext
	contexts map[string]*hcl.EvalContext // by path of the source: a relative path is relative to the file that has it
	spent    int                         // bytes, about, of the values of all expressions
	known    map[string][]llm.Model      // by provider: what its plugin knows of models, with its settings
	located  located
	// predictor is the model by which routes are compared.
	predictor trained
	config    *Config
	broken    bool // what was read is not all that there is
	facts     bool // what is read is a condition
}

func newLoader(ctx context.Context, opts Options, src *source, diags *Diagnostics) *loader {
	l := &loader{
		ctx: ctx, opts: opts, diags: diags,
		sources:  sources{named: make(map[string]*source), included: make(map[string]hcl.Range)},
		base:     &hcl.EvalContext{Functions: functions()},
		contexts: make(map[string]*hcl.EvalContext),
		known:    make(map[string][]llm.Model),
		// What may be empty prints as [], not null.
		config: &Config{Path: src.abs, Plans: []Plan{}, planPlaces: make(map[string]string)},
	}
	var learned []string
	l.outside = newOutside(opts.Env, func(value string) {
		learned = append(learned, value)
		opts.Outside(value)
	})
	l.base.Functions["env"] = textFunction("name", l.outside.env)
	l.located = located{sources: &l.sources, providers: make(map[string]providerPlace),
		outside: func() []string { return learned }}
	l.sources.add(src, hcl.Range{Filename: src.path})
	return l
}

// show permits a range to be printed.
func (l *loader) show(r hcl.Range) {
	if src := l.sources.named[r.Filename]; src != nil {
		src.show(r)
	}
}

// textOf is what stands at a place.
func (l *loader) textOf(r hcl.Range) []byte {
	if src := l.sources.named[r.Filename]; src != nil {
		return r.SliceBytes(src.text)
	}
	return nil
}

// dir is the folder of the file that has a range.
func (l *loader) dir(r hcl.Range) string {
	src := l.sources.named[r.Filename]
	if src == nil {
		src = l.sources.main()
	}
	return filepath.Dir(src.abs)
}

// place says where something is. In the main file alone, its line is enough.
func (l *loader) place(r hcl.Range) string {
	if len(l.sources.all) == 1 {
		return fmt.Sprintf("on line %d", r.Start.Line)
	}
	return fmt.Sprintf("in %s on line %d", r.Filename, r.Start.Line)
}

func (l *loader) fail(at hcl.Range, summary, detail string) {
	l.diags.add(SeverityError, at, summary, detail)
}

func (l *loader) warn(at hcl.Range, summary, detail string) {
	l.diags.add(SeverityWarning, at, summary, detail)
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
	l.config.DecisionLog = l.decisionLog(file)
	l.config.Outcomes = l.outcomes(file)
	l.config.Cache = l.cache(file)
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
func (l *loader) parse(src *source) *hclsyntax.Body {
	src.lex()
	if at, summary, detail := guard(src.tokens); summary != "" {
		src.showStatements()
		l.fail(at, summary, detail)
		return nil
	}
	text, includes := src.takeIncludes()
	file, diags := hclsyntax.ParseConfig(text, src.path, hcl.InitialPos)
	broken := slices.IndexFunc(diags, func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && d.Summary != redefined
	})
	if broken >= 0 {
		l.syntax(src, diags[broken])
		return nil
	}
	for _, d := range diags {
		if d.Summary == redefined && d.Subject != nil {
			src.show(*d.Subject)
			l.fail(*d.Subject, "Attribute set twice", "The same block sets it further up already. Keep one of the two.")
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
func (l *loader) syntax(src *source, d *hcl.Diagnostic) {
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
	l.fail(at, d.Summary, detail)
}
