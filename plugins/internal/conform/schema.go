package conform

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fareway/fareway/plugins/internal/jsonview"
	"github.com/fareway/fareway/plugins/llm"
)

// schemas are the rules about schemas, and nested those about each object in one.
const (
	nested  = items | grammar | rootKeywords | openAPI
	schemas = rootType | rootUnions | properties | nested
)

// unions are the keywords that OpenAI, Anthropic and Amazon Bedrock refuse at the root of a tool's schema
// (litellm #19103, claude-code #40075, zed #28521).
var unions = []string{"allOf", "anyOf", "oneOf", "not", "enum"}

// fitTools reports whether tools, and the choice among them, are as the upstream takes them.
func (r *rules) fitTools(req *llm.Request) bool {
	if len(req.Tools) == 0 {
		return true
	}
	for i := range req.Tools {
		tool := &req.Tools[i]
		if tool.Strict && (r.has(noStrict) || !closed(tool.Schema)) || !r.fitSchema(tool.Schema) {
			return false
		}
	}
	return req.ToolChoice.Mode != llm.ToolNamed || !r.has(namedChoice)
}

// fitSchema reports whether a tool's schema is as the upstream takes it.
func (r *rules) fitSchema(schema []byte) bool {
	if r.set&schemas == 0 {
		return true
	}
	if !isContainer(schema) {
		return false
	}
	root := jsonview.Of(schema)
	typed, lists := false, false
	for name, member := range root.Members() {
		switch name {
		case "type":
			typed = string(member.Raw()) == `"object"`
		case "properties":
			lists = true
		case "allOf", "anyOf", "oneOf", "not", "enum", "$ref":
			if r.has(rootUnions) {
				return false
			}
		}
		if r.has(rootKeywords) && !slices.Contains(rootWords, name) {
			return false
		}
	}
	if !typed && r.has(rootType) || !lists && r.has(properties) {
		return false
	}
	return r.set&nested == 0 || (&walk{rules: r, root: root}).fits(root, 0)
}

// isContainer reports whether valid JSON is an object.
func isContainer(raw []byte) bool { return len(raw) > 1 && raw[0] == '{' }

// tools makes the tools of a request such as the upstream takes.
func (r *rules) tools(req *llm.Request) ([]llm.Tool, error) {
	tools := slices.Clone(req.Tools)
	if req.ToolChoice.Mode == llm.ToolNamed && r.has(namedChoice) {
		tools = slices.DeleteFunc(tools, func(t llm.Tool) bool { return t.Name != req.ToolChoice.Name })
	}
	for i := range tools {
		tool := &tools[i]
		if !r.fitSchema(tool.Schema) {
			root, err := jsonview.Parse(tool.Schema, maxDepth)
			if err != nil || root.Kind() != jsonview.Object {
				return nil, llm.Errorf(llm.ErrRejected, "encoding tool %d: its schema is not a JSON object", i)
			}
			tool.Schema = r.schema(root)
		}
		tool.Strict = tool.Strict && !r.has(noStrict) && closed(tool.Schema)
	}
	return tools, nil
}

// schema makes a tool's schema such as the upstream takes.
func (r *rules) schema(root jsonview.View) []byte {
	w := &walk{rules: r, root: root}
	if r.has(rootUnions) && slices.ContainsFunc(append(unions, "$ref"), func(n string) bool { return root.Get(n).Set() }) {
		flat, err := jsonview.Parse(flattened(root), maxDepth)
		if err == nil {
			root = flat
		}
	}
	b := []byte{'{'}
	if kind, _ := root.Get("type").Str(); kind != "object" && r.has(rootType) {
		b = appendMember(b, "type", []byte(`"object"`))
	}
	for name, member := range root.Members() {
		kept := !r.has(rootKeywords) || slices.Contains(rootWords, name)
		if kind, _ := member.Str(); kept && (name != "type" || kind == "object" || !r.has(rootType)) {
			b = appendMember(b, name, member.Raw())
		}
	}
	if !root.Get("properties").Set() && r.has(properties) {
		b = appendMember(b, "properties", []byte(`{}`))
	}
	b = append(b, '}')
	if r.set&nested == 0 {
		return b
	}
	root, _ = jsonview.Parse(b, maxDepth) // of members of a valid object
	return w.append(nil, root, 0)
}

