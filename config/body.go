package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// grammar says what may stand in one kind of body.
type grammar struct {
	attributes []attributeRule
	blocks     []blockRule
	noun       string // what an attribute is called in messages: attribute, setting
}

type attributeRule struct {
	name     string
	kind     kind
	required bool
	secret   bool
	fallback string // the default, as it is written in HCL
	instead  string // what holds without it, where that is not one value
	example  string // of a value, as it is written in HCL
	doc      string // what it does, and its danger, in Markdown
}

type blockRule struct {
	name     string
	label    string // what its one label is, "" for a block without
	bare     bool   // the label can be left out
	many     bool
	required bool
	late     bool   // whoever reads it reports that it is missing, and knows more
	example  string // how it is written
	doc      string
	body     *grammar            // nil: what its attributes are is not ours to say
	bodies   map[string]*grammar // by label, where that decides
}

// rule is what the grammar says of an attribute.
func (g *grammar) rule(name string) *attributeRule {
	i := slices.IndexFunc(g.attributes, func(r attributeRule) bool { return r.name == name })
	if i < 0 {
		panic("reading an attribute that the grammar does not have: " + name)
	}
	return &g.attributes[i]
}

func (g *grammar) attributeNames() []string {
	names := make([]string, len(g.attributes))
	for i, rule := range g.attributes {
		names[i] = rule.name
	}
	return names
}

func (g *grammar) blockNames() []string {
	names := make([]string, len(g.blocks))
	for i, rule := range g.blocks {
		names[i] = rule.name
	}
	return names
}

// section is a body whose attributes and blocks are all known; what was wrong with the others is reported.
// Its readers (value.go) leave a target untouched, and so at its default, when an attribute is absent or wrong.
type section struct {
	*evaluator
	what       string    // for messages: route "small"
	header     hcl.Range // where a message about something missing points
	attributes map[string]*hclsyntax.Attribute
	blocks     map[string][]*hclsyntax.Block
	refused    []*hclsyntax.Block // whose headers say something wrong
	grammar    *grammar
	public     bool // every known attribute may be printed
}

// section sorts a body by its grammar.
func (e *evaluator) section(what string, header hcl.Range, body *hclsyntax.Body, g *grammar) *section {
	s := &section{
		evaluator: e, what: what, header: header, grammar: g,
		attributes: make(map[string]*hclsyntax.Attribute, len(body.Attributes)),
		blocks:     make(map[string][]*hclsyntax.Block),
	}
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		s.admitAttribute(body.Attributes[name], g)
	}
	for _, block := range body.Blocks {
		s.admitBlock(block, g)
	}
	for _, rule := range g.attributes {
		if rule.required && body.Attributes[rule.name] == nil {
			e.fail(header, "Missing "+rule.name, fmt.Sprintf("%s needs it, for example: %s = %s", capital(what), rule.name,
				rule.example))
		}
	}
	for _, rule := range g.blocks {
		if rule.required && !rule.late {
			s.need(body, rule.name, ", for example:\n"+rule.example)
		}
	}
	return s
}

// need reports that a block is missing, if it is; how says how it is written.
func (s *section) need(body *hclsyntax.Body, name, how string) {
	if !slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool { return b.Type == name }) {
		s.fail(s.header, "Missing "+name+" block", fmt.Sprintf("%s needs one%s", capital(s.what), how))
	}
}

func (s *section) admitAttribute(attr *hclsyntax.Attribute, g *grammar) {
	s.show(attr.NameRange)
	if slices.ContainsFunc(g.attributes, func(r attributeRule) bool { return r.name == attr.Name }) {
		s.attributes[attr.Name] = attr
		return
	}
	for _, rule := range g.blocks {
		if rule.name == attr.Name {
			s.fail(attr.NameRange, fmt.Sprintf("%s is a block", rule.name),
				"Write it without an equals sign, for example:\n"+rule.example)
			return
		}
	}
	s.fail(attr.NameRange, fmt.Sprintf("Unknown %s %q", g.noun, clip(attr.Name)),
		fmt.Sprintf("%s does not have it. %s", capital(s.what), g.advice(attr.Name, (*grammar).attributeNames, g.noun)))
}

