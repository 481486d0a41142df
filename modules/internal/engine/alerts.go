package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/host"
)

// What somebody must hear of (config.AlertEvents) is looked at here: by the states that `status` and the metrics show,
// and by no others. Nothing of it is on the way of a request but NoteCharged.

const (
	// diskTight and diskSpent are what is left of a disk that fills, as a part of it, and of one that is full, in bytes.
	diskTight = 0.1
	diskSpent = 1_000_000_000
	// certificateTight is which part of a certificate's time is left when it should have been renewed long ago: Caddy
	// renews at a third.
	certificateTight = 0.2
	// standbyMissed is for how long a standby is missed across restarts of the gateway.
	standbyMissed = 24 * time.Hour
)

// alerting is what alerts are found by that nothing else keeps.
type alerting struct {
	service *alerts.Service

	standby atomic.Bool // commits have waited for one
	inherit sync.Once   // of what an earlier process knew
	turn    string      // of the accounts that are told of, the one that is looked at next; of whoever looks
}

// The zero alerting, that of an engine without a store, does nothing.
func (a *alerting) start(ctx context.Context) {
	if a.service != nil {
		a.service.Start(ctx)
	}
}

func (a *alerting) close() {
	if a.service != nil {
		a.service.Close()
	}
}

// alertLook looks for what one event is about. ok is false where that cannot be told at the moment.
type alertLook func(e *Engine, ctx context.Context) (findings []alerts.Finding, ok bool)

// alertLooks has one for each event that is not about accounts, but for those of destinations, which alerts has.
var alertLooks = map[string]alertLook{
	"no_route":             (*Engine).findNoRoute,
	"provider_down":        (*Engine).findProvidersDown,
	"provider_key":         (*Engine).findKeys,
	"route_down":           (*Engine).findRoutesDown,
	"ledger_spooling":      (*Engine).findSpooling,
	"ledger_loss":          (*Engine).findLoss,
	"spool_undecided":      (*Engine).findUndecided,
	"standby_away":         (*Engine).findStandbyAway,
	"nodes_differ":         (*Engine).findNodesDiffer,
	"limiter_away":         (*Engine).findLimiterAway,
	"server_away":          (*Engine).findServersAway,
	"config_refused":       (*Engine).findConfigRefused,
	"certificate_failing":  (*Engine).findCertificatesFailing,
	"certificate_expiring": (*Engine).findCertificatesExpiring,
	"disk_filling":         (*Engine).findDisksFilling,
	"disk_full":            (*Engine).findDisksFull,
	"backup_missing":       (*Engine).findBackupsMissing,
	"backup_failed":        (*Engine).findBackupsFailed,
	"payment_waiting":      (*Engine).findPaymentsWaiting,
}

// openAlerts prepares them; they begin with the first configuration that serves.
func (e *Engine) openAlerts(o *Options, cfg *config.Config) {
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	service := alerts.Options{Dir: o.DataDir, Gateway: name, Log: e.Logger(), Now: o.Now, After: o.After,
		Config: func() config.Alerts { return e.configOr(cfg).Alerts }, Look: e.lookAtAlerts,
		LookAside: e.lookAtAccounts, GiveBack: e.giveBackAccounts, Owners: e.ownersOf}
	if e.shared != nil {
		service.Claim = e.shared.ClaimChore
	}
	e.alerting.service = alerts.New(service)
	e.metrics.alerts.standing = e.alerting.service.Standing
}

// Alerts tell operators what they must hear of.
func (e *Engine) Alerts() *alerts.Service { return e.alerting.service }

// alertUnsure reports of a subject whether it is unknown how it is, by event: a process that has begun knows nothing
// yet of what only memory has. What an earlier one has told of it stays.
var alertUnsure = map[string]func(e *Engine, subject string) bool{
	"provider_key":        (*Engine).isKeyUnsure,
	"certificate_failing": (*Engine).isCertificateUnsure,
}

// lookAtAlerts looks for all of them but those of accounts.
func (e *Engine) lookAtAlerts(ctx context.Context, known func(event string) []string) map[string]alerts.Seen {
	e.alerting.inherit.Do(func() {
		if e.alerting.service != nil {
			e.alerting.inheritStandby(e.alerting.service.Standing().Alerts, e.Now())
		}
	})
	seen := make(map[string]alerts.Seen)
	for event, look := range alertLooks {
		findings, ok := look(e, ctx)
		if !ok {
			continue
		}
		s := alerts.Seen{Findings: findings}
		if isUnsure := alertUnsure[event]; isUnsure != nil {
			s.Examined = make(map[string]bool)
			for _, subject := range known(event) {
				s.Examined[subject] = !isUnsure(e, subject)
			}
		}
		seen[event] = s
	}
	return seen
}

