package command

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
)

func upgradeCommand() *cobra.Command {
	var t target
	var o output
	var program string
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Puts a new program in the place of a gateway that runs",
		Long: `Puts a new program in the place of a gateway that was started by ` + "`fareway run`" + `, and
ends no request for it. Without --binary it is the program at the path of the one
that runs, which may be a newer one by now.

The new program says its version and validates the configuration. Then the gateway
starts it with its own arguments, environment and sockets. When it needs nothing
but the ledger, the gateway lets it have that: for this moment connections wait,
and none is refused. What runs goes on in the old process until it ends, or
drain_timeout is over; that process ends then. Where the new program fails before
it has the ledger, the old process goes on as if nothing had been, and says why.

As a service of systemd it stays the same service, with another main process: no
restart is needed, and none is to follow.`,
		Example: "  fareway gateway upgrade\n  fareway gateway upgrade --binary /opt/fareway/fareway-1.4",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var in admin.Upgrade
			if program != "" {
				var err error
				if in.Program, err = filepath.Abs(program); err != nil {
					return fmt.Errorf("finding the program: %w", err)
				}
			}
			var v admin.Upgraded
			if err := t.call(cmd, "POST", "/fareway/upgrade", in, &v); err != nil {
				return err
			}
			return o.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Process %d serves now: %s, %s. Requests waited for %d ms.\n", v.PID, v.Program, v.Version,
					v.PausedMS)
				if v.Running > 0 {
					fmt.Fprintf(w, "Process %d goes on with %s until %s at the latest.\n", v.Before,
						human.Count(int64(v.Running), "request"), human.Moment(v.Until))
				}
			})
		},
	}
	cmd.Flags().StringVar(&program, "binary", "", "the new program's `FILE`")
	t.addPlaceFlags(cmd) // the admin API starts programs on its socket only
	o.addFlag(cmd)
	return cmd
}
