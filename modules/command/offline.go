package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
)

// read does what only reads the ledger, with the gateway that runs or, with none and no address to insist on, with
// the database in the data folder.
func (t *target) read(cmd *cobra.Command, ask func(c *admin.Client) error) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	c.Source = "the gateway at " + c.Address
	err = ask(c)
	if t.admin != "" || !errors.Is(err, admin.ErrNoGateway) {
		return err
	}
	o, err := t.offline(cmd.Context())
	if err != nil {
		return err
	}
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
	o, err := t.offline(cmd.Context())
	if err != nil {
		return err
	}
	return o.Decide(ask)
}

// offline is the ledger on the data folder, where no gateway runs.
func (t *target) offline(ctx context.Context) (admin.Offline, error) {
	data, err := t.dir()
	if err != nil {
		return admin.Offline{}, err
	}
	o := admin.Offline{Data: data, Config: readConfig(ctx, data)}
	store := config.DefaultStore()
	if o.Config != nil {
		store = o.Config.Store
	}
	o.Ledger = store.File(data)
	if _, err := os.Stat(o.Ledger); err != nil {
		return o, fmt.Errorf("no gateway is running on %s, and there is no ledger to read: %w; "+
			"name the data folder with --data", data, err)
	}
	return o, nil
}

// readConfig reads the data folder's gateway.hcl; nil when it cannot be read (here and now, without the service's
// environment).
func readConfig(ctx context.Context, data string) *config.Config {
	cfg, diags := engine.CheckConfig(ctx, filepath.Join(data, "gateway.hcl"), slog.New(slog.DiscardHandler))
	if diags.HasErrors() {
		return nil
	}
	return cfg
}
