package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
	estimator "github.com/fareway/fareway/plugins/tokens"
)

// explainView is the result of `gateway explain`.
type explainView struct {
	File   string `json:"file"` // the configuration
	Family string `json:"family"`
	Plan   string `json:"plan,omitempty"`
	routing.Explanation
}

// maxBody is the longest request body that is explained: more than max_body's default.
const maxBody = 64 << 20

func explainCommand() *cobra.Command {
	var at target
	var out output
	var hcl, family, profile, plan string
	cmd := &cobra.Command{
		Use:   "explain FILE|-",
		Short: "Shows which route a request would go to, and why",
		Long: `Shows which route a request would go to, and why: for each route that can take it what is
expected of it (quality, also by kind of work, tokens of the answer, cost), what would
be held, and how near it is to a route that is as good as the best and as cheap as the
cheapest one; for each other route the reason. FILE is the body of a request as a client
sends it, - standard input. It works from the configuration file alone, by the code of
the gateway, and sends nothing anywhere. That a provider is down, or a route full, and
which route a conversation is on, only the running gateway knows.`,
		Example: `  fareway gateway explain request.json --hcl gateway.hcl
  echo '{"model":"service/auto","messages":[{"role":"user","content":"hi"}]}' |
    fareway gateway explain - --profile max`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if hcl == "" {
				data, err := at.dir()
				if err != nil {
					return err
				}
				if hcl, err = at.hcl(data); err != nil {
					return err
				}
			}
			body, err := readBody(cmd, args[0])
			if err != nil {
				return err
			}
			cfg, diags := engine.CheckConfig(cmd.Context(), hcl, slog.New(slog.DiscardHandler))
			if cfg == nil {
				return fmt.Errorf("reading the configuration: %w", diags.Err())
			}
			v, err := explain(cfg, body, family, profile, plan)
			if err != nil {
				return err
			}
			v.File = hcl
			return out.print(cmd, v, func(w io.Writer) { writeExplanation(w, v) })
		},
	}
	at.addDataFlag(cmd)
	cmd.Flags().StringVar(&at.config, "config", "", "the gateway's `CADDYFILE`, which names its HCL file")
	cmd.Flags().StringVar(&hcl, "hcl", "", "the configuration `FILE` (default: that of the gateway)")
	cmd.Flags().StringVar(&family, "family", "",
		"the request's `FAMILY`: chat, responses or messages (default: as it looks)")
	cmd.Flags().StringVar(&profile, "profile", "", "the `PROFILE` of the header: budget, balanced or max")
	cmd.Flags().StringVar(&plan, "plan", "", "the account's plan `NAME`, with what it requires and its default profile")
	out.addFlag(cmd)
	return cmd
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

// codecs are the families by name.
var codecs = map[string]families.Server{
	"chat": chat.Server{}, "responses": responses.Server{}, "messages": messages.Server{},
}

// explain does with a body what the gateway does, up to the choice of a route.
func explain(cfg *config.Config, body []byte, family, header, plan string) (*explainView, error) {
	if family == "" {
		family = familyOf(body)
	}
	codec, ok := codecs[family]
	if !ok {
		return nil, fmt.Errorf("there is no family %q: it is one of %s", family,
			strings.Join(slices.Sorted(maps.Keys(codecs)), ", "))
	}
	doc, refusal := families.Parse(body)
	if refusal != nil {
		return nil, refused(refusal)
	}
	model, refusal := doc.Model()
	if refusal != nil {
		return nil, refused(refusal)
	}
	byModel, ok := routing.Accept(cfg.Gateway.Namespace, cfg.Gateway.ClientModels, model)
	if !ok {
		return nil, fmt.Errorf("the gateway would refuse the request: it does not accept the model %q", model)
	}
	decoded, refusal := codec.Decode(doc, families.Rules{StructuredOutput: cfg.Gateway.StructuredOutput})
	if refusal != nil {
		return nil, refused(refusal)
	}
	if _, ok := cfg.Plan(plan); plan != "" && !ok {
		return nil, fmt.Errorf("the configuration has no plan %q", plan)
	}
	terms := engine.PlanOf(cfg, ledger.Account{Plan: plan})
	ask := routing.Ask{Model: byModel, Effort: decoded.Effort}
	if header != "" {
		ask.Header = []string{header}
	}
	profile, err := routing.Profile(ask, terms.DefaultProfile)
	if err != nil {
		return nil, err
	}
	routes := slices.Clone(cfg.Routes)
	for i := range routes {
		routes[i].Price, routes[i].Cost = routes[i].In(time.Now())
	}
	in := routing.NewInput(cfg, routes, profile, decoded.LLM)
	in.Requires, in.Predictor = terms.Requires, routing.DefaultPredictor()
	in.InputTokens = estimator.Estimate(decoded.LLM)
	bound := estimator.Bound(decoded.LLM)
	v := &explainView{Family: family, Plan: plan, Explanation: routing.Explain(in, func(c routing.Candidate) int64 {
		longest := c.Allowance
		if c.Route.BillsPastAllowance {
			longest = max(longest, c.Route.MaxOutput)
		}
		return ledger.HoldFor(bound, longest, c.Route.Price)
	})}
	return v, nil
}

