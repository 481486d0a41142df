package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/command"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/verify/testbed"
)

func init() {
	command.Register(newCommand)
}

// userAgent is what the suite's requests say they are from.
func userAgent() string { return "fareway-verify/" + gateway.Version() }

// keyVariable is the environment variable that may hold the key.
const keyVariable = "FAREWAY_KEY"

// flags of `gateway verify`.
type flags struct {
	baseURL, key, keyFile string
	areas                 []string
	json, markdown, ops   bool
	quick                 bool
	limits                Limits
}

func newCommand() *cobra.Command {
	f := flags{limits: DefaultLimits}
	cmd := &cobra.Command{
		Use:   "verify --base-url URL",
		Short: "Puts a deployment to the contract, clause by clause",
		Long: `Puts a deployment to the contract, clause by clause, as a client of it, and
prints for each clause whether it held: PASS, FAIL, EXCLUDED (not offered, and
treated as the contract says) or Pending (it could not be seen, and why).

It sends real requests and spends credits of the key's account; --budget bounds
what it may spend. The account should be used by nothing else meanwhile, for the
run compares its balance before and after requests. It sends about 800 requests,
and waits where a rate limit says so. The key comes from a file,
from the environment (` + keyVariable + `) or from --key, and is never printed.

What no client can see, such as what a route gets, takes --ops: gateways of this
build, on this machine, over an upstream that is part of the command. What could
not be seen at the deployment, for its model called no tool, say, is tried there
again. They use none of the deployment's credits, and say nothing about it when
its build is another.

Exit status: 0, or 1 when a clause failed.`,
		Example: "  " + keyVariable + "=fwk_... fareway gateway verify --base-url http://127.0.0.1:8484\n" +
			"  fareway gateway verify --base-url https://api.example.com --key-file ./key --area STOP,SSE --json\n" +
			"  fareway gateway verify --base-url http://127.0.0.1:8484 --key-file ./key --ops --markdown",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	set := cmd.Flags()
	set.StringVar(&f.baseURL, "base-url", "", "the deployment's `URL`: scheme and host, without /v1")
	set.StringVar(&f.key, "key", "", "an API `KEY`; other users of this machine can see it while the command runs")
	set.StringVar(&f.keyFile, "key-file", "", "a `FILE` that holds the API key")
	set.StringSliceVar(&f.areas, "area", nil, "only these `AREAS` of the contract, such as STOP,SSE")
	set.BoolVar(&f.ops, "ops", false, "also start gateways of this build over a scripted upstream, for what no client "+
		"can see")
	set.BoolVar(&f.quick, "quick", false, "leave out the checks that take a minute, of --ops")
	set.BoolVar(&f.json, "json", false, "print JSON: an array of objects with id, status, clause, detail, checked, "+
		"build and client")
	set.BoolVar(&f.markdown, "markdown", false, "print a Markdown table")
	set.Int64Var(&f.limits.Credits, "budget", f.limits.Credits,
		"spend at most about so many `CREDITS` (1 credit is one US cent)")
	set.Int64Var(&f.limits.Requests, "requests", f.limits.Requests, "send at most `N` requests")
	set.IntVar(&f.limits.Allowance, "allowance", f.limits.Allowance,
		"output `TOKENS` of a request; models that think first need more")
	set.IntVar(&f.limits.Parallel, "parallel", f.limits.Parallel, "send `N` requests at a time")
	set.DurationVar(&f.limits.Timeout, "timeout", f.limits.Timeout,
		"wait so long for one reply, as a `DURATION` such as 90s")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
	cmd.MarkFlagsMutuallyExclusive("key", "key-file")
	cmd.AddCommand(testbed.ProviderCommand())
	return cmd
}

func (f *flags) run(cmd *cobra.Command) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	key, err := f.readKey()
	if err != nil {
		return err
	}
	target, err := NewTarget(f.baseURL, key, f.limits)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	// An answer beside the point (no gateway there, a wrong key) would fail every clause: ask before.
	if err := target.ready(ctx); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Verifying %s: at most %d requests, %d output tokens each, and about %d credits.\n",
		target.base, f.limits.Requests, f.limits.Allowance, f.limits.Credits)
	results, err := Run(ctx, target, o)
	if err != nil {
		return err
	}
	b := Board{Build: target.build(), Client: userAgent(), Results: results}
	if o.Ops {
		b.Own = "fareway/" + gateway.Version()
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Sent %d requests, which cost %d microcents (%d make one credit, a US cent).\n",
		target.requests.Load(), target.spent.Load(), microcentsPerCredit)
	if err := f.print(cmd.OutOrStdout(), b); err != nil {
		return fmt.Errorf("printing the board: %w", err)
	}
	if n := b.Failed(); n > 0 {
		return fmt.Errorf("the deployment does not keep the contract: %d failed of %d clauses", n, len(b.Results))
	}
	return nil
}

func (f *flags) print(w io.Writer, b Board) error {
	switch {
	case f.json:
		return b.WriteJSON(w)
	case f.markdown:
		return b.WriteMarkdown(w)
	}
	return b.WriteText(w)
}

func (f *flags) options() (Options, error) {
	o := Options{Ops: f.ops, Quick: f.quick}
	known := areas()
	for _, a := range f.areas {
		a = strings.ToUpper(strings.TrimSpace(a))
		if !slices.Contains(known, a) {
			return o, fmt.Errorf("there is no area %q of the contract: there are %s", a, strings.Join(known, ", "))
		}
		o.Areas = append(o.Areas, a)
	}
	for name, n := range map[string]int64{"budget": f.limits.Credits, "requests": f.limits.Requests,
		"allowance": int64(f.limits.Allowance),
		"parallel":  int64(f.limits.Parallel), "timeout": int64(f.limits.Timeout)} {
		if n < 1 {
			return o, fmt.Errorf("--%s must be more than nothing", name)
		}
	}
	return o, nil
}

// areas are the contract's areas, in its order.
func areas() []string {
	var all []string
	for _, c := range register {
		if !slices.Contains(all, c.Area()) {
			all = append(all, c.Area())
		}
	}
	return all
}

func (f *flags) readKey() (string, error) {
	if f.keyFile != "" {
		b, err := os.ReadFile(f.keyFile)
		if err != nil {
			return "", fmt.Errorf("reading the API key: %w", err)
		}
		return string(bytes.TrimSpace(b)), nil
	}
	if f.key != "" {
		return f.key, nil
	}
	return os.Getenv(keyVariable), nil
}

// ready reports whether a gateway answers and takes the key.
func (t *Target) ready(ctx context.Context) error {
	var status int
	f := check("", "", func(t *T) {
		a := t.do(call{Path: "/v1/account"})
		status = a.Status
		if status == 200 {
			t.balanceOf(a.JSON(t))
		}
	}).run(ctx, t)
	switch {
	case status == 401:
		return fmt.Errorf("the gateway at %s does not know the API key (401)", t.base)
	case status == 403:
		return fmt.Errorf("the account of the API key is suspended or not active (403): use another")
	case f.status == Pending:
		return fmt.Errorf("asking the gateway at %s: %s", t.base, f.detail)
	case f.status == Fail || status != 200:
		return errors.New("what answers at " + t.base + " is no such gateway: GET /v1/account got " + fmt.Sprint(status))
	}
	return nil
}

// build is what the deployment says it is.
func (t *Target) build() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.server == "" {
		return t.base + " (names no version)"
	}
	return t.base + " (" + t.server + ")"
}
