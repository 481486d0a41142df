package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/fareway/fareway/plugins/llm"
)

// offerNames are the values of `offers`.
var offerNames = []string{"tools", "json_object", "json_schema"}

// unsupportedNames are the values of `unsupported`.
var unsupportedNames = restrictionNames()

// restrictionDocs says what becomes of each.
func restrictionDocs() string {
	var docs []string
	for _, r := range llm.Restrictions() {
		docs = append(docs, "`\""+r.Name+"\"` ("+r.Doc+")")
	}
	return strings.Join(docs, "; ")
}

func restrictionNames() (names []string) {
	for _, r := range llm.Restrictions() {
		names = append(names, r.Name)
	}
	return names
}

// maxConcurrent is more than any upstream takes; a larger number is a slip of the pen.
const maxConcurrent = 1_000_000

// routes decodes the routes and checks which provider each of them names.
func (l *loader) routes(file *section, providers map[string]hcl.Range) {
	taken := make(map[string]hcl.Range)
	used := make(map[string]bool)
	certain := true // which provider every route uses
	for _, block := range file.blocks["route"] {
		r := Route{Metering: MeteringReported, Timeout: 5 * time.Minute}
		r.Name, _ = file.label(block, taken)
		s := l.open(block, &routeGrammar)

		if v, ok := s.text("provider", &r.Provider); ok {
			used[r.Provider] = true
			s.knownProvider(v, r.Provider, providers)
		} else {
			certain = false
		}
		model, _ := s.text("model", &r.Model)
		window, windowOK := s.integer("context_window", &r.ContextWindow)
		output, outputOK := s.integer("max_output", &r.MaxOutput)
		if windowOK && outputOK && r.MaxOutput > r.ContextWindow {
			s.warn(output.at, "max_output is over context_window",
				"A reply is never longer than the window; is one of them a slip?")
		}
		s.quality(&r, model, &l.predictor)
		s.flag("reasons", &r.Reasons)
		s.offers(&r)
		s.choices("specialty", func(name string) { r.Specialty = append(r.Specialty, Specialty(name)) })
		s.choices("unsupported", func(name string) { r.Unsupported = append(r.Unsupported, name) })
		r.FinishReasons = s.finishReasons()
		s.concurrent(&r)
		r.Breaker = s.ownBreaker(l.config.Breaker)
		metering := string(r.Metering)
		s.oneOf("metering", &metering)
		r.Metering = Metering(metering)
		s.unasked(&r)
		s.duration("timeout", &r.Timeout)
		if v, ok := s.read("region"); ok {
			s.asRegion(v, &r.Region)
		}
		s.retention("retention", &r.Retention)
		s.flag("bills_past_allowance", &r.BillsPastAllowance)
		s.templateTokens(&r, windowOK)
		usual := l.usual(r.Provider, r.Model)
		s.need(block.Body, "price", usual.advice())
		r.Price, r.LaterPrices, _ = s.prices("price", &priceGrammar, &r, usual)
		r.Cost, r.LaterCosts = r.Price, r.LaterPrices
		if cost, later, ok := s.prices("cost", &costGrammar, &r, usual); ok {
			r.Cost, r.LaterCosts = cost, later
		}
		l.config.Routes = append(l.config.Routes, r)
		l.located.routes = append(l.located.routes, routePlace{model: model.at, window: window.at, output: output.at})
	}
	if !certain || len(file.blocks["route"]) == 0 {
		return // something is missing, and reported; a warning would be its echo
	}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		if !used[name] && name != l.config.Screening.Provider && name != l.config.Predictor.Provider {
			l.warn(providers[name], fmt.Sprintf("Provider %q has no route", name),
				"Its process would run for nothing. Add a route to it, or remove it.")
		}
	}
}

func (s *section) knownProvider(v value, name string, providers map[string]hcl.Range) {
	if _, ok := providers[name]; ok || len(providers) == 0 {
		return // without any provider, that is the mistake, and reported
	}
	known := slices.Sorted(maps.Keys(providers))
	detail := "No provider block has this name. "
	if v.outside {
		detail += "The value came from env or file and is not shown."
	} else {
		detail += suggestion(name, known, "provider")
	}
	s.fail(v.at, "Unknown provider", detail)
}

// offers reads a list of names into the route's flags.
func (s *section) offers(r *Route) {
	s.choices("offers", func(name string) {
		switch name {
		case "tools":
			r.Tools = true
		case "json_object":
			r.JSONObject = true
		case "json_schema":
			r.JSONSchema = true
		}
	})
}

// templateTokens reads what the upstream adds to prompts, which must leave room for one.
func (s *section) templateTokens(r *Route, windowOK bool) {
	var n int64
	switch v, ok := s.integer("template_tokens", &n); {
	case !ok:
	case windowOK && n >= r.ContextWindow:
		s.fail(v.at, "template_tokens leaves no room for a prompt", fmt.Sprintf("It must be below context_window, "+
			"which is %d. Without it, it is learned.", r.ContextWindow))
	default:
		r.TemplateTokens = &n
	}
}
