package command

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/telemetry"
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
		RunE: func(cmd *cobra.Command, args []string) error {
			p, ok := builtin.New(args[0])
			if !ok {
				return fmt.Errorf("there is no built-in provider %q: there are %s", args[0], strings.Join(builtin.Names(), ", "))
			}
			spans, end, err := telemetry.SpansOfProvider(cmd.Context(), args[0], gateway.Version())
			if err != nil {
				slog.Warn("sending no spans", "error", err) // requests go before them
			} else if spans != nil {
				otel.SetTracerProvider(spans)
			}
			defer end()
			provider.Serve(p)
			return nil
		},
	}
}
