package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// File is one of the files that a configuration is made of, with its content as it was read.
type File struct {
	Path   string // absolute
	SHA256 string // of its content, in hex; "" when it could not be read
	// Text is its content where that is HCL, and could be read. What file(...) brings may be a secret: it is not here.
	Text *string
}

// MarshalText prints the path alone: of a file that holds a short secret, the digest says too much.
func (f File) MarshalText() ([]byte, error) { return []byte(f.Path), nil }

// Named are the files that the configuration at path is made of: it and all that it names, first itself. It needs no
// plugins, and takes files with mistakes, so that they can be watched. Which of them `file(...)` names by variables
// depends on the environment.
func Named(path string, overlay Overlay) []File {
	src, err := readSource(path, overlay)
	if err != nil {
		return []File{{Path: src.abs}}
	}
	l := newLoader(context.Background(), Options{Overlay: overlay}.filled(), src, new(Diagnostics))
	whole := l.gather(&included{source: src})
	blocks := make(map[string][]*hclsyntax.Block)
	for _, block := range whole.Blocks {
		if block.Type == "locals" || block.Type == "variable" && len(block.Labels) == 1 {
			blocks[block.Type] = append(blocks[block.Type], block)
		}
	}
	l.names(blocks)
	l.readRules(whole.Blocks)
	l.namedModels(whole.Blocks)
	// It returns what its function does: nothing.
	_ = hclsyntax.VisitAll(whole, func(node hclsyntax.Node) hcl.Diagnostics {
		if call, ok := node.(*hclsyntax.FunctionCallExpr); ok && call.Name == "file" && len(call.Args) == 1 {
			name, diags := call.Args[0].Value(l.context(call.NameRange))
			name, _ = name.Unmark()
			if !diags.HasErrors() && name.Type() == cty.String && name.IsKnown() && !name.IsNull() {
				// One that cannot be read is named all the same.
				_, _ = l.outside.file(l.dir(call.NameRange), name.AsString(), "")
			}
		}
		return nil
	})
	return l.files()
}

// Digest is the hex SHA-256 over the names and the content of Named: another one means another configuration. It is ""
// where there is no file to read.
func Digest(path string) string {
	named := Named(path, nil)
	if named[0].SHA256 == "" {
		return ""
	}
	return hash(named)
}

// files are those that were read so far: the main one, and the others sorted.
func (l *loader) files() []File {
	files := make(map[string]File)
	for _, name := range l.outside.names {
		f := File{Path: name}
		if content, read := l.outside.files[name]; l.outside.errors[name] == nil && read {
			f.SHA256 = digest(content)
		} else {
			f.SHA256 = l.outside.digests[name]
		}
		files[name] = f
	}
	for _, src := range l.sources.all {
		f := File{Path: src.abs}
		if src.err == nil {
			f.SHA256, f.Text = digest(src.text), new(string(src.text))
		}
		files[src.abs] = f
	}
	main := l.sources.main().abs
	sorted := []File{files[main]}
	delete(files, main)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sorted = append(sorted, files[name])
	}
	return sorted
}

// DigestOf is the hex SHA-256 of a text, as in File.
func DigestOf(text string) string { return digest([]byte(text)) }

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// ContentHash is the Hash of the same files in whatever folder they are: nodes that it is equal on serve by the same
// configuration, but for what they have from the environment.
func (c *Config) ContentHash() string {
	files := slices.Clone(c.Files)
	for i := range files {
		if name, err := filepath.Rel(filepath.Dir(c.Path), files[i].Path); err == nil {
			files[i].Path = name
		}
	}
	return hash(files)
}

// hash is over the names and the digests of all files.
func hash(files []File) string {
	sum := sha256.New()
	for _, f := range files {
		sum.Write([]byte(f.Path + "\x00" + f.SHA256 + "\x00")) // a hash takes everything, and no path has a zero in it
	}
	return hex.EncodeToString(sum.Sum(nil))
}
