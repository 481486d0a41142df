package config

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// The profiles that there are: clients choose among them by header, model id and reasoning effort (PROF-06).
const (
	ProfileBudget   = "budget"
	ProfileBalanced = "balanced"
	ProfileMax      = "max"
)

// ProfileNames are the names of all profiles.
func ProfileNames() []string { return []string{ProfileBudget, ProfileBalanced, ProfileMax} }

// DefaultProfiles weigh for those that the file leaves out.
func DefaultProfiles() []Profile {
	return []Profile{
		{Name: ProfileBudget, Cost: 0.8, Quality: 0.2},
		{Name: ProfileBalanced, Cost: 0.5, Quality: 0.5},
		{Name: ProfileMax, Cost: 0.1, Quality: 0.9},
	}
}

// maxWeight bounds the weights of a profile. Only their relation means anything.
const maxWeight = 1_000_000

// profiles decodes the profiles and adds those that the file leaves out.
func (l *loader) profiles(file *section) {
	taken := make(map[string]hcl.Range)
	for _, block := range file.blocks["profile"] {
		var p Profile
		var ok bool
		if p.Name, ok = file.label(block, taken); ok && !slices.Contains(ProfileNames(), p.Name) {
			detail := suggestion(p.Name, ProfileNames(), "profile")
			l.fail(block.LabelRanges[0], fmt.Sprintf("Unknown profile %q", p.Name), detail)
		}
		s := l.open(block, &profileGrammar)
		costOK, qualityOK := s.weight("cost", &p.Cost), s.weight("quality", &p.Quality)
		if costOK && qualityOK && p.Cost == 0 && p.Quality == 0 {
			s.fail(s.header, "Profile without weight", "cost and quality are both 0, so that nothing would choose. Make one "+
				"of them larger.")
		}
		s.share("keep_quality", &p.KeepQuality)
		s.shadow(&p.Shadow, l.config.Routes)
		s.hedge(&p)
		l.config.Profiles = append(l.config.Profiles, p)
	}
	for _, p := range DefaultProfiles() {
		if _, declared := taken[p.Name]; !declared {
			l.config.Profiles = append(l.config.Profiles, p)
		}
	}
}

// share reads a number over 0 and up to 1.
func (s *section) share(name string, target *float64) {
	v, n, ok := s.number(name, "a number up to 1, without quotes")
	switch {
	case !ok:
	case n.Sign() <= 0 || n.Cmp(big.NewFloat(1)) > 0:
		s.refuse(v, "must be over 0 and at most 1")
	default:
		*target, _ = n.Float64()
	}
}

// weight reads a number from 0 on.
func (s *section) weight(name string, target *float64) bool {
	v, n, ok := s.number(name, "a number without quotes")
	switch {
	case !ok:
	case n.Sign() < 0:
		s.refuse(v, "must not be negative")
	case n.Cmp(big.NewFloat(maxWeight)) > 0:
		s.refuse(v, fmt.Sprintf("must be at most %d", maxWeight))
	default:
		*target, _ = n.Float64()
		return true
	}
	return false
}
