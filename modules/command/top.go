package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/command/top"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
)

// plainWidth is how wide a frame is that no terminal shows.
const plainWidth = 100

func topCommand() *cobra.Command {
	var (
		to       target
		out      output
		once     bool
		interval time.Duration
	)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Shows live what the gateway does: requests, routes, accounts, money, plugins",
		Long: `Shows live what the gateway does: requests and errors a second, running streams,
times to the first token, what is charged, held and lost, each route, who spends, the
requests that have ended last, providers' processes, and what is wrong. ? shows the
keys. A row that is opened (Enter) shows all that is known: of a request its attempts,
its charge, and why it went where it went.

It asks the admin API every --interval, and costs the gateway the same whatever that
has to do. If the gateway goes away the view says so and waits for it. Of several
nodes it shows the one that it asks.

--once prints one frame as text, --json as JSON, with the rates of one --interval.
NO_COLOR is honored.`,
		Example: "  fareway gateway top\n  fareway gateway top --once\n  fareway gateway top --json --interval 10s",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < top.Shortest || interval > top.Longest {
				return fmt.Errorf("--interval %s: write a duration from %s to %s", interval, top.Shortest, top.Longest)
			}
			c, err := to.client()
			if err != nil {
				return err
			}
			source := gatewaySource{client: c}
			if once || out.json {
				return topOnce(cmd, source, interval, out)
			}
			if err := checkTerminal(cmd); err != nil {
				return err
			}
			// Who cannot reach it at all is told so as by any other command, and not in a view.
			if _, err := source.Read(cmd.Context(), 0, nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return err
			} // one that hangs may come back: the view waits for it
			_, err = tea.NewProgram(top.New(cmd.Context(), source, interval, time.Now), tea.WithContext(cmd.Context()),
				tea.WithInput(cmd.InOrStdin()), tea.WithOutput(cmd.OutOrStdout()), tea.WithFPS(topFramesPerSecond),
				tea.WithEnvironment(quietEnvironment(os.Environ()))).Run()
			if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, tea.ErrProgramKilled) && cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print one frame as text")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "ask the gateway every `DURATION`")
	return cmd
}

// topFramesPerSecond is how often the terminal is looked at: what is shown changes with an answer or a key.
const topFramesPerSecond = 20

// quietEnvironment is the environment as the library is to see it. Where it takes itself for local it asks the terminal
// what that can do, and what the terminal answers after a quick end stands at the shell's prompt (bubbletea #1590).
func quietEnvironment(environment []string) []string {
	return append(slices.Clone(environment), "SSH_TTY="+cmp.Or(os.Getenv("SSH_TTY"), "/dev/tty"))
}

// checkTerminal says what to do where nothing can be drawn.
func checkTerminal(cmd *cobra.Command) error {
	w, isTerminal := cmd.OutOrStdout().(*os.File)
	switch kind := os.Getenv("TERM"); {
	case !isTerminal || !term.IsTerminal(int(w.Fd())):
		return errors.New(gateway.Own("it draws on a terminal, and the output is none: `fareway gateway top --once` prints " +
			"one frame as text, `--json` as JSON"))
	case !human.IsInteractive(cmd.InOrStdin()):
		return errors.New(gateway.Own("it takes keys from a terminal, and the input is none: `fareway gateway top --once` " +
			"prints one frame as text, `--json` as JSON"))
	case kind == "" || kind == "dumb":
		return fmt.Errorf("nothing can be drawn on a terminal with TERM=%q: set TERM to what it is (xterm, screen, linux), "+
			gateway.Own("or print frames as text with `fareway gateway top --once`"), kind)
	}
	return nil
}

// topOnce prints one frame.
func topOnce(cmd *cobra.Command, source gatewaySource, interval time.Duration, out output) error {
	var (
		watch top.Watch
		frame *top.Frame
	)
	for i := range 2 {
		if i > 0 {
			select {
			case <-time.After(interval):
			case <-cmd.Context().Done():
				return context.Cause(cmd.Context())
			}
		}
		var accounts []string
		if frame != nil {
			accounts = frame.Spenders()
		}
		s, err := source.Read(cmd.Context(), watch.Last(), accounts)
		if err != nil {
			return err
		}
		watch.Take(s)
		frame = watch.Frame()
	}
	var failed error
	err := out.print(cmd, frame.Limited(), func(w io.Writer) { failed = frame.Write(w, terminalWidth(w)) })
	return errors.Join(err, failed)
}

