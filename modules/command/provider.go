package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/plugins/builtin"
	"github.com/fareway/fareway/plugins/provider"
)

func providerCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "provider NAME",
		Short:   "Runs a built-in provider; the gateway itself calls this",
		Example: "  fareway gateway provider echo",
		Hidden:  true,
		Args:    exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, ok := builtin.New(args[0])
			if !ok {
				return fmt.Errorf("there is no built-in provider %q: there are %s", args[0], strings.Join(builtin.Names(), ", "))
			}
			provider.Serve(p)
			return nil
		},
	}
}
