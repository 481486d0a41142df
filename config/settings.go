package config

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// decoded is a body of settings twice: as the plugin gets it, and as people may see it.
type decoded struct {
	real  map[string]any
	shown map[string]any
}

func newDecoded() decoded {
	return decoded{real: make(map[string]any), shown: make(map[string]any)}
}

// encode gives both as JSON objects, with sorted names, so that equal settings are equal bytes.
func (d decoded) encode() (real, shown settings.Values) {
	return encodeObject(d.real), encodeObject(d.shown)
}

func encodeObject(object map[string]any) settings.Values {
	text, err := json.Marshal(object)
	if err != nil { // strings, booleans, checked numbers, and lists and maps of them always encode
		panic(fmt.Sprintf("encoding settings: %v", err))
	}
	return text
}

// checkSchema refuses a schema that this gateway would not understand: plugins are other people's programs.
func checkSchema(schema *settings.Schema) error {
	names := make(map[string]bool)
	claim := func(name string) error {
		if !hclsyntax.ValidIdentifier(name) {
			return fmt.Errorf("reading its schema: %q cannot be the name of a setting; ask its author for a correction",
				clip(name))
		}
		if names[name] {
			return fmt.Errorf("reading its schema: setting %q is declared twice; ask its author for a correction", name)
		}
		names[name] = true
		return nil
	}
	for _, a := range schema.Attributes {
		if err := claim(a.Name); err != nil {
			return err
		}
		switch a.Type {
		case settings.String, settings.Number, settings.Bool, settings.ListString, settings.MapString:
		default:
			return fmt.Errorf("reading its schema: setting %q is of type %q, which this gateway does not know; update the "+
				"gateway", a.Name, clip(string(a.Type)))
		}
	}
	for i := range schema.Blocks {
		if err := claim(schema.Blocks[i].Name); err != nil {
			return err
		}
		if err := checkSchema(&schema.Blocks[i].Schema); err != nil {
			return err
		}
	}
	return nil
}

// settingsGrammar turns a plugin's schema into a grammar.
func settingsGrammar(schema *settings.Schema) *grammar {
	g := &grammar{noun: "setting"}
	for _, a := range schema.Attributes {
		g.attributes = append(g.attributes, attributeRule{name: a.Name, kind: settingKind(&a), required: a.Required,
			secret: a.Secret, example: settingExample(&a), doc: a.Doc})
	}
	for _, b := range schema.Blocks {
		g.blocks = append(g.blocks, blockRule{name: b.Name, many: b.Many, example: b.Name + " {\n}", doc: b.Doc,
			body: settingsGrammar(&b.Schema)})
	}
	return g
}

// settingKind is for the reference: plugins' settings are read by their own schema.
func settingKind(a *settings.Attribute) kind {
	k := kind{name: string(a.Type), hcl: string(a.Type), choices: a.OneOf}
	switch {
	case a.Secret:
		k.name += ", secret: from `env` or `file`"
	case len(a.OneOf) > 0:
		k.name = "one of " + quoted(a.OneOf)
	case a.Duration:
		k.name = "duration"
	}
	return k
}

func settingExample(a *settings.Attribute) string {
	if a.Secret {
		return `env("NAME")`
	}
	switch {
	case len(a.OneOf) > 0:
		return fmt.Sprintf("%q", a.OneOf[0])
	case a.Duration:
		return `"10s"`
	}
	switch a.Type {
	case settings.Number:
		return "1"
	case settings.Bool:
		return "true"
	case settings.ListString:
		return `["..."]`
	case settings.MapString:
		return `{ name = "..." }`
	}
	return `"..."`
}

// decodeSettings decodes a body by its schema, and the blocks in it likewise.
func (l *loader) decodeSettings(what string, header hcl.Range, body *hclsyntax.Body, schema *settings.Schema) decoded {
	s := l.section(what, header, body, settingsGrammar(schema))
	d := newDecoded()
	for i := range schema.Attributes {
		s.setting(&schema.Attributes[i], d)
	}
	for i := range schema.Blocks {
		rule := &schema.Blocks[i]
		var real, shown []any
		for _, block := range s.blocks[rule.Name] {
			inner := l.decodeSettings(fmt.Sprintf("%s in %s", rule.Name, what), block.DefRange(), block.Body, &rule.Schema)
			real, shown = append(real, inner.real), append(shown, inner.shown)
		}
		switch {
		case len(real) == 0:
		case rule.Many:
			d.real[rule.Name], d.shown[rule.Name] = real, shown
		default:
			d.real[rule.Name], d.shown[rule.Name] = real[0], shown[0]
		}
	}
	return d
}

// userInfo finds the user name or password of a URL.
var userInfo = regexp.MustCompile(`://[^/?#"]*@`)

