package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
)

// read does what only reads the ledger, with the gateway that runs or, with none and no address to insist on, with
// the database in the data folder, or the server that the configuration names. With --from it is that server.
func (t *target) read(cmd *cobra.Command, ask func(c *admin.Client) error) error {
	tell := func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }
	if t.from != "" {
		dsn, err := readDSN(t.from)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		return admin.Offline{DSN: dsn, Shared: true, Alone: true, Tell: tell}.Read(cmd.Context(), ask)
	}
	c, err := t.client()
	if err != nil {
		return err
	}
	c.Source = "the gateway at " + c.Address
	err = ask(c)
	if t.admin != "" || !errors.Is(err, admin.ErrNoGateway) {
		return err
	}
	o, err := t.offline()
	if err != nil {
		return err
	}
	o.Tell = tell
	return o.Read(cmd.Context(), ask)
}

// decide is for decisions that are possible without a gateway, too.
func (t *target) decide(cmd *cobra.Command, ask func(c *admin.Client) error) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	if err := ask(c); t.admin != "" || !errors.Is(err, admin.ErrNoGateway) {
		return err
	}
	o, err := t.offline()
	if err != nil {
		return err
	}
	if o.Shared {
		return fmt.Errorf("no gateway is running on %s, and its ledger is in PostgreSQL, where a node decides alone: start "+
			"one on this data folder, or ask one that runs with --admin ADDRESS", o.Data)
	}
	return o.Decide(ask)
}

// offline is the ledger on the data folder, where no gateway runs.
func (t *target) offline() (admin.Offline, error) {
	o, err := t.place()
	switch {
	case err != nil:
		return o, fmt.Errorf("no gateway is running on %s, and %w", o.Data, err)
	case o.Shared:
		return o, nil
	}
	if _, err := os.Stat(o.Ledger); err != nil {
		return o, fmt.Errorf("no gateway is running on %s, and there is no ledger to read: %w; "+
			"name the data folder with --data, or the gateway's Caddyfile with --config", o.Data, err)
	}
	return o, nil
}

// place is where the ledger on the data folder is, or would be.
func (t *target) place() (admin.Offline, error) {
	data, err := t.dir()
	if err != nil {
		return admin.Offline{}, err
	}
	o := admin.Offline{Data: data}
	hcl, err := t.hcl(data)
	if err != nil {
		return o, err
	}
	store, cfg, diags := config.LoadLedger(hcl)
	if diags.HasErrors() && (t.config != "" || isThere(hcl)) { // a copy of the database alone has the default name
		return o, fmt.Errorf("where its ledger is cannot be read: %w", diags)
	}
	o.Config = cfg
	o.Ledger, o.Shared, o.DSN = store.File(data), store.Kind == config.Postgres, store.DSN
	return o, nil
}

// file is place for what copies the ledger's file, and takes one alone.
func (t *target) file() (admin.Offline, error) {
	o, err := t.place()
	if err == nil && o.Shared {
		err = fmt.Errorf("the ledger of %s is in PostgreSQL, which is backed up and restored with its own tools: "+
			"pgBackRest, WAL-G or pg_dump (see store \"postgres\" in config/README.md); "+
			"`fareway gateway ledger verify --checkpoint FILE` says afterwards what is missing", o.Data)
	}
	return o, err
}

// hcl is the HCL file of the gateway on a data folder: what the Caddyfile of --config says, or the one in the folder,
// or the file beside it.
func (t *target) hcl(data string) (string, error) {
	caddyfile := t.config
	if caddyfile == "" {
		if caddyfile = filepath.Join(data, caddyFile); !isThere(caddyfile) {
			return filepath.Join(data, hclFile), nil
		}
	}
	app, err := gateway.ReadCaddyfile(caddyfile)
	if err != nil {
		return "", err
	}
	hcl, _, err := paths(app)
	return hcl, err
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
