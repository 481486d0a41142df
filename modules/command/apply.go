package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
)

// applyView is the result of `gateway apply` and `rollback`.
type applyView struct {
	Applied    bool       `json:"applied"`
	Number     int64      `json:"config_number,omitempty"` // under which it serves
	Restored   int64      `json:"restored,omitempty"`      // number of the configuration that a rollback has put back
	Aside      []string   `json:"aside,omitempty"`         // files that were kept beside those that were changed
	RolledBack string     `json:"rolled_back,omitempty"`   // why --watch has put back what served
	Plan       admin.Plan `json:"plan"`
}

// applying is what installs a configuration.
type applying struct {
	target
	output
	yes      bool
	rollback bool // to a configuration that was in force
	watch    time.Duration
}

func (a *applying) addFlags(cmd *cobra.Command) {
	a.target.addPlaceFlags(cmd) // the admin API plans on its socket only, and the files are this machine's
	a.output.addFlag(cmd)
	cmd.Flags().BoolVar(&a.yes, "yes", false, "do not ask")
	cmd.Flags().DurationVar(&a.watch, "watch", 0,
		"go back to what served when more requests fail within this `TIME`, as in 2m")
}

func applyCommand() *cobra.Command {
	var a applying
	cmd := &cobra.Command{
		Use:   "apply NEW.hcl",
		Short: "Installs a configuration, and waits until it serves",
		Long: `Installs a configuration in place of the gateway's own file, and waits until it
serves. It shows what would change first, as plan does, and asks. It refuses
when somebody else saves the file meanwhile, and when the gateway refuses the
configuration, the file is as it was. A saved text that does not serve, which
nothing else keeps, is kept beside the file.

With --watch it looks on for a while, and puts back what served, and ends with 1,
when clearly more requests fail than before, or attempts at upstreams: at least 5,
twice the share of before, and 5 in a hundred more. Only requests with a good key
that came as far as the routes are counted, and only 5xx are failures: whoever
has no key, 4xx, and requests that are too long for a route or that it cannot carry
are no fault of a configuration. Where several accounts send requests, the one with
the most failures is left out, for one account can bring them about by what it asks.
It goes back, too, when the gateway is away at the end. Ctrl-C ends the watch, and
the new configuration stays.`,
		Example: "  fareway gateway apply new.hcl\n  fareway gateway apply new.hcl --yes --watch 2m",
		Args:    exactly("NEW.hcl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("reading the new configuration: %w", err)
			}
			return a.run(cmd, admin.PlanRequest{Text: new(string(text))})
		},
	}
	a.addFlags(cmd)
	return cmd
}

// run plans, shows, asks, installs and waits.
func (a *applying) run(cmd *cobra.Command, request admin.PlanRequest) error {
	v := applyView{Restored: request.Kept}
	if err := a.call(cmd, "POST", "/fareway/plan", request, &v.Plan); err != nil {
		return err
	}
	w := screen(cmd)
	if a.json {
		w = io.Discard
	}
	printPlan(w, v.Plan)
	switch {
	case !v.Plan.OK:
		if err := a.print(cmd, v, func(io.Writer) {}); err != nil {
			return err
		}
		return errRefusedPlan
	case len(v.Plan.Files) == 0:
		fmt.Fprintln(w, "It is installed already.")
		return a.print(cmd, v, func(io.Writer) {})
	}
	printUnkept(w, v.Plan.Files)
	if err := a.confirm(cmd, w); err != nil {
		return err
	}
	var before admin.Status
	if err := a.call(cmd, "GET", "/fareway/status", nil, &before); err != nil {
		return err
	}
	done, err := admin.Install(v.Plan.Files, v.Plan.Config, time.Now())
	if err != nil {
		return err
	}
	var serves admin.Reloaded
	if err := a.call(cmd, "POST", a.reloadPath(), nil, &serves); err != nil {
		return errors.Join(fmt.Errorf("%w; the file is put back as it was", err), done.Undo())
	}
	if serves.ConfigHash != v.Plan.NewHash {
		return errors.Join(errors.New("somebody else has saved a file of the configuration in the meantime: what was "+
			"installed is put back as it was; look at it, and plan again"), a.goBack(cmd, done))
	}
	v.Applied, v.Number, v.Aside = true, serves.Number, done.KeptFiles()
	fmt.Fprintf(w, "It serves: configuration %d.\n", serves.Number)
	for _, path := range v.Aside {
		fmt.Fprintf(w, "Kept: %s\n", path)
	}
	if v.RolledBack, err = a.watchFailures(cmd, w, before.Traffic); err != nil {
		return err
	}
	if v.RolledBack != "" {
		if err := a.goBack(cmd, done); err != nil {
			return fmt.Errorf("%s Going back: %w", v.RolledBack, err)
		}
		fmt.Fprintf(w, "%s What served before is put back, and serves.\n", v.RolledBack)
	}
	if err := a.print(cmd, v, func(io.Writer) {}); err != nil || v.RolledBack == "" {
		return err
	}
	return exitSilently(cmd)
}

