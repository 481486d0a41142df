package config

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// Reference is the whole language as data: what stands at the top of the file. With the settings of plugins it has
// those, too.
//
// As JSON it has the shape in which Terraform describes its blocks (`terraform providers schema -json`), the only one
// that tools for HCL have in common; `default`, `choices`, `example` and `label` are ours.
type Reference struct {
	Block   ReferenceBlock           `json:"block"`
	Plugins map[string]ReferenceType `json:"plugins"` // the config block of a provider, by plugin
	// Functions are how each is written, by name.
	Functions map[string]ReferenceFunction `json:"functions"`
}

// ReferenceBlock is what may stand in a body.
type ReferenceBlock struct {
	Attributes  map[string]ReferenceAttribute `json:"attributes,omitempty"`
	Blocks      map[string]ReferenceType      `json:"block_types,omitempty"`
	Description string                        `json:"description,omitempty"`
	Kind        string                        `json:"description_kind,omitempty"`
}

// ReferenceType is a kind of block.
type ReferenceType struct {
	Nesting string         `json:"nesting_mode"` // single, list, or map for those with labels
	Label   string         `json:"label,omitempty"`
	Least   int            `json:"min_items,omitempty"`
	Most    int            `json:"max_items,omitempty"`
	Example string         `json:"example,omitempty"`
	Block   ReferenceBlock `json:"block"`
	// Labels are the bodies where the label decides which it is.
	Labels map[string]ReferenceBlock `json:"labels,omitempty"`
}

