package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonFile is a JSON object with comments and trailing commas, as hujson reads it: packed again, it is byte by byte
// what it was.
type jsonFile struct {
	root hujson.Value
	open bool // the last line has no end
}

func parseJSON(b []byte) (document, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		b = []byte("{}\n")
	}
	open := b[len(b)-1] != '\n'
	if open { // the parser wants the end of a last line that is a comment
		b = append(slices.Clone(b), '\n')
	}
	root, err := hujson.Parse(b)
	if err != nil { // the parser's own words could show parts of the file, which may hold keys
		return nil, errors.New("it is not JSON")
	}
	if _, ok := root.Value.(*hujson.Object); !ok {
		return nil, errors.New("it is not a JSON object")
	}
	return &jsonFile{root, open}, nil
}

func (f *jsonFile) bytes() []byte {
	b := f.root.Pack()
	if f.open {
		b = bytes.TrimSuffix(b, []byte("\n"))
	}
	return b
}

// at is the value at path, nil where there is none.
func (f *jsonFile) at(path []string) *hujson.Value {
	v := &f.root
	for _, name := range path {
		object, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil
		}
		i := indexOf(object, name)
		if i < 0 {
			return nil
		}
		v = &object.Members[i].Value
	}
	return v
}

// indexOf is the last member of that name, which is the one that counts, or -1.
func indexOf(object *hujson.Object, name string) int {
	for i, m := range slices.Backward(object.Members) {
		if literal, ok := m.Name.Value.(hujson.Literal); ok && literal.String() == name {
			return i
		}
	}
	return -1
}

func (f *jsonFile) find(path []string) (value any, text string, ok bool) {
	v := f.at(path)
	if v == nil {
		return nil, "", false
	}
	own := hujson.Value{Value: v.Value}
	text = own.String()
	standard, err := hujson.Standardize([]byte(text))
	if err != nil {
		return nil, text, true
	}
	d := json.NewDecoder(bytes.NewReader(standard))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return nil, text, true
	}
	return value, text, true
}

func (f *jsonFile) set(path []string, value any) error {
	n := len(path)
	for f.at(path[:n]) == nil { // the whole is there
		n--
	}
	at := f.at(path[:n])
	if n < len(path) {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return errShape
		}
		return f.insert(object, path[:n], path[n], nest(path[n+1:], value))
	}
	text, err := encode(value, f.indent(path[:n-1])+f.unit(), f.unit())
	if err != nil {
		return err
	}
	return f.restore(path, text)
}

func (f *jsonFile) restore(path []string, text string) error {
	v, err := hujson.Parse([]byte(text))
	if err != nil {
		return errShape
	}
	f.at(path).Value = v.Value
	return nil
}

// insert adds a member at the end of an object, in the style of the last one.
func (f *jsonFile) insert(object *hujson.Object, path []string, name string, value any) error {
	var m hujson.ObjectMember
	indent := f.indent(path) + f.unit()
	m.Name.Value, m.Value.BeforeExtra = hujson.String(name), hujson.Extra(" ")
	if n := len(object.Members); n > 0 {
		last := &object.Members[n-1]
		m.Name.BeforeExtra = space(last.Name.BeforeExtra)
		m.Value.BeforeExtra = space(last.Value.BeforeExtra)
		if last.Value.AfterExtra != nil { // there is a comma at the end
			m.Value.AfterExtra = hujson.Extra{}
		}
		if !bytes.Contains(m.Name.BeforeExtra, []byte("\n")) {
			indent = "" // all in one line
		}
	} else {
		m.Name.BeforeExtra = hujson.Extra("\n" + indent)
		if !bytes.Contains(object.AfterExtra, []byte("\n")) {
			object.AfterExtra = append(object.AfterExtra, "\n"+f.indent(path)...)
		}
	}
	unit := f.unit()
	if indent == "" {
		unit = ""
	}
	text, err := encode(value, indent, unit)
	if err != nil {
		return err
	}
	v, err := hujson.Parse([]byte(text))
	if err != nil {
		return err
	}
	m.Value.Value = v.Value
	object.Members = append(object.Members, m)
	return nil
}

