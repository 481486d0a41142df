package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// connectRun is one `fareway gateway connect`.
type connectRun struct {
	to                 target
	out                output
	url, key           string
	family, home       string
	write, undo, probe bool
}

// connectView is what it has to tell, and its --json output.
type connectView struct {
	Client string `json:"client"`
	Family string `json:"family"`
	// Env are variables to set; Start is the command that starts the client.
	Env   map[string]string `json:"env,omitempty"`
	Start string            `json:"start,omitempty"`
	Note  string            `json:"note,omitempty"`
	File  *connectFileView  `json:"file,omitempty"`
	Probe *probeView        `json:"probe,omitempty"`
}

type connectFileView struct {
	Path string `json:"path"`
	// Content is what to put there, when nothing was written.
	Content  string `json:"content,omitempty"`
	Written  bool   `json:"written"`
	Restored bool   `json:"restored"`
	Backup   string `json:"backup,omitempty"`
}

// probeView is the reply to a probe.
type probeView struct {
	Text             string `json:"text"`
	BilledMicrocents int64  `json:"billed_microcents"`
}

// connectListView is a client that can be connected.
type connectListView struct {
	Client   string   `json:"client"`
	Title    string   `json:"title"`
	Families []string `json:"families"`
}

func connectCommand() *cobra.Command {
	run := &connectRun{}
	cmd := &cobra.Command{
		Use:   "connect [CLIENT]",
		Short: "Prints, or writes, what points a client at the gateway",
		Long: `Prints what points a client at the gateway. Without CLIENT it lists those that
are known. --write sets it in the client's own settings file and keeps a backup
beside it; --undo puts back what was there before.`,
		Example: `  fareway gateway connect
  fareway gateway connect codex --write --probe
  fareway gateway connect codex --undo
  fareway gateway connect opencode --family messages --url https://models.example.com --key fwk_...`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return run.list(cmd)
			}
			return run.connect(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&run.url, "url", "http://"+defaultListen, "the gateway's public `URL`")
	flags.StringVar(&run.key, "key", "", "the `KEY` that pays (default: the one in the data folder's "+trialKeyFile+")")
	flags.StringVar(&run.family, "family", "", "the request shape `NAME`, for clients that speak several: chat, responses or messages")
	flags.StringVar(&run.home, "home", "", "the home folder `DIR` of the client's settings (default: yours)")
	flags.BoolVar(&run.write, "write", false, "write the client's settings file")
	flags.BoolVar(&run.undo, "undo", false, "put back the settings file as it was before --write")
	flags.BoolVar(&run.probe, "probe", false, "send one real request, which is charged")
	cmd.MarkFlagsMutuallyExclusive("write", "undo")
	cmd.MarkFlagsMutuallyExclusive("probe", "undo")
	run.to.addDataFlag(cmd)
	run.out.addFlag(cmd)
	return cmd
}

func (run *connectRun) list(cmd *cobra.Command) error {
	if run.write || run.undo || run.probe {
		return errors.New("CLIENT is missing: `fareway gateway connect` lists those that are known")
	}
	views := make([]connectListView, 0, len(connectors))
	for _, c := range connectors {
		views = append(views, connectListView{c.name, c.title, c.families})
	}
	return run.out.print(cmd, views, func(w io.Writer) {
		table(w, func(w io.Writer) {
			fmt.Fprintln(w, "CLIENT\tNAME\tFAMILIES")
			for _, v := range views {
				fmt.Fprintf(w, "%s\t%s\t%s\n", v.Client, v.Title, strings.Join(v.Families, ", "))
			}
		})
	})
}

func (run *connectRun) connect(cmd *cobra.Command, name string) error {
	client, err := findConnector(name)
	if err != nil {
		return err
	}
	v := connectView{Client: client.name, Start: client.start, Note: client.note}
	if v.Family, err = client.family(run.family); err != nil {
		return err
	}
	if (run.write || run.undo) && client.file == nil {
		return fmt.Errorf("%s have no settings file: set the variables that `fareway gateway connect %s` prints", client.title, client.name)
	}
	if run.undo {
		return run.restore(cmd, client, v)
	}
	c, err := run.connection(v.Family)
	if err != nil {
		return err
	}
	if client.env != nil {
		v.Env = client.env(c)
	}
	if client.file != nil {
		if v.File, err = run.settings(client.file(c)); err != nil {
			return fmt.Errorf("connecting %s: %w", client.title, err)
		}
	}
	if run.probe {
		if v.Probe, err = probe(cmd.Context(), c); err != nil {
			return fmt.Errorf("sending a request to %s: %w", c.url, err)
		}
	}
	return run.out.print(cmd, v, func(w io.Writer) { printConnect(w, client, v) })
}

