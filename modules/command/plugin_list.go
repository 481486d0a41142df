package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/plugins/builtin"
	"github.com/fareway/fareway/plugins/host"
)

func pluginListCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Shows the plugins that run, those that are built in, and the files in plugin_dir",
		Long: `Shows the plugins of the gateway that runs: those that its providers run, with how
they do, the built-in ones that nothing uses, and so the files in plugin_dir. What a
plugin said when it crashed last stands below.`,
		Example: "  fareway gateway plugin list",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []admin.Plugin
			if err := to.call(cmd, "GET", "/fareway/plugins", nil, &list); err != nil {
				return err
			}
			return out.print(cmd, list, func(w io.Writer) { printPlugins(w, list) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func pluginInfoCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:   "info NAME|FILE",
		Short: "Shows one plugin, with the settings that it takes",
		Long: `Shows one plugin: its version, the sha256 to pin it by, what it can do, how it runs,
and the settings that it takes, with their documentation. It asks the gateway that
runs. A built-in plugin, or one that is named by its file, it shows without one, too;
for that it starts the plugin for a moment.`,
		Example: "  fareway gateway plugin info openai\n" +
			"  fareway gateway plugin info ./fareway-provider-hello",
		Args: exactly("NAME|FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := to.plugin(cmd, args[0])
			if err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printPlugin(w, v) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// plugin is the plugin of a name, or of a file.
func (t *target) plugin(cmd *cobra.Command, given string) (v admin.Plugin, err error) {
	if strings.ContainsRune(given, filepath.Separator) {
		return aboutPlugin(cmd.Context(), "", given)
	}
	err = t.call(cmd, "GET", "/fareway/plugins/"+url.PathEscape(given), nil, &v)
	switch {
	case t.admin != "" || !errors.Is(err, admin.ErrNoGateway):
		return v, err
	case builtin.Has(given):
		return aboutPlugin(cmd.Context(), given, "")
	case isThere(given):
		return aboutPlugin(cmd.Context(), "", given)
	}
	return v, fmt.Errorf("%s is no built-in plugin and no file, and there is nobody to ask for others: %w", given, err)
}

// aboutPlugin asks a plugin what it is: a built-in one by its name, or a file.
func aboutPlugin(ctx context.Context, name, file string) (admin.Plugin, error) {
	if file != "" {
		if info, err := os.Stat(file); err != nil {
			return admin.Plugin{}, fmt.Errorf("finding the plugin: %w", err)
		} else if info.IsDir() {
			return admin.Plugin{}, fmt.Errorf("%s is a folder: name the plugin's file", file)
		}
	}
	options := host.Options{Logger: slog.New(slog.DiscardHandler)}
	origin, about, err := engine.AboutPlugin(ctx, options, name, file)
	if err != nil {
		return admin.Plugin{}, err
	}
	return admin.Plugin{Name: origin.Plugin, Builtin: origin.File == "", File: origin.File, SHA256: origin.SHA256,
		Version: about.Version, Capabilities: about.Capabilities.Names(),
		Providers: []admin.PluginProvider{}, Settings: new(admin.ViewSchema(about.Schema))}, nil
}

func printPlugins(w io.Writer, list []admin.Plugin) {
	var notes []string
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "PLUGIN\tVERSION\tPROVIDER\tSTATE\tCALLS\tMEMORY\tSTREAMS\tRESTARTS\tFROM")
		for _, p := range list {
			if p.Problem != "" {
				notes = append(notes, fmt.Sprintf("Plugin %s cannot be used: %s", p.Name, sentence(p.Problem)))
			}
			notes = append(notes, replacedNotes(p)...)
			for _, one := range p.Providers {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", p.Name, orDash(p.Version), one.Name, one.State,
					carriedBy(one), memory(one.MemoryBytes), one.Streams, one.Restarts, from(p))
				notes = append(notes, providerNotes(one)...)
			}
			if len(p.Providers) == 0 {
				fmt.Fprintf(w, "%s\t%s\t-\tnot used\t-\t-\t-\t-\t%s\n", p.Name, orDash(p.Version), from(p))
			}
		}
	})
	if len(notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
}

// providerNotes are what there is to say of a provider that is not well, or was not.
func providerNotes(p admin.PluginProvider) (notes []string) {
	if p.Problem != "" {
		notes = append(notes, fmt.Sprintf("Provider %s is not healthy: %s", p.Name, sentence(p.Problem)))
	}
	for _, missing := range p.Unconfined {
		notes = append(notes, fmt.Sprintf("Provider %s is not confined as written, without %s", p.Name, sentence(missing)))
	}
	if c := p.LastCrash; c != nil {
		also := ""
		if n := total(p.Failures); n > 1 {
			also = fmt.Sprintf(" (the last of %d failures: %s)", n, counts(p.Failures))
		}
		notes = append(notes, fmt.Sprintf("Provider %s %s at %s%s: %s", p.Name, cmp.Or(failed[host.Cause(c.Cause)], "failed"),
			human.Moment(c.At), also, sentence(c.Why)))
	}
	if n := total(p.Violations); n > 0 {
		notes = append(notes, fmt.Sprintf("Provider %s broke the plugin protocol %s (%s), the last time so: %s", p.Name,
			human.Count(n, "time"), counts(p.Violations), sentence(p.LastViolation)))
	}
	return notes
}

