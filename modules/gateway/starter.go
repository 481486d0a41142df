package gateway

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

var (
	//go:embed starter/gateway.hcl
	starterHCL []byte
	//go:embed starter/Caddyfile.tmpl
	starterCaddyfile string

	starterTemplate = template.Must(template.New("Caddyfile").Parse(starterCaddyfile))
)

// starter is what the starter files are made from, and what `up` says to a Caddyfile that was made from them.
type starter struct {
	Data  string // absolute
	Bind  string // the host of --listen, "" for all interfaces
	Port  string
	Admin string // with the permissions of a unix socket
}

// DataVar is the placeholder that stands for the data folder.
func (s starter) DataVar() string { return "{$FAREWAY_DATA:" + s.Data + "}" }

// caddyfile is the text of a starter Caddyfile.
func (s starter) caddyfile() ([]byte, error) {
	for _, v := range [...]struct{ what, text string }{
		{"data folder", s.Data}, {"admin address", s.Admin}, {"listen address", s.Bind},
	} {
		if strings.ContainsAny(v.text, "\"{}\n\r") {
			return nil, fmt.Errorf("the %s %q has a character that a Caddyfile cannot hold (a quote, a brace or a line break): choose another", v.what, v.text)
		}
	}
	var b bytes.Buffer
	if err := starterTemplate.Execute(&b, s); err != nil {
		return nil, fmt.Errorf("writing the starter Caddyfile: %w", err)
	}
	return b.Bytes(), nil
}

// setEnv gives the Caddyfile its variables: they reach it through the environment only.
func (s starter) setEnv() error {
	for name, value := range map[string]string{
		"FAREWAY_DATA": s.Data, "FAREWAY_BIND": s.Bind, "FAREWAY_PORT": s.Port, "FAREWAY_ADMIN": s.Admin,
	} {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// write makes the files that are missing in the data folder and leaves the others as they are. It returns the
// names of those that it made.
func (s starter) write() ([]string, error) {
	caddyfile, err := s.caddyfile()
	if err != nil {
		return nil, err
	}
	var made []string
	for _, f := range []struct {
		name    string
		content []byte
	}{
		{"gateway.hcl", starterHCL},
		{"Caddyfile", caddyfile},
	} {
		path := filepath.Join(s.Data, f.name)
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		// 0600: people will put more in them than they mean to.
		err := createFile(path, f.content, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return made, fmt.Errorf("writing the starter files: %w", err)
		}
		made = append(made, f.name)
	}
	return made, nil
}
