package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/plugins/echo"
	"github.com/fareway/fareway/plugins/openai"
	"github.com/fareway/fareway/plugins/provider"
)

// builtinProviders are the providers in this executable. The engine starts each as a process of its own, with
// the command `gateway provider NAME`.
var builtinProviders = map[string]func() provider.Provider{
	"echo":   echo.New,
	"openai": openai.New,
}

func providerCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "provider NAME",
		Short:   "Runs a built-in provider; the gateway itself calls this",
		Example: "  fareway gateway provider echo",
		Hidden:  true,
		Args:    exactly("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			create, ok := builtinProviders[args[0]]
			if !ok {
				names := slices.Sorted(maps.Keys(builtinProviders))
				return fmt.Errorf("there is no built-in provider %q: there are %s", args[0], strings.Join(names, " and "))
			}
			provider.Serve(create())
			return nil
		},
	}
}
