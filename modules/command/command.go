// Package command has the commands under `fareway gateway`. They ask the admin API of the gateway that runs or, where
// that makes sense, the ledger of one that does not.
package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
)

func init() {
	var ours *cobra.Command
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "gateway",
		Short: "Runs and operates the prepaid model gateway",
		CobraFunc: func(cmd *cobra.Command) {
			ours = cmd
			setUpCommand(cmd)
		},
	})
	// Caddy makes the root command itself and shows it to nobody: who is added to it after ours reaches it through ours.
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "gateway-help", Short: "Shows the help of `gateway`",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Hidden = true
			cmd.RunE = func(*cobra.Command, []string) error { return ours.Help() }
			root := ours.Root()
			reloadToo(root)
			sayVersion(root)
			withholdDownloads(root)
			root.Example = strings.ReplaceAll(root.Example, "$ caddy ", "$ "+gateway.Program()+" ")
		},
	})
}

// moreCommands make the subcommands that other packages have registered.
var moreCommands []func() *cobra.Command

// Register adds a subcommand to `fareway gateway` that is made by newCommand. Packages that this one does
// not import call it in their init, as with caddycmd.RegisterCommand.
func Register(newCommand func() *cobra.Command) {
	moreCommands = append(moreCommands, newCommand)
}

// setUpCommand makes `fareway gateway` with all its subcommands.
//
// Every command exits with 0, or prints one line on stderr and exits with 1. With --json it prints one JSON object on
// stdout, an array for a list of accounts or keys, or JSON lines for what grows for ever (usage, the journal, the
// audit trail); the types of package admin have the shapes.
func setUpCommand(gateway *cobra.Command) {
	gateway.Use = "gateway"
	gateway.Long = `Runs and operates the prepaid gateway for language models.

  fareway gateway up

starts one with a configuration to begin with, an account and a key. The other
commands speak to the gateway that runs on a data folder (--data), or at an
admin address (--admin).`
	gateway.SetHelpTemplate(helpTemplate)
	gateway.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
			return noCommand(cmd, cmd.Flags().Arg(0)) // the flag would be right if the command were
		}
		return wrongFlag(cmd, err)
	})
	gateway.AddCommand(planCommand(), applyCommand(), rollbackCommand(), diffCommand(), historyCommand(), upgradeCommand(),
		topCommand(), supportCommand(), doctorCommand())
	gateway.AddCommand(upCommand(), statusCommand(), nodesCommand(), checkCommand(), fmtCommand(), schemaCommand(),
		accountCommand(),
		keyCommand(), creditCommand(), usageCommand(), ledgerCommand(), connectCommand(), modelsCommand(), initCommand(),
		backupCommand(), restoreCommand(),
		pluginCommand(), providerCommand(), routeCommand(), explainCommand(), alertCommand(), hookCommand(),
		portalCommand(), paymentCommand(), statementCommand())
	for _, newCommand := range moreCommands {
		gateway.AddCommand(newCommand())
	}
	gateway.AddCommand(helpCommand())
	group(gateway)
	ownCommands(gateway)
}

// helpTemplate is cobra's own, without the footer that Caddy adds to it: our commands are not in its manual.
const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

// group makes a command that only has subcommands: alone it prints its help, and a wrong name is an error, which
// cobra would pass over.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return noCommand(cmd, args[0])
	}
	return cmd
}

func noCommand(group *cobra.Command, given string) error {
	names := make([]string, 0, len(group.Commands()))
	for _, c := range group.Commands() {
		names = append(names, c.Name())
	}
	if name := config.Nearest(given, names); name != "" {
		return fmt.Errorf("there is no command %q: did you mean `%s %s`?", given, group.CommandPath(), name)
	}
	return fmt.Errorf("there is no command %q: `%s --help` shows what there is", given, group.CommandPath())
}

// target is where a command finds its gateway.
type target struct {
	data, admin string
	config      string // the gateway's Caddyfile, which names the data folder in place of data
	from        string // the dsn of a server that is asked in their place
}