// terminalWidth is how many columns a terminal has, or text that goes elsewhere.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 40 {
		return n
	}
	return plainWidth
}

// gatewaySource reads by the admin API what `top` shows.
type gatewaySource struct {
	client  *admin.Client
	timeout time.Duration // 0: top.AnswerTimeout
}

// Read implements top.Source. It waits no longer than top.AnswerTimeout for a gateway that hangs.
func (g gatewaySource) Read(ctx context.Context, after uint64, accounts []string) (*top.Snapshot, error) {
	bounded, cancel := context.WithTimeout(ctx, g.patience())
	defer cancel()
	s, err := g.read(bounded, after, accounts)
	if err != nil && errors.Is(bounded.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, fmt.Errorf(gateway.Own("asking the gateway: it does not answer within %s; see what it does with "+
			"`fareway gateway support-bundle --profiles`, and its log: %w"), g.patience(), context.DeadlineExceeded)
	}
	return s, err
}

func (g gatewaySource) patience() time.Duration { return cmp.Or(g.timeout, top.AnswerTimeout) }

func (g gatewaySource) read(ctx context.Context, after uint64, accounts []string) (*top.Snapshot, error) {
	s := &top.Snapshot{At: time.Now(), Accounts: map[string]admin.Account{}}
	get := func(path string, out any) error { return g.client.Call(ctx, "GET", path, nil, out) }
	if err := get("/fareway/status", &s.Status); err != nil {
		return nil, err
	}
	if err := get("/fareway/requests?after="+strconv.FormatUint(after, 10), &s.Recent); err != nil {
		return nil, err
	}
	if s.Recent.Last < after { // it is another process
		if err := get("/fareway/requests", &s.Recent); err != nil {
			return nil, err
		}
	}
	if err := get("/fareway/plugins", &s.Plugins); err != nil {
		return nil, err
	}
	text, err := readMetricsText(ctx, g.client)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if s.Metrics, err = parser.TextToMetricFamilies(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("reading the gateway's metrics: %w", err)
	}
	for _, id := range accounts {
		var v admin.Account
		if err := get(accountPath(id), &v); err == nil { // its ledger may be away: the rest is shown all the same
			s.Accounts[id] = v
		}
	}
	return s, nil
}

// readMetricsText is the metrics as Prometheus reads them.
func readMetricsText(ctx context.Context, c *admin.Client) ([]byte, error) {
	var text bytes.Buffer
	err := c.Lines(ctx, "/fareway/metrics", nil, func(line []byte) error {
		text.Write(line)
		return nil
	})
	return text.Bytes(), err
}

// Describe implements top.Source.
func (g gatewaySource) Describe(ctx context.Context, t top.Tab, key string) (string, error) {
	var b bytes.Buffer
	switch t {
	case top.Requests:
		var v admin.Request
		if err := g.client.Call(ctx, "GET", "/fareway/usage/"+url.PathEscape(key), nil, &v); err != nil {
			return "", err
		}
		if err := printRequest(&b, v); err != nil {
			return "", err
		}
		e := new(admin.Explanation)
		if err := g.client.Call(ctx, "GET", "/fareway/explain/"+url.PathEscape(key), nil, e); err == nil {
			fmt.Fprintln(&b)
			writeExplanation(&b, e)
		} else if !v.Logged {
			fmt.Fprintf(&b, "\nHow it was routed: %v\n", err)
		}
	case top.Accounts:
		var v admin.Account
		if err := g.client.Call(ctx, "GET", accountPath(key), nil, &v); err != nil {
			return "", err
		}
		printAccount(&b, v)
	case top.Plugins:
		name, _, _ := strings.Cut(key, "/")
		var v admin.Plugin
		if err := g.client.Call(ctx, "GET", "/fareway/plugins/"+url.PathEscape(name), nil, &v); err != nil {
			return "", err
		}
		v.Settings = nil
		printPlugin(&b, v)
	}
	return human.PrintableLines(b.String()), nil
}
