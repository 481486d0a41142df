package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/files"
)

// Bundle is what is to be given away.
type Bundle struct {
	Redactor
	made    time.Time
	name    string
	entries []entry
	missing []Missing
}

// entry is a file in it.
type entry struct {
	File
	content []byte
}

// File says what a file in a bundle is.
type File struct {
	Name     string         `json:"name"`
	Bytes    int            `json:"bytes"`
	What     string         `json:"what"`
	Redacted map[string]int `json:"redacted,omitempty"` // how often what was taken out
}

// Missing is what could not be had.
type Missing struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Manifest is what is in a bundle.
type Manifest struct {
	Made    time.Time `json:"made"`
	Request string    `json:"request,omitempty"` // that it is about
	Names   bool      `json:"names"`             // accounts, keys and clients are called as they are
	Files   []File    `json:"files"`
	Missing []Missing `json:"missing"`
}

// New is an empty bundle.
func New(made time.Time) *Bundle {
	made = made.UTC().Truncate(time.Second)
	return &Bundle{made: made, name: "fareway-support-" + made.Format("20060102T150405Z")}
}

// Name is what the file is called unless somebody says otherwise.
func (b *Bundle) Name() string { return b.name + ".tar.gz" }

// AddJSON adds a value, of which only fields that are on the list are left.
func (b *Bundle) AddJSON(name, what string, v any) error {
	found := map[string]int{}
	content, err := b.JSON(v, found)
	if err != nil {
		return err
	}
	b.add(name, what, content, found)
	return nil
}

// AddLines adds lines of JSON. Of another line it is only said that there was one.
func (b *Bundle) AddLines(name, what string, lines [][]byte) {
	found := map[string]int{}
	var content bytes.Buffer
	for _, line := range lines {
		clean, ok := b.Line(line, found)
		if !ok {
			found["lines that are no JSON"]++
			clean = []byte(`{"` + "msg" + `":"` + leftOut + `"}` + "\n")
		}
		content.Write(clean)
	}
	b.add(name, what, content.Bytes(), found)
}

// AddText adds a text.
func (b *Bundle) AddText(name, what, text string) {
	found := map[string]int{}
	b.add(name, what, []byte(b.Text(text, found)), found)
}

// AddShown adds a text in which stands only what may be shown, and says of hidden that it was taken out before.
func (b *Bundle) AddShown(name, what, text string, hidden map[string]int) {
	found := maps.Clone(hidden)
	if found == nil {
		found = map[string]int{}
	}
	b.add(name, what, []byte(b.shown(text, found)), found)
}

// AddBytes adds what is no text and has no secrets in it: a profile.
func (b *Bundle) AddBytes(name, what string, content []byte) { b.add(name, what, content, nil) }

// Miss notes what could not be had.
func (b *Bundle) Miss(what string, why error) {
	b.missing = append(b.missing, Missing{what, b.Text(why.Error(), map[string]int{})})
}

func (b *Bundle) add(name, what string, content []byte, found map[string]int) {
	if len(found) == 0 {
		found = nil
	}
	b.entries = append(b.entries, entry{File{name, len(content), what, found}, content})
}

// Manifest is what is in it.
func (b *Bundle) Manifest(request string) Manifest {
	m := Manifest{Made: b.made, Request: request, Names: b.KeepNames, Files: []File{},
		Missing: append([]Missing{}, b.missing...)}
	for i := range b.entries {
		m.Files = append(m.Files, b.entries[i].File)
	}
	return m
}

// Pack is the bundle as a file. What was learned to be secret or a name while it was filled is taken out of what came
// before, too.
func (b *Bundle) Pack(request string) ([]byte, Manifest, error) {
	for i := range b.entries {
		e := &b.entries[i]
		if e.Redacted == nil && !isText(e.Name) {
			continue
		}
		again := map[string]int{}
		e.content = []byte(b.known(string(e.content), again))
		for what, n := range again {
			if e.Redacted == nil {
				e.Redacted = map[string]int{}
			}
			e.Redacted[what] += n
		}
		e.Bytes = len(e.content)
	}
	m := b.Manifest(request)
	list, err := b.JSON(m, map[string]int{})
	if err != nil {
		return nil, m, err
	}
	all := append([]entry{{File{Name: "README.txt"}, []byte(m.text())}, {File{Name: "manifest.json"}, list}}, b.entries...)
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, e := range all {
		err = archive.WriteHeader(&tar.Header{Name: b.name + "/" + e.Name, Mode: 0o600, Size: int64(len(e.content)),
			ModTime: b.made, Typeflag: tar.TypeReg})
		if err == nil {
			_, err = archive.Write(e.content)
		}
		if err != nil {
			return nil, m, fmt.Errorf("writing the bundle: %w", err)
		}
	}
	if err = archive.Close(); err == nil {
		err = zip.Close()
	}
	if err != nil {
		return nil, m, fmt.Errorf("writing the bundle: %w", err)
	}
	return out.Bytes(), m, nil
}

// isText reports whether a file can be looked at.
func isText(name string) bool { return !strings.HasSuffix(name, ".pprof") }

// Write makes the file, for its owner alone. It changes no file that is there.
func Write(path string, packed []byte) error { return files.CreateFile(path, packed, 0o600) }

// text is the manifest for people.
func (m *Manifest) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "What somebody needs who helps with a Fareway gateway, made at %s.\n\n", m.Made.Format(time.RFC3339))
	for _, f := range m.Files {
		fmt.Fprintf(&b, "%-28s %9d  %s\n", f.Name, f.Bytes, f.What)
	}
	if len(m.Missing) > 0 {
		fmt.Fprint(&b, "\nNot in it:\n")
	}
	for _, one := range m.Missing {
		fmt.Fprintf(&b, "  %s: %s\n", one.What, one.Why)
	}
	fmt.Fprint(&b, "\nNo key, password, prompt or reply is meant to be in it. ")
	if m.Names {
		fmt.Fprint(&b, "Accounts, keys and clients are called as they are.\n")
	} else {
		fmt.Fprint(&b, "account-1, key-1, client-1 and machine-1 stand for the\nsame everywhere in this bundle, and in no "+
			"other.\n")
	}
	return b.String()
}

// RedactedText says what was taken out of a file, "" for nothing.
func (f *File) RedactedText() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(f.Redacted)) {
		parts = append(parts, fmt.Sprintf("%d %s", f.Redacted[what], what))
	}
	return strings.Join(parts, ", ")
}
