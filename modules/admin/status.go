package admin

import (
	"cmp"
	"errors"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

func (a *API) status(*http.Request) (any, error) {
	v := Status{PID: os.Getpid(), Command: os.Args, Version: gateway.Version(), Data: a.engine.DataDir(),
		Providers: []Provider{}, Routes: []Route{}, Plans: []string{}, Files: []string{}}
	if err := a.engine.Ready(); err != nil {
		v.Reason = err.Error()
	}
	v.Ready = v.Reason == ""
	v.Spool = viewSpool(a.engine.Spool())
	v.Loss, v.Durability = a.engine.Store().Loss(), a.engine.Durability()
	v.Ledger = a.ledgerServer()
	v.Backups = viewBackups(a.engine, time.Now())
	v.Certificates = a.engine.Certificates()
	v.Alerts = a.summarizeAlerts()
	v.Limiter = viewLimiter(a.engine.LimiterServer())
	for what, s := range a.engine.Servers() {
		if v.Servers == nil {
			v.Servers = make(map[string]Server)
		}
		v.Servers[what] = Server{Address: s.Address, Up: s.Up, Since: s.Since, Reason: s.Reason}
	}
	v.Traffic.Since = a.engine.Opened()
	v.Traffic.Traffic, v.Traffic.Accounts = a.engine.Metrics().Traffic()
	v.FailedLoad = viewFailedLoad(a.engine.FailedLoad())
	g := a.engine.InForce()
	if g.Generation == nil {
		return v, nil
	}
	v.InForce, v.Number, v.Kept, v.By = &g.Since, g.Number, g.Kept > 0, g.By
	if u := g.Upstreams(); u != nil && len(u.Diagnostics.All()) > 0 {
		v.Upstreams = &Upstreams{At: u.At, Diagnostics: u.Diagnostics.All(), Text: u.Text()}
	}
	for _, f := range g.Config.Files {
		v.Files = append(v.Files, f.Path)
	}
	v.Config, v.ConfigHash = g.Config.Path, g.Config.Hash
	_, about := a.engine.PredictorOf(g.Config)
	v.Model, v.Training = &about, a.engine.Training()
	v.Classifier = g.Config.Predictor.Provider
	infos := g.Infos()
	for _, p := range g.Config.Providers {
		i := infos[p.Name]
		v.Providers = append(v.Providers, Provider{Name: p.Name, Plugin: p.Plugin, Ready: g.Ready(p.Name),
			State: string(i.State), Problem: i.Problem, Restarts: i.Restarts, LastCrash: viewCrash(i.Crash),
			Keys: viewKeys(g.Keys(p.Name))})
	}
	health := g.RouteHealth()
	templates := a.engine.Templates().Known()
	for i, r := range g.Config.Routes {
		h := health[i]
		v.Routes = append(v.Routes, Route{Name: r.Name, Provider: r.Provider, Model: r.Model, State: string(h.State),
			Reason: h.Why, Until: optionalTime(h.Until), ConcurrencyLimit: h.Limit, Waiting: h.Waiting,
			TemplateTokens: templates.Of(&r), LastFailure: viewFailure(a.engine.LastFailure(r.Name))})
	}
	v.Plans = append(v.Plans, PlanNames(g.Config)...)
	return v, nil
}

// viewBackups is nil where PostgreSQL has its own.
func viewBackups(e *engine.Engine, now time.Time) *Backups {
	standing, ok, err := e.Backups()
	if !ok {
		return nil
	}
	v := &Backups{Standing: standing, Missed: []chores.Chore{}}
	if err != nil {
		v.Problem = err.Error()
	}
	for _, chore := range chores.All {
		if standing.IsMissed(chore, now) {
			v.Missed = append(v.Missed, chore)
		}
	}
	return v
}

func viewLimiter(s *ratelimit.Status) *LimiterServer {
	if s == nil {
		return nil
	}
	return &LimiterServer{Address: s.Address, Mode: s.Mode, Up: s.Up, Since: s.Since, Reason: s.Reason, Nodes: s.Nodes,
		Shares: s.Shares}
}

func viewFailure(f engine.Failure) *RouteFailure {
	if f.At.IsZero() {
		return nil
	}
	return &RouteFailure{At: f.At.UTC(), Text: f.Text}
}

func viewKeys(keys []engine.KeyHealth) (list []ProviderKey) {
	for _, k := range keys {
		list = append(list, ProviderKey{Name: k.Name, State: string(k.State), Until: optionalTime(k.Until)})
	}
	return list
}

func viewFailedLoad(f *engine.FailedLoad) *FailedLoad {
	if f == nil {
		return nil
	}
	v := &FailedLoad{At: f.At, Config: f.Path, Problem: f.Problem, InFile: f.InFile}
	if f.Diagnostics != nil {
		v.Diagnostics, v.Text = f.Diagnostics.All(), f.Text()
	}
	return v
}

// loaders are the commands that load the HCL file, as they call themselves.
var loaders = []string{"reload", "apply", "rollback", "init"}

// reload loads the HCL file now.
func (a *API) reload(r *http.Request) (any, error) {
	by := r.URL.Query().Get("by")
	if !slices.Contains(loaders, by) {
		by = loaders[0]
	}
	changed, err := a.engine.Reload(engine.WithCause(r.Context(), by+" by "+actorOf(r)))
	if refused, ok := errors.AsType[*engine.RefusedError](err); ok {
		return nil, problem(http.StatusUnprocessableEntity, "the saved configuration is refused, and the one before serves "+
			"on:\n\n%s", cmp.Or(refused.Text(), refused.Problem))
	}
	if err != nil {
		return nil, err
	}
	g := a.engine.InForce()
	if g.Generation == nil {
		return nil, engine.ErrReplaced
	}
	return Reloaded{Changed: changed, Number: g.Number, ConfigHash: g.Config.Hash, InForce: g.Since}, nil
}
