package command

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/command/bundle"
	"github.com/fareway/fareway/modules/internal/human"
)

// supportView is the result of `gateway support-bundle`.
type supportView struct {
	File  string `json:"file"` // "" with --list
	Bytes int    `json:"bytes"`
	bundle.Manifest
	// Accounts are what accounts are called in the bundle, by their names and ids. It is not in the bundle.
	Accounts map[string]string `json:"accounts,omitempty"`
}

// maxLogLines bounds --log-lines.
const maxLogLines = 100_000

func supportCommand() *cobra.Command {
	var (
		c    collection
		out  output
		file string
		list bool
	)
	cmd := &cobra.Command{
		Use:   "support-bundle [REQUEST_ID]",
		Short: "Makes one file of what somebody needs who helps, without secrets",
		Long: `Makes one file (tar.gz, yours alone) of what somebody needs who helps: versions, the
machine, status, the configuration without its secrets and what "check" says of it,
metrics, providers and their last failures, routes, what has ended last, the ledger's
and the spool's state, backups, nodes, certificates and the last lines of the log.
With REQUEST_ID also that request: its attempts, its charge, why it was routed so, and
its lines of the log. Nothing is sent anywhere.

Never in it: keys, passwords, tokens, values from env() and file(), prompts, replies.
Of JSON only fields on a list are shown, of the configuration only what its decoder
takes for harmless, without comments; what looks like a secret is taken out besides.
Accounts, keys and clients' addresses stand as account-1, key-1, client-1, unless
--names keeps them. Names of routes, providers and plans, and upstreams' addresses
without users and passwords, are left.

--list shows what would be in it, and writes nothing. Unless the gateway answers, and
serves the file as it is saved, each provider is started for a moment, as "check"
does, for what its plugin says of the file. While the gateway does not run
it has what the disk tells, and says what is missing. --profiles adds the goroutines
and the heap (where Caddy's admin endpoint is asked, not with "admin" of the option).`,
		Example: "  fareway gateway support-bundle\n" +
			"  fareway gateway support-bundle req_0193b0a7c5d07f3a9c1e5d2b7a604f11 --out bundle.tar.gz\n" +
			"  fareway gateway support-bundle --list",
		Args: atMostOne("REQUEST_ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if c.request = args[0]; !strings.HasPrefix(c.request, "req_") {
					return fmt.Errorf("%q is no request's id: it begins with req_, and is in the reply's X-Request-Id and in "+
						"the access line", c.request)
				}
			}
			if c.logLines < 0 || c.logLines > maxLogLines {
				return fmt.Errorf("--log-lines %d: write a number from 0 to %d", c.logLines, maxLogLines)
			}
			b := bundle.New(time.Now())
			b.KeepNames = c.names
			if err := c.collect(cmd, b); err != nil {
				return err
			}
			packed, manifest, err := b.Pack(cmd.Context(), c.request)
			if err != nil {
				return err
			}
			v := supportView{Bytes: len(packed), Manifest: manifest}
			if !c.names {
				v.Accounts = b.Accounts()
			}
			if !list {
				if file == "" {
					file = b.Name()
				}
				if v.File, err = filepath.Abs(file); err != nil {
					return fmt.Errorf("finding where the bundle goes: %w", err)
				}
				if err := bundle.Write(v.File, packed); err != nil {
					return fmt.Errorf("%w; name another file with --out", err)
				}
			}
			return out.print(cmd, v, func(w io.Writer) { printSupport(w, &v) })
		},
	}
	c.to.addFlags(cmd)
	out.addFlag(cmd)
	cmd.Flags().StringVar(&file, "out", "", "the bundle's `FILE`, which is made (default: fareway-support-TIME.tar.gz, "+
		"here)")
	cmd.Flags().BoolVar(&list, "list", false, "show what would be in it, and write nothing")
	cmd.Flags().BoolVar(&c.names, "names", false, "keep the names and ids of accounts and keys, and clients' addresses")
	cmd.Flags().BoolVar(&c.profiles, "profiles", false, "add the gateway's goroutines and heap")
	cmd.Flags().IntVar(&c.logLines, "log-lines", 2000, "how many of the log's last lines, at most, are in it")
	addPreCheck(cmd, func(cmd *cobra.Command) error {
		return notBoth(cmd, "list", "out", "--list writes nothing")
	})
	return cmd
}

// atMostOne takes one argument, or none.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%q is one argument too many for `%s`: it takes one %s", args[1], cmd.UseLine(), name)
		}
		return nil
	}
}

// mostAccounts is of how many accounts a person is told what they are called.
const mostAccounts = 20

func printSupport(w io.Writer, v *supportView) {
	if v.File == "" {
		fmt.Fprintf(w, "A bundle would have %s. Nothing was written.\n\n", human.Count(v.Bytes, "byte"))
	} else {
		fmt.Fprintf(w, "%s has %s, and is yours alone to read (0600). In it:\n\n", v.File, human.Count(v.Bytes, "byte"))
	}
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "FILE\tBYTES\tWHAT\tTAKEN OUT")
		for i := range v.Files {
			f := &v.Files[i]
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Name, human.Thousands(int64(f.Bytes)), f.What, orDash(f.RedactedText()))
		}
	})
	if len(v.Missing) > 0 {
		fmt.Fprint(w, "\nNot in it:\n\n")
		for _, m := range v.Missing {
			fmt.Fprintf(w, "  %s: %s\n", m.What, human.Printable(m.Why))
		}
	}
	fmt.Fprintln(w)
	switch names := slices.Sorted(maps.Keys(v.Accounts)); {
	case v.Names:
		fmt.Fprintln(w, "Accounts, keys and clients' addresses are called in it as they are (--names).")
	case len(names) == 0:
	default:
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "acct_") })
		fmt.Fprintln(w, "What accounts are called in it (you are told here, and nobody by the bundle):")
		for _, name := range names[:min(len(names), mostAccounts)] {
			fmt.Fprintf(w, "  %s is %s\n", v.Accounts[name], human.Printable(name))
		}
		if more := len(names) - mostAccounts; more > 0 {
			fmt.Fprintf(w, "  and %s, which --json lists\n", human.Count(more, "other"))
		}
	}
	if v.File != "" {
		fmt.Fprintf(w, "\nLook at it before you pass it on: tar -xzOf %s | less\n", v.File)
	}
}
