package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const filePrefix = "fareway-provider-"

// executable is a plugin that can be started.
type executable struct {
	plugin string
	argv   []string
	digest string // hex SHA-256 of the file; "" for a built-in one, which cannot change under us
	pinned bool   // the operator gave the digest

	guarded bool // nobody else may be able to exchange it; authors look at whatever they like

	confine   Confine // how it is run
	telemetry bool    // it gets the environment variables OTEL_*
}

// key tells executables apart.
func (e executable) key() string { return strings.Join(append([]string{e.digest}, e.argv...), "\x00") }

var pluginName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// find looks for a plugin: built in, unless a digest asks for the file, then a file in the plugin folder. Its
// errors name the plugin and what to do.
func (h *Host) find(s Source) (executable, error) {
	if !pluginName.MatchString(s.Plugin) {
		return executable{}, fmt.Errorf("finding plugin %q: a plugin's name is made of lower-case letters, digits, - and _",
			s.Plugin)
	}
	argv, builtin := h.builtin(s.Plugin)
	if builtin && s.SHA256 == "" {
		return executable{plugin: s.Plugin, argv: argv}, nil
	}
	e, err := findFile(s)
	if err == nil {
		return e, nil
	}
	if builtin {
		err = fmt.Errorf("%w (without sha256, the built-in %s is used)", err, s.Plugin)
	}
	return executable{}, fmt.Errorf("finding plugin %q: %w", s.Plugin, err)
}

// File is where the executable of a plugin is looked for: "" for a built-in one, or where there is no folder for it.
func (h *Host) File(s Source) string {
	if _, builtin := h.builtin(s.Plugin); builtin && s.SHA256 == "" || s.Dir == "" {
		return ""
	}
	return fileOf(s)
}

func fileOf(s Source) string { return filepath.Join(s.Dir, filePrefix+s.Plugin) }

func findFile(s Source) (executable, error) {
	if s.Dir == "" {
		return executable{}, errors.New("it is not built in, and there is no plugin folder to look in; check the name, or " +
			"set plugin_dir")
	}
	path := fileOf(s)
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return executable{},
			fmt.Errorf("it is not built in, and there is no file %s; check the name, or put the plugin there", path)
	}
	if err != nil {
		return executable{}, err
	}
	// A link leads to a folder of its own, which must be as safe as the one that the link is in. None of these may be
	// one like /tmp, where anybody could put a plugin first. What is above them is looked at by checkPath.
	for _, p := range []string{s.Dir, filepath.Dir(resolved), resolved} {
		if err := checkWriters(p, os.Geteuid()); err != nil {
			return executable{}, err
		}
	}
	if err := checkPath(path, os.Geteuid()); err != nil {
		return executable{}, err
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return executable{}, err
	}
	if !info.Mode().IsRegular() {
		return executable{}, fmt.Errorf("%s is not a file", path)
	}
	if info.Mode()&0o111 == 0 {
		return executable{}, fmt.Errorf("%s is not executable; run: chmod +x %s", path, path)
	}
	digest, err := Digest(resolved)
	if err != nil {
		return executable{}, err
	}
	if s.SHA256 != "" && !strings.EqualFold(s.SHA256, digest) {
		return executable{}, fmt.Errorf("the sha256 of %s is %s and not %s; if you trust the file, set sha256 to the former",
			path, digest, s.SHA256)
	}
	return executable{plugin: s.Plugin, argv: []string{resolved}, digest: digest, pinned: s.SHA256 != "",
		guarded: true}, nil
}

// Digest is the sha256 of a file's content, in hex.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return digestOf(f)
}

func digestOf(f *os.File) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", f.Name(), err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