func refused(e *families.Error) error {
	return fmt.Errorf("the gateway would refuse the request with %d %s: %w", e.Status, e.Code, errors.New(e.Message))
}

// familyOf is the family that a body looks like.
func familyOf(body []byte) string {
	var top struct {
		Input, System, StopSequences json.RawMessage
		Tools                        []struct {
			InputSchema json.RawMessage `json:"input_schema"`
		}
	}
	// What is not right is said when the body is decoded.
	_ = json.Unmarshal(body, &top)
	switch {
	case top.Input != nil:
		return "responses"
	case top.System != nil || len(top.Tools) > 0 && top.Tools[0].InputSchema != nil:
		return "messages"
	}
	return "chat"
}

func writeExplanation(w io.Writer, v *explainView) {
	fmt.Fprintf(w, "%s request, profile %s: %d input tokens", v.Family, v.Profile.Name, v.InputTokens)
	if v.Allowance > 0 {
		fmt.Fprintf(w, ", an allowance of %d", v.Allowance)
	}
	if len(v.Needs) > 0 {
		fmt.Fprintf(w, ", needs %s", strings.Join(v.Needs, " and "))
	}
	if len(v.Specialties) > 0 {
		fmt.Fprintf(w, "; for routes kept for %s", strings.Join(v.Specialties, " and "))
	}
	fmt.Fprintln(w, ".")
	if kinds := kindsText(v.Kinds); kinds != "" {
		fmt.Fprintf(w, "It looks like %s; %.0f%% of what is known of such text counts.\n", kinds, 100*v.Trust)
	}
	if v.KeepFrom > 0 {
		fmt.Fprintf(w, "keep_quality = %g: the cheapest route of an expected quality of at least %.3f is first.\n",
			v.Profile.KeepQuality, v.KeepFrom)
	} else {
		fmt.Fprintf(w, "Weights: cost %g, quality %g. The smallest distance is first.\n", v.Profile.Cost, v.Profile.Quality)
	}
	if v.Refusal != "" {
		fmt.Fprintf(w, "It would be refused: %s.\n", v.Refusal)
	}
	if len(v.Candidates) > 0 {
		fmt.Fprintln(w)
		table(w, func(w io.Writer) {
			fmt.Fprintln(w, "ROUTE\tQUALITY\tCODE\tMATH\tTOOLS\tWRITING\tOUTPUT\tCOST\tHOLD\tALLOWANCE\tDISTANCE\t")
			for _, c := range v.Candidates {
				k := c.ByKind
				fmt.Fprintf(w, "%s\t%.3f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%s\t%s\t%d\t%.3f\t%s\n", c.Route, c.Quality,
					k[config.KindCode], k[config.KindMath], k[config.KindTools], k[config.KindWriting], c.Output,
					inDollars(c.Cost), inDollars(float64(c.Hold)), c.Allowance, c.Distance, remarks(&c))
			}
		})
		fmt.Fprintln(w, "\nCost is what is expected, hold what is set aside until it is known, both in US dollars.")
	}
	if len(v.Rejected) > 0 {
		fmt.Fprintln(w, "\nNot tried:")
		for _, r := range v.Rejected {
			fmt.Fprintf(w, "  %s: %s.\n", r.Route, r.Reason)
		}
	}
}

// kindsText names the kinds of work that a request is likely of, the likeliest first.
func kindsText(kinds map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		if d := kinds[b] - kinds[a]; d != 0 {
			return int(max(min(d*1e6, 1), -1))
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		const worth = 0.05
		if kinds[name] < worth {
			continue
		}
		label := name
		if name == "default" {
			label = "anything else"
		}
		parts = append(parts, fmt.Sprintf("%s (%.0f%%)", label, 100*kinds[name]))
	}
	return strings.Join(parts, ", ")
}

func inDollars(microcents float64) string { return fmt.Sprintf("%.6f", microcents/1e8) }

func remarks(c *routing.Explained) string {
	var list []string
	if c.Specialty > 0 {
		list = append(list, "kept for such requests")
	}
	if c.Keeps {
		list = append(list, "keeps")
	}
	if c.Behind != "" {
		list = append(list, "last: "+c.Behind)
	}
	if c.Cramped {
		list = append(list, "reasons, and the allowance is tiny")
	}
	return strings.Join(list, ", ")
}
