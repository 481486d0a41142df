package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/command/doctor"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
)

// doctorRun is one run of `gateway doctor`.
type doctorRun struct {
	target
	output
	list, all, strict bool
	urls, bills       []string
	since, until      string
	patience          string
}

func doctorCommand() *cobra.Command {
	run := new(doctorRun)
	cmd := &cobra.Command{
		Use:   "doctor [CHECK]...",
		Short: "Looks for the mistakes that operators make, and says what to do",
		Long: `Looks for the mistakes that operators make: in the machine, the files, the
configuration, the upstreams, the money, and the way from the internet to the
gateway. Each finding says what was seen, why it matters, and what to do next, as a
command where there is one. --list shows what is looked at; with names it looks at
those only, or at those of a group.

It asks the gateway that runs, and looks at files and configuration where none does.
What cannot be looked at is said, with the reason; a gateway's own files and process
need its user, or root. It changes nothing and costs nothing: upstreams are asked for
their list of models, and no model for a reply. To see what proxies do to streams,
bodies and addresses it sends the gateway requests of its own through the Caddyfile's
addresses and those of --url, which the gateway itself answers.

An error is what does not work, or loses money, data or secrets; a warning is what
will, or is worse than it has to be; a note is worth knowing. What matters in public
only is a note on a machine that nobody else reaches. With errors or warnings it exits
with 1, with --strict for notes as well.`,
		Example: "  fareway gateway doctor\n" +
			"  sudo fareway gateway doctor --config /etc/fareway/Caddyfile --url https://api.example.com\n" +
			"  fareway gateway doctor prices bill --bill openai=412.50 --since 2026-10-01 --until 2026-11-01\n" +
			"  fareway gateway doctor --list",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			checks, err := doctor.Find(args)
			if err != nil {
				return err
			}
			if run.list {
				return run.print(cmd, viewChecks(checks), func(w io.Writer) { printChecks(w, checks) })
			}
			return run.look(cmd, checks)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&run.list, "list", false, "show what is looked at, and look at nothing")
	f.BoolVar(&run.all, "all", false, "name what is in order, too")
	f.BoolVar(&run.strict, "strict", false, "exit with 1 for notes as well")
	f.StringArrayVar(&run.urls, "url", nil, "a public `URL` of the gateway that its Caddyfile does not have, as behind "+
		"a proxy; may be repeated")
	f.StringArrayVar(&run.bills, "bill", nil, "an upstream's bill in US dollars, `PROVIDER=USD`; may be repeated")
	f.StringVar(&run.since, "since", "", "from when on the bills are: a `DATE` (default: last month, in UTC)")
	f.StringVar(&run.until, "until", "", "until when the bills are: a `DATE`, which is not included")
	f.StringVar(&run.patience, "patience", "", "try a reply that is silent for this `SPAN`, as in 2m")
	run.target.addFlags(cmd)
	run.output.addFlag(cmd)
	return cmd
}

// look runs checks, and prints what came of them.
func (run *doctorRun) look(cmd *cobra.Command, checks []doctor.Check) error {
	s, err := run.subject(cmd)
	if err != nil {
		return err
	}
	if err := run.readOptions(s); err != nil {
		return err
	}
	report := doctor.Run(cmd.Context(), s, checks, doctor.Patience)
	for i := range report.Findings {
		report.Findings[i].Next = gateway.Own(report.Findings[i].Next)
	}
	err = run.print(cmd, report, func(w io.Writer) { printReport(w, s, report, run.all) })
	if err != nil {
		return err
	}
	counts := report.Count(doctor.Error) + report.Count(doctor.Warning)
	if run.strict {
		counts = len(report.Findings)
	}
	if counts > 0 {
		return exitSilently(cmd)
	}
	return nil
}

