package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/internal/connect"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// connection is what a client is pointed at, and how this machine reaches that.
type connection struct {
	connect.Gateway
	dial string // host:port
}

// connectRun is one `fareway gateway connect`.
type connectRun struct {
	to                 target
	out                output
	url, key           string
	family, home       string
	window, maxOutput  int64
	write, undo, probe bool
}

// Connect is what it has to tell, and its --json output.
type connectView struct {
	Client string `json:"client"`
	Family string `json:"family"`
	// Env are variables to set; Start is the command that starts the client.
	Env    map[string]string `json:"env,omitempty"`
	export string
	Start  string `json:"start,omitempty"`
	Note   string `json:"note,omitempty"`
	// Examples are programs that send a request.
	Examples []connect.Example `json:"examples,omitempty"`
	// ContextWindow is what the client is told, in tokens.
	ContextWindow int64 `json:"context_window,omitempty"`
	// MaxOutputTokens is the longest reply that the client is told to ask for, 0 where it has no setting for that.
	MaxOutputTokens int64 `json:"max_output_tokens,omitempty"`
	// Warnings are what would spoil the connection.
	Warnings []string         `json:"warnings,omitempty"`
	File     *connectFileView `json:"file,omitempty"`
	Probe    *probeView       `json:"probe,omitempty"`
}

type connectFileView struct {
	Path string `json:"path"`
	// Content is what to put there, when nothing was written.
	Content  string `json:"content,omitempty"`
	Written  bool   `json:"written"`
	Restored bool   `json:"restored"`
	// Kept are settings that --undo has left, for somebody has changed them since.
	Kept   []string `json:"kept,omitempty"`
	Backup string   `json:"backup,omitempty"`
}

// Probe is the reply to a probe.
type probeView struct {
	Text             string `json:"text"`
	BilledMicrocents int64  `json:"billed_microcents"`
}

// ConnectList is a client that can be connected.
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
beside it; --undo takes exactly that out again and puts back what it replaced,
also when the client has written to the file since.

Where the gateway is, it asks the one that runs on the data folder; the client's
context window is what the gateway says of its model. The longest reply that the
client asks for is limited where it has a setting for that: the gateway holds
credits for all of it while a request runs, and a balance that cannot bear the
hold is refused with 402.

The settings file is looked for where the client looks: the variables that move
it, such as CLAUDE_CONFIG_DIR, CODEX_HOME, QWEN_HOME, CLINE_DIR, CLINE_DATA_DIR
and XDG_CONFIG_HOME, are followed, unless --home says whose settings are meant.`,
		Example: `  fareway gateway connect
  fareway gateway connect codex --write --probe
  fareway gateway connect claude --data ./data --write
  fareway gateway connect codex --undo
  fareway gateway connect opencode --family messages --url https://models.example.com --key fwk_...`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, other := range [...]string{"write", "probe"} {
				err := notBoth(cmd, "undo", other, "--undo takes out what --write has put there; use one of the two")
				if err != nil {
					return err
				}
			}
			if len(args) == 0 {
				return run.list(cmd)
			}
			return run.connect(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&run.url, "url", "",
		"the gateway's public `URL` (default: what the gateway on the data folder says)")
	flags.StringVar(&run.key, "key", "", "the `KEY` that pays (default: the one in the data folder's "+trialKeyFile+")")
	flags.StringVar(&run.family, "family", "", "the request shape `NAME`, for clients that speak several: chat, "+
		"responses or messages")
	flags.StringVar(&run.home, "home", "", "the home folder `DIR` of the client's settings (default: yours)")
	flags.Int64Var(&run.window, "context-window", 0,
		"the client's context window in `TOKENS` (default: what the gateway says)")
	flags.Int64Var(&run.maxOutput, "max-output", 0, "the longest reply that the client asks for, in `TOKENS` "+
		"(default: 16384, or a quarter of the window)")
	flags.BoolVar(&run.write, "write", false, "write the client's settings file")
	flags.BoolVar(&run.undo, "undo", false, "take out of the settings file what --write has put there")
	flags.BoolVar(&run.probe, "probe", false, "send one real request, which is charged")
	run.to.addDataFlag(cmd)
	run.out.addFlag(cmd)
	return cmd
}

