// Package settings changes single members of other programs' settings files, and takes the changes back later. All
// else in the file stays as it is, byte by byte: order, spaces, comments, and what the programs wrote meanwhile.
package settings

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Format is how a file is written.
type Format string

const (
	JSON Format = "json" // comments and trailing commas are read, too, and kept
	TOML Format = "toml"
)

// Member is one setting.
type Member struct {
	Path []string // names, the outermost first
	// Value is a string, a bool, an int64, or a map[string]any of these.
	Value any
	// Whole says that an object which was not there before is the setting, with all that is put into it later. In one
	// that was there, the members of Value are set, one by one.
	Whole bool
	// Default leaves a value alone that is there.
	Default bool
}

// Change is what setting one member changed. It holds no value that was set, for that may be a key; what was there
// before is needed as it is.
type Change struct {
	Path []string `json:"path"`
	// Was is the text of the value that was there, nil when there was none.
	Was *string `json:"was,omitempty"`
	// Wrote is the digest of the value that was set.
	Wrote string `json:"wrote"`
	// Made is how many of the objects around the member were there already: those beyond were made for it.
	Made  int  `json:"made"`
	Whole bool `json:"whole,omitempty"`
}

// errShape: the file is well-formed, but a member is written in a way that cannot be changed in place.
var errShape = errors.New("is written in a way that is not changed here")

// document is a file in one format.
type document interface {
	// find returns the value at path, and its text where it has one of its own.
	find(path []string) (value any, text string, ok bool)
	// set puts a value where there may be one, making the objects around it.
	set(path []string, value any) error
	// restore puts the text of a value where there is one.
	restore(path []string, text string) error
	remove(path []string) error
	// bare reports whether there is an object at path with nothing in it, not even a comment.
	bare(path []string) bool
	bytes() []byte
}

func parse(format Format, b []byte) (doc document, err error) {
	b, marked := bytes.CutPrefix(b, byteOrderMark)
	if !utf8.Valid(b) {
		return nil, errors.New("it is not UTF-8: save it as UTF-8 first")
	}
	if format == TOML {
		doc, err = parseTOML(b)
	} else {
		doc, err = parseJSON(b)
	}
	if marked && err == nil {
		doc = markedFile{doc}
	}
	return doc, err
}

// byteOrderMark is what some editors on Windows put before UTF-8. The programs whose files these are read over it, and
// it stays where it is.
var byteOrderMark = []byte("\uFEFF")

// markedFile is a file that begins with a byte order mark.
type markedFile struct{ document }

func (f markedFile) bytes() []byte { return append(slices.Clone(byteOrderMark), f.document.bytes()...) }

// Apply sets the members in a file, nil for one that is not there, and returns its new content and what undoes it.
func Apply(format Format, file []byte, members []Member) ([]byte, []Change, error) {
	doc, err := parse(format, file)
	if err != nil {
		return nil, nil, err
	}
	var changes []Change
	for _, m := range members {
		if changes, err = apply(doc, m, changes); err != nil {
			return nil, nil, err
		}
	}
	return doc.bytes(), changes, nil
}

func apply(doc document, m Member, changes []Change) ([]Change, error) {
	change := Change{Path: m.Path, Wrote: digest(m.Value), Whole: m.Whole}
	for n := 1; n < len(m.Path); n++ {
		outer, text, ok := doc.find(m.Path[:n])
		if !ok {
			break
		}
		if _, object := outer.(map[string]any); !object { // such as null: it makes way, and comes back as it was
			value := nest(m.Path[n:], m.Value)
			return append(changes, Change{Path: m.Path[:n], Was: &text, Wrote: digest(value), Made: n - 1, Whole: true}),
				wrap(doc.set(m.Path[:n], value), m.Path[:n])
		}
		change.Made = n
	}
	old, text, ok := doc.find(m.Path)
	if ok && m.Default {
		return changes, nil
	}
	inner, object := m.Value.(map[string]any)
	if _, both := old.(map[string]any); object && both {
		var err error
		for _, name := range sortedNames(inner) {
			one := Member{Path: append(slices.Clone(m.Path), name), Value: inner[name]}
			if changes, err = apply(doc, one, changes); err != nil {
				return nil, err
			}
		}
		return changes, nil
	}
	if ok {
		change.Was = &text
	}
	return append(changes, change), wrap(doc.set(m.Path, m.Value), m.Path)
}

// Undo takes changes back from a file and returns its new content, and the members that somebody else has changed
// since, which stay as they are.
func Undo(format Format, file []byte, changes []Change) (content []byte, kept [][]string, err error) {
	doc, err := parse(format, file)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range slices.Backward(changes) {
		now, _, ok := doc.find(c.Path)
		switch {
		case !ok: // gone already; so may be what was there before
		case !c.Whole && digest(now) != c.Wrote:
			kept = append(kept, c.Path)
		case c.Was != nil:
			err = doc.restore(c.Path, *c.Was)
		default:
			err = doc.remove(c.Path)
		}
		for n := len(c.Path) - 1; err == nil && n > c.Made && doc.bare(c.Path[:n]); n-- {
			err = doc.remove(c.Path[:n])
		}
		if err != nil {
			return nil, nil, wrap(err, c.Path)
		}
	}
	slices.Reverse(kept)
	return doc.bytes(), kept, nil
}

// Blank reports whether there is no setting in a file, and no comment.
func Blank(format Format, file []byte) bool {
	doc, err := parse(format, file)
	return err == nil && doc.bare(nil)
}

// Lookup returns the string at path, "" where there is none.
func Lookup(format Format, file []byte, path ...string) string {
	doc, err := parse(format, file)
	if err != nil {
		return ""
	}
	value, _, _ := doc.find(path)
	text, _ := value.(string)
	return text
}

// digest is the same for equal values, however they are written.
func digest(value any) string {
	b, err := json.Marshal(value)
	if err != nil { // such as an infinity in TOML, which is never ours
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// nest is value inside of objects with these names.
func nest(names []string, value any) any {
	for _, name := range slices.Backward(names) {
		value = map[string]any{name: value}
	}
	return value
}

func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// wrap names the member in an error.
func wrap(err error, path []string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %w", strings.Join(path, "."), err)
}