// readOptions reads what was given beside the place.
func (run *doctorRun) readOptions(s *doctor.Subject) (err error) {
	now := time.Now()
	for _, at := range []struct {
		name, text string
		to         *time.Time
	}{{"since", run.since, &s.Since}, {"until", run.until, &s.Until}} {
		if at.text == "" {
			continue
		}
		if *at.to, err = human.ParsePast(at.text, now); err != nil {
			return fmt.Errorf("--%s %w", at.name, err)
		}
	}
	if run.patience != "" {
		if s.Patience, err = human.ParseSpan(run.patience); err != nil {
			return fmt.Errorf("--patience: %w", err)
		}
		if s.Patience > 10*time.Minute {
			return errors.New("--patience is 10m at most")
		}
	}
	s.Bills = make(map[string]float64)
	for _, text := range run.bills {
		name, amount, ok := strings.Cut(text, "=")
		usd, err := strconv.ParseFloat(strings.ReplaceAll(amount, ",", ""), 64)
		if !ok || err != nil || usd < 0 || usd > 1e9 {
			return fmt.Errorf("--bill %q: write the provider and what it has billed in US dollars, as in openai=412.50", text)
		}
		s.Bills[name] = usd
	}
	for _, text := range run.urls {
		if !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") {
			return fmt.Errorf("--url %q: write a whole address, as in https://api.example.com", text)
		}
		s.URLs = append(s.URLs, strings.TrimSuffix(strings.TrimSuffix(text, "/"), "/v1"))
	}
	return nil
}

// subject gathers what is looked at, as far as it is there.
func (run *doctorRun) subject(cmd *cobra.Command) (*doctor.Subject, error) {
	ctx := cmd.Context()
	s := &doctor.Subject{Caddyfile: run.config, Version: gateway.Version(), User: os.Getuid(), Flags: run.flags(cmd)}
	data, err := run.dir()
	if err != nil && run.config != "" {
		s.SiteError = err // the Caddyfile is what is wrong
		s.Elsewhere = "where the gateway's files are is not known: its Caddyfile cannot be read"
	} else if err != nil {
		return nil, err
	}
	s.Data = data
	s.Fill()
	run.askStatus(ctx, s)
	if s.Status != nil && s.Elsewhere == "" && !s.NoProcess {
		if s.Data = s.Status.Data; s.Caddyfile == "" {
			s.Caddyfile = caddyfileOf(s.Status)
		}
	}
	if path := filepath.Join(s.Data, caddyFile); s.Elsewhere == "" && s.Caddyfile == "" && isThere(path) {
		s.Caddyfile = path
	}
	readDoctorSite(ctx, s)
	if s.Elsewhere != "" {
		s.OfflineError = errors.New(s.Elsewhere)
		return s, nil
	}
	place := target{data: s.Data, config: s.Caddyfile}
	s.Offline, s.OfflineError = place.offline()
	if s.Status != nil {
		s.HCL = s.Status.Config
		s.Offline, s.OfflineError = place.place()
	} else if s.HCL, err = place.hcl(s.Data); err != nil {
		s.HCL = filepath.Join(s.Data, hclFile)
	}
	s.TakeEnvironment()
	if isThere(s.HCL) {
		draft := engine.Draft{Path: s.HCL, Env: s.Env}
		cfg, diags, err := draft.Try(ctx, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		s.Diagnostics = diags
		if !diags.HasErrors() {
			s.Config = cfg
		} else if onlyUnset(diags) { // what else is wrong can be seen all the same
			s.Config = tryWithout(ctx, s)
		}
	}
	return s, nil
}

// onlyUnset reports whether nothing but variables is missing.
func onlyUnset(diags *config.Diagnostics) bool {
	return !slices.ContainsFunc(diags.All(), func(d config.Diagnostic) bool {
		return d.Severity == config.SeverityError && !d.UnsetVariable()
	})
}

// tryWithout reads the configuration as if variables that are not set were; nil where it cannot be used so either.
func tryWithout(ctx context.Context, s *doctor.Subject) *config.Config {
	draft := engine.Draft{Path: s.HCL, Env: func(name string) (string, bool) {
		if value, ok := s.Env(name); ok {
			return value, true
		}
		return doctor.Unset, true
	}}
	cfg, diags, err := draft.Try(ctx, slog.New(slog.DiscardHandler))
	if err != nil || diags.HasErrors() {
		return nil
	}
	return cfg
}

// askStatus finds out whether a gateway runs.
func (run *doctorRun) askStatus(ctx context.Context, s *doctor.Subject) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if s.Data == "" && run.admin == "" {
		s.Running = errors.New(s.Elsewhere)
		return
	}
	c, err := admin.NewClient(s.Data, run.admin)
	if err == nil {
		var v admin.Status
		if err = c.Call(ctx, "GET", "/fareway/status", nil, &v); err == nil {
			s.Client, s.Status = c, &v
			s.TakeProcess(c.Network != "unix")
			return
		}
	}
	s.Running = err
}