// replacedNotes say that a plugin's file is no longer what runs.
func replacedNotes(p admin.Plugin) []string {
	if p.ReplacedBy == "" {
		return nil
	}
	return []string{fmt.Sprintf("The file of plugin %s has changed since it was started (its sha256 is %s now): "+
		"`%s reload` starts it, and a crash would, too.", p.Name, p.ReplacedBy, gateway.Program())}
}

// failed says what a provider did.
var failed = map[host.Cause]string{
	host.CauseCrash: "crashed", host.CauseHang: "hung", host.CauseMemory: "took too much memory",
	host.CauseProtocol: "was replaced", host.CauseSlowStart: "did not start in time",
	host.CauseHandshake: "did not start", host.CauseStart: "did not start",
}

func total(counts map[string]int) (n int) {
	for _, one := range counts {
		n += one
	}
	return n
}

// counts lists counts by name.
func counts(byName map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, fmt.Sprintf("%d %s", byName[name], name))
	}
	return strings.Join(list, ", ")
}

func from(p admin.Plugin) string {
	if p.Builtin {
		return "built in"
	}
	return p.File
}

// carriedBy says who makes a provider's calls.
func carriedBy(p admin.PluginProvider) string {
	if p.Carry == "host" {
		return "by the gateway"
	}
	return "by itself"
}

// memory is an amount of memory, or of a disk, for people.
func memory(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// maxMemory says what bounds a provider's memory.
func maxMemory(p admin.PluginProvider) string {
	if p.MaxMemoryBytes == 0 {
		return ""
	}
	return fmt.Sprintf(" (max_memory %s)", memory(p.MaxMemoryBytes))
}

func printPlugin(w io.Writer, p admin.Plugin) {
	table(w, func(w io.Writer) {
		fmt.Fprintf(w, "plugin\t%s, %s\n", p.Name, from(p))
		fmt.Fprintf(w, "version\t%s\n", orDash(p.Version))
		if p.SHA256 != "" {
			fmt.Fprintf(w, "sha256\t%s\n", p.SHA256)
		}
		fmt.Fprintf(w, "can\t%s\n", orDash(strings.Join(p.Capabilities, ", ")))
		for _, one := range p.Providers {
			fmt.Fprintf(w, "provider %s\t%s, calls are made %s\n", one.Name, one.State, carriedBy(one))
			if one.PID != 0 {
				fmt.Fprintf(w, "\tprocess %d since %s, %s of memory%s\n", one.PID, human.Moment(*one.Started),
					memory(one.MemoryBytes), maxMemory(one))
			}
			if len(one.Confined) > 0 {
				fmt.Fprintf(w, "\tconfined: %s\n", strings.Join(one.Confined, ", "))
			}
			fmt.Fprintf(w, "\t%s, %s\n", human.Count(one.Streams, "stream"), human.Count(one.Restarts, "restart"))
			for _, note := range providerNotes(one) {
				fmt.Fprintf(w, "\t%s\n", strings.ReplaceAll(note, "\n", "\n\t"))
			}
		}
		for _, note := range replacedNotes(p) {
			fmt.Fprintf(w, "note\t%s\n", note)
		}
		if p.Problem != "" {
			fmt.Fprintf(w, "problem\t%s\n", strings.ReplaceAll(sentence(p.Problem), "\n", "\n\t"))
		}
	})
	switch {
	case p.Settings == nil || p.Problem != "":
	case len(p.Settings.Attributes)+len(p.Settings.Blocks) == 0:
		fmt.Fprint(w, "\nIt takes no settings.\n")
	default:
		fmt.Fprint(w, "\nIts settings, in a provider's config block:\n")
		printSettings(w, *p.Settings, "  ")
	}
}

// printSettings writes settings as documentation.
func printSettings(w io.Writer, s admin.PluginSettings, indent string) {
	for _, a := range s.Attributes {
		words := []string{a.Type}
		if a.Required {
			words = append(words, "required")
		}
		if a.Secret {
			words = append(words, `a secret: from env("NAME") or file("path") only`)
		}
		fmt.Fprintf(w, "\n%s%s (%s)\n", indent, a.Name, strings.Join(words, ", "))
		wrap(w, a.Doc, indent+"  ")
	}
	for _, b := range s.Blocks {
		word := "a block"
		if b.Many {
			word = "a block, may be repeated"
		}
		fmt.Fprintf(w, "\n%s%s (%s)\n", indent, b.Name, word)
		wrap(w, b.Doc, indent+"  ")
		printSettings(w, b.Settings, indent+"  ")
	}
}

// wrap writes a text in lines of 80.
func wrap(w io.Writer, text, indent string) {
	line := indent
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > 80 && line != indent {
			fmt.Fprintln(w, strings.TrimRight(line, " "))
			line = indent
		}
		line += word + " "
	}
	if line != indent {
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}
