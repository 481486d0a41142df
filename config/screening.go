package config

import (
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fareway/fareway/config/rules"
)

// ScreeningMode says what comes of screening.
type ScreeningMode string

const (
	ScreeningOff     ScreeningMode = "off"
	ScreeningMonitor ScreeningMode = "monitor" // verdicts are noted
	ScreeningEnforce ScreeningMode = "enforce" // what is blocked is refused, and each screened request costs a little
)

// Screening is the content policy before routing (GAP-59).
type Screening struct {
	Mode ScreeningMode
	// File has rules, beside those in the block itself: an absolute path, or "".
	File string
	// Rules are all of them, nil for none.
	Rules *rules.Set
	// Provider judges what the rules let through, "" for nobody. What follows is about it.
	Provider string
	Timeout  time.Duration
	OnError  OnError
	MaxText  int64 // bytes of a request's text that it may be sent
}

// OnError says what comes of a request that could not be screened, where screening is enforced.
type OnError string

const (
	OnErrorRefuse OnError = "refuse"
	OnErrorAllow  OnError = "allow"
)

// On reports whether requests are screened.
func (s *Screening) On() bool { return s.Mode != ScreeningOff && s.Mode != "" }

// MarshalJSON prints the rules by name, so that a changed one is told apart.
func (s Screening) MarshalJSON() ([]byte, error) {
	type rule struct {
		Category   string       `json:"category,omitempty"`
		Action     rules.Action `json:"action"`
		Terms      []string     `json:"terms,omitempty"`
		Patterns   []string     `json:"patterns,omitempty"`
		WholeWords bool         `json:"whole_words"`
	}
	byName := make(map[string]rule)
	for _, r := range s.Rules.Rules() {
		byName[r.Name] = rule{r.Category, r.Action, r.Terms, r.Patterns, !r.Parts}
	}
	out := struct {
		Mode     ScreeningMode   `json:"mode"`
		File     string          `json:"rules,omitempty"`
		Rules    map[string]rule `json:"rule,omitempty"`
		Provider string          `json:"provider,omitempty"`
		Timeout  string          `json:"timeout,omitempty"`
		OnError  OnError         `json:"on_error,omitempty"`
		MaxText  int64           `json:"max_text,omitempty"`
	}{Mode: s.Mode, File: s.File, Rules: byName}
	if s.Provider != "" {
		out.Provider, out.Timeout, out.OnError, out.MaxText = s.Provider, s.Timeout.String(), s.OnError, s.MaxText
	}
	return json.Marshal(out)
}

const (
	maxRules    = 1_000
	maxTermSize = 256     // bytes of one term
	maxPattern  = 1_000   // bytes of one pattern
	maxAllTerms = 100_000 // over all rules
	maxPatterns = 1_000   // over all rules
)

// ruleBlock is a rule with where its parts stand.
type ruleBlock struct {
	at              hcl.Range
	terms, patterns []hcl.Range
}

// screening decodes the block, and the file that it names. providers are the names that it may use.
func (l *loader) screening(file *section, providers map[string]hcl.Range) Screening {
	out := Screening{Mode: ScreeningOff}
	for _, block := range file.blocks["screening"] {
		s := l.open(block, &screeningGrammar)
		mode := string(out.Mode)
		s.oneOf("mode", &mode)
		out.Mode = ScreeningMode(mode)
		named := s.blocks["rule"]
		var path string
		if v, ok := s.text("rules", &path); ok {
			if src := l.rulesFile(path, v.at); src != nil {
				out.File = src.abs
				if body := l.parse(src); body != nil {
					whole := hcl.Range{Filename: src.path}
					more := l.section("the rules file", whole, body, &rulesGrammar)
					named = slices.Concat(named, more.blocks["rule"])
				}
			}
		}
		out.Rules = l.rules(named)
		s.screener(&out, providers, l.config)
		if out.On() && len(out.Rules.Rules()) == 0 && s.attributes["provider"] == nil && !l.diags.HasErrors() {
			s.fail(block.TypeRange, "Nothing to screen with", "Name a file of rules or a provider that screens, or write a "+
				"rule:\n"+screeningExample)
		}
	}
	return out
}

// screener reads which provider judges requests, and how.
func (s *section) screener(out *Screening, providers map[string]hcl.Range, cfg *Config) {
	name, at, ok := s.capableProvider(cfg, providers, "screen", "or screen by rules", "timeout", "on_error", "max_text")
	if at == (hcl.Range{}) {
		return
	}
	out.Timeout, out.OnError, out.MaxText = 2*time.Second, OnErrorRefuse, 1<<20
	s.duration("timeout", &out.Timeout)
	onError := string(out.OnError)
	s.oneOf("on_error", &onError)
	out.OnError = OnError(onError)
	if s.size("max_text", &out.MaxText); out.MaxText < minScreened {
		s.fail(s.anyOf("max_text"), "Invalid size", "max_text must be at least \"1KiB\": nearly no request "+
			"would be screened.")
	}
	if ok {
		out.Provider = name
	}
}

