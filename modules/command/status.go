package command

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/plugins/host"
)

func statusCommand() *cobra.Command {
	var (
		to  target
		out output
	)
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Shows whether the gateway is ready, and what it runs",
		Example: "  fareway gateway status",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var v admin.Status
			if err := to.call(cmd, "GET", "/fareway/status", nil, &v); err != nil {
				return err
			}
			return out.print(cmd, v, func(w io.Writer) { printStatus(w, v) })
		},
	}
	to.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

// providerState says in a line how a provider does.
func providerState(p admin.Provider) string {
	text := p.State
	switch {
	case p.Ready && p.State != string(host.Ready):
		text = fmt.Sprintf("ready (the gateway makes its calls; its process is %s)", p.State)
	case p.Problem != "":
		text += ": " + strings.TrimSuffix(sentence(p.Problem), ".")
	}
	if p.Restarts > 0 {
		text += ", " + human.Count(p.Restarts, "restart")
	}
	if c := p.LastCrash; c != nil {
		text += fmt.Sprintf(", the last failure (%s) at %s", c.Cause, human.Moment(c.At))
		text += gateway.Own("; `fareway gateway plugin list` tells more")
	}
	return text
}

// keyState says whether a key serves, and when it is asked again where it does not.
func keyState(k admin.ProviderKey) string {
	words := map[string]string{"serves": "serves", "rate_limited": "limited by the service",
		"out_of_quota": "out of quota", "refused": "refused by the service"}
	state := cmp.Or(words[k.State], k.State)
	if k.Until == nil {
		return state
	}
	return fmt.Sprintf("%s; tried again from %s on", state, human.Moment(*k.Until))
}

// routeState says how a route does that does not simply serve.
func routeState(r admin.Route) string {
	text := ""
	if r.State != "serves" && r.State != "" {
		text = ": " + cmp.Or(r.Reason, r.State)
	}
	if r.Until != nil {
		text += ", until " + human.Moment(*r.Until)
	}
	if r.Waiting > 0 {
		text += fmt.Sprintf(", %s waiting", human.Count(r.Waiting, "request"))
	}
	if r.ConcurrencyLimit > 0 {
		text += fmt.Sprintf(", at most %s at a time", human.Count(r.ConcurrencyLimit, "attempt"))
	}
	if r.TemplateTokens > 0 {
		text += fmt.Sprintf(", its template adds %s", human.Count(r.TemplateTokens, "token"))
	}
	return text
}

// limiterState says how the server does in which the limiter counts.
func limiterState(l *admin.LimiterServer) string {
	if l.Up {
		return fmt.Sprintf("%s, since %s, %s", l.Address, human.Moment(l.Since), human.Count(l.Nodes, "node"))
	}
	return fmt.Sprintf("%s, away since %s (this node admits a share of each limit, one of %d): %s", l.Address,
		human.Moment(l.Since), l.Nodes, l.Reason)
}

// ledgerState says how the server does that keeps the ledger.
func ledgerState(l *admin.LedgerServer) string {
	text := fmt.Sprintf("PostgreSQL %s, %s", l.Version, cmp.Or(l.Address, "not reached yet"))
	if !l.Up && l.Address != "" {
		text += fmt.Sprintf(", away since %s: %s", human.Moment(l.Since), l.Reason)
	}
	switch {
	case l.Standbys != "":
		text += "; commits wait for a standby (" + l.Standbys + ")"
	case l.StandbyRequired:
		text += "; commits wait for NO STANDBY, so charged requests are refused"
	default:
		text += "; commits wait for no standby"
	}
	return text
}

// backupState says when the last backup was made, and what is to be done where none was.
func backupState(b *admin.Backups) string {
	if b.Problem != "" {
		return sentence(b.Problem)
	}
	if b.Backup.Done == nil && b.Backup.Failed == nil {
		return gateway.Own("NEVER MADE: `fareway gateway backup run --into FOLDER` makes one, from a timer")
	}
	return choreState(b, chores.Backup)
}

