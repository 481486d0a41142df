package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/builtin"
	"github.com/fareway/fareway/plugins/conformance"
)

func pluginCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Shows, makes and tests provider plugins",
		Long: `Provider plugins are the gateway's backends, each a program of its own: those that
are built in, and the files fareway-provider-NAME in plugin_dir.`,
	}
	cmd.AddCommand(pluginListCommand(), pluginInfoCommand(), pluginNewCommand(), pluginTestCommand(), pluginProtoCommand())
	return group(cmd)
}

func pluginProtoCommand() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "proto",
		Short: "Prints the protocol between the gateway and its plugins, for authors in any language",
		Long: `Prints the protocol between the gateway and its plugins, provider.proto: the file to
generate code from, and in its comments the specification of the handshake, the life
of the process, and each message. examples/provider-node is a provider by it.`,
		Example: "  fareway gateway plugin proto > provider.proto",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := struct {
				Name string `json:"name"` // of the file
				Text string `json:"text"`
			}{"provider.proto", conformance.Document()}
			return out.print(cmd, v, func(w io.Writer) { fmt.Fprint(w, v.Text) })
		},
	}
	out.addFlag(cmd)
	return cmd
}

// program is a plugin's program.
type program struct {
	name string
	argv []string
	env  []string
}

// findProgram is the program of a plugin that an operator names by its file, or by the name of a built-in one.
func findProgram(given string) (program, error) {
	_, err := os.Stat(given)
	if !strings.ContainsRune(given, filepath.Separator) && (err != nil || builtin.Has(given)) {
		if builtin.Has(given) {
			self, err := os.Executable()
			if err != nil {
				return program{}, fmt.Errorf("finding this executable, which has the plugin: %w", err)
			}
			// Caddy's packages look for a home as soon as they are loaded.
			return program{given, []string{self, "gateway", "provider", given}, []string{"HOME=/nonexistent"}}, nil
		}
		if name := config.Nearest(given, builtin.Names()); name != "" {
			return program{}, fmt.Errorf("there is no file %q and no built-in provider of this name: did you mean %s?", given,
				name)
		}
		return program{}, fmt.Errorf("there is no file %q and no built-in provider of this name: name a plugin's file, or "+
			"one of %s", given, strings.Join(builtin.Names(), ", "))
	}
	if err != nil {
		return program{}, fmt.Errorf("finding the plugin: %w", err)
	}
	path, err := filepath.Abs(given)
	if err != nil {
		return program{}, fmt.Errorf("finding the plugin: %w", err)
	}
	return program{name: given, argv: []string{path}}, nil
}
