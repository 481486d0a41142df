package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
)

// reloadToo makes Caddy's command `reload` load the HCL file in every case. Caddy passes over a configuration that it
// has already, and knows by its digest only which HCL it began with: what was saved since then serves by itself.
func reloadToo(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() != "reload" {
			continue
		}
		caddys := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := caddys(cmd, args); err != nil {
				return err
			}
			return reloadHCL(cmd)
		}
	}
}

// reloadHCL asks the gateway of the Caddyfile that was reloaded, where it can be found from here.
func reloadHCL(cmd *cobra.Command) error {
	file := cmd.Flag("config").Value.String()
	if file == "" {
		file = caddyFile // as Caddy does
	}
	app, err := gateway.ReadCaddyfile(file)
	if err != nil {
		return nil // it has no gateway, or is no Caddyfile: Caddy has taken it
	}
	_, data, err := paths(app)
	if err != nil {
		return err
	}
	c, err := admin.NewClient(data, "")
	if err != nil {
		return err
	}
	var v admin.Reloaded
	if err := c.Call(cmd.Context(), "POST", "/fareway/reload?by=reload", nil, &v); err != nil {
		if errors.Is(err, admin.ErrNoGateway) {
			return nil // another machine's
		}
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Configuration %d serves, since %s.\n", v.Number, human.Moment(v.InForce))
	return err
}