// ReferenceAttribute is one attribute.
type ReferenceAttribute struct {
	Type        any      `json:"type"` // "string", or ["list","string"]
	Description string   `json:"description,omitempty"`
	Kind        string   `json:"description_kind,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Optional    bool     `json:"optional,omitempty"`
	Sensitive   bool     `json:"sensitive,omitempty"`
	Values      string   `json:"values,omitempty"` // for people: "1 to 100"
	Default     string   `json:"default,omitempty"`
	Choices     []string `json:"choices,omitempty"`
	Example     string   `json:"example"`
}

// ReferenceFunction is one function.
type ReferenceFunction struct {
	Usage       string `json:"usage"`
	Description string `json:"description"`
}

// NewReference describes the language, with the settings of these plugins by name.
func NewReference(plugins map[string]settings.Schema) Reference {
	ref := Reference{Block: referenceOf(&fileGrammar, "One HCL file, with all that it includes."),
		Plugins: make(map[string]ReferenceType), Functions: make(map[string]ReferenceFunction)}
	for name, schema := range plugins {
		ref.Plugins[name] = ReferenceType{Nesting: "single", Most: 1, Example: "config {\n}",
			Block: referenceOf(settingsGrammar(&schema), fmt.Sprintf("The settings of plugin %q.", name))}
	}
	for name, b := range builtins {
		ref.Functions[name] = ReferenceFunction{b.usage, b.doc}
	}
	for name, doc := range outsideDocs {
		ref.Functions[name] = ReferenceFunction{usage(name), doc}
	}
	return ref
}

func referenceOf(g *grammar, doc string) ReferenceBlock {
	b := ReferenceBlock{Description: doc, Kind: "markdown", Attributes: make(map[string]ReferenceAttribute),
		Blocks: make(map[string]ReferenceType)}
	if doc == "" {
		b.Kind = ""
	}
	for _, rule := range g.attributes {
		b.Attributes[rule.name] = ReferenceAttribute{
			Type: terraformType(rule.kind.hcl), Description: rule.doc, Kind: "markdown",
			Required: rule.required, Optional: !rule.required, Sensitive: rule.secret, Values: rule.kind.name,
			Default: rule.fallback, Choices: rule.kind.choices, Example: rule.example,
		}
	}
	for _, rule := range g.blocks {
		t := ReferenceType{Nesting: "single", Label: rule.label, Most: 1, Example: rule.example}
		switch {
		case rule.label != "":
			t.Nesting = "map"
		case rule.many:
			t.Nesting = "list"
		}
		if rule.many {
			t.Most = 0
		}
		if rule.required {
			t.Least = 1
		}
		body := rule.body
		if body == nil {
			body = new(grammar)
		}
		t.Block = referenceOf(body, rule.doc)
		for label, body := range rule.bodies {
			if t.Labels == nil {
				t.Labels = make(map[string]ReferenceBlock)
			}
			t.Labels[label] = referenceOf(body, "")
		}
		b.Blocks[rule.name] = t
	}
	return b
}

// terraformType writes list(string) as ["list","string"].
func terraformType(hcl string) any {
	switch {
	case hcl == "any":
		return "dynamic"
	case strings.HasSuffix(hcl, ")"):
		outer, inner, _ := strings.Cut(strings.TrimSuffix(hcl, ")"), "(")
		return []string{outer, inner}
	}
	return hcl
}

// WriteMarkdown writes the reference for people, in the order in which one reads a configuration.
func WriteMarkdown(w io.Writer, plugins map[string]settings.Schema) error {
	var b strings.Builder
	b.WriteString("# Blocks and attributes\n\nThe language of gateway.hcl, as `fareway gateway schema` prints it.\n\n")
	writeBlocks(&b, &fileGrammar, "##")
	b.WriteString("## Functions\n\n")
	writeFunctions(&b)
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		schema := plugins[name]
		g := settingsGrammar(&schema)
		fmt.Fprintf(&b, "\n## config of plugin %q\n\n", name)
		if len(g.attributes)+len(g.blocks) == 0 {
			b.WriteString("It has no settings.\n")
			continue
		}
		writeTable(&b, g)
		b.WriteByte('\n')
		writeBlocks(&b, g, "###")
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	if err != nil {
		return fmt.Errorf("writing the reference: %w", err)
	}
	return nil
}

func writeBlocks(b *strings.Builder, g *grammar, level string) {
	for _, rule := range g.blocks {
		fmt.Fprintf(b, "%s %s\n\n", level, rule.heading())
		if rule.doc != "" {
			fmt.Fprintf(b, "%s\n\n", rule.doc)
		}
		if rule.body == nil && len(rule.bodies) == 0 {
			fmt.Fprintf(b, "```hcl\n%s\n```\n\n", rule.example)
		}
		if rule.body != nil {
			writeTable(b, rule.body)
			b.WriteByte('\n')
			writeBlocks(b, rule.body, level+"#")
		}
		for _, label := range slices.Sorted(maps.Keys(rule.bodies)) {
			fmt.Fprintf(b, "%s# %s %q\n\n", level, rule.name, label)
			writeTable(b, rule.bodies[label])
			b.WriteByte('\n')
		}
	}
}

// heading is the block as it is written, and how many there can be.
func (r *blockRule) heading() string {
	text := r.name
	switch {
	case r.bare:
		text += fmt.Sprintf(" [%s]", strings.ToUpper(r.label))
	case r.label != "":
		text += fmt.Sprintf(" %q", strings.ToUpper(r.label))
	}
	switch {
	case r.required && r.many:
		return text + " (at least one)"
	case r.required:
		return text + " (required)"
	case r.many:
		return text + " (any number)"
	}
	return text + " (at most one)"
}

// writeTable writes the attributes of a body, and its blocks by name. A cell has the first sentence of what there is to
// say of one; the rest follows in a list.
func writeTable(b *strings.Builder, g *grammar) {
	if len(g.attributes) == 0 && len(g.blocks) == 0 {
		b.WriteString("It has no attributes.\n")
		return
	}
	b.WriteString("| name | value | default | effect and danger |\n|---|---|---|---|\n")
	var rest []string
	row := func(name, value, without, doc string) {
		first, more := splitSentence(cell(doc))
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, value, without, first)
		if more != "" {
			rest = append(rest, fmt.Sprintf("- `%s`: %s\n", name, listNames(more)))
		}
	}
	for _, rule := range g.attributes {
		value := rule.kind.name
		if len(value) > 2*shortDoc {
			value = "list of the names below"
		}
		row(rule.name, value, rule.without(), rule.doc)
	}
	for _, rule := range g.blocks {
		without := ""
		if rule.required {
			without = "required"
		}
		row(rule.name, "block", without, rule.doc)
	}
	if len(rest) > 0 {
		b.WriteString("\n" + strings.Join(rest, ""))
	}
}

// listNames puts names that a text explains one after the other, each with what it means in brackets, into a list.
func listNames(text string) string {
	intro, names, found := strings.Cut(text, "The names: ")
	if !found {
		return text
	}
	return intro + "The names:\n  - " + strings.ReplaceAll(strings.TrimSuffix(names, "."), "; `", "\n  - `")
}

// shortDoc is how long a text may be that stands in a cell whole, in bytes.
const shortDoc = 100

// splitSentence parts a long text behind its first sentence: at a full stop, or at a semicolon or colon where that is
// far. What is in backquotes is not parted.
func splitSentence(doc string) (first, rest string) {
	if len(doc) <= shortDoc {
		return doc, ""
	}
	for _, ends := range []string{". ", "; ", ": "} {
		quoted := false
		for i := range len(doc) - 2 {
			if doc[i] == '`' {
				quoted = !quoted
			}
			if !quoted && doc[i:i+2] == ends && i <= 2*shortDoc {
				return doc[:i] + ".", doc[i+2:]
			}
		}
	}
	return doc, ""
}

