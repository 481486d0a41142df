package command

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
)

// maxBody is the longest request body that is explained: more than max_body's default.
const maxBody = 64 << 20

// explanationFlags are those of `gateway explain`.
type explanationFlags struct {
	at  target
	out output

	hcl, family, profile, plan, account string
}

func explainCommand() *cobra.Command {
	e := new(explanationFlags)
	cmd := &cobra.Command{
		Use:   "explain FILE|-|REQUEST_ID",
		Short: "Shows which route a request goes to, and why",
		Long: `Shows which route a request goes to, and why: for each route that can take it what is
expected of it (quality, also by kind of work, tokens of the answer, cost), what would
be held, and its utility: quality less the profile's rate for each time the price of the
request on the dearest route (see ` + "`gateway route show`" + `); what would have to change for
another one to be first, of its quality, its price or the request's difficulty; for each
other route the reason. The cost of a conversation, of what offers tools, and of a first
prompt of 4,000 tokens and more, is the mean of the turns that are expected of it, most
of whose prompts an upstream then finds in its cache.

FILE is the body of a request as a client sends it, - standard input. That works from the
configuration file alone, by the code of the gateway, and sends the request nowhere. Where it
matters what an upstream refuses (a call that is demanded, a format beside tools), its
provider is started for a moment and asked. That a
provider is down, or a route full, and which route a conversation is on, only the running
gateway knows. Where a balance is many times a request's hold, the gateway does not count
its tokens first, and holds by a bound of them that is larger. Of an account (--account) the
routes are left out that what it has available, its spend cap or its token budget does not
cover, and those behind; the caps of its keys are not asked.

REQUEST_ID is one that the gateway served or refused (X-Request-Id). The gateway explains
it by the numbers that it keeps of requests for decision_log, with what was the matter
then, and says what it would have cost on each other route that could take it: with as
much more or less output as is expected there, and a cache as warm as its conversation
left it.`,
		Example: `  fareway gateway explain request.json --hcl gateway.hcl
  fareway gateway explain req_0193b0a7c5d07f3a9c1e5d2b7a604f11
  echo '{"model":"service/auto","messages":[{"role":"user","content":"hi"}]}' |
    fareway gateway explain - --profile max`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if isRequest(args[0]) {
				return e.explainRequest(cmd, args[0])
			}
			return e.explainBody(cmd, args[0])
		},
	}
	e.at.addFlags(cmd)
	cmd.Flags().StringVar(&e.hcl, "hcl", "", "the configuration `FILE` (default: that of the gateway)")
	cmd.Flags().StringVar(&e.family, "family", "",
		"the request's `FAMILY`: chat, responses or messages (default: as it looks)")
	cmd.Flags().StringVar(&e.profile, "profile", "", "the `PROFILE` of the header: budget, balanced or max")
	cmd.Flags().StringVar(&e.plan, "plan", "", "the account's plan `NAME`, with what it requires and its default profile")
	cmd.Flags().StringVar(&e.account, "account", "",
		"an `ACCOUNT` of the gateway, with what it requires, its plan unless --plan says another, its profile, and "+
			"what it has available")
	e.out.addFlag(cmd)
	return cmd
}

// explainRequest asks the gateway about a request that it served or refused.
func (e *explanationFlags) explainRequest(cmd *cobra.Command, id string) error {
	for _, flag := range [...]string{"hcl", "family", "profile", "plan", "account"} {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s is for the body of a request: the gateway knows it of request %s", flag, id)
		}
	}
	v := new(admin.Explanation)
	if err := e.at.call(cmd, "GET", "/fareway/explain/"+url.PathEscape(id), nil, v); err != nil {
		return err
	}
	return e.out.print(cmd, v, func(w io.Writer) { writeExplanation(w, v) })
}

// explainBody does with the body of a request what the gateway does, by the configuration alone.
func (e *explanationFlags) explainBody(cmd *cobra.Command, name string) error {
	hcl, err := e.configuration()
	if err != nil {
		return err
	}
	body, err := readBody(cmd, name)
	if err != nil {
		return err
	}
	cfg, diags := engine.CheckConfig(cmd.Context(), hcl, slog.New(slog.DiscardHandler))
	if cfg == nil {
		return fmt.Errorf("reading the configuration: %w", diags.Err())
	}
	as := ledger.Account{Plan: e.plan}
	var fits func(routing.Worst) bool
	if e.account != "" {
		var v admin.Account
		if err := e.at.call(cmd, "GET", accountPath(e.account), nil, &v); err != nil {
			return err
		}
		as, fits = asked(v, e.plan), v.Covers
	}
	log := slog.New(slog.DiscardHandler)
	refuses, done := engine.Refusals(cmd.Context(), cfg, log)
	defer done()
	v, err := admin.ExplainBody(cfg, admin.Body{JSON: body, Family: e.family, Profile: e.profile, Account: as},
		admin.Moment{Routes: admin.RoutesAt(cfg, time.Now()), Predictor: routing.PredictorOf(cfg),
			Model: routing.ModelOf(cfg), Refuses: refuses, Fits: fits,
			Classify: func(in *routing.Input) error { return engine.ClassifyOnce(cmd.Context(), cfg, in, log) }})
	if err != nil {
		return err
	}
	v.File = hcl
	return e.out.print(cmd, v, func(w io.Writer) { writeExplanation(w, v) })
}

// configuration is the file that --hcl names, or that of the gateway.
func (e *explanationFlags) configuration() (string, error) {
	if e.hcl != "" {
		return e.hcl, nil
	}
	data, err := e.at.dir()
	if err != nil {
		return "", err
	}
	return e.at.hcl(data)
}

// asked is an account as far as routes are chosen by it, on another plan where one is given.
func asked(v admin.Account, plan string) ledger.Account {
	a := ledger.Account{Plan: cmp.Or(plan, v.Plan), Requires: requiresOf(v).Account}
	if limits := limitsOf(v); limits.From["default_profile"] == admin.FromAccount {
		a.Profile = limits.DefaultProfile
	}
	return a
}

// isRequest reports whether an argument is a request's id, and no file of that name is there.
func isRequest(name string) bool {
	if !strings.HasPrefix(name, "req_") {
		return false
	}
	_, err := os.Stat(name)
	return err != nil
}

// readBody reads a request body from a file or, for -, from standard input.
func readBody(cmd *cobra.Command, name string) ([]byte, error) {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("reading the request: %w", err)
		}
		defer f.Close()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, maxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the request: %w", err)
	case len(body) > maxBody:
		return nil, fmt.Errorf("the request is over %d bytes: give a smaller one", maxBody)
	}
	return body, nil
}
