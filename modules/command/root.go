package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/gateway"
)

// helpCommand is `gateway help`, which cobra makes for the root only.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]...",
		Short:   "Shows the help of a command",
		Example: "  fareway gateway help\n  fareway gateway help account create",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			shown := cmd.Parent()
			for _, name := range args {
				i := slices.IndexFunc(shown.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
				if i < 0 {
					return noCommand(shown, name)
				}
				shown = shown.Commands()[i]
			}
			shown.SetOut(cmd.OutOrStdout())
			return shown.Help()
		},
	}
}

// sayVersion makes Caddy's command `version` say first what this program is.
func sayVersion(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() == "version" {
			cmd.Short = "Prints the versions of Fareway and of the Caddy in it"
			cmd.Long = cmd.Short + "."
			cmd.RunE = func(cmd *cobra.Command, _ []string) error {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
				return err
			}
		}
	}
}

// versionText is Fareway's version and commit, and Caddy's version beside it.
func versionText() string {
	_, caddys := caddy.Version()
	version := gateway.Version()
	if commit := gateway.Commit(); commit != "" && !strings.Contains(version, commit) {
		version += ", commit " + commit
	}
	return fmt.Sprintf("fareway %s (caddy %s)", version, caddys)
}

// withholdDownloads takes back what Caddy offers to put in this program's place: its build service knows Caddy's own
// modules, and what it sends has no gateway in it.
func withholdDownloads(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		var instead string
		switch cmd.Name() {
		case "upgrade":
			instead = "build a newer one from its source (`git pull && make install`)"
		case "add-package", "remove-package":
			instead = "change xcaddy.json in its source and build it with `make xcaddy`"
		default:
			continue
		}
		cmd.Hidden = true
		cmd.Short = "Not for this program"
		cmd.Long = fmt.Sprintf("`%s` would put a download of Caddy in the place of this program, without the gateway.\n"+
			"Instead, %s.", cmd.Name(), instead)
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("`%s %s` would put a download of Caddy in the place of this program, without the gateway; "+
				"instead, %s", gateway.Program(), cmd.Name(), instead)
		}
	}
}