// inheritStandby takes over that an earlier process has missed a standby. Whoever restarts a gateway a day later
// without one has given it up: the server's settings say no more than that commits wait for none.
func (a *alerting) inheritStandby(raised []alerts.Alert, now time.Time) {
	for i := range raised {
		if raised[i].Event == "standby_away" && now.Sub(raised[i].Since) < standbyMissed {
			a.standby.Store(true)
		}
	}
}

// isKeyUnsure: no upstream has said anything of the credential.
func (e *Engine) isKeyUnsure(subject string) bool {
	g := e.Current()
	return g != nil && slices.ContainsFunc(g.credentials(), func(k *providerKey) bool {
		return k.subject() == subject && !k.taken.Load()
	})
}

// isCertificateUnsure: renewing it was not tried yet, and it is time to.
func (e *Engine) isCertificateUnsure(subject string) bool {
	return slices.ContainsFunc(e.Certificates(), func(c Certificate) bool {
		return c.Host == subject && c.Failed == nil && !c.isFresh(e.Now())
	})
}

func (e *Engine) findNoRoute(context.Context) (found []alerts.Finding, ok bool) {
	g := e.Current()
	if g == nil || len(g.Config.Routes) == 0 {
		return nil, false
	}
	var why []string
	standing := g.Standing("")
	for i, r := range g.RouteHealth() {
		// One that stands behind is called where nothing else is left, and one that is busy soon.
		if s := standing(&g.Config.Routes[i], true); s.Behind || !errors.Is(s.Why, routing.ErrNotReady) {
			return nil, true
		}
		why = append(why, fmt.Sprintf("%s: %s", r.Route, r.Why))
	}
	return []alerts.Finding{{Text: "No route serves, so that every request is refused (" + strings.Join(why, "; ") + ").",
		Next: "`fareway gateway route list` says of each route why not, and until when."}}, true
}

func (e *Engine) findProvidersDown(context.Context) (found []alerts.Finding, ok bool) {
	g := e.Current()
	if g == nil {
		return nil, false
	}
	for name, i := range g.Infos() {
		if i.State == host.Ready || i.State == host.Draining {
			continue
		}
		text := fmt.Sprintf("Provider %s is not ready: its process is %s", name, i.State)
		if i.Problem != "" {
			text += ", " + strings.TrimSuffix(i.Problem, ".")
		}
		if i.Crash != nil {
			text += fmt.Sprintf("; its last failure (%s) was at %s", i.Crash.Cause, i.Crash.At.UTC().Format(time.RFC3339))
		}
		if g.Ready(name) {
			text += "; the gateway makes its calls meanwhile"
		}
		found = append(found, alerts.Finding{Subject: name, Text: text + ".",
			Next: "`fareway gateway plugin list` has its state and its last lines of output.",
			Data: map[string]any{"process": string(i.State), "restarts": i.Restarts, "serves": g.Ready(name)}})
	}
	return found, true
}

// keyTexts say what an upstream says of a credential.
var keyTexts = map[KeyState]string{KeyRefused: "refuses", KeyExhausted: "says that the quota is used up of"}

// findKeys goes by the credentials themselves, not by their routes: one that may be tried again is still refused.
func (e *Engine) findKeys(context.Context) (found []alerts.Finding, ok bool) {
	g := e.Current()
	if g == nil {
		return nil, false
	}
	for _, k := range g.credentials() {
		h := k.health()
		text, ok := keyTexts[h.State]
		if !ok {
			continue
		}
		credential := "the credential of provider " + k.provider
		if k.name != "" {
			credential = fmt.Sprintf("key %s of provider %s", k.name, k.provider)
		}
		found = append(found, alerts.Finding{Subject: k.subject(), Text: fmt.Sprintf("The upstream %s %s.", text, credential),
			Next: "Renew the credential, or pay the upstream's bill; save the HCL file afterwards.",
			Data: map[string]any{"state": string(h.State)}})
	}
	return found, true
}

