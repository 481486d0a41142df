package gateway

import (
	"net/http"
	"os"
	"strings"

	"github.com/fareway/fareway/modules/internal/engine"
)

func (a *AdminAPI) status(*http.Request) (any, error) {
	v := statusView{PID: os.Getpid(), Version: Version(), Data: a.engine.DataDir(),
		Providers: []providerView{}, Routes: []routeView{}, Plans: []string{}}
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
	for _, p := range g.Config.Providers {
		v.Providers = append(v.Providers, providerView{Name: p.Name, Plugin: p.Plugin, Ready: g.Ready(p.Name)})
	}
	for _, r := range g.Config.Routes {
		v.Routes = append(v.Routes, routeView{Name: r.Name, Provider: r.Provider, Model: r.Model})
	}
	v.Plans = append(v.Plans, planNames(g)...)
	return v, nil
}

func viewFailedLoad(f *engine.FailedLoad) *failedLoadView {
	if f == nil {
		return nil
	}
	v := &failedLoadView{At: f.At, Config: f.Path, Problem: f.Problem}
	if f.Diagnostics != nil {
		var text strings.Builder
		_ = f.Diagnostics.Write(&text, false) // a builder takes everything
		v.Diagnostics, v.Text = f.Diagnostics.All(), text.String()
	}
	return v
}
