package gateway

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

// verifyView is the result of `gateway ledger verify`.
type verifyView struct {
	ledger.Report
	Source string `json:"source"` // the admin address that was asked, or the path of the database
}

func ledgerCommand() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "ledger",
		Short: "Verifies the ledger",
		Long:  "Looks after the ledger: the append-only journal of all money.",
	})
	cmd.AddCommand(ledgerVerifyCommand())
	return cmd
}

func ledgerVerifyCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Recomputes every balance and every charge",
		Long: `Recomputes every balance, every hold and every charge from usage and price, and
the hash chain of every account. It exits with 0 when all agree, and with 1 and
the first entry that does not otherwise.

It asks the gateway that runs, and reads the files in the data folder when none
does. It changes nothing.`,
		Example: "  fareway gateway ledger verify\n  fareway gateway ledger verify --data /var/lib/fareway --json",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := to.verify(cmd)
			if err != nil {
				return err
			}
			err = out.print(cmd, v, func(w io.Writer) {
				fmt.Fprintf(w, "Looked at %s: %s, %s of money, %s, %s.\n", v.Source, count(v.Accounts, "account"),
					count(v.Entries, "movement"), count(v.Requests, "request"), count(v.Holds, "live hold"))
				if v.OK {
					fmt.Fprintln(w, "The ledger is clean.")
				}
			})
			switch {
			case err != nil:
				return err
			case v.OK:
				return nil
			case out.json:
				return silent(cmd)
			}
			return fmt.Errorf("the ledger does not agree at %s: %s", v.Entry, v.Problem)
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// verify asks the running gateway or, with none and no address to insist on, reads the files.
func (t *target) verify(cmd *cobra.Command) (verifyView, error) {
	c, err := t.client()
	if err != nil {
		return verifyView{}, err
	}
	v := verifyView{Source: "the gateway at " + c.address}
	err = c.call(cmd.Context(), "POST", "/fareway/ledger/verify", nil, &v.Report)
	if t.admin != "" || !errors.Is(err, errNoGateway) {
		return v, err
	}
	data, err := t.dir()
	if err != nil {
		return v, err
	}
	v.Source = databasePath(cmd, data)
	if _, err := os.Stat(v.Source); err != nil {
		return v, fmt.Errorf("no gateway is running on %s, and there is no ledger to read: %w; name the data folder with --data", data, err)
	}
	v.Report, err = sqlite.VerifyFile(cmd.Context(), v.Source)
	return v, err
}

// databasePath is where the data folder's ledger is: where its gateway.hcl says or, when that cannot be read
// (here and now, without the service's environment), where it is by default.
func databasePath(cmd *cobra.Command, data string) string {
	name := "fareway.db"
	cfg, diags := engine.CheckConfig(cmd.Context(), filepath.Join(data, "gateway.hcl"), slog.New(slog.DiscardHandler))
	if !diags.HasErrors() {
		name = cfg.Store.Path
	}
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(data, name)
}
