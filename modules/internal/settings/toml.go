package settings

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// tomlFile is a TOML document, of which whole lines are put in and taken out. The library says what the values are,
// and whether the document is well-formed; it keeps no places.
type tomlFile struct {
	text   string
	values map[string]any
	lines  []tomlLine
}

// tomlLine is a setting or the header of a table, with the lines that its value goes over.
type tomlLine struct {
	path       []string // of the setting or the table, the whole
	table      []string // of the table that a setting is in
	header     bool
	start, end int // in text, with the line's end
	value      int // where a setting's value starts
	valueEnd   int
}

func parseTOML(b []byte) (document, error) {
	f := &tomlFile{}
	if err := f.take(string(b)); err != nil {
		return nil, err
	}
	return f, nil
}

// take makes text the document.
func (f *tomlFile) take(text string) error {
	values := map[string]any{}
	if _, err := toml.Decode(text, &values); err != nil {
		return errors.New("it is not TOML") // the parser's own words could show keys
	}
	f.text, f.values, f.lines = text, values, scan(text)
	return nil
}

func (f *tomlFile) bytes() []byte { return []byte(f.text) }

// replace puts other text in the place of a piece of the document.
func (f *tomlFile) replace(start, end int, by string) error {
	if f.take(f.text[:start]+by+f.text[end:]) != nil {
		return errShape
	}
	return nil
}

// line finds a setting or a header by its path, the last one of that path.
func (f *tomlFile) line(path []string, header bool) *tomlLine {
	for i := range slices.Backward(f.lines) {
		if l := &f.lines[i]; l.header == header && slices.Equal(l.path, path) {
			return l
		}
	}
	return nil
}

func (f *tomlFile) find(path []string) (value any, text string, ok bool) {
	value = f.values
	for _, name := range path {
		table, is := value.(map[string]any)
		if !is {
			return nil, "", false
		}
		if value, ok = table[name]; !ok {
			return nil, "", false
		}
	}
	if l := f.line(path, false); l != nil {
		text = f.text[l.value:l.valueEnd]
	}
	return value, text, true
}

func (f *tomlFile) set(path []string, value any) error {
	text, err := tomlText(path, value)
	if err != nil {
		return err
	}
	if l := f.line(path, false); l != nil {
		_, inner, _ := strings.Cut(text, " = ")
		return f.replace(l.value, l.valueEnd, strings.TrimSuffix(inner, "\n"))
	}
	if _, _, ok := f.find(path); ok {
		return errShape // a table, or part of an inline one
	}
	if _, table := value.(map[string]any); table {
		return f.append(text)
	}
	// After the last setting of its table, or at the end in a table of its own.
	outer, at := path[:len(path)-1], 0
	for _, l := range f.lines {
		if slices.Equal(l.table, outer) && (!l.header || slices.Equal(l.path, outer)) {
			at = l.end
		}
	}
	switch {
	case at > 0:
		if f.text[at-1] != '\n' {
			text = "\n" + text
		}
		return f.replace(at, at, text)
	case len(outer) == 0:
		first := len(f.text)
		if len(f.lines) > 0 {
			first = f.lines[0].start
			text += "\n" // the first table follows
		}
		if first > 0 && f.text[first-1] != '\n' {
			text = "\n" + text
		}
		return f.replace(first, first, text)
	}
	return f.append("[" + tomlPath(outer) + "]\n" + text)
}

// append adds lines at the end, after an empty one.
func (f *tomlFile) append(text string) error {
	switch {
	case f.text == "" || strings.HasSuffix(f.text, "\n\n"):
	case strings.HasSuffix(f.text, "\n"):
		text = "\n" + text
	default:
		text = "\n\n" + text
	}
	return f.replace(len(f.text), len(f.text), text)
}

func (f *tomlFile) restore(path []string, text string) error {
	l := f.line(path, false)
	if l == nil {
		return errShape
	}
	return f.replace(l.value, l.valueEnd, text)
}

func (f *tomlFile) remove(path []string) error {
	if l := f.line(path, false); l != nil {
		if l.start == 0 && strings.HasPrefix(f.text[l.end:], "\n") {
			l.end++ // the empty line before what follows
		}
		return f.replace(l.start, l.end, "")
	}
	// A table: its header and what is below it, from the end, so that the places before stay right.
	text := f.text
	for _, l := range slices.Backward(f.lines) {
		if len(l.path) < len(path) || !slices.Equal(l.path[:len(path)], path) {
			continue
		}
		start := l.start
		if l.header && strings.HasSuffix(text[:start], "\n\n") {
			start-- // the empty line before it
		}
		text = text[:start] + text[l.end:]
	}
	if f.take(text) != nil {
		return errShape
	}
	if _, _, ok := f.find(path); ok {
		return errShape // part of an inline table
	}
	return nil
}