func (f *jsonFile) remove(path []string) error {
	object, ok := f.at(path[:len(path)-1]).Value.(*hujson.Object)
	if !ok {
		return errShape
	}
	i := indexOf(object, path[len(path)-1])
	gone := object.Members[i]
	comments, after := join(gone.Name.BeforeExtra, gone.Value.AfterExtra), &object.AfterExtra
	switch {
	case i+1 < len(object.Members):
		after = &object.Members[i+1].Name.BeforeExtra
		if i == 0 && len(bytes.TrimSpace(*after)) == 0 {
			*after = space(gone.Name.BeforeExtra)
		}
	case i == 0:
	case gone.Value.AfterExtra == nil: // the one before becomes the last, without a comma
		last := &object.Members[i-1].Value
		comments, last.AfterExtra = join(last.AfterExtra, comments), nil
	case object.Members[i-1].Value.AfterExtra == nil: // the one before becomes the last, and keeps its comma
		object.Members[i-1].Value.AfterExtra = hujson.Extra{}
	}
	*after = join(comments, *after)
	object.Members = slices.Delete(object.Members, i, i+1)
	if len(object.Members) == 0 && len(bytes.TrimSpace(object.AfterExtra)) == 0 {
		object.AfterExtra = nil
	}
	return nil
}

func (f *jsonFile) bare(path []string) bool {
	v := f.at(path)
	if v == nil {
		return false
	}
	object, ok := v.Value.(*hujson.Object)
	bare := ok && len(object.Members) == 0 && len(bytes.TrimSpace(object.AfterExtra)) == 0
	if len(path) == 0 {
		bare = bare && len(bytes.TrimSpace(f.root.BeforeExtra)) == 0 && len(bytes.TrimSpace(f.root.AfterExtra)) == 0
	}
	return bare
}

// join puts the comments of what is taken away before what follows, and leaves its spaces away.
func join(gone, next hujson.Extra) hujson.Extra {
	comments := bytes.TrimRight(gone, " \t\r\n")
	if len(comments) == 0 {
		return next
	}
	joined := slices.Clone(comments)
	if !bytes.HasPrefix(bytes.TrimLeft(next, " \t\r"), []byte("\n")) {
		joined = append(joined, '\n') // a comment may go to the end of its line
	}
	return append(joined, next...)
}

// space is the white space of an extra without its comments: from its last line break on, if it has one.
func space(extra hujson.Extra) hujson.Extra {
	extra = extra[max(0, bytes.LastIndexByte(extra, '\n')):]
	if len(bytes.TrimSpace(extra)) > 0 {
		return hujson.Extra(" ")
	}
	return slices.Clone(extra)
}

// unit is by how much the file indents.
func (f *jsonFile) unit() string {
	if object, ok := f.root.Value.(*hujson.Object); ok && len(object.Members) > 0 {
		if before := space(object.Members[0].Name.BeforeExtra); bytes.HasPrefix(before, []byte("\n")) && len(before) > 1 {
			return string(before[1:])
		}
	}
	return "  "
}

// indent is how far the object at path is indented itself.
func (f *jsonFile) indent(path []string) string {
	if len(path) == 0 {
		return ""
	}
	object, ok := f.at(path[:len(path)-1]).Value.(*hujson.Object)
	if !ok {
		return ""
	}
	before := space(object.Members[indexOf(object, path[len(path)-1])].Name.BeforeExtra)
	return strings.TrimLeft(string(before), "\n")
}

// encode writes a value; objects go over several lines, unless unit is "".
func encode(value any, prefix, unit string) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if unit != "" {
		e.SetIndent(prefix, unit)
	}
	if err := e.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimRight(b.String(), "\n"), nil
}
