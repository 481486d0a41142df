package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Options of a run.
type Options struct {
	Areas []string // areas of the contract, such as STOP; empty: all
	// Ops also runs what takes a gateway of the run's own, which it starts: this build's, not the target's.
	Ops bool
	// Quick leaves out what takes a minute: waiting for a rate limit.
	Quick bool
	// Observe is told of each clause as soon as all of its checks have ended. nil: nobody is.
	Observe func(Result)
}

// Result is what a run says about one clause. Its JSON is the --json output of the command.
type Result struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	Clause string `json:"clause"`
	// Detail is why: what was wrong, why it could not be tested, or what a passed check did not look at.
	Detail string `json:"detail"`
	// Checked is true when every check of the clause ran and held. For an EXCLUDED clause it tells that the
	// deployment refuses (or ignores) it as stated.
	Checked bool `json:"checked"`
}

// apiChecks are all checks that any deployment can be put to.
func apiChecks() []*Check {
	return slices.Concat(generalChecks(), modelChecks(), accountChecks(), moneyChecks(), countChecks(), httpChecks(),
		shapeChecks(), fieldChecks(), toolChecks(), profileChecks(), stopChecks(), authChecks(), streamChecks(),
		errorChecks())
}

// Run puts the target to all checks and returns a result for each clause of the register, in its order. An
// error says why gateways of the run's own could not be started.
func Run(ctx context.Context, target *Target, o Options) ([]Result, error) {
	idle := make(map[string]string)
	findings := perform(ctx, target, o.selected(apiChecks()))
	if o.Ops {
		if err := performRest(ctx, findings); err != nil {
			return nil, err
		}
		more, err := performOps(ctx, slices.DeleteFunc(opsChecks(), func(c opsCheck) bool {
			return o.Quick && c.gate == slowGate || !slices.ContainsFunc(strings.Fields(c.ids), o.chosen)
		}))
		if err != nil {
			return nil, err
		}
		findings = append(findings, more...)
	} else {
		for _, c := range opsChecks() {
			for _, id := range strings.Fields(c.ids) {
				idle[id] = "needs a gateway of its own (--ops)"
			}
		}
	}
	return judge(findings, o, idle), nil
}

// selected are the checks that prove a clause of the chosen areas.
func (o Options) selected(all []*Check) []*Check {
	if len(o.Areas) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *Check) bool { return !slices.ContainsFunc(c.IDs, o.chosen) })
}

func (o Options) chosen(id string) bool {
	area, _, _ := strings.Cut(id, "-")
	return len(o.Areas) == 0 || slices.Contains(o.Areas, area)
}

// perform runs checks: those of money first and one by one, the others side by side.
func perform(ctx context.Context, target *Target, checks []*Check) []finding {
	findings := make([]finding, len(checks))
	for i, c := range checks {
		if c.Quiet {
			findings[i] = c.run(ctx, target)
		}
	}
	var group sync.WaitGroup
	semaphore := make(chan struct{}, max(1, target.limits.Parallel))
	for i, c := range checks {
		if c.Quiet {
			continue
		}
		semaphore <- struct{}{}
		group.Go(func() {
			defer func() { <-semaphore }()
			findings[i] = c.run(ctx, target)
		})
	}
	group.Wait()
	return findings
}

// judge makes one result for each chosen clause out of all findings. idle says, by clause, why there is none.
func judge(findings []finding, o Options, idle map[string]string) []Result {
	byID := make(map[string][]finding)
	for _, f := range findings {
		for _, id := range f.check.IDs {
			byID[id] = append(byID[id], f)
		}
	}
	var results []Result
	for _, c := range register {
		if !o.chosen(c.ID) {
			continue
		}
		r := c.result(byID[c.ID], idle[c.ID])
		if o.Observe != nil {
			o.Observe(r)
		}
		results = append(results, r)
	}
	return results
}

// result folds the findings of a clause: one failure fails it, one check that could not be made leaves it
// Pending.
func (c Clause) result(findings []finding, idle string) Result {
	r := Result{ID: c.ID, Status: c.Idle, Clause: c.Text}
	if len(findings) == 0 {
		r.Detail = cmp.Or(idle, "no check yet")
		return r
	}
	worst := Pass
	var details []string
	for _, f := range findings {
		switch {
		case f.status == Fail && worst != Fail, f.status == Pending && worst == Pass:
			worst, details = f.status, nil // only what explains the status is said
			fallthrough
		case f.status == worst:
			if f.detail != "" && !slices.Contains(details, f.detail) {
				details = append(details, f.detail)
			}
		}
	}
	r.Checked = worst == Pass
	switch {
	case worst == Fail || c.Idle != Excluded:
		r.Status = worst
	case worst == Pass:
		details = append([]string{"not offered, and treated as the contract says"}, details...)
	}
	const most = 3
	if len(details) > most {
		details = append(details[:most:most], fmt.Sprintf("and %d more", len(details)-most))
	}
	r.Detail = strings.Join(details, "; ")
	return r
}

// check makes a check; ids are separated by blanks.
func check(ids, does string, run func(*T)) *Check {
	return &Check{IDs: strings.Fields(ids), Does: does, Run: run}
}

// quiet makes a check of money.
func quiet(ids, does string, run func(*T)) *Check {
	return &Check{IDs: strings.Fields(ids), Does: does, Quiet: true, Run: run}
}