func (s *section) admitBlock(block *hclsyntax.Block, g *grammar) {
	s.show(block.TypeRange)
	at := slices.IndexFunc(g.blocks, func(r blockRule) bool { return r.name == block.Type })
	if at < 0 {
		for _, rule := range g.attributes {
			if rule.name == block.Type {
				detail := fmt.Sprintf("Write it with an equals sign: %s = %s", rule.name, rule.example)
				if s.attributes[rule.name] != nil {
					detail = "It is also set as an attribute here. " + detail + "; and remove this block."
				}
				s.fail(block.TypeRange, fmt.Sprintf("%s is not a block", rule.name), detail)
				return
			}
		}
		s.fail(block.TypeRange, fmt.Sprintf("Unknown block %q", clip(block.Type)),
			fmt.Sprintf("%s does not have it. %s", capital(s.what), g.advice(block.Type, (*grammar).blockNames, "block")))
		return
	}
	rule := &g.blocks[at]
	for _, r := range block.LabelRanges {
		s.show(r)
	}
	switch {
	case rule.label == "" && len(block.Labels) > 0:
		s.fail(block.LabelRanges[0], rule.name+" takes no label", "Write it as:\n"+rule.example)
	case rule.label != "" && !rule.bare && len(block.Labels) == 0:
		s.fail(block.TypeRange, fmt.Sprintf("%s needs a label", rule.name),
			fmt.Sprintf("The label is its %s. Write it as:\n%s", rule.label, rule.example))
	case rule.label != "" && len(block.Labels) > 1:
		s.fail(block.LabelRanges[1], fmt.Sprintf("%s takes one label", rule.name),
			fmt.Sprintf("The label is its %s. Write it as:\n%s", rule.label, rule.example))
	case !rule.many && len(s.blocks[rule.name]) > 0:
		s.fail(block.DefRange(), fmt.Sprintf("Second %s block", rule.name),
			fmt.Sprintf("The first is %s, and there can be only one. Join them.", s.place(s.blocks[rule.name][0].TypeRange)))
	default:
		s.blocks[rule.name] = append(s.blocks[rule.name], block)
		return
	}
	s.refused = append(s.refused, block)
}

// advice says what to do about an unknown name: where it belongs, or which known name is near.
func (g *grammar) advice(name string, names func(*grammar) []string, noun string) string {
	if home := g.elsewhere(name, names); home != "" {
		return home
	}
	return suggestion(name, names(g), noun)
}

// label returns the checked name of a block. A block whose name is wrong or taken is still decoded, so that
// its other mistakes are found in the same run.
func (s *section) label(block *hclsyntax.Block, taken map[string]hcl.Range) (string, bool) {
	name, at := block.Labels[0], block.LabelRanges[0]
	if !namePattern.MatchString(name) {
		s.fail(at, "Invalid name", fmt.Sprintf("The name of a %s is made of %s.", block.Type, nameRule))
		return name, false
	}
	return name, s.first(block, taken)
}

// first reports a second block with the same label.
func (r *reading) first(block *hclsyntax.Block, taken map[string]hcl.Range) bool {
	name, at := block.Labels[0], block.LabelRanges[0]
	if first, dup := taken[name]; dup {
		r.fail(at, fmt.Sprintf("Second %s %q", block.Type, name),
			fmt.Sprintf("The first is %s. Rename one of them, or remove it.", r.place(first)))
		return false
	}
	taken[name] = at
	return true
}

// capital makes a sentence begin: "route ..." to "Route ...".
func capital(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return string(text[0]-'a'+'A') + text[1:]
}
