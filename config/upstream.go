package config

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/fareway/fareway/plugins/llm"
)

// Offer is what the upstream of a provider says that it has, or why it does not say.
type Offer struct {
	Models []llm.Model
	Err    error // an *llm.Error
}

// located is where in the files things stand that are found to be wrong later.
type located struct {
	sources   *sources
	providers map[string]providerPlace
	routes    []routePlace    // in the order of Config.Routes
	outside   func() []string // what came from env, file and variables; not printed, as texts would be
}

type providerPlace struct{ address, credential hcl.Range }

type routePlace struct{ model, window, output hcl.Range }

// Against compares the configuration with what its providers' upstreams offer, by provider. All that it finds are
// warnings: an upstream may come back, and a list may leave out what is served all the same. wanted says that somebody
// asked, who is told of what could not be compared, too.
func (c *Config) Against(offers map[string]Offer, wanted bool) *Diagnostics {
	d := new(Diagnostics)
	if c.located == nil {
		return d
	}
	for _, p := range c.Providers {
		if offer, ok := offers[p.Name]; ok && offer.Err != nil {
			d.unreachable(p.Name, c.located.providers[p.Name], offer.Err, wanted)
		}
	}
	for i, r := range c.Routes {
		offer, ok := offers[r.Provider]
		if !ok || offer.Err != nil {
			continue
		}
		at := c.located.routes[i]
		m, found := offeredAs(offer.Models, r.Model)
		if !found {
			d.add(SeverityWarning, at.model, fmt.Sprintf("The upstream of provider %q does not offer this model", r.Provider),
				fmt.Sprintf("Requests to route %q will probably fail. %s`gateway models %s` lists what there is.", r.Name,
					nearestModel(offer.Models, r.Model), r.Provider))
			continue
		}
		d.larger(at.window, "context_window", r.ContextWindow, m.ContextWindow)
		d.larger(at.output, "max_output", r.MaxOutput, m.MaxOutput)
	}
	d.finish(c.located.sources)
	return d
}

// larger tells of tokens of a route that its model does not have; an upstream that says 0 does not say.
func (d *Diagnostics) larger(at hcl.Range, name string, written, said int64) {
	if said > 0 && written > said {
		d.add(SeverityWarning, at, name+" is larger than the upstream's", fmt.Sprintf(
			"It says %d tokens for this model, and refuses or cuts what is longer. Write %s = %d.", said, name, said))
	}
}

// unreachable tells of an upstream that cannot be used as it is. That it has no list of models is no fault, but worth
// telling who wanted it compared.
func (d *Diagnostics) unreachable(name string, at providerPlace, err error, wanted bool) {
	failed, ok := err.(*llm.Error) //nolint:errorlint // it is one, and its fields count
	if !ok {
		return
	}
	const (
		later   = " It is asked again, and the routes serve as soon as it answers."
		correct = " Correct it, or requests to its routes fail."
	)
	detail := sentence(failed.Message)
	switch {
	case failed.Unreached && failed.Status != 0:
		d.add(SeverityWarning, at.address, fmt.Sprintf("What answers for provider %q is no API", name), detail+correct)
	case failed.Kind == llm.ErrUpstream && failed.Status == 0:
		d.add(SeverityWarning, at.address, fmt.Sprintf("The upstream of provider %q does not answer", name), detail+later)
	case failed.Status >= http.StatusInternalServerError:
		d.add(SeverityWarning, at.address, fmt.Sprintf("The upstream of provider %q does not serve", name),
			fmt.Sprintf("It answers %d. ", failed.Status)+detail+later)
	case failed.Kind == llm.ErrCredentials:
		d.add(SeverityWarning, at.credential, fmt.Sprintf("The upstream of provider %q refuses the credential", name),
			detail+correct)
	case wanted:
		d.add(SeverityWarning, at.address, fmt.Sprintf("The upstream of provider %q does not say what it offers", name),
			fmt.Sprintf("It answers %d where its list of models should be, so that its routes could not be compared "+
				"with it. Some services have none. If requests fail as well, the address is wrong: it may lack a part such "+
				"as /v1.", failed.Status))
	}
}

// offeredAs finds a model by the name that a route has for it. Services know more names than they list: the newest of
// several tags or dates, and variants behind a colon.
func offeredAs(models []llm.Model, name string) (llm.Model, bool) {
	base, variant, _ := strings.Cut(name, ":")
	stem := strings.TrimSuffix(name, "-latest")
	var like *llm.Model
	for i, m := range models {
		switch {
		case m.ID == name:
			return m, true
		case m.ID == name+":latest", variant != "" && m.ID == base, isDated(m.ID, stem):
			like = &models[i]
		case stem != name && strings.HasPrefix(m.ID, stem+"-"):
			like = &models[i]
		}
	}
	if like == nil {
		return llm.Model{}, false
	}
	return *like, true
}

// isDated reports whether an id is a name with a day, such as claude-haiku-4-5-20251001 or gpt-5-2025-08-07.
func isDated(id, name string) bool {
	day, ok := strings.CutPrefix(id, name+"-")
	return ok && len(strings.ReplaceAll(day, "-", "")) == len("20060102") && strings.Trim(day, "0123456789-") == ""
}

// nearestModel proposes the model that is meant, or nothing.
func nearestModel(models []llm.Model, name string) string {
	ids := make([]string, len(models))
	for i, m := range models {
		ids[i] = m.ID
	}
	if near := Nearest(name, ids); near != "" {
		return fmt.Sprintf("Did you mean %q? ", clip(near))
	}
	return ""
}
