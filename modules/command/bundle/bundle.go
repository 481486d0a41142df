package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
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

// entry is a file in it. What it has is written when all is known that is secret, or a name.
type entry struct {
	File
	content func(found map[string]int) []byte
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
	tree, err := parse(v)
	if err != nil {
		return err
	}
	b.learn(tree)
	b.add(name, what, func(found map[string]int) []byte { return b.write(tree, "  ", found) })
	return nil
}

// AddLines adds lines of log in JSON. Of another line it is only said that there was one.
func (b *Bundle) AddLines(name, what string, lines [][]byte) {
	trees := make([]map[string]any, len(lines))
	for i, line := range lines {
		trees[i], _ = b.readLine(line)
	}
	b.add(name, what, func(found map[string]int) []byte {
		var content bytes.Buffer
		for _, tree := range trees {
			if tree == nil {
				found["lines that are no JSON"]++
				tree = map[string]any{"msg": leftOut}
			}
			content.Write(b.line(tree, found))
		}
		return content.Bytes()
	})
}

// AddShown adds a text in which stands only what may be shown, and says of hidden that it was taken out before.
func (b *Bundle) AddShown(name, what, text string, hidden map[string]int) {
	b.add(name, what, func(found map[string]int) []byte {
		maps.Copy(found, hidden)
		return []byte(b.Text(text, found))
	})
}

// AddBytes adds what is no text and has no secrets in it: a profile.
func (b *Bundle) AddBytes(name, what string, content []byte) {
	b.add(name, what, func(map[string]int) []byte { return content })
}

// Miss notes what could not be had.
func (b *Bundle) Miss(what string, why error) {
	b.missing = append(b.missing, Missing{what, why.Error()})
}

func (b *Bundle) add(name, what string, content func(found map[string]int) []byte) {
	b.entries = append(b.entries, entry{File{Name: name, What: what}, content})
}

// Pack is the bundle as a file. Each part is written twice: names that stand only in the last one are called otherwise
// in the first, too.
func (b *Bundle) Pack(ctx context.Context, request string) ([]byte, Manifest, error) {
	type file struct {
		name    string
		content []byte
	}
	var all []file
	m := Manifest{Made: b.made, Request: request, Names: b.KeepNames}
	for range 2 {
		all, m.Files, m.Missing = nil, []File{}, []Missing{}
		for i := range b.entries {
			if err := context.Cause(ctx); err != nil {
				return nil, m, fmt.Errorf("writing the bundle: %w", err)
			}
			f, found := b.entries[i].File, map[string]int{}
			content := b.entries[i].content(found)
			if f.Bytes = len(content); len(found) > 0 {
				f.Redacted = found
			}
			m.Files = append(m.Files, f)
			all = append(all, file{f.Name, content})
		}
		for _, one := range b.missing {
			m.Missing = append(m.Missing, Missing{one.What, b.Text(one.Why, map[string]int{})})
		}
	}
	list, err := b.JSON(m, map[string]int{})
	if err != nil {
		return nil, m, err
	}
	all = append([]file{{"README.txt", []byte(b.Text(m.text(), map[string]int{}))}, {"manifest.json", list}}, all...)
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, e := range all {
		err = archive.WriteHeader(&tar.Header{Name: b.name + "/" + e.name, Mode: 0o600, Size: int64(len(e.content)),
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