// caddyfileOf is the Caddyfile that a gateway was started with, "" where its command does not say.
func caddyfileOf(v *admin.Status) string {
	for i, arg := range v.Command {
		file, ok := strings.CutPrefix(arg, "--config=")
		if arg == "--config" && i+1 < len(v.Command) {
			file, ok = v.Command[i+1], true
		}
		if !ok {
			continue
		}
		if !filepath.IsAbs(file) {
			dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", v.PID))
			if err != nil {
				return ""
			}
			file = filepath.Join(dir, file)
		}
		return file
	}
	return ""
}

// readDoctorSite reads the Caddyfile or, where none is known, asks Caddy what it runs.
func readDoctorSite(ctx context.Context, s *doctor.Subject) {
	var found *site
	var err error
	switch {
	case s.SiteError != nil:
		return
	case s.Caddyfile != "":
		found, err = readSite(s.Caddyfile)
	case s.Client != nil:
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		found, err = askSite(ctx, s.Client)
	default:
		return
	}
	if err != nil {
		s.SiteError = err
		return
	}
	s.Site = &doctor.Site{JSON: found.json, Listen: found.listen, Admin: found.admin, Health: found.health}
	for _, e := range found.public {
		s.Site.Public = append(s.Site.Public, doctor.Endpoint{URL: e.url, Dial: e.dial})
	}
}

// checkView is a row of --list.
type doctorCheckView struct {
	Name  string          `json:"name"`
	Group string          `json:"group"`
	Looks string          `json:"looks_at"`
	Worst doctor.Severity `json:"worst"`
	Next  string          `json:"next"`
}

func viewChecks(checks []doctor.Check) []doctorCheckView {
	list := make([]doctorCheckView, len(checks))
	for i, c := range checks {
		list[i] = doctorCheckView{c.Name, c.About, c.Looks, c.Worst, gateway.Own(c.Next)}
	}
	return list
}

func printChecks(w io.Writer, checks []doctor.Check) {
	table(w, func(w io.Writer) {
		fmt.Fprintln(w, "CHECK\tGROUP\tWORST\tLOOKS AT")
		for _, c := range checks {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, c.About, c.Worst, c.Looks)
		}
	})
}

func printReport(w io.Writer, s *doctor.Subject, r doctor.Report, all bool) {
	state := "no gateway runs on " + s.Data
	if s.Status != nil {
		state = fmt.Sprintf("the gateway on %s (process %d, version %s)", s.Data, s.Status.PID, s.Status.Version)
	} else if s.Running != nil && !errors.Is(s.Running, admin.ErrNoGateway) {
		state = fmt.Sprintf("the gateway on %s does not answer: %v", s.Data, s.Running)
	}
	fmt.Fprintf(w, "Looked at: %s.\n", doctor.Clean(state))
	for _, f := range r.Findings {
		fmt.Fprintf(w, "\n%s  %s\n", strings.ToUpper(f.Severity.String()), f.Check)
		printIndented(w, "    ", f.Seen)
		printIndented(w, "    Why:  ", f.Why)
		printIndented(w, "    Next: ", f.Next)
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintln(w, "\nNot looked at:")
		printSkipped(w, r.Skipped)
	}
	if all && len(r.Passed) > 0 {
		passed := slices.Clone(r.Passed)
		fmt.Fprintf(w, "\nIn order: %s\n", strings.Join(passed, ", "))
	}
	fmt.Fprintf(w, "\n%s, %s, %s; %s in order, %s not looked at.\n", human.Count(r.Count(doctor.Error), "error"),
		human.Count(r.Count(doctor.Warning), "warning"), human.Count(r.Count(doctor.Note), "note"),
		human.Count(len(r.Passed), "check"), human.Count(len(r.Skipped), "check"))
}

// printSkipped writes each reason once, below the checks that it holds for.
func printSkipped(w io.Writer, skipped []doctor.Skip) {
	var reasons []string
	names := make(map[string][]string)
	for _, skip := range skipped {
		if names[skip.Why] == nil {
			reasons = append(reasons, skip.Why)
		}
		names[skip.Why] = append(names[skip.Why], skip.Check)
	}
	for _, why := range reasons {
		const most = 8 // names in a line
		for list := range slices.Chunk(names[why], most) {
			fmt.Fprintf(w, "  %s\n", strings.Join(list, ", "))
		}
		printIndented(w, "      ", why)
	}
}

// printIndented writes a text whose further lines stand below its first.
func printIndented(w io.Writer, lead, text string) {
	indent := "\n" + strings.Repeat(" ", max(len(lead), 4))
	fmt.Fprintln(w, lead+strings.ReplaceAll(text, "\n", indent))
}
