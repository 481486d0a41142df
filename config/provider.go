package config

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// defaultStartTimeout is also what a program gets that no provider block gives more.
const defaultStartTimeout = 10 * time.Second

// schemas asks each distinct plugin once.
type schemas struct {
	ask   func(context.Context, PluginRef) (settings.Schema, error)
	known map[PluginRef]schemaAnswer
}

type schemaAnswer struct {
	schema settings.Schema
	err    error
}

func (s *schemas) of(ctx context.Context, ref PluginRef) (settings.Schema, error) {
	if s.ask == nil {
		return settings.Schema{}, nil
	}
	answer, ok := s.known[ref]
	if !ok {
		answer.schema, answer.err = s.ask(ctx, ref)
		if answer.err == nil {
			answer.err = checkSchema(&answer.schema)
		}
		s.known[ref] = answer
	}
	return answer.schema, answer.err
}

// providers decodes the providers and returns the names that routes may use, with their places.
func (l *loader) providers(file *section) map[string]hcl.Range {
	taken := make(map[string]hcl.Range)
	asked := schemas{ask: l.opts.Schema, known: make(map[PluginRef]schemaAnswer)}
	for _, block := range file.blocks["provider"] {
		p := Provider{StartTimeout: defaultStartTimeout, Carry: CarryHost}
		p.Name, _ = file.label(block, taken)
		s := l.open(block, &providerGrammar)

		pluginOK := s.plugin(&p, l.config.Gateway.PluginDir)
		s.duration("start_timeout", &p.StartTimeout)
		carry := string(p.Carry)
		s.oneOf("carry", &carry)
		p.Carry = Carry(carry)
		s.size("max_memory", &p.MaxMemory)
		if v, ok := s.read("max_memory"); ok && p.MaxMemory != 0 && p.MaxMemory < minMemory {
			s.refuse(v, "must be at least \"16MiB\": a program needs some to run at all")
		}
		for _, block := range s.blocks["confine"] {
			p.Confine = s.confine(block)
		}
		if pluginOK {
			l.settings(s, block, &p, &asked)
		}
		l.config.Providers = append(l.config.Providers, p)
	}
	return taken
}

// minMemory is about what a program takes that does nothing: less is a slip of the pen.
const minMemory = 16 << 20