// reloadPath says which command it is.
func (a *applying) reloadPath() string {
	if a.rollback {
		return "/fareway/reload?by=rollback"
	}
	return "/fareway/reload?by=apply"
}

// goBack installs again what was there.
func (a *applying) goBack(cmd *cobra.Command, done *admin.Installed) error {
	if err := done.Undo(); err != nil {
		return fmt.Errorf("putting back what served: %w", err)
	}
	if err := a.call(cmd, "POST", a.reloadPath(), nil, new(admin.Reloaded)); err != nil {
		return fmt.Errorf("what served is put back in its file, but is not loaded: %w", err)
	}
	return nil
}

// printUnkept says what becomes of texts that are kept nowhere else, and of files that have to go.
func printUnkept(w io.Writer, list []admin.PlanFile) {
	for _, f := range list {
		switch {
		case f.Text == nil:
			fmt.Fprintf(w, "%s was not there then: it is set aside, in a file beside it.\n", f.Path)
		case f.Unkept:
			fmt.Fprintf(w, "%s as it is saved does not serve: that text is kept in a file beside it.\n", f.Path)
		}
	}
}

// confirm asks whoever sits there.
func (a *applying) confirm(cmd *cobra.Command, w io.Writer) error {
	if a.yes {
		return nil
	}
	return question{"Apply this?", "apply it", "it is not applied: nothing has changed"}.confirm(cmd, w, a.output)
}

const (
	watchEvery = time.Second
	// Fewer failures say nothing.
	minFailures = 5
)

// watchFailures watches the requests that fail, and says why to go back; "" when there is no reason.
func (a *applying) watchFailures(cmd *cobra.Command, w io.Writer, before admin.Traffic) (string, error) {
	if a.watch <= 0 {
		return "", nil
	}
	fmt.Fprintf(w, "Watching the requests that fail for %v.\n", a.watch)
	watched := traffic{before: before, last: before}
	var away error
	for left := a.watch; left > 0; left -= watchEvery {
		select {
		case <-cmd.Context().Done():
			return "", cmd.Context().Err()
		case <-time.After(min(left, watchEvery)):
		}
		var now admin.Status
		if away = a.call(cmd, "GET", "/fareway/status", nil, &now); away != nil {
			continue // it may be restarting
		}
		watched.add(now.Traffic)
		if reason := watched.jump(); reason != "" {
			return reason, nil
		}
	}
	if away != nil {
		return fmt.Sprintf("The gateway is away: %v.", away), nil
	}
	if watched.since.Answered == 0 {
		fmt.Fprintln(w, "No request came meanwhile, so that nothing is known of how it serves.")
		return "", nil
	}
	fmt.Fprintln(w, "No more requests fail than before.")
	return "", nil
}

// traffic is what has happened since an apply, also where the gateway, which counts from its start, was restarted.
type traffic struct {
	before, last admin.Traffic
	since        engine.Traffic
	accounts     map[string]engine.Traffic // since then, of those with failures
}

func (t *traffic) add(now admin.Traffic) {
	if !now.Since.Equal(t.last.Since) {
		t.last = admin.Traffic{}
	}
	t.since = t.since.Plus(now.Traffic.Minus(t.last.Traffic))
	if t.accounts == nil {
		t.accounts = make(map[string]engine.Traffic)
	}
	for id, n := range now.Accounts {
		t.accounts[id] = t.accounts[id].Plus(n.Minus(t.last.Accounts[id]))
	}
	t.last = now
}

// withoutWorstAccount is what is judged of what has happened: all but the account with the most failures,
// where there are others.
// What one account alone meets, it can have brought about by what it asks for.
func (t *traffic) withoutWorstAccount() (rest engine.Traffic, without bool) {
	var worst engine.Traffic
	for _, n := range t.accounts {
		if n.Failures() > worst.Failures() {
			worst = n
		}
	}
	// Of an account that was not among those that are told of before, all since its first failure is counted.
	worst.Answered = min(worst.Answered, t.since.Answered-(t.since.Failed-worst.Failed))
	if rest = t.since.Minus(worst); rest.Answered > 0 || rest.Failures() > 0 {
		return rest, worst.Failures() > 0
	}
	return t.since, false
}

// jump says how failures have jumped; "" when they have not: when their share is not twice what it was until the apply
// and 5 in a hundred more.
func (t *traffic) jump() string {
	judged, without := t.withoutWorstAccount()
	answered, failed := judged.Answered, judged.Failures()
	if failed < minFailures {
		return ""
	}
	share := float64(failed) / float64(max(answered, failed))
	was := float64(t.before.Failures()) / float64(max(t.before.Answered, t.before.Failures(), 1))
	if share < 2*was || share < was+.05 {
		return ""
	}
	who := ""
	if without {
		who = ", without the account that most fail of,"
	}
	return fmt.Sprintf("Of %s since then%s %d failed, %.0f%%; before it were %.0f%%.",
		human.Count(answered, "request"), who, failed, 100*share, 100*was)
}