// choreState says when a chore was done last, whether it is late, and why it has failed.
func choreState(b *admin.Backups, chore chores.Chore) string {
	r, text := b.Of(chore), "never"
	switch {
	case chore == chores.Trial && r.Done == nil && r.Failed == nil:
		text = "never on this machine"
		if b.Backup.Encrypted {
			text += "; one that was tried where its key is doesn't show here"
		}
	case r.Done != nil:
		text = fmt.Sprintf("%s, %s", human.Moment(*r.Done), r.File)
	}
	if r.Encrypted {
		text += ", encrypted"
	}
	if r.Sent {
		text += ", sent elsewhere"
	}
	if slices.Contains(b.Missed, chore) {
		text += ", MISSED"
		if r.Due != nil {
			text += " since " + human.Moment(*r.Due)
		}
	}
	if f := r.Failed; f != nil {
		text += fmt.Sprintf("; it FAILED at %s: %s", human.Moment(f.At), strings.ReplaceAll(f.Text, "\n", "; "))
	}
	return text
}

// certificateState says how a host's certificate does.
func certificateState(c *engine.Certificate, now time.Time) string {
	text := "NONE YET"
	switch {
	case c.IsValid(now):
		text = fmt.Sprintf("valid until %s", human.Moment(*c.Expires))
	case c.Expires != nil:
		text = fmt.Sprintf("EXPIRED at %s, so that clients refuse it", human.Moment(*c.Expires))
	}
	if c.Issuer != "" {
		text += fmt.Sprintf(", from %q", c.Issuer)
	}
	if f := c.Failed; f != nil {
		text += fmt.Sprintf("; getting a new one has FAILED at %s, and is tried again: %s", human.Moment(f.At), f.Text)
	}
	return text
}

// serverState says how a server does that the gateway can do without.
func serverState(s admin.Server) string {
	if s.Up {
		return s.Address
	}
	return fmt.Sprintf("%s, away since %s: %s", s.Address, human.Moment(s.Since), s.Reason)
}

// printAlertsSummary says what is raised, and who does not hear of it.
func printAlertsSummary(w io.Writer, s *admin.AlertsSummary) {
	if s == nil {
		return
	}
	for i := range s.Raised {
		a := &s.Raised[i]
		fmt.Fprintf(w, "alert\t%s since %s: %s\n", a.Event, human.Moment(a.Since), a.Text)
	}
	for _, event := range slices.Sorted(maps.Keys(s.Accounts)) {
		fmt.Fprintf(w, "alert\t%s of %s\n", event, human.Count(s.Accounts[event], "account"))
	}
	for i := range s.Failing {
		fmt.Fprintf(w, "alerts to %s\t%s\n", s.Failing[i].Key, destinationState(&s.Failing[i]))
	}
	for _, text := range []string{s.Idle, s.Problem} {
		if text != "" {
			fmt.Fprintf(w, "alerts\t%s\n", text)
		}
	}
}

