package command

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/files"
)

var (
	//go:embed starter/gateway.hcl
	starterHCL []byte
	//go:embed starter/*.tmpl
	starterFiles embed.FS

	starterTemplates = template.Must(template.ParseFS(starterFiles, "starter/*.tmpl"))
)

// The files that `up` makes in a data folder. The first two are the operator's from then on; `up` writes the others
// again when it is told something else.
const (
	hclFile    = "gateway.hcl"
	caddyFile  = "Caddyfile"
	listenFile = "listen.caddy"
	adminFile  = "admin.caddy"
)

// starter is what the starter files are made from.
type starter struct {
	Data  string // absolute
	Bind  string // the host of --listen, "" for all interfaces
	Port  string
	Admin string // what --admin says, "" for nothing

	Socket    string // Caddy's own admin endpoint, for Caddyfiles that have {$FAREWAY_ADMIN}
	SetListen bool   // --listen was given
	SetAdmin  bool
}

// content is the text of one of the files.
func (s starter) content(name string) ([]byte, error) {
	if name == hclFile {
		return gateway.OwnHints(starterHCL), nil
	}
	for _, v := range [...]struct{ what, text string }{{"admin address", s.Admin}, {"listen address", s.Bind}} {
		if strings.ContainsAny(v.text, "\"`{} \t\n\r") {
			return nil, fmt.Errorf("the %s %q has a character that a Caddyfile cannot hold (a quote, a brace or a blank): "+
				"choose another", v.what, v.text)
		}
	}
	var b bytes.Buffer
	if err := starterTemplates.ExecuteTemplate(&b, name+".tmpl", s); err != nil {
		return nil, fmt.Errorf("writing the starter file %s: %w", name, err)
	}
	return gateway.OwnHints(b.Bytes()), nil
}

// setEnv gives Caddyfiles that were not made from the starter their variables: they reach them through the environment
// only.
func (s starter) setEnv() error {
	for name, value := range map[string]string{
		"FAREWAY_DATA": s.Data, "FAREWAY_BIND": s.Bind, "FAREWAY_PORT": s.Port, "FAREWAY_ADMIN": s.Socket,
	} {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// refuseOrphan refuses to make a trial of a folder that has a ledger and nothing else, as behind a restore: its
// customers' keys would open the trial's echo, and pay for it.
func (s starter) refuseOrphan() error {
	for _, name := range [...]string{hclFile, caddyFile} {
		if _, err := os.Lstat(filepath.Join(s.Data, name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	ledger := filepath.Join(s.Data, config.DefaultStore().Path)
	if _, err := os.Lstat(ledger); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("looking for a ledger: %w", err)
	}
	return fmt.Errorf("%s has accounts, and no configuration is beside it: put its gateway.hcl (and Caddyfile) into %s, "+
		"for a trial would serve them; nothing was written", ledger, s.Data)
}

// write makes the files that are missing in the data folder. The operator's it leaves as they are; it returns the
// names of those of them that it made.
func (s starter) write(changes *files.Changes) ([]string, error) {
	var made []string
	if err := s.refuseOrphan(); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name    string
		again   bool // it is replaced
		operate bool // it is the operator's
	}{
		{hclFile, false, true},
		{caddyFile, false, true},
		{listenFile, s.SetListen, false},
		{adminFile, s.SetAdmin, false},
	} {
		content, err := s.content(f.name)
		if err != nil {
			return made, err
		}
		path := filepath.Join(s.Data, f.name)
		if f.again {
			err = changes.Replace(path, content)
		} else if _, err = os.Lstat(path); err == nil {
			continue
		} else {
			// 0600: people will put more in them than they mean to.
			err = changes.Create(path, content, 0o600)
		}
		switch {
		case errors.Is(err, fs.ErrExist):
		case err != nil:
			return made, fmt.Errorf("writing the starter files: %w", err)
		case f.operate:
			made = append(made, f.name)
		}
	}
	return made, nil
}
