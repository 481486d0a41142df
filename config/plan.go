package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// maxCredits is US$10,000,000 a month: 1e15 microcents, so that years of it fit into an int64.
const maxCredits = 1_000_000_000

// DefaultPlan is the plan of the accounts that are on none: what a plan block without content means, without a name.
// One account has so many requests at a time that some cannot take the service from all others.
func (g *Gateway) DefaultPlan() Plan {
	p := Plan{Limits: defaultLimits}
	p.MaxStreams = max(g.MaxStreams/4, min(g.MaxStreams, 1))
	return p
}

// AtOnce is how many charged requests an account on the plan has in progress at most, 0 for no limit of its own.
func (p *Plan) AtOnce() int64 {
	if p.ConcurrentRequests > 0 && (p.MaxStreams == 0 || p.ConcurrentRequests < p.MaxStreams) {
		return p.ConcurrentRequests
	}
	return p.MaxStreams
}

// Plan is the plan of that name; false when the configuration has none.
func (c *Config) Plan(name string) (Plan, bool) {
	i := slices.IndexFunc(c.Plans, func(p Plan) bool { return p.Name == name })
	if i < 0 {
		return Plan{}, false
	}
	return c.Plans[i], true
}

// Profile is the profile of that name, nil when the configuration has none. It is not changed.
func (c *Config) Profile(name string) *Profile {
	i := slices.IndexFunc(c.Profiles, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Profiles[i]
}

// PlanPlace is where a plan stands, as FILE:LINE; "" when the configuration has none of that name.
func (c *Config) PlanPlace(name string) string { return c.planPlaces[name] }

// PlanOf is the plan of an account on the plan of that name. One that is on none, or on one that the configuration
// no longer has, is on the default plan.
func (c *Config) PlanOf(name string) Plan {
	if p, ok := c.Plan(name); ok {
		return p
	}
	return c.Gateway.DefaultPlan()
}

func (l *loader) plans(file *section) {
	taken := make(map[string]hcl.Range)
	for _, block := range file.blocks["plan"] {
		p := l.config.Gateway.DefaultPlan()
		p.Name, _ = file.label(block, taken)
		l.config.planPlaces[p.Name] = fmt.Sprintf("%s:%d", block.TypeRange.Filename, block.TypeRange.Start.Line)
		s := l.open(block, &planGrammar)
		s.oneOf("default_profile", &p.DefaultProfile)
		s.integer("monthly_credits", &p.MonthlyCredits)
		p.Periods = p.MonthlyCredits > 0
		s.flag("periods", &p.Periods)
		if p.MonthlyCredits > 0 && !p.Periods {
			s.fail(s.anyOf("periods"), "Monthly credits without periods",
				"monthly_credits are added at the beginning of each period. Leave periods out, or the credits.")
		}
		for _, inner := range s.blocks["requests_per_minute"] {
			s.inner(inner, &perMinuteGrammar).limits("requests_per_minute", &p.Limits)
		}
		s.limits("", &p.Limits)
		s.requires(&p.Requires, l.config.Routes)
		s.declines(&p.SuspendAfterDeclines)
		l.config.Plans = append(l.config.Plans, p)
	}
}

func (l *loader) preAuth(file *section) PreAuth {
	p := PreAuth{FailuresPerMinute: 120}
	for _, block := range file.blocks["pre_auth"] {
		l.open(block, &preAuthGrammar).integer("failures_per_minute", &p.FailuresPerMinute)
	}
	return p
}