func (e *Engine) findRoutesDown(context.Context) (found []alerts.Finding, ok bool) {
	g := e.Current()
	if g == nil {
		return nil, false
	}
	for _, r := range g.RouteHealth() {
		switch r.State {
		case "open", "half_open", "ejected":
		default:
			continue
		}
		text := fmt.Sprintf("Route %s is not called: %s", r.Route, r.Why)
		if f := e.LastFailure(r.Route); f.Text != "" {
			text += "; its last attempt failed: " + f.Text
		}
		found = append(found, alerts.Finding{Subject: r.Route, Text: strings.TrimSuffix(text, ".") + ".",
			Next: "`fareway gateway route list` has the last failure. Other routes answer meanwhile.",
			Data: map[string]any{"state": string(r.State)}})
	}
	return found, true
}

func (e *Engine) findSpooling(context.Context) (found []alerts.Finding, ok bool) {
	away, _ := e.away()
	err := e.probe.check() // also where nothing was to be written since it went
	waiting := e.spooled().Settlements
	if e.store.Loss() != nil {
		return nil, true // which is told of
	}
	var text []string
	switch {
	case err != nil:
		text = append(text, fmt.Sprintf("The ledger is away: %s.", strings.TrimSuffix(err.Error(), ".")))
	case away:
		text = append(text, "The ledger is away.")
	case waiting == 0:
		return nil, true
	}
	switch {
	case waiting == 1:
		text = append(text, "1 settlement waits in the spool for the ledger.")
	case waiting > 1:
		text = append(text, human.Count(waiting, "settlement")+" wait in the spool for the ledger.")
	}
	return []alerts.Finding{{Text: strings.Join(text, " "), Data: map[string]any{"waiting": waiting},
		Next: "Nothing is lost while the data folder is there. Look at the database, and at the disk."}}, true
}

func (e *Engine) findLoss(context.Context) (found []alerts.Finding, ok bool) {
	loss := e.store.Loss()
	if loss == nil {
		return nil, true
	}
	text := fmt.Sprintf("A part of the ledger is missing: %s.", loss)
	return []alerts.Finding{{Text: text, Next: ledger.LossAdvice}}, true
}

func (e *Engine) findUndecided(context.Context) (found []alerts.Finding, ok bool) {
	n := e.settler.spool.Aside().Undecided()
	if n == 0 {
		return nil, true
	}
	return []alerts.Finding{{Text: fmt.Sprintf("What was in the spool could not be applied: %s to be decided.",
		human.Count(n, "item")), Next: toDecide + " shows what.", Data: map[string]any{"items": n}}}, true
}

// findStandbyAway says nothing where there never was one and none is needed: that is how the operator has it.
func (e *Engine) findStandbyAway(context.Context) (found []alerts.Finding, ok bool) {
	s := e.LedgerServer()
	if s == nil || !s.Up {
		return nil, s == nil
	}
	if s.Standbys != "" {
		e.alerting.standby.Store(true)
	}
	if s.Standbys != "" || !s.Needed && !e.alerting.standby.Load() {
		return nil, true
	}
	text := "Commits of the ledger's database wait for no standby: a failover may lose charges."
	if s.Needed {
		text = "Commits of the ledger's database wait for no standby, so that charged requests are refused."
	}
	const next = "Bring the standby back. `fareway gateway status` shows whether it is."
	return []alerts.Finding{{Text: text, Next: next}}, true
}

func (e *Engine) findNodesDiffer(context.Context) (found []alerts.Finding, ok bool) {
	_, drift := e.KnownNodes()
	if len(drift) == 0 {
		return nil, true
	}
	return []alerts.Finding{{Text: "The nodes differ: " + strings.Join(drift, "; ") + ".",
		Next: "Give all of them the same files, and `fareway gateway reload` each."}}, true
}

func (e *Engine) findLimiterAway(context.Context) (found []alerts.Finding, ok bool) {
	s := e.LimiterServer()
	if s == nil || s.Up {
		return nil, true
	}
	return []alerts.Finding{{Text: fmt.Sprintf("The limiter's server %s is away, and this node admits its share of each "+
		"limit: %s", s.Address, s.Reason), Next: "`fareway gateway status` says since when and why."}}, true
}

func (e *Engine) findServersAway(context.Context) (found []alerts.Finding, ok bool) {
	for what, s := range e.Servers() {
		if !s.Up {
			found = append(found, alerts.Finding{Subject: what, Text: fmt.Sprintf("The server %s for %s is away: %s", s.Address,
				what, s.Reason), Next: "The gateway goes on without it. `fareway gateway status` says why."})
		}
	}
	return found, true
}

func (e *Engine) findConfigRefused(context.Context) (found []alerts.Finding, ok bool) {
	f := e.FailedLoad()
	if f == nil {
		return nil, true
	}
	return []alerts.Finding{{Text: fmt.Sprintf("The configuration as it is saved is refused, and the one before "+
		"serves: %s", f.Problem),
		Next: "`fareway gateway status` has the mistake with its line. A restart would not come up."}}, true
}

