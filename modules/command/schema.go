package command

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/plugins/builtin"
	"github.com/fareway/fareway/plugins/llm/settings"
)

func schemaCommand() *cobra.Command {
	var (
		out      output
		snippets bool
	)
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Prints the reference of the HCL configuration",
		Long: `Prints the reference of the HCL configuration, with the settings of the built-in
providers: every block and attribute, what it takes, its default and what it does.
It is Markdown. With --json it is what Terraform's tools read of a provider's blocks,
the one form that tools for HCL share. No language server for HCL takes the schema of
another language than its own: --snippets prints blocks and attributes as snippets
in the form of VS Code, which other editors complete from, too.`,
		Example: `  fareway gateway schema
  mkdir -p .vscode && fareway gateway schema --snippets > .vscode/fareway.code-snippets`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			plugins := make(map[string]settings.Schema)
			for _, name := range builtin.Names() {
				schema, err := builtin.Schema(name)
				if err != nil {
					return fmt.Errorf("reading the settings of %s: %w", name, err)
				}
				plugins[name] = schema
			}
			var failed error
			err := out.print(cmd, config.NewReference(plugins), func(w io.Writer) {
				if !snippets {
					failed = config.WriteMarkdown(w, plugins)
					return
				}
				e := json.NewEncoder(w)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				failed = e.Encode(config.Snippets(plugins))
			})
			if err != nil {
				return err
			}
			return failed
		},
	}
	cmd.Flags().BoolVar(&snippets, "snippets", false, "print snippets for editors")
	addPreCheck(cmd, func(cmd *cobra.Command) error {
		return notBoth(cmd, "snippets", "json", "snippets are JSON of their own")
	})
	out.addFlag(cmd)
	return cmd
}