var cells = strings.NewReplacer("|", `\|`, "\n", " ", "\r", "")

// cell is a text as it can stand in a table: plugins have texts of their own.
func cell(text string) string { return cells.Replace(text) }

// without is what holds without the attribute.
func (r *attributeRule) without() string {
	switch {
	case r.required:
		return "required"
	case r.fallback != "":
		return "`" + r.fallback + "`"
	}
	return r.instead
}

// outsideDocs say what the two functions give that are ours.
var outsideDocs = map[string]string{
	"env":  "the environment variable, which must be set; a secret, wherever it goes",
	"file": "the text of a file of at most 64 KiB, without its last line break; a secret, wherever it goes",
}

func writeFunctions(b *strings.Builder) {
	b.WriteString("| function | gives |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(outsideDocs)) {
		fmt.Fprintf(b, "| `%s` | %s |\n", usage(name), outsideDocs[name])
	}
	for _, name := range slices.Sorted(maps.Keys(builtins)) {
		fmt.Fprintf(b, "| `%s` | %s |\n", builtins[name].usage, builtins[name].doc)
	}
}

func writeAlertEvents(b *strings.Builder) {
	b.WriteString("| event | severity | about | when it holds for | what |\n|---|---|---|---|---|\n")
	for i := range AlertEvents {
		e := &AlertEvents[i]
		about := "operator"
		if e.Account {
			about = "account"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", e.Name, e.Severity, about, e.Lasts(), e.Doc)
	}
}

// Snippet is one entry of the snippets of an editor.
type Snippet struct {
	Prefix      string   `json:"prefix"`
	Body        []string `json:"body"`
	Description string   `json:"description"`
	Scope       string   `json:"scope"`
}

// Snippets are the blocks and attributes in the form of VS Code's snippets, which many editors read: no language
// server for HCL reads the schema of others' languages.
func Snippets(plugins map[string]settings.Schema) map[string]Snippet {
	all := make(map[string]Snippet)
	add := func(where, prefix, body, doc string) {
		all[where+prefix] = Snippet{prefix, strings.Split(strings.ReplaceAll(body, "$", `\$`), "\n"), doc, "hcl"}
	}
	var walk func(where string, g *grammar)
	walk = func(where string, g *grammar) {
		for _, rule := range g.attributes {
			add(where, rule.name, rule.name+" = "+rule.example, rule.doc)
		}
		for _, rule := range g.blocks {
			add(where, rule.name, rule.example, rule.doc)
			if rule.body != nil {
				walk(where+rule.name+" ", rule.body)
			}
			for label, body := range rule.bodies {
				walk(where+rule.name+" "+label+" ", body)
			}
		}
	}
	walk("", &fileGrammar)
	for name, schema := range plugins {
		walk("config "+name+" ", settingsGrammar(&schema))
	}
	return all
}