// ofFormats are the rules about schemas that hold for that of a format, which is read by the same part of a service.
const ofFormats = items | grammar | openAPI

// fitFormat reports whether the schema of a format is as the upstream takes it.
func (r *rules) fitFormat(f *llm.Format) bool {
	if r.set&ofFormats == 0 || f == nil || !isContainer(f.Schema) {
		return true
	}
	root := jsonview.Of(f.Schema)
	return (&walk{rules: &rules{set: r.set & ofFormats}, root: root}).fits(root, 0)
}

// format makes a format such as the upstream takes it. The reply is held to the client's elsewhere.
func (r *rules) format(f *llm.Format) *llm.Format {
	root, err := jsonview.Parse(f.Schema, maxDepth)
	if err != nil {
		return f // whoever writes it says so
	}
	out := *f
	out.Schema = (&walk{rules: &rules{set: r.set & ofFormats}, root: root}).append(nil, root, 0)
	return &out
}

// rootWords are the keywords that Amazon Nova takes at the root of a tool's schema ("Tool use with Amazon Nova": the
// top level has type, properties and required only; litellm #19103).
var rootWords = []string{"type", "properties", "required"}

// appendMember appends a member of an object that has begun, with a comma before it if it is not the first one.
func appendMember(b []byte, name string, raw []byte) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(jsonview.AppendString(b, name), ':')
	return append(b, raw...)
}

// flattened is a schema of an object without unions at its root: the properties of their branches are its own, and
// those that all branches require are required. It takes what the schema takes, and more.
func flattened(root jsonview.View) []byte { return flattenedIn(root, root) }

// flattenedIn is flattened for a schema in another one, to which its references are.
func flattenedIn(root, schema jsonview.View) []byte {
	steps := maxBranches
	f := flat{steps: &steps}
	f.add(root, schema, true)
	b := []byte{'{'}
	for name, member := range schema.Members() {
		if !slices.Contains(unions, name) && !slices.Contains([]string{"$ref", "type", "properties", "required"}, name) {
			b = appendMember(b, name, member.Raw())
		}
	}
	b = appendMember(b, "type", []byte(`"object"`))
	inner := []byte{'{'}
	for _, p := range f.properties {
		inner = appendMember(inner, p.name, p.schema)
	}
	b = appendMember(b, "properties", append(inner, '}'))
	if len(f.required) > 0 {
		list := []byte{'['}
		for _, name := range f.required {
			list = append(jsonview.AppendString(list, name), ',')
		}
		list[len(list)-1] = ']'
		b = appendMember(b, "required", list)
	}
	return append(b, '}')
}

// flat is what a schema and its branches say of an object.
type flat struct {
	properties []property
	required   []string
	steps      *int // that may still be taken: a schema can refer to itself
}

type property struct {
	name   string
	schema []byte
}

// maxBranches is how many branches are followed, and maxProperties how many properties are gathered.
const (
	maxBranches   = 200
	maxProperties = 1000
)

// add adds what a schema says. always: whatever the object is, it has to be as the schema says.
func (f *flat) add(root, schema jsonview.View, always bool) {
	if *f.steps--; *f.steps < 0 || schema.Kind() != jsonview.Object {
		return
	}
	for name, p := range schema.Get("properties").Members() {
		known := slices.ContainsFunc(f.properties, func(p property) bool { return p.name == name })
		if !known && len(f.properties) < maxProperties {
			f.properties = append(f.properties, property{strings.Clone(name), p.Raw()})
		}
	}
	if always {
		f.require(namesIn(schema.Get("required")))
	}
	if ref, ok := schema.Get("$ref").Str(); ok {
		f.add(root, resolved(root, ref), always)
	}
	for _, branch := range schema.Get("allOf").Elems() {
		f.add(root, branch, always)
	}
	for _, union := range []string{"anyOf", "oneOf"} {
		var all []string // required by every branch
		for i, branch := range schema.Get(union).Elems() {
			if *f.steps < 0 {
				all = nil
				break
			}
			f.add(root, branch, false)
			own := flat{steps: f.steps}
			own.add(root, branch, true)
			if i == 0 {
				all = own.required
			}
			all = slices.DeleteFunc(all, func(n string) bool { return !slices.Contains(own.required, n) })
		}
		if always {
			f.require(all)
		}
	}
}