// setting decodes one attribute into d.
func (s *section) setting(a *settings.Attribute, d decoded) {
	attr := s.attributes[a.Name]
	if attr == nil {
		return
	}
	at := attr.Expr.Range()
	switch {
	case a.Type == settings.MapString && !a.Secret: // what stands behind a name may be a key: of headers it often is
		s.showNames(attr.Expr)
		fallthrough
	case a.Secret, userInfo.Match(s.textOf(at)):
		s.showReferences(attr.Expr)
	default:
		s.show(at)
	}
	raw, ok := s.evaluate(attr.Expr)
	if !ok {
		return
	}
	v := value{Value: raw, name: a.Name, expr: attr.Expr, at: attr.Expr.Range(), outside: raw.HasMarkDeep(fromOutside{})}
	if v.Value, _ = raw.UnmarkDeep(); v.IsNull() {
		s.fail(v.at, fmt.Sprintf("%s is null", a.Name), "Give it a value, or leave the line out.")
		return
	}
	if a.Secret && !whollyOutside(raw) {
		s.fail(v.at, fmt.Sprintf("Secret %s written out", a.Name),
			"A secret does not belong in this file. Put it into the environment and write env(\"NAME\"), or into a file of "+
				"its own and write file(\"path\").")
		return
	}
	real, problem := settingValue(v, a.Type)
	text, _ := real.(string)
	if problem == "" && a.Duration {
		d, ok := ParseDuration(text)
		if real = d.String(); !ok {
			problem = notDuration
		}
	}
	if problem != "" {
		s.refuse(v, problem)
		return
	}
	if len(a.OneOf) > 0 && !s.choose(v, text, a.OneOf) {
		return
	}
	d.real[a.Name] = real
	d.shown[a.Name] = real
	texts, isMap := real.(map[string]string)
	switch {
	case a.Secret, v.outside:
		d.shown[a.Name] = hidden
	case isMap:
		names := make(map[string]string, len(texts))
		for name := range texts {
			names[name] = hidden
		}
		d.shown[a.Name] = names
	}
}

// nameInMap is what a name in a map of texts may be to be shown: that of a header.
var nameInMap = regexp.MustCompile(`^"?[A-Za-z][A-Za-z0-9-]{0,39}"?$`)

// showNames permits the names in a map that is written out.
func (s *section) showNames(expr hclsyntax.Expression) {
	object, ok := expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return
	}
	for _, item := range object.Items {
		if at := item.KeyExpr.Range(); nameInMap.Match(s.textOf(at)) {
			s.show(at)
		}
	}
}

// whollyOutside reports whether each text in a value came, at least in part, from env or file.
func whollyOutside(v cty.Value) bool {
	if v.HasMark(fromOutside{}) {
		return true
	}
	if v.IsNull() || !v.CanIterateElements() {
		return false
	}
	for it := v.ElementIterator(); it.Next(); {
		if _, element := it.Element(); !whollyOutside(element) {
			return false
		}
	}
	return true
}

// settingValue converts a value for JSON. The second result says what is wrong with it.
func settingValue(v value, t settings.Type) (any, string) {
	switch t {
	case settings.String:
		if v.Type() != cty.String {
			return nil, v.mistyped("text in quotes")
		}
		return v.AsString(), ""
	case settings.Number:
		n, ok := v.number()
		if !ok {
			return nil, v.mistyped("a number without quotes")
		}
		if tooExtreme(n) {
			return nil, "must be a number of a usual size"
		}
		return jsonNumber(n), ""
	case settings.Bool:
		b, ok := v.boolean()
		if !ok {
			return nil, v.mistyped("true or false, without quotes")
		}
		return b, ""
	case settings.ListString:
		if !isList(v.Type()) {
			return nil, v.mistyped("a list of texts, as in [\"a\", \"b\"]")
		}
		list := make([]string, 0, v.LengthInt())
		for _, element := range v.elements() {
			if element.Type() != cty.String || element.IsNull() {
				return nil, "must be a list of texts only, each in quotes"
			}
			list = append(list, element.AsString())
		}
		return list, ""
	case settings.MapString:
		if !isMap(v.Type()) {
			return nil, v.mistyped("a map of texts, as in { name = \"value\" }")
		}
		texts := make(map[string]string, v.LengthInt())
		for name, element := range v.AsValueMap() {
			if element.Type() != cty.String || element.IsNull() {
				return nil, "must be a map of texts only, each in quotes"
			}
			texts[name] = element.AsString()
		}
		return texts, ""
	}
	panic(fmt.Sprintf("decoding a setting of the unchecked type %q", t))
}

// jsonNumber writes a number as JSON does, whole numbers without an exponent.
func jsonNumber(n *big.Float) json.Number {
	if n.IsInt() {
		return json.Number(n.Text('f', 0))
	}
	return json.Number(n.Text('g', -1))
}