func (f *tomlFile) bare(path []string) bool {
	if len(path) == 0 {
		return strings.TrimSpace(f.text) == ""
	}
	value, _, _ := f.find(path)
	table, ok := value.(map[string]any)
	return ok && len(table) == 0
}

// tomlText writes a setting as a line, or a table as a header and lines.
func tomlText(path []string, value any) (string, error) {
	table, ok := value.(map[string]any)
	if !ok {
		text, err := tomlValue(value)
		return tomlPath(path[len(path)-1:]) + " = " + text + "\n", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]\n", tomlPath(path))
	for _, name := range sortedNames(table) {
		text, err := tomlValue(table[name])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s = %s\n", tomlPath([]string{name}), text)
	}
	return b.String(), nil
}

func tomlValue(value any) (string, error) {
	switch value := value.(type) {
	case string:
		// JSON's escapes are TOML's.
		return encode(value, "", "")
	case bool:
		return strconv.FormatBool(value), nil
	case int64:
		return strconv.FormatInt(value, 10), nil
	}
	return "", errShape
}

func tomlPath(path []string) string {
	names := make([]string, len(path))
	for i, name := range path {
		if names[i] = name; name == "" || strings.Trim(name, bareTOML) != "" {
			names[i] = strconv.Quote(name)
		}
	}
	return strings.Join(names, ".")
}

// bareTOML are the characters of names that need no quotes.
const bareTOML = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// scan finds the lines of a well-formed document.
func scan(text string) []tomlLine {
	var lines []tomlLine
	var table []string
	s := tomlScanner{text: text}
	for s.pos < len(text) {
		start := s.pos
		s.skip(" \t")
		switch {
		case s.pos == len(text), s.peek("\n"), s.peek("\r"), s.peek("#"):
			s.line()
		case s.peek("["):
			array := strings.HasPrefix(text[s.pos:], "[[")
			s.skip("[")
			table = s.names("]")
			if array {
				table = append(table, "[]") // no path of ours
			}
			s.line()
			lines = append(lines, tomlLine{path: table, table: table, header: true, start: start, end: s.pos})
		default:
			path := append(slices.Clone(table), s.names("=")...)
			s.pos++
			s.skip(" \t")
			l := tomlLine{path: path, table: table, start: start, value: s.pos}
			l.valueEnd = s.skipValue()
			s.line()
			l.end = s.pos
			lines = append(lines, l)
		}
	}
	return lines
}

type tomlScanner struct {
	text string
	pos  int
}

func (s *tomlScanner) peek(text string) bool { return strings.HasPrefix(s.text[s.pos:], text) }

func (s *tomlScanner) skip(set string) {
	for s.pos < len(s.text) && strings.IndexByte(set, s.text[s.pos]) >= 0 {
		s.pos++
	}
}

// line goes on to the next line.
func (s *tomlScanner) line() {
	if i := strings.IndexByte(s.text[s.pos:], '\n'); i >= 0 {
		s.pos += i + 1
	} else {
		s.pos = len(s.text)
	}
}

// names reads a dotted name up to end, which is not taken.
func (s *tomlScanner) names(end string) []string {
	var names []string
	for s.pos < len(s.text) && !s.peek(end) {
		switch s.skip(" \t."); {
		case s.peek(`"`), s.peek("'"):
			start := s.pos
			s.quoted()
			quoted := s.text[start:s.pos]
			name := quoted[1 : len(quoted)-1]
			if quoted[0] == '"' {
				name, _ = strconv.Unquote(quoted) // TOML's escapes are Go's
			}
			names = append(names, name)
		case !s.peek(end):
			start := s.pos
			for s.pos < len(s.text) && strings.IndexByte(bareTOML, s.text[s.pos]) >= 0 {
				s.pos++
			}
			if s.pos == start {
				s.pos++ // not well-formed
				continue
			}
			names = append(names, s.text[start:s.pos])
		}
		s.skip(" \t")
	}
	return names
}

// quoted goes past a string, of one line or of several.
func (s *tomlScanner) quoted() {
	quote := s.text[s.pos : s.pos+1]
	if s.peek(strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	s.pos += len(quote)
	for s.pos < len(s.text) && !s.peek(quote) {
		if s.peek(`\`) && quote[0] == '"' {
			s.pos++
		}
		s.pos++
	}
	s.pos = min(s.pos+len(quote), len(s.text))
	for len(quote) == 3 && s.peek(quote[:1]) { // """" ends with a quote of its own
		s.pos++
	}
}

// skipValue goes past a value and returns its end.
func (s *tomlScanner) skipValue() int {
	depth, end := 0, s.pos
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '"' || c == '\'':
			s.quoted()
			end = s.pos
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '#':
			if depth == 0 {
				return end
			}
			s.line()
			continue
		case c == '\n' && depth == 0:
			return end
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(s.text[s.pos])) {
			end = s.pos + 1
		}
		s.pos++
	}
	return end
}
