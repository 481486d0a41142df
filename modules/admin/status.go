package admin

import (
	"net/http"
	"os"
	"strings"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
)

func (a *API) status(*http.Request) (any, error) {
	v := Status{PID: os.Getpid(), Version: gateway.Version(), Data: a.engine.DataDir(),
		Providers: []Provider{}, Routes: []Route{}, Plans: []string{}}
	if err := a.engine.Ready(); err != nil {
		v.Reason = err.Error()
	}
	v.Ready = v.Reason == ""
	v.Spool = viewSpool(a.engine.Spool())
	v.FailedLoad = viewFailedLoad(a.engine.FailedLoad())
	g := a.engine.Current()
	if g == nil {
		return v, nil
	}
	v.Config, v.ConfigHash, v.Generation = g.Config.Path, g.Config.Hash, g.Number
	infos := g.Infos()
	for _, p := range g.Config.Providers {
		i := infos[p.Name]
		v.Providers = append(v.Providers, Provider{Name: p.Name, Plugin: p.Plugin, Ready: g.Ready(p.Name),
			State: string(i.State), Problem: i.Problem, Restarts: i.Restarts, LastCrash: viewCrash(i.Crash)})
	}
	for _, r := range g.Config.Routes {
		v.Routes = append(v.Routes, Route{Name: r.Name, Provider: r.Provider, Model: r.Model})
	}
	v.Plans = append(v.Plans, PlanNames(g)...)
	return v, nil
}

func viewFailedLoad(f *engine.FailedLoad) *FailedLoad {
	if f == nil {
		return nil
	}
	v := &FailedLoad{At: f.At, Config: f.Path, Problem: f.Problem}
	if f.Diagnostics != nil {
		var text strings.Builder
		_ = f.Diagnostics.Write(&text, false) // a builder takes everything
		v.Diagnostics, v.Text = f.Diagnostics.All(), text.String()
	}
	return v
}