func (e *Engine) findCertificatesFailing(context.Context) (found []alerts.Finding, ok bool) {
	for _, c := range e.Certificates() {
		if f := c.Failed; f != nil {
			found = append(found, alerts.Finding{Subject: c.Host, Text: fmt.Sprintf("The certificate of %s could not be "+
				"obtained or renewed, last at %s: %s", c.Host, f.At.UTC().Format(time.RFC3339), f.Text),
				Next: "Mostly it is DNS, or a closed port 80; the authority is asked again by itself."})
		}
	}
	return found, true
}

func (e *Engine) findCertificatesExpiring(context.Context) (found []alerts.Finding, ok bool) {
	for name, v := range e.metrics.certificates.list() {
		left := v.Until.Sub(e.Now())
		if left.Seconds() >= certificateTight*v.Until.Sub(v.From).Seconds() {
			continue
		}
		text := "expires"
		if left <= 0 {
			text = "has expired, so that clients refuse it,"
		}
		found = append(found, alerts.Finding{Subject: name, Text: fmt.Sprintf("The certificate of %s %s at %s. It was to be "+
			"renewed when a third of its time was left.", name, text, v.Until.UTC().Format(time.RFC3339)),
			Next: "The log says why renewing fails (`tls.obtain`, `tls.renew`): is port 443, or 80, open for the authority?"})
	}
	return found, true
}

func (e *Engine) findDisksFilling(context.Context) (found []alerts.Finding, ok bool) {
	return e.findDisks(func(d disk) bool { return float64(d.free) < diskTight*float64(d.whole) },
		"`fareway_file_bytes` says which of the gateway's files grow. `ledger prune`, request_log and decision_log bound "+
			"them.")
}

func (e *Engine) findDisksFull(context.Context) (found []alerts.Finding, ok bool) {
	return e.findDisks(func(d disk) bool { return d.free < diskSpent },
		"A full disk refuses charged requests. Make room now.")
}

func (e *Engine) findDisks(tight func(disk) bool, next string) (found []alerts.Finding, ok bool) {
	for folder, d := range e.metrics.files.disks() {
		if tight(d) {
			found = append(found, alerts.Finding{Subject: folder, Text: fmt.Sprintf("On the disk of the folder %s (%s) %d MB "+
				"of %d MB are left.", folder, d.path, d.free/1_000_000, d.whole/1_000_000), Next: next,
				Data: map[string]any{"free_bytes": d.free, "bytes": d.whole}})
		}
	}
	return found, true
}

// choreNames are what chores are called.
var choreNames = map[chores.Chore]string{chores.Backup: "backup",
	chores.Trial: "trial of a backup (a restore elsewhere)"}

func (e *Engine) findBackupsMissing(context.Context) (found []alerts.Finding, ok bool) {
	return e.findBackups(func(s chores.Standing, chore chores.Chore) string {
		if !s.IsMissed(chore, e.Now()) {
			return ""
		}
		if done := s.Of(chore).Done; done != nil {
			return fmt.Sprintf("A %s of the ledger should have been made by now: the last was at %s.", choreNames[chore],
				done.UTC().Format(time.RFC3339))
		}
		return fmt.Sprintf("A %s of the ledger was never made.", choreNames[chore])
	}, "`systemctl list-timers 'fareway-*'`: does its timer run? `fareway gateway backup run --into FOLDER` makes one.")
}

func (e *Engine) findBackupsFailed(context.Context) (found []alerts.Finding, ok bool) {
	return e.findBackups(func(s chores.Standing, chore chores.Chore) string {
		f := s.Of(chore).Failed
		if f == nil {
			return ""
		}
		return fmt.Sprintf("The last %s of the ledger has failed, at %s: %s", choreNames[chore],
			f.At.UTC().Format(time.RFC3339), f.Text)
	}, "`fareway gateway status` says why, and the journal of fareway-backup and fareway-restore-test all of it.")
}

func (e *Engine) findBackups(look func(chores.Standing, chores.Chore) string, next string) (found []alerts.Finding,
	ok bool) {
	standing, ok, _ := e.Backups() // a record that cannot be read is one of nothing, as for the metrics
	if !ok {
		return nil, true
	}
	for _, chore := range chores.All {
		if text := look(standing, chore); text != "" {
			found = append(found, alerts.Finding{Subject: string(chore), Text: text, Next: next})
		}
	}
	return found, true
}