// capableProvider reads the name of a provider whose plugin has an optional part of the protocol; instead is what else
// to do, and others are attributes that say nothing without one. ok is false where it is not to be used, and at is
// nowhere where none is named.
func (s *section) capableProvider(cfg *Config, providers map[string]hcl.Range, capability, instead string,
	others ...string,
) (name string, at hcl.Range, ok bool) {
	v, read := s.text("provider", &name)
	if s.attributes["provider"] == nil {
		for _, other := range others {
			if attr := s.attributes[other]; attr != nil {
				s.fail(attr.NameRange, other+" without provider", fmt.Sprintf("It is about the provider that %ss, and none is "+
					"named. Name one, or remove it.", capability))
			}
		}
		return "", hcl.Range{}, false
	}
	at = s.attributes["provider"].Range()
	if !read {
		return "", at, false
	}
	s.knownProvider(v, name, providers)
	i := slices.IndexFunc(cfg.Providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return name, at, true
	}
	p := &cfg.Providers[i]
	ref := PluginRef{Plugin: p.Plugin, SHA256: p.SHA256, Dir: cfg.Gateway.PluginDir}
	if p.StartTimeout != defaultStartTimeout {
		ref.StartTimeout = p.StartTimeout
	}
	if s.opts.Can != nil && !s.opts.Can(s.ctx, ref, capability) {
		s.fail(v.at, fmt.Sprintf("Provider %q does not %s", name, capability), fmt.Sprintf("Its plugin %q does not have the "+
			"capability %s. Name a provider whose plugin has it (`fareway gateway plugin info NAME` says so; "+
			"plugins/README.md shows how to write one), %s.", p.Plugin, capability, instead))
	}
	return name, at, true
}

// minScreened is the least text that a screening provider may be sent, in bytes.
const minScreened = 1 << 10

// rulesFile reads a file of rules, which belongs to the configuration from then on; nil where that cannot be.
func (l *loader) rulesFile(path string, at hcl.Range) *source {
	dir := "."
	if src := l.sources.named[at.Filename]; src != nil {
		dir = filepath.Dir(src.path)
	}
	name := beside(dir, path)
	total := 0
	for _, src := range l.sources.all {
		total += len(src.text)
	}
	switch first, taken := l.sources.included[realPath(name)]; {
	case !isPrintable(name):
		l.fail(at, "Unprintable name of a file", "It has signs in it that no message can show. Rename the file.")
		return nil
	case taken:
		l.fail(at, "Not a file of rules", fmt.Sprintf("It is a part of the configuration, named %s. Rules have a file of "+
			"their own.", l.place(first)))
		return nil
	case total > maxSource:
		l.fail(at, "Too much to read", "All files together may have 4 MiB. Split the terms that are needed from the others.")
		return nil
	}
	src, err := readSource(name, l.opts.Overlay)
	src.err = err
	if l.sources.add(src, at); err != nil {
		l.fail(at, fmt.Sprintf("Unreadable file %q", clip(name)), includeAdvice(err))
		return nil
	}
	return src
}

// readRules reads the file of rules that blocks name, for those who want the texts only.
func (l *loader) readRules(blocks hclsyntax.Blocks) {
	for path, attr := range l.pathsOf(blocks, "screening", "rules") {
		if src := l.rulesFile(path, attr.Expr.Range()); src != nil {
			l.parse(src)
		}
	}
}

// pathsOf are the files that an attribute of blocks of a type names, as they are written there. What is wrong with it
// is for those to tell who load the file.
func (e *evaluator) pathsOf(blocks hclsyntax.Blocks, block, attribute string) iter.Seq2[string, *hclsyntax.Attribute] {
	return func(yield func(string, *hclsyntax.Attribute) bool) {
		for _, b := range blocks {
			attr := b.Body.Attributes[attribute]
			if b.Type != block || attr == nil {
				continue
			}
			v, diags := attr.Expr.Value(e.context(attr.NameRange))
			v, _ = v.Unmark()
			if diags.HasErrors() || v.Type() != cty.String || !v.IsKnown() || v.IsNull() || v.AsString() == "" {
				continue
			}
			if !yield(v.AsString(), attr) {
				return
			}
		}
	}
}