func (f *flat) require(names []string) {
	for _, name := range names {
		if !slices.Contains(f.required, name) {
			f.required = append(f.required, name)
		}
	}
}

func namesIn(list jsonview.View) (names []string) {
	for _, e := range list.Elems() {
		if name, ok := e.Str(); ok && len(names) < maxProperties {
			names = append(names, name)
		}
	}
	return names
}

// resolved is what a reference within a schema refers to, Absent where that is nothing.
func resolved(root jsonview.View, ref string) jsonview.View {
	path, local := strings.CutPrefix(ref, "#")
	if !local {
		return jsonview.View{}
	}
	at := root
	for _, step := range strings.Split(path, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		if at.Kind() == jsonview.Array {
			n, err := strconv.Atoi(step)
			var found jsonview.View
			for i, e := range at.Elems() {
				if err == nil && i == n {
					found = e
				}
			}
			at = found
			continue
		}
		at = at.Get(step)
	}
	return at
}

// The keywords whose value is a schema, a list of schemas, or schemas by names.
var (
	inner = []string{"items", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames",
		"additionalProperties"}
	listed = []string{"anyOf", "oneOf", "allOf", "prefixItems", "items"}
	named  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)

// walk goes through a schema and the schemas in it.
type walk struct {
	rules *rules
	root  jsonview.View
	refs  int // that were looked up
	open  int // of those that are being written out
	wrote int // bytes of them
}

const (
	// maxSchemas is how deep schemas within schemas are looked at, and maxRefs how many references are followed.
	maxSchemas = 24
	maxRefs    = 2000
	// mostRepeated is how often a grammar repeats something (llama.cpp, MAX_REPETITION_THRESHOLD; ggml-org/llama.cpp
	// #25746 and #27087: 2000 itself was refused, too).
	mostRepeated = 2000
	// anyValue takes whatever there is; true and {} are objects to some makers of grammars.
	anyValue = `{"type":["string","number","boolean","object","array","null"]}`
)

// fits reports whether a schema and all schemas in it are as the upstream takes them.
func (w *walk) fits(schema jsonview.View, depth int) bool {
	if w.rules.has(openAPI) {
		return w.fitsOpen(schema, depth)
	}
	if depth > maxSchemas {
		return true
	}
	if schema.Kind() != jsonview.Object {
		value, isBool := schema.Bool()
		return !isBool || !value || !w.rules.has(grammar)
	}
	isArray, hasItems := false, false
	for name, member := range schema.Members() {
		switch name {
		case "type":
			isArray = string(member.Raw()) == `"array"`
		case "items", "prefixItems":
			hasItems = true
		}
		if !w.possible(name, member) {
			return false
		}
		fits := true
		switch {
		case member.Kind() == jsonview.Object && slices.Contains(named, name):
			for _, sub := range member.Members() {
				fits = fits && w.fits(sub, depth+1)
			}
		case member.Kind() == jsonview.Array && slices.Contains(listed, name):
			for _, sub := range member.Elems() {
				fits = fits && w.fits(sub, depth+1)
			}
		case member.Kind() == jsonview.Object && slices.Contains(inner, name):
			fits = w.fits(member, depth+1)
		}
		if !fits {
			return false
		}
	}
	return !isArray || hasItems || !w.rules.has(items)
}

// possible reports whether a keyword can stay. Of a grammar (ggml-org/llama.cpp, common/json-schema-to-grammar.cpp):
// a pattern begins with ^ and ends with $, and of escapes it has those of literals; a reference leads to somewhere in
// the schema. Where the root has no definitions there are no references.
func (w *walk) possible(name string, value jsonview.View) bool {
	if name == "$ref" && w.rules.has(rootKeywords|openAPI) {
		return false
	}
	if !w.rules.has(grammar) {
		return true
	}
	switch name {
	case "minLength", "maxLength", "minItems", "maxItems":
		n, ok := value.Int()
		return ok && n < mostRepeated
	case "pattern":
		pattern, ok := value.Str()
		return !ok || len(pattern) > 1 && pattern[0] == '^' && pattern[len(pattern)-1] == '$' &&
			!beyondGrammar.MatchString(pattern)
	case "$ref":
		return w.referred(value).Set()
	}
	return true
}

