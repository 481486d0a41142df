package command

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
)

// Check is the result of `gateway check`.
type checkView struct {
	OK          bool                `json:"ok"`
	File        string              `json:"file"`
	Diagnostics *config.Diagnostics `json:"diagnostics"` // an array: severity, summary, detail, file, line, column
	// Upstreams is what --online has found, in the same form.
	Upstreams *config.Diagnostics `json:"upstreams,omitempty"`
}

func checkCommand() *cobra.Command {
	var (
		out    output
		online bool
	)
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Checks an HCL configuration without running it",
		Long: `Checks an HCL configuration without running it: it says what is wrong and where,
and exits with 1. It starts the providers that the file names for a moment, to
ask them for their settings and whether they can work with those of the file.
With --online it also asks their upstreams whether they answer, have the models
of the routes, and take prompts as long as those say. What is found so are
warnings; a gateway looks for them when it starts, too.`,
		Example: "  fareway gateway check gateway.hcl\n  fareway gateway check gateway.hcl --online",
		Args:    exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, diags := engine.TryConfig(cmd.Context(), args[0], slog.New(slog.DiscardHandler))
			v := checkView{OK: !diags.HasErrors(), File: args[0], Diagnostics: diags}
			if online && v.OK {
				v.Upstreams = engine.CheckUpstreams(cmd.Context(), cfg, slog.New(slog.DiscardHandler))
			}
			var failed error
			err := out.print(cmd, v, func(w io.Writer) {
				failed = diags.Write(w, human.IsTerminal(w))
				if v.Upstreams != nil {
					failed = errors.Join(failed, v.Upstreams.Write(w, human.IsTerminal(w)))
				}
				if v.OK {
					fmt.Fprintf(w, "%s is fine: %s.\n", args[0], contents(cfg))
				}
			})
			switch {
			case err != nil:
				return err
			case failed != nil:
				return failed
			case !v.OK:
				return exitSilently(cmd)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&online, "online", false, "ask the upstreams, too")
	out.addFlag(cmd)
	return cmd
}

// contents sums a configuration up.
func contents(cfg *config.Config) string {
	return strings.Join([]string{
		human.Count(len(cfg.Providers), "provider"), human.Count(len(cfg.Routes), "route"),
		human.Count(len(cfg.Profiles), "profile"), human.Count(len(cfg.Plans), "plan"),
	}, ", ")
}