// addFromFlag is of commands that only read the ledger.
func (t *target) addFromFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.from, "from", "",
		"read a ledger in PostgreSQL, by the `DSN` of its server or of a replica (env:NAME and file:PATH, too)")
	addPreCheck(cmd, func(cmd *cobra.Command) error {
		for _, other := range [...]string{"data", "config", "admin"} {
			if err := notBoth(cmd, "from", other, "--from is the server itself"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *target) addFlags(cmd *cobra.Command) {
	t.addPlaceFlags(cmd)
	cmd.Flags().StringVar(&t.admin, "admin", "", "the admin API's `ADDRESS`, host:port or unix//path (default: the data "+
		"folder's socket)")
}

// addPlaceFlags are those of a command that needs the files and no gateway.
func (t *target) addPlaceFlags(cmd *cobra.Command) {
	t.addDataFlag(cmd)
	cmd.Flags().StringVar(&t.config, "config", "",
		"the gateway's `CADDYFILE`, which names its data folder and its HCL file")
	addPreCheck(cmd, func(cmd *cobra.Command) error {
		return notBoth(cmd, "config", "data", "the Caddyfile names the data folder")
	})
}

func (t *target) addDataFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.data, "data", gateway.DefaultDataDir(), "the gateway's data folder `DIR`")
}

// addPreCheck has a command's flags looked at before it runs, after what looks at them already.
func addPreCheck(cmd *cobra.Command, look func(cmd *cobra.Command) error) {
	first := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if first != nil {
			if err := first(cmd, args); err != nil {
				return err
			}
		}
		return look(cmd)
	}
}

// dir is the data folder, absolute.
func (t *target) dir() (string, error) {
	if t.config != "" {
		app, err := gateway.ReadCaddyfile(t.config)
		if err != nil {
			return "", err
		}
		_, data, err := paths(app)
		return data, err
	}
	data, err := filepath.Abs(t.data)
	if err != nil {
		return "", fmt.Errorf("finding the data folder: %w", err)
	}
	return data, nil
}

func (t *target) client() (*admin.Client, error) {
	data, err := t.dir()
	if err != nil {
		return nil, err
	}
	return admin.NewClient(data, t.admin)
}

// call does one admin request.
func (t *target) call(cmd *cobra.Command, method, path string, in, out any) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	return c.Call(cmd.Context(), method, path, in, out)
}

// flags lead a command that people are told of to the same gateway.
func (t *target) flags(cmd *cobra.Command) string {
	var flags string
	for _, name := range [...]string{"config", "data", "admin"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			flags += " --" + name + " " + f.Value.String()
		}
	}
	return flags
}

// output is how a command prints its result.
type output struct{ json bool }

func (o *output) addFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
}

// print writes v as JSON, or lets people write it for people.
func (o *output) print(cmd *cobra.Command, v any, people func(w io.Writer)) error {
	if o.json {
		e := json.NewEncoder(human.ScreenJSON(cmd.OutOrStdout()))
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	people(screen(cmd))
	return nil
}

// screen is where a command writes for people: some of it comes from upstreams, clients, and whoever names things, and
// nothing of it may move a terminal's cursor.
func screen(cmd *cobra.Command) io.Writer { return human.Screen(cmd.OutOrStdout()) }

// shownError is an error that cobra prints, whose text may repeat what came over a network.
type shownError struct{ error }

func (e shownError) Error() string { return human.PrintableLines(e.error.Error()) }
func (e shownError) Unwrap() error { return e.error }

// table writes aligned columns.
func table(w io.Writer, rows func(w io.Writer)) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows(t)
	t.Flush()
}

// orPruned prints the answer about a request that was pruned as JSON, where that was asked for; as text the error says
// it all.
func (o output) orPruned(cmd *cobra.Command, err error) error {
	pruned, ok := errors.AsType[*admin.PrunedProblem](err)
	if !ok || !o.json {
		return err
	}
	if err := o.print(cmd, pruned, nil); err != nil {
		return err
	}
	return exitSilently(cmd)
}

// exitSilently ends a command with status 1 when everything has been said already.
func exitSilently(cmd *cobra.Command) error {
	cmd.SilenceErrors = true
	return errors.New("the command has failed")
}