func (run *connectRun) list(cmd *cobra.Command) error {
	if run.write || run.undo || run.probe {
		return errors.New("CLIENT is missing: `fareway gateway connect` lists those that are known")
	}
	views := make([]connectListView, 0, len(connect.Clients))
	for _, c := range connect.Clients {
		views = append(views, connectListView{c.Name, c.Title, c.Families})
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
	client, err := connect.Find(name)
	if err != nil {
		return err
	}
	v := connectView{Client: client.Name, Start: client.Start, Note: strings.Trim(client.Note+"\n"+client.Checked, "\n")}
	if v.Family, err = client.ChooseFamily(run.family); err != nil {
		return err
	}
	if (run.write || run.undo) && client.File == nil {
		return fmt.Errorf("there is no settings file of %s: use what `fareway gateway connect %s` prints", client.Title,
			client.Name)
	}
	if run.undo {
		return run.restore(cmd, client, v)
	}
	if run.window < 0 {
		return fmt.Errorf("--context-window %d: write a number of tokens, as in 200000", run.window)
	}
	switch {
	case run.maxOutput < 0:
		return fmt.Errorf("--max-output %d: write a number of tokens, as in 8192", run.maxOutput)
	case run.maxOutput > 0 && !client.LimitsOutput:
		return fmt.Errorf("--max-output: there is no setting for it in %s: leave it out", client.Title)
	}
	c, err := run.connection(cmd.Context(), v.Family)
	if err != nil {
		return err
	}
	v.Examples = client.Examples(c.Gateway)
	if client.Env != nil {
		v.Env, v.export = client.Env(c.Gateway), client.Export(c.Gateway)
		v.Warnings = client.Warnings(c.Gateway, os.Getenv, nil, connect.File{}, nil)
	} else if client.File != nil {
		c.Window, v.Warnings = run.contextWindow(cmd.Context(), c)
		if c.Output = run.maxOutput; c.Output == 0 {
			c.Output = connect.OutputLimit(c.Window)
		}
		v.ContextWindow = c.Window
		if client.LimitsOutput {
			v.MaxOutputTokens = c.Output
		}
	}
	var p connect.Change
	if client.File != nil {
		f := client.File(c.Gateway)
		if v.File, p, err = run.settings(client, f); err != nil {
			return fmt.Errorf("connecting %s: %w", client.Title, err)
		}
		// The environment is yours, whosever the home folder is: the client may well be started from it.
		home, getenv, err := run.homeFolder()
		if err != nil {
			return err
		}
		dotEnv := client.VariableFiles(home, getenv)
		v.Warnings = append(v.Warnings, client.Warnings(c.Gateway, os.Getenv, dotEnv, f, p.Content)...)
		v.Warnings = append(v.Warnings, client.KeyWarnings(p.Content, run.locate)...)
	}
	if run.probe { // before anything is written: a connection that does not work changes nothing
		if v.Probe, err = probe(cmd.Context(), c); err != nil {
			unchanged := ""
			if run.write {
				unchanged = ": " + v.File.Path + " is as it was"
			}
			return fmt.Errorf("sending a request to %s: %w%s", c.URL, err, unchanged)
		}
	}
	if run.write {
		if v.File.Backup, err = p.Write(); err != nil {
			return fmt.Errorf("connecting %s: %w", client.Title, err)
		}
	}
	return run.out.print(cmd, v, func(w io.Writer) { printConnect(w, client, v) })
}

// connection puts together what the client is pointed at.
func (run *connectRun) connection(ctx context.Context, family string) (connection, error) {
	c := connection{Gateway: connect.Gateway{URL: strings.TrimRight(run.url, "/"), Key: run.key, Family: family}}
	if run.url == "" {
		data, err := run.to.dir()
		if err != nil {
			return c, err
		}
		e := publicAddress(ctx, data)
		c.URL, c.dial = e.url, e.dial
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" ||
		u.User != nil {
		return c, fmt.Errorf("--url %q: write scheme and host only, as in https://models.example.com", run.url)
	}
	if c.dial == "" {
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		c.dial = net.JoinHostPort(u.Hostname(), port)
	}
	if c.Key == "" {
		data, err := run.to.dir()
		if err != nil {
			return c, err
		}
		b, err := os.ReadFile(filepath.Join(data, trialKeyFile))
		if errors.Is(err, fs.ErrNotExist) {
			return c, fmt.Errorf("there is no %s in %s: give a key with --key, or name the gateway's data folder with --data",
				trialKeyFile, data)
		}
		if err != nil {
			return c, fmt.Errorf("reading the key: %w", err)
		}
		c.Key = strings.TrimSpace(string(b))
	}
	// It is also what keeps quotes and the like out of the files.
	if _, ok := ledger.ParseKey(c.Key); !ok {
		return c,
			errors.New("that is no key of this gateway: `fareway gateway key create --account NAME --name NAME` makes " +
				"one")
	}
	return c, nil
}

// homeFolder is where the client's files lie, and its environment, as far as that moves them: the environment is the
// client's where the home folder is yours.
func (run *connectRun) homeFolder() (home string, getenv func(string) string, err error) {
	if run.home != "" {
		return run.home, func(string) string { return "" }, nil
	}
	if home, err = os.UserHomeDir(); err != nil {
		return "", nil, fmt.Errorf("finding your home folder: %w: name it with --home", err)
	}
	return home, os.Getenv, nil
}

// locate is where a client's file lies.
func (run *connectRun) locate(client connect.Client, f connect.File) (path string, err error) {
	home, getenv, err := run.homeFolder()
	if err != nil {
		return "", err
	}
	return f.Locate(home, client.ReadVariables(home, getenv)), nil
}

// settings is the client's file, and what a write would make of it.
func (run *connectRun) settings(client connect.Client, f connect.File) (*connectFileView, connect.Change, error) {
	path, err := run.locate(client, f)
	if err != nil {
		return nil, connect.Change{}, err
	}
	v := &connectFileView{Path: path, Written: run.write}
	if run.write {
		p, err := f.Plan(path)
		return v, p, err
	}
	content, err := f.Content()
	v.Content = string(content)
	p := connect.Change{Content: content}
	if now, err := os.ReadFile(path); err == nil {
		p.Content = now // for what is wrong in it
	}
	return v, p, err
}

func (run *connectRun) restore(cmd *cobra.Command, client connect.Client, v connectView) error {
	path, err := run.locate(client, client.File(connect.Gateway{Family: v.Family}))
	if err != nil {
		return err
	}
	u, err := connect.Undo(path)
	if err != nil {
		return err
	}
	v.Start, v.Note, v.File = "", "", &connectFileView{Path: path, Restored: true}
	for _, path := range u.Kept {
		v.File.Kept = append(v.File.Kept, strings.Join(path, "."))
	}
	return run.out.print(cmd, v, func(w io.Writer) {
		if u.Same {
			fmt.Fprintf(w, "%s is as it was before.\n", path)
			return
		}
		fmt.Fprintf(w, "What connect had set is out of %s; what others have written there since is still there.\n", path)
		for _, name := range v.File.Kept {
			fmt.Fprintf(w, "%s stays: it is not what connect had set.\n", name)
		}
	})
}

// probe sends one real request in the client's shape.
func probe(ctx context.Context, c connection) (*probeView, error) {
	a, err := connect.Ask(ctx, c.URL, c.Key, connect.ShapeOf(c.Family), clientTo(c.dial).Do)
	if err != nil {
		return nil, err
	}
	return &probeView{a.Text, a.Microcents}, nil
}

func printConnect(w io.Writer, client connect.Client, v connectView) {
	fmt.Fprint(w, v.export)
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
		fmt.Fprintf(w, "\nStart %s with: %s\n", client.Title, v.Start)
	}
	if v.Note != "" {
		fmt.Fprintf(w, "%s\n", v.Note)
	}
	for _, warning := range v.Warnings {
		fmt.Fprintf(w, "Warning: %s\n", warning)
	}
	for _, e := range v.Examples {
		if e.Title != "" {
			fmt.Fprintf(w, "\n%s:\n\n", e.Title)
		}
		fmt.Fprint(w, e.Text)
	}
	if v.Probe != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(v.Probe.Text), "\n")
		fmt.Fprintf(w, "\nOne %s request was answered: %s\nIt cost %s.\n", v.Family, line,
			human.Cents(v.Probe.BilledMicrocents))
	}
}
