package config

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// maxReceiptAge is far longer than any provider remembers what it served.
const maxReceiptAge = 90 * 24 * time.Hour

// DefaultRequestLog is request_log where the file does not say otherwise.
const DefaultRequestLog = 7 * 24 * time.Hour

// maxRequestLog: who asks about a refused request does so soon, and the log is bounded in size besides.
const maxRequestLog = 90 * 24 * time.Hour

// defaultGateway is what holds without a gateway block.
func defaultGateway() Gateway {
	return Gateway{
		Namespace:      "service",
		DefaultProfile: ProfileBalanced,
		RequestTimeout: 10 * time.Minute,
		MaxBody:        32 << 20,
		MaxBodyMemory:  1 << 30,
		MaxStreams:     10_000,
		Keepalive:      15 * time.Second,
		DrainTimeout:   5 * time.Minute,
		ReceiptAge:     24 * time.Hour,
		ClientStall:    time.Minute,
		RequestLog:     DefaultRequestLog,
	}
}

// open decodes a block whose attributes are never secret.
func (e *evaluator) open(block *hclsyntax.Block, g *grammar) *section {
	what := "the " + block.Type + " block"
	if len(block.Labels) > 0 && namePattern.MatchString(block.Labels[0]) {
		what = fmt.Sprintf("%s %q", block.Type, block.Labels[0])
	}
	s := e.section(what, block.DefRange(), block.Body, g)
	s.public = true
	return s
}

// inner decodes a block without a label inside of one that open decoded.
func (s *section) inner(block *hclsyntax.Block, g *grammar) *section {
	in := s.section("the "+block.Type+" of "+s.what, block.DefRange(), block.Body, g)
	in.public = true
	return in
}

func (l *loader) gateway(file *section) Gateway {
	g := defaultGateway()
	for _, block := range file.blocks["gateway"] {
		s := l.open(block, &gatewayGrammar)
		s.namespace(&g.Namespace)
		s.oneOf("default_profile", &g.DefaultProfile)
		s.duration("request_timeout", &g.RequestTimeout)
		s.size("max_body", &g.MaxBody)
		s.size("max_body_memory", &g.MaxBodyMemory)
		s.integer("max_streams", &g.MaxStreams)
		s.duration("keepalive", &g.Keepalive)
		s.duration("drain_timeout", &g.DrainTimeout)
		s.pluginDir(&g.PluginDir)
		s.flag("structured_output", &g.StructuredOutput)
		s.clientModels(&g.ClientModels)
		s.duration("receipt_age", &g.ReceiptAge)
		s.duration("client_stall", &g.ClientStall)
		s.duration("request_log", &g.RequestLog)
		if g.MaxBody > g.MaxBodyMemory {
			s.fail(s.anyOf("max_body", "max_body_memory"), "max_body is over max_body_memory",
				"A body of the largest size would never fit into the memory for all bodies. Raise max_body_memory or lower "+
					"max_body.")
		}
	}
	return g
}

// namespace is half of every public model id and a part of the profile header's name.
func (s *section) namespace(target *string) {
	var given string
	v, ok := s.text("namespace", &given)
	if !ok {
		return
	}
	if !namespacePattern.MatchString(given) {
		s.refuse(v, "must be lower-case letters, digits and \"-\", at most 32 of them, for it becomes a part of a "+
			"header's name")
		return
	}
	*target = given
}

func (s *section) pluginDir(target *string) {
	v, ok := s.read("plugin_dir")
	if !ok || v.Type() == cty.String && v.AsString() == "" {
		return // empty: built-in providers only
	}
	var given string
	if !s.asText(v, 4096, &given) {
		return
	}
	if !filepath.IsAbs(given) {
		given = filepath.Join(s.dir(v.at), given)
	}
	*target = filepath.Clean(given)
}

// anyOf is the range of the first of the attributes that is set.
func (s *section) anyOf(names ...string) hcl.Range {
	for _, name := range names {
		if attr := s.attributes[name]; attr != nil {
			return attr.Expr.Range()
		}
	}
	return s.header
}
