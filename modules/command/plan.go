package command

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/config/change"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/routing"
)

func planCommand() *cobra.Command {
	var (
		to      target
		out     output
		against string
		since   string
	)
	cmd := &cobra.Command{
		Use:   "plan NEW.hcl",
		Short: "Shows what a configuration would change",
		Long: `Shows what a configuration would change in place of the one that serves: routes
that come and go, prices with what a typical request costs, what each profile
makes of usual requests (its rate, see ` + "`gateway route show`" + `), plans with how many
accounts are on them, processes that would start or restart, and what the
gateway would refuse. It changes nothing. What NEW.hcl names is looked for where
it would be installed, beside the gateway's own file.

It exits with 0 when nothing would change, with 2 when something would, and with
1 when the configuration is bad. With --against two files are compared, and no
gateway has to run.

With --since the requests that were routed since then are routed again, by both
configurations: which of them would go elsewhere or be refused, and what they are
expected to cost, to bring in and to be worth. What the gateway remembers of
requests for that is numbers, and decision_log says how many.`,
		Example: "  fareway gateway plan new.hcl\n  fareway gateway plan new.hcl --since 7d\n" +
			"  fareway gateway plan new.hcl --against gateway.hcl --json",
		Args: exactly("NEW.hcl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			replays, from := cmd.Flags().Changed("since"), time.Time{}
			if replays {
				var err error
				if from, err = human.ParsePast(since, time.Now()); err != nil {
					return err
				}
				if against != "" {
					return errors.New("--since asks the gateway, which --against does without: leave one of them out")
				}
			}
			asked, err := askPlan(cmd, &to, args[0], against)
			if err != nil {
				return err
			}
			v := planned{Plan: asked}
			if replays && v.OK {
				if v.Replay, err = askReplan(cmd, &to, args[0], from); err != nil {
					return err
				}
			}
			err = out.print(cmd, v, func(w io.Writer) {
				printPlan(w, v.Plan)
				if v.Replay != nil {
					printReplay(w, v.Replay)
				}
			})
			if err != nil {
				return err
			}
			switch {
			case !v.OK:
				return exitSilently(cmd)
			case v.Different:
				return exitWith(cmd, 2)
			}
			return nil
		},
	}
	to.addPlaceFlags(cmd) // the admin API does this on its socket only
	out.addFlag(cmd)
	cmd.Flags().StringVar(&since, "since", "", "route the requests since this `TIME` again: 7d, 2026-11-20")
	cmd.Flags().StringVar(&against, "against", "", "compare with this `FILE`, without a gateway and its accounts")
	return cmd
}

// planned is a plan, with what it would have made of requests of the past.
type planned struct {
	admin.Plan
	Replay *decisions.Comparison `json:"replay,omitempty"`
}

// exitWith ends a command with a status of its own, when everything has been said already.
func exitWith(cmd *cobra.Command, status int) error {
	cmd.SilenceErrors = true
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, nil })(cmd, nil)
}

func askPlan(cmd *cobra.Command, to *target, file, against string) (admin.Plan, error) {
	if against != "" {
		return compareFiles(cmd, against, file), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return admin.Plan{}, fmt.Errorf("reading the new configuration: %w", err)
	}
	var v admin.Plan
	return v, to.call(cmd, "POST", "/fareway/plan", admin.PlanRequest{Text: new(string(text))}, &v)
}

// compareFiles is a plan without a gateway.
func compareFiles(cmd *cobra.Command, before, after string) admin.Plan {
	log := slog.New(slog.DiscardHandler)
	v := admin.Plan{Config: before, Changes: []change.Block{}, Refused: []string{},
		Diagnostics: []config.Diagnostic{}, Files: []admin.PlanFile{}, Profiles: []admin.ProfileChange{}}
	var loaded [2]*config.Config
	for i, file := range [...]string{before, after} {
		cfg, diags := engine.CheckConfig(cmd.Context(), file, log)
		var text strings.Builder
		_ = diags.Write(&text, false) // a builder takes everything
		if i == 1 || diags.HasErrors() {
			v.Diagnostics, v.Text = append(v.Diagnostics, diags.All()...), v.Text+text.String()
		}
		loaded[i] = cfg
	}
	if loaded[0] == nil || loaded[1] == nil {
		return v
	}
	v.OK, v.ConfigHash = true, loaded[0].Hash
	v.Changes = engine.CompareExecutables(change.Between(loaded[0], loaded[1], time.Now()), loaded[0], loaded[1])
	v.Different = len(v.Changes) > 0
	v.Profiles = admin.ProfileChanges(engine.Foretell(loaded[0], time.Now(), routing.PredictorOf(loaded[0]), nil, nil),
		engine.Foretell(loaded[1], time.Now(), routing.PredictorOf(loaded[1]), nil, nil))
	return v
}

// printPlan shows a plan to people.
func printPlan(w io.Writer, v admin.Plan) {
	if v.Text != "" {
		fmt.Fprintln(w, v.Text)
	}
	for _, reason := range v.Refused {
		fmt.Fprintf(w, "Refused: %s.\n", reason)
	}
	if len(v.Refused) > 0 {
		fmt.Fprintln(w)
	}
	signs := map[change.Kind]string{change.Added: "+", change.Removed: "-", change.Altered: "~"}
	for _, b := range v.Changes {
		fmt.Fprintf(w, "%s %s%s%s\n", signs[b.Kind], b.Type, strings.TrimRight(" "+b.Name, " "), effects(b))
		for _, f := range b.Fields {
			if b.FollowsPrice(f) {
				continue
			}
			fmt.Fprintf(w, "    %s: %s -> %s\n", f.Name, change.ShowValue(f.Name, f.Before), change.ShowValue(f.Name, f.After))
		}
		if t := b.Typical; t != nil {
			fmt.Fprintf(w, "    a request of %s tokens in and %d out costs %s\n", human.Thousands(change.TypicalInput),
				change.TypicalOutput, showTypical(t))
		}
	}
	printProfileChanges(w, v.Profiles)
	switch {
	case !v.OK && len(v.Refused) == 0:
		fmt.Fprintln(w, "It has errors: nothing would change.")
	case !v.OK:
		fmt.Fprintln(w, "The gateway would refuse it: nothing would change.")
	case !v.Different && len(v.Files) > 0:
		fmt.Fprintln(w, "Only the saved text is different: nothing would change in what serves.")
	case !v.Different:
		fmt.Fprintln(w, "Nothing would change.")
	}
}

// effects are what a change of a block does beside its fields.
func effects(b change.Block) string {
	var list []string
	switch b.Process {
	case change.Starts:
		list = append(list, "its process starts")
	case change.Restarts:
		list = append(list, "its process restarts: the old one ends with its last request")
	case change.Stops:
		list = append(list, "its process ends with its last request")
	}
	if b.Accounts != nil {
		list = append(list, human.Count(*b.Accounts, "account"))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, "; ") + ")"
}

// showTypical is what the typical request costs, before and after where there are both.
func showTypical(t *change.Typical) string {
	var amounts []string
	for _, microcents := range [...]*int64{t.Before, t.After} {
		if microcents != nil {
			amounts = append(amounts, human.Exact(*microcents))
		}
	}
	return strings.Join(amounts, " -> ") + " credits"
}

var errRefusedPlan = errors.New("the configuration is not applied, and what serves goes on")