func printStatus(w io.Writer, v admin.Status) {
	table(w, func(w io.Writer) {
		if v.Ready {
			fmt.Fprintf(w, "state\tready\n")
		} else {
			fmt.Fprintf(w, "state\tnot ready: %s\n", v.Reason)
		}
		fmt.Fprintf(w, "process\t%d, version %s\n", v.PID, v.Version)
		fmt.Fprintf(w, "data\t%s\n", v.Data)
		refused := ""
		if v.FailedLoad != nil && v.FailedLoad.InFile {
			refused = " (as it is saved it is refused, see below)"
		}
		fmt.Fprintf(w, "config\t%s%s\n", orDash(v.Config), refused)
		if v.InForce != nil {
			fmt.Fprintf(w, "in force\tnumber %d, since %s, content %.12s", v.Number, human.Moment(*v.InForce), v.ConfigHash)
			if !v.Kept {
				fmt.Fprint(w, ", not kept")
			}
			if v.By != "" {
				fmt.Fprintf(w, " (%s)", v.By)
			}
			fmt.Fprintln(w)
		}
		if v.Model != nil {
			by := v.Model.String()
			if v.Classifier != "" {
				by = "provider " + v.Classifier + ", and where it knows nothing " + by
			}
			fmt.Fprintf(w, "predicted by\t%s\n", by)
		}
		if t := v.Training; t != nil {
			fmt.Fprintf(w, "trained\t%s, %s: %s\n", human.Moment(t.At), strings.ReplaceAll(t.Result, "_", " "), t.Text)
		}
		for _, p := range v.Providers {
			fmt.Fprintf(w, "provider %s\t%s, %s\n", p.Name, p.Plugin, providerState(p))
			for _, k := range p.Keys {
				fmt.Fprintf(w, "\tkey %s: %s\n", k.Name, keyState(k))
			}
		}
		for _, r := range v.Routes {
			fmt.Fprintf(w, "route %s\t%s of %s%s\n", r.Name, r.Model, r.Provider, routeState(r))
			if f := r.LastFailure; f != nil {
				fmt.Fprintf(w, "\tlast attempt failed, %s: %s\n", human.Moment(f.At), f.Text)
			}
		}
		if v.Ledger != nil {
			fmt.Fprintf(w, "ledger\t%s\n", ledgerState(v.Ledger))
			fmt.Fprintf(w, gateway.Own("nodes\t%s; `fareway gateway nodes` shows them\n"), human.Count(v.Ledger.Nodes, "node"))
			for _, text := range v.Ledger.Drift {
				fmt.Fprintf(w, "\tTHEY DIFFER: %s\n", text)
			}
		}
		if v.Durability == config.DurableProcess {
			fmt.Fprintln(w, "durability\tprocess: a power cut may take what was charged in the last second")
		}
		if v.Backups != nil {
			fmt.Fprintf(w, "backup\t%s\n", backupState(v.Backups))
			fmt.Fprintf(w, "backup tested\t%s\n", choreState(v.Backups, chores.Trial))
		}
		for _, c := range v.Certificates {
			fmt.Fprintf(w, "certificate\t%s: %s\n", c.Host, certificateState(&c, time.Now()))
		}
		printAlertsSummary(w, v.Alerts)
		if v.Limiter != nil {
			fmt.Fprintf(w, "limiter\t%s\n", limiterState(v.Limiter))
		}
		for _, what := range slices.Sorted(maps.Keys(v.Servers)) {
			fmt.Fprintf(w, "%s\t%s\n", what, serverState(v.Servers[what]))
		}
		if v.Spool.Waiting > 0 {
			fmt.Fprintf(w, "spool\t%s for the ledger\n", waitingIn(v.Spool.Waiting))
		}
		if v.Spool.Undecided > 0 {
			fmt.Fprintf(w, gateway.Own("spool\t%s in %s, to be decided: `fareway gateway ledger spool list`\n"),
				human.Count(v.Spool.Undecided, "item"), v.Spool.Aside)
		}
		fmt.Fprintf(w, "plans\t%s\n", orDash(strings.Join(v.Plans, ", ")))
	})
	if u := v.Upstreams; u != nil {
		fmt.Fprintf(w, "\nWhat does not fit the upstreams, which were asked at %s:\n\n%s\n", human.Moment(u.At), u.Text)
	}
	f := v.FailedLoad
	if f == nil {
		return
	}
	fmt.Fprintf(w, "\nThe last load has failed (%s); what is above serves on:\n\n%s\n", human.Moment(f.At),
		cmp.Or(f.Text, f.Problem+"\n"))
	if f.InFile {
		fmt.Fprintln(w, gateway.Own("Correct it and save it: that is enough. `fareway gateway rollback` puts back what "+
			"serves."))
	}
}
