// Package doctor looks for the mistakes that operators make: in the machine, the files, the configuration, the
// upstreams, the money and the way from the internet to the gateway. What it looks at is one table, Checks; each row
// looks at one thing, in bounded time and beside the others, and says what is wrong there and what to do. A row that
// cannot look says so, and why: nothing passes because nobody looked.
//
// It asks whoever knows already: the admin API of the gateway that runs, the configuration as `check` reads it, the
// ledger as every other command opens it. It changes nothing and costs nothing: no upstream is asked for a reply.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/human"
)

// Severity says how bad a finding is.
type Severity int

const (
	// Note is worth knowing. Nothing has to be done.
	Note Severity = iota
	// Warning is what will break, or is worse than it has to be.
	Warning
	// Error is what does not work, or loses money, data or secrets.
	Error
)

var severities = [...]string{Note: "note", Warning: "warning", Error: "error"}

func (s Severity) String() string { return severities[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Severity) UnmarshalText(text []byte) error {
	i := slices.Index(severities[:], string(text))
	if i < 0 {
		return fmt.Errorf("there is no severity %q", text)
	}
	*s = Severity(i)
	return nil
}

// Finding is one thing that is wrong.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Seen     string   `json:"seen"` // what was seen: numbers, paths, names
	Why      string   `json:"why"`  // why it matters
	Next     string   `json:"next"` // what to do, a command that can be pasted where there is one
}

// Skip is a check that could not look, and why.
type Skip struct {
	Check string `json:"check"`
	Why   string `json:"why"`
}

// Report is what came of looking.
type Report struct {
	Findings []Finding `json:"findings"` // the worst first
	Skipped  []Skip    `json:"skipped"`
	Passed   []string  `json:"passed"` // the checks that looked and found nothing
}

// Count is how many findings are of a severity.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Check is a row of the table.
type Check struct {
	Name  string
	About string // the group that it stands in
	Looks string // what it looks at, for people
	// Worst is how bad the worst of its findings is.
	Worst Severity
	Why   string // why that matters
	Next  string // what to do, where a finding has nothing that is nearer
	needs need
	run   func(ctx context.Context, s *Subject, r *result)
}

// need is what a check cannot do without.
type need int

const (
	gatewayRuns  need = 1 << iota // its admin API answers
	gatewayRests                  // nothing runs
	configured                    // the HCL file can be read
	sited                         // the Caddyfile can be read
	process                       // /proc of the gateway's process
)

// result is what a check says.
type result struct {
	check    *Check
	findings []Finding
	skipped  string
}

// found adds a finding as bad as the check's worst, with its reason and next step.
func (r *result) found(format string, a ...any) *Finding {
	r.findings = append(r.findings, Finding{Check: r.check.Name, Severity: r.check.Worst, Seen: fmt.Sprintf(format, a...),
		Why: r.check.Why, Next: r.check.Next})
	return &r.findings[len(r.findings)-1]
}

// skip says why the check could not look. What it has found already stays.
func (r *result) skip(format string, a ...any) {
	if r.skipped == "" {
		r.skipped = fmt.Sprintf(format, a...)
	}
}

func (f *Finding) as(s Severity) *Finding { f.Severity = s; return f }

func (f *Finding) because(format string, a ...any) *Finding {
	f.Why = fmt.Sprintf(format, a...)
	return f
}

func (f *Finding) then(format string, a ...any) *Finding {
	f.Next = fmt.Sprintf(format, a...)
	return f
}

// Patience is how long a check may take.
const Patience = 20 * time.Second

// atOnce is how many checks run beside each other.
const atOnce = 8

// Run runs checks, each within patience.
func Run(ctx context.Context, s *Subject, checks []Check, patience time.Duration) Report {
	s.run = ctx
	results := make([]result, len(checks))
	var running sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i := range checks {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			results[i] = runOne(ctx, s, &checks[i], patience)
		})
	}
	running.Wait()
	return report(results)
}

// errPatience: a check took too long.
var errPatience = errors.New("it took too long")

// runOne waits for one check no longer than patience, whatever it hangs in.
func runOne(ctx context.Context, s *Subject, c *Check, patience time.Duration) result {
	if why := cmp.Or(s.isAway(c), s.lacks(c.needs)); why != "" {
		return result{check: c, skipped: why}
	}
	if c.About == "services" || c.Name == "clock" {
		patience *= 2 // first the upstreams are asked, and then the ways to them are tried
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience+s.Patience, errPatience)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		r := result{check: c}
		defer func() {
			if v := recover(); v != nil {
				r.skip("looking panicked, which is a mistake in this program: %v\n%s", v, debug.Stack())
			}
			done <- r
		}()
		c.run(ctx, s, &r)
	}()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		r := result{check: c, skipped: fmt.Sprintf("no answer within %s", patience+s.Patience)}
		if context.Cause(ctx) == errPatience { //nolint:errorlint // it is the cause as it was given
			r.found("the check %s got no answer within %s", c.Name, patience+s.Patience).as(Warning).
				because("DNS, a disk or a server hangs, and what is wrong with it was not looked at").
				then("%s", s.command("doctor %s", c.Name))
		}
		return r
	}
}

// report puts results in the order in which people read them.
func report(results []result) Report {
	r := Report{Findings: []Finding{}, Skipped: []Skip{}, Passed: []string{}}
	for _, one := range results {
		for _, f := range one.findings {
			// Some of what was seen came over a network: a line break in it could forge a next step.
			f.Seen, f.Why, f.Next = flat(f.Seen), flat(f.Why), flat(f.Next)
			r.Findings = append(r.Findings, f)
		}
		switch {
		case one.skipped != "":
			r.Skipped = append(r.Skipped, Skip{one.check.Name, clean(one.skipped)})
		case len(one.findings) == 0:
			r.Passed = append(r.Passed, one.check.Name)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	return r
}

// maxText is the most of one text that is shown: some of it came over a network.
const maxText = 2000

// clean is a text as a terminal can show it, and no longer than maxText.
func clean(text string) string {
	text = human.PrintableLines(strings.TrimSpace(text))
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return text
}

// flat is a clean text in one line.
func flat(text string) string { return strings.ReplaceAll(clean(text), "\n", " ") }

// Clean is a text that may come from elsewhere, in one line and without what a terminal would obey.
func Clean(text string) string { return flat(text) }

// Find returns the checks of these names; all without any.
func Find(names []string) ([]Check, error) {
	if len(names) == 0 {
		return Checks(), nil
	}
	var list []Check
	for _, name := range names {
		found := false
		for _, c := range Checks() {
			if c.Name != name && c.About != name {
				continue
			}
			found = true
			if !slices.ContainsFunc(list, func(l Check) bool { return l.Name == c.Name }) {
				list = append(list, c)
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no check %q: `fareway gateway doctor --list` shows what there is", name)
		}
	}
	return list, nil
}

// Checks is the table.
func Checks() []Check {
	return slices.Concat(machineChecks, fileChecks, programChecks, configurationChecks, upstreamChecks, moneyChecks,
		ledgerChecks, serverChecks, publicChecks, proxyChecks)
}