// userPattern is what names of users are made of.
var userPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,31}$`)

// A process needs some files for its socket, its output and its upstream, and some threads to run at all.
const (
	minFiles     = 32
	minProcesses = 16
	maxConfined  = 1 << 20
)

// confine reads what a process may not do.
func (s *section) confine(block *hclsyntax.Block) (c Confine) {
	in := s.inner(block, &confineGrammar)
	if v, ok := in.text("user", &c.User); ok && !userPattern.MatchString(c.User) {
		in.refuse(v, "must be the name of a user of this machine")
	}
	in.integer("max_files", &c.MaxFiles)
	if v, ok := in.integer("max_processes", &c.MaxProcesses); ok && c.User == "" {
		in.fail(v.at, "max_processes without user", "It counts all processes and threads of a user, and those of the "+
			"gateway's own are not the provider's alone. Set user to one that runs nothing else.")
	}
	if s.opts.Unconfined != nil {
		for _, missing := range s.opts.Unconfined(c) {
			in.warn(block.DefRange(), "Not confined as written", sentence("The provider runs nevertheless, without "+missing))
		}
	}
	return c
}

// plugin reads which program to run; false when that is not certain enough to ask it for its schema.
func (s *section) plugin(p *Provider, dir string) bool {
	v, ok := s.text("plugin", &p.Plugin)
	switch {
	case !ok:
	case v.outside: // it stands in the errors of whoever starts it
		s.refuse(v, "must be written out, for it names a program")
		ok = false
	case !namePattern.MatchString(p.Plugin):
		s.refuse(v, "must be made of "+nameRule+": the name of a built-in provider, or NAME of a file fareway-provider-NAME")
		ok = false
	}
	if s.attributes["sha256"] == nil {
		return ok
	}
	var digest string
	v, digestOK := s.text("sha256", &digest)
	switch {
	case !digestOK:
		return false
	case !digestPattern.MatchString(digest):
		s.refuse(v, "must be 64 hexadecimal digits, as `sha256sum FILE` prints them")
		return false
	case dir == "":
		s.fail(v.at, "sha256 without plugin_dir", "It pins a file in plugin_dir, and none is set in the gateway block. "+
			"Set plugin_dir, or remove sha256 to run the built-in provider.")
		return false
	}
	p.SHA256 = strings.ToLower(digest)
	return ok
}

// settings decodes the provider's config block by what its plugin declares.
func (l *loader) settings(s *section, block *hclsyntax.Block, p *Provider, asked *schemas) {
	ref := PluginRef{Plugin: p.Plugin, SHA256: p.SHA256, Dir: l.config.Gateway.PluginDir}
	if p.StartTimeout != defaultStartTimeout {
		ref.StartTimeout = p.StartTimeout
	}
	schema, err := asked.of(l.ctx, ref)
	if err != nil {
		l.fail(s.attributes["plugin"].Expr.Range(), fmt.Sprintf("Plugin %q cannot be used", p.Plugin), sentence(err.Error()))
		return
	}
	what, header, body := fmt.Sprintf("config of plugin %q", p.Plugin), block.DefRange(), &hclsyntax.Body{}
	for _, config := range s.blocks["config"] {
		header, body = config.DefRange(), config.Body
	}
	l.located.providers[p.Name] = placeOf(header, body, &schema)
	bad := l.diags.errors()
	keys, taken := s.blocks["key"], &schema
	if len(keys) > 0 {
		taken = keyed(&schema)
	}
	d := l.decodeSettings(what, header, body, taken)
	p.Settings, p.printable = d.encode()
	if l.opts.Known != nil {
		l.known[p.Name] = ModelsFor(p.Settings, l.opts.Known(l.ctx, ref))
	}
	if len(keys) > 0 {
		s.keys(p, &schema, d)
	}
	if l.opts.Try == nil || l.diags.errors() > bad {
		return
	}
	if len(keys) == 0 {
		l.try(ref, *p, header, body)
		return
	}
	for i, key := range p.Keys { // none was left out: there was no error
		one := *p
		one.Keys, one.Settings = nil, key.Settings
		l.try(ref, one, keys[i].DefRange(), keys[i].Body, body)
	}
}

// placeOf is where a provider's settings are, or would be, that say where its upstream is and how it is known there.
func placeOf(header hcl.Range, body *hclsyntax.Body, schema *settings.Schema) providerPlace {
	at := providerPlace{address: header, credential: header}
	if attr := body.Attributes["base_url"]; attr != nil {
		at.address = attr.Expr.Range()
	}
	for _, a := range schema.Attributes {
		if attr := body.Attributes[a.Name]; a.Secret && attr != nil {
			at.credential = attr.Expr.Range()
			break
		}
	}
	return at
}

// try starts a provider for a moment. What it objects to is reported at the settings that it names, in the first of
// the bodies that has them, or else at header.
func (l *loader) try(ref PluginRef, p Provider, header hcl.Range, bodies ...*hclsyntax.Body) {
	err := l.opts.Try(l.ctx, ref, p)
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		at := header
		if named := namedSetting.FindStringSubmatch(line); named != nil {
			for _, body := range slices.Backward(bodies) {
				if attr := body.Attributes[named[1]]; attr != nil {
					at = attr.Expr.Range()
				}
			}
		}
		l.fail(at, fmt.Sprintf("Provider %q does not start", p.Name), sentence(line))
	}
}

// namedSetting finds the setting that a provider objects to.
var namedSetting = regexp.MustCompile(`\bsettings? ([a-z][a-z0-9_]*)`)

// sentence ends a text of somebody else's with a period.
func sentence(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}