// referred is what a reference leads to, Absent for nothing.
func (w *walk) referred(ref jsonview.View) jsonview.View {
	path, ok := ref.Str()
	if w.refs++; !ok || w.refs > maxRefs {
		return jsonview.View{}
	}
	return resolved(w.root, path)
}

// beyondGrammar are what patterns have that grammars do not: escapes of classes, borders and characters by number,
// groups with a question mark, and large counts.
var beyondGrammar = regexp.MustCompile(`\\[a-zA-Z0-9]|\(\?|\{[0-9]*,?[0-9]{4,}\}|[*+?}][?+]`)

// append appends a schema with what the upstream wants to be said, and without what it refuses: that only narrows what
// may be.
func (w *walk) append(b []byte, schema jsonview.View, depth int) []byte {
	value, isBool := schema.Bool()
	switch {
	case w.rules.has(openAPI) && schema.Kind() != jsonview.Object:
		return append(b, openAny...)
	case isBool && value && w.rules.has(grammar):
		return append(b, anyValue...)
	case schema.Kind() != jsonview.Object:
		return append(b, schema.Raw()...)
	}
	if ref := schema.Get("$ref"); ref.Set() && !w.possible("$ref", ref) {
		return w.dereferenced(b, schema, depth)
	}
	if depth > maxSchemas {
		return append(b, schema.Raw()...)
	}
	if w.rules.has(openAPI) {
		return w.appendOpen(b, schema, depth)
	}
	b = append(b, '{')
	hasItems := false
	for name, member := range schema.Members() {
		if !w.possible(name, member) {
			continue
		}
		hasItems = hasItems || name == "items" || name == "prefixItems"
		b = appendMember(b, name, nil)
		switch {
		case member.Kind() == jsonview.Object && slices.Contains(named, name):
			b = append(b, '{')
			for sub, inside := range member.Members() {
				b = w.append(appendMember(b, sub, nil), inside, depth+1)
			}
			b = append(b, '}')
		case member.Kind() == jsonview.Array && slices.Contains(listed, name):
			b = append(b, '[')
			for i, inside := range member.Elems() {
				if i > 0 {
					b = append(b, ',')
				}
				b = w.append(b, inside, depth+1)
			}
			b = append(b, ']')
		case member.Kind() == jsonview.Object && slices.Contains(inner, name):
			b = w.append(b, member, depth+1)
		default:
			b = append(b, member.Raw()...)
		}
	}
	if kind, _ := schema.Get("type").Str(); kind == "array" && !hasItems && w.rules.has(items) {
		b = appendMember(b, "items", []byte(`{}`))
	}
	return append(b, '}')
}

// dereferenced appends what stands where a reference cannot: what it refers to or, where that is nothing or has no
// end, any value, and what that is for.
func (w *walk) dereferenced(b []byte, schema jsonview.View, depth int) []byte {
	to := w.referred(schema.Get("$ref"))
	if to.Kind() == jsonview.Object && w.enter(len(to.Raw())) {
		defer w.leave()
		return w.append(b, to, depth+1)
	}
	whatever := anyValue
	if w.rules.has(openAPI) {
		whatever = openAny
	}
	b = append(b, strings.TrimSuffix(whatever, "}")...)
	if description := schema.Get("description"); description.Kind() == jsonview.String {
		b = appendMember(b, "description", description.Raw())
	}
	return append(b, '}')
}

// enter reports whether so much more can be written in the place of something shorter; leave ends that.
func (w *walk) enter(size int) bool {
	const deepest = 6             // references may go in circles, and each be to all of it
	most := 2 * len(w.root.Raw()) // which the bound of the input counts, see package tokens
	if w.open >= deepest || w.wrote+size > most {
		return false
	}
	w.wrote += size
	w.open++
	return true
}

func (w *walk) leave() { w.open-- }