// connection puts together what the client is pointed at.
func (run *connectRun) connection(family string) (connection, error) {
	c := connection{url: strings.TrimRight(run.url, "/"), key: run.key, family: family}
	u, err := url.Parse(c.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil {
		return c, fmt.Errorf("--url %q: write scheme and host only, as in https://models.example.com", run.url)
	}
	if c.key == "" {
		data, err := run.to.dir()
		if err != nil {
			return c, err
		}
		b, err := os.ReadFile(filepath.Join(data, trialKeyFile))
		if errors.Is(err, fs.ErrNotExist) {
			return c, fmt.Errorf("there is no %s in %s: give a key with --key, or name the gateway's data folder with --data", trialKeyFile, data)
		}
		if err != nil {
			return c, fmt.Errorf("reading the key: %w", err)
		}
		c.key = strings.TrimSpace(string(b))
	}
	// It is also what keeps quotes and the like out of the files.
	if _, ok := ledger.ParseKey(c.key); !ok {
		return c, errors.New("that is no key of this gateway: `fareway gateway key create --account NAME --name NAME` makes one")
	}
	return c, nil
}

// locate is where a client's file lies.
func (run *connectRun) locate(f connectFile) (string, error) {
	if run.home != "" {
		return f.locate(run.home, func(string) string { return "" }), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding your home folder: %w: name it with --home", err)
	}
	return f.locate(home, os.Getenv), nil
}

func (run *connectRun) settings(f connectFile) (*connectFileView, error) {
	path, err := run.locate(f)
	if err != nil {
		return nil, err
	}
	v := &connectFileView{Path: path, Written: run.write}
	if run.write {
		v.Backup, err = f.write(path)
		return v, err
	}
	content, err := f.content()
	v.Content = string(content)
	return v, err
}

func (run *connectRun) restore(cmd *cobra.Command, client connector, v connectView) error {
	path, err := run.locate(client.file(connection{family: v.Family}))
	if err != nil {
		return err
	}
	if err := undo(path); err != nil {
		return err
	}
	v.Start, v.Note, v.File = "", "", &connectFileView{Path: path, Restored: true}
	return run.out.print(cmd, v, func(w io.Writer) { fmt.Fprintf(w, "%s is as it was before.\n", path) })
}

// probe sends one real request in the client's shape.
func probe(ctx context.Context, c connection) (*probeView, error) {
	u, err := url.Parse(c.url)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	i := slices.IndexFunc(shapes, func(s shape) bool { return s.family == c.family })
	r, err := selftest(ctx, endpoint{url: c.url, dial: net.JoinHostPort(u.Hostname(), port)}, c.key, shapes[i])
	if err != nil {
		return nil, err
	}
	return &probeView{r.text, r.microcents}, nil
}

func printConnect(w io.Writer, client connector, v connectView) {
	for _, name := range slices.Sorted(maps.Keys(v.Env)) {
		fmt.Fprintf(w, "export %s=%s\n", name, v.Env[name])
	}
	if f := v.File; f != nil {
		switch {
		case !f.Written:
			fmt.Fprintf(w, "In %s (--write puts it there):\n\n%s", f.Path, f.Content)
		case f.Backup != "":
			fmt.Fprintf(w, "Written: %s\nBefore:  %s\n", f.Path, f.Backup)
		default:
			fmt.Fprintf(w, "Written: %s\n", f.Path)
		}
	}
	if v.Start != "" {
		fmt.Fprintf(w, "\nStart %s with: %s\n", client.title, v.Start)
	}
	if v.Note != "" {
		fmt.Fprintf(w, "%s\n", v.Note)
	}
	if v.Probe != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(v.Probe.Text), "\n")
		fmt.Fprintf(w, "\nOne %s request was answered: %s\nIt cost %s.\n", v.Family, line, cents(v.Probe.BilledMicrocents))
	}
}