// rules decodes rules and compiles them; nil where there are none, or one is wrong.
func (l *loader) rules(blocks []*hclsyntax.Block) *rules.Set {
	var all []rules.Rule
	places, taken := make([]ruleBlock, 0, len(blocks)), make(map[string]hcl.Range)
	terms, patterns, good := 0, 0, true
	for _, block := range blocks {
		s, before := l.open(block, &ruleGrammar), l.diags.errors()
		r, at := rules.Rule{Action: rules.Block}, ruleBlock{at: block.DefRange()}
		for _, label := range block.LabelRanges {
			s.show(label)
		}
		r.Name, _ = s.label(block, taken)
		if v, ok := s.text("category", &r.Category); ok && !namePattern.MatchString(r.Category) {
			s.refuse(v, "is made of "+nameRule)
		}
		action := string(r.Action)
		s.oneOf("action", &action)
		r.Action = rules.Action(action)
		whole := true
		s.flag("whole_words", &whole)
		r.Parts = !whole
		r.Terms, at.terms = s.texts("terms", maxTermSize)
		r.Patterns, at.patterns = s.texts("patterns", maxPattern)
		terms, patterns = terms+len(r.Terms), patterns+len(r.Patterns)
		if len(r.Terms)+len(r.Patterns) == 0 && l.diags.errors() == before {
			s.fail(block.DefRange(), "Empty rule", "It finds nothing. Give it terms or patterns, for example:\n"+ruleExample)
		}
		good = good && l.diags.errors() == before
		all, places = append(all, r), append(places, at)
	}
	switch {
	case !good || len(all) == 0:
		return nil
	case len(all) > maxRules || terms > maxAllTerms || patterns > maxPatterns:
		l.fail(places[len(places)-1].at, "Too many rules", fmt.Sprintf("There are %s rules with %s terms and %s patterns; "+
			"there may be %s, %s and %s. Keep those that matter.", grouped(int64(len(all))), grouped(int64(terms)),
			grouped(int64(patterns)), grouped(maxRules), grouped(maxAllTerms), grouped(maxPatterns)))
		return nil
	}
	set, problems := rules.Compile(all)
	for _, p := range problems {
		at := places[p.Rule].at
		switch {
		case p.Term >= 0:
			at = places[p.Rule].terms[p.Term]
		case p.Pattern >= 0:
			at = places[p.Rule].patterns[p.Pattern]
		}
		if p.Warning {
			l.warn(at, p.Summary, p.Detail)
		} else {
			l.fail(at, p.Summary, p.Detail)
		}
	}
	return set
}

// texts reads a list of texts, each with its place. What is empty is left to who reads them.
func (s *section) texts(name string, limit int) (texts []string, places []hcl.Range) {
	if s.attributes[name] == nil {
		return nil, nil
	}
	s.list(name, func(element value) {
		switch {
		case element.Type() != cty.String:
			s.refuseType(element, "text in quotes")
		case len(element.AsString()) > limit:
			s.refuse(element, fmt.Sprintf("must be at most %d bytes long", limit))
		default:
			texts, places = append(texts, element.AsString()), append(places, element.at)
		}
	})
	return texts, places
}

// Cache is the response cache (GAP-61).
type Cache struct {
	Kind string // "memory", or "": there is none
	Size int64  // bytes, all replies together
	TTL  time.Duration
}

// MarshalJSON prints the duration in Go's notation.
func (c Cache) MarshalJSON() ([]byte, error) {
	if c.Kind == "" {
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		Kind string `json:"kind"`
		Size int64  `json:"size"`
		TTL  string `json:"ttl"`
	}{c.Kind, c.Size, c.TTL.String()})
}

// minCache is the smallest cache that is worth its block, in bytes.
const minCache = 1 << 20

func (l *loader) cache(file *section) (c Cache) {
	for _, block := range file.blocks["cache"] {
		if !l.kind(block, cacheExample, Memory) {
			continue
		}
		c = Cache{Kind: "memory", Size: 64 << 20, TTL: 5 * time.Minute}
		s := l.open(block, &cacheGrammar)
		s.size("size", &c.Size)
		if c.Size < minCache {
			s.fail(s.anyOf("size"), "Invalid size", "size must be at least \"1MiB\". Leave the block out for no cache.")
		}
		s.duration("ttl", &c.TTL)
	}
	return c
}

// Declines says after how many requests that a content policy declined an account is suspended (GAP-87). The zero
// value is never.
type Declines struct {
	Count  int64
	Window time.Duration
}

// MarshalJSON prints the duration in Go's notation.
func (d Declines) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Count  int64  `json:"count"`
		Window string `json:"window"`
	}{d.Count, d.Window.String()})
}

func (s *section) declines(d *Declines) {
	for _, block := range s.blocks["suspend_after_declines"] {
		in := s.inner(block, &declinesGrammar)
		*d = Declines{Count: 20, Window: time.Hour}
		in.integer("count", &d.Count)
		in.duration("window", &d.Window)
	}
}
