package llm

import "cmp"

// Usage is what an attempt used, in tokens. Input, CacheRead and CacheWrite are disjoint: together they
// are the prompt. Output counts everything generated; Reasoning is the part of Output that was hidden.
// nil means that the upstream did not say; zero means that it said zero (GAP-109).
type Usage struct {
	Input      *int64
	CacheRead  *int64
	CacheWrite *int64
	Output     *int64
	Reasoning  *int64
	// Estimated marks numbers that the provider counted for itself (GAP-108).
	Estimated bool
	// Flaw says why what the upstream sent is no usage, naming its field: "completion_tokens is negative". Then no
	// count is set, and the attempt is unproven until a better usage comes (GAP-111). It never holds a value that the
	// upstream sent. "" otherwise.
	Flaw string
	// Doubt says why the counts may not be what was used: they do not add up to the upstream's total, or another report
	// was not followed (GAP-124, GAP-125). They count nevertheless, and the operator is warned. It never holds a value
	// that the upstream sent. "" otherwise.
	Doubt string
}

// MaxCount is the largest count of tokens that counts: every number of JSON up to it is exact, and a few of them have
// a sum.
const MaxCount = 1 << 53

// Count makes a token count that was reported.
func Count(n int64) *int64 { return &n }

// Tokens reads a count, taking one that was not reported as zero.
func Tokens(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// Prompt is the sum of the three input classes, in tokens.
func (u Usage) Prompt() int64 { return Tokens(u.Input) + Tokens(u.CacheRead) + Tokens(u.CacheWrite) }

// Known reports whether the usage proves anything: an input or output count was reported.
func (u *Usage) Known() bool { return u != nil && u.Flaw == "" && (u.Input != nil || u.Output != nil) }

// Complete reports whether the usage proves what a reply used: both the input and the output were reported. Half a
// usage would give the other half away (GAP-111).
func (u *Usage) Complete() bool { return u.Known() && u.Input != nil && u.Output != nil }

// Blank reports whether a usage of a reply that produced something has counted nothing of it: services that do not
// count fill in zeros, which prove nothing (GAP-108). What is garbled is not blank: it is told of.
func (u *Usage) Blank() bool { return u.Known() && Tokens(u.Output) == 0 && u.Prompt() == 0 }

// Plus is what two calls used together, each with a usage that is known. What neither reported is not reported.
func (u Usage) Plus(o *Usage) Usage {
	add := func(a, b *int64) *int64 {
		if a == nil && b == nil {
			return nil
		}
		return Count(Tokens(a) + Tokens(b))
	}
	return Usage{Input: add(u.Input, o.Input), CacheRead: add(u.CacheRead, o.CacheRead),
		CacheWrite: add(u.CacheWrite, o.CacheWrite), Output: add(u.Output, o.Output),
		Reasoning: add(u.Reasoning, o.Reasoning), Estimated: u.Estimated || o.Estimated, Doubt: cmp.Or(u.Doubt, o.Doubt)}
}

// Merge is what is known of an attempt's usage when a later report comes (GAP-124). The prompt's classes come
// together from the report in which their sum is largest, of equals the later; the output and its reasoning keep
// their largest counts. A class that the larger report leaves out comes from the other one, as far as it is not in
// that report's sum. A report that is none changes nothing where there is one; that, and a report that was not
// followed, is a Doubt. What was reported outranks what was estimated. Both may be nil; neither is changed.
func (u *Usage) Merge(later *Usage) *Usage {
	switch {
	case later == nil:
		return u
	case u == nil || u.Flaw != "":
		return later
	case later.Flaw != "":
		if !u.Known() {
			return later
		}
		kept := *u
		kept.doubt(later.Flaw)
		return &kept
	case u.Estimated != later.Estimated && u.Known() && later.Known():
		if u.Estimated {
			return later
		}
		return u
	}
	merged := u.prompts(later)
	merged.Output, merged.Reasoning = most(u.Output, later.Output), most(u.Reasoning, later.Reasoning)
	merged.Estimated, merged.Doubt = u.Estimated || later.Estimated, u.Doubt
	merged.doubt(later.Doubt)
	if later.Prompt() < u.Prompt() && (later.Input != nil || later.CacheRead != nil || later.CacheWrite != nil) {
		merged.doubt("a later report has a smaller prompt")
	}
	if later.Output != nil && *later.Output < Tokens(u.Output) {
		merged.doubt("a later report has a smaller output")
	}
	return merged
}

// doubt notes a doubt, of several the first.
func (u *Usage) doubt(why string) {
	if u.Doubt == "" {
		u.Doubt = why
	}
}

// prompts merges the classes of the prompt.
func (u *Usage) prompts(later *Usage) *Usage {
	of, other, split := later, u, true
	if later.Prompt() < u.Prompt() {
		of, other, split = u, later, false
	}
	merged := &Usage{Input: of.Input, CacheRead: of.CacheRead, CacheWrite: of.CacheWrite}
	// What the report has more of where the other one has some, too, may be what the other one had in a class of its own.
	room := other.Prompt()
	if of.Prompt() != other.Prompt() {
		room = grown(of.Input, other.Input) + grown(of.CacheRead, other.CacheRead) + grown(of.CacheWrite, other.CacheWrite)
	}
	movable := grown(of.Input, other.Input)
	for _, c := range []struct{ to, of, from **int64 }{
		{&merged.Input, &of.Input, &other.Input}, {&merged.CacheRead, &of.CacheRead, &other.CacheRead},
		{&merged.CacheWrite, &of.CacheWrite, &other.CacheWrite},
	} {
		n := Tokens(*c.from)
		if n == 0 || Tokens(*c.of) > 0 {
			if *c.to == nil {
				*c.to = *c.from
			}
			continue
		}
		inside := min(n, room)
		room -= inside
		if *c.of != nil { // said to be none
			inside = n
		}
		if n -= inside; split { // what was said of a part of the prompt before stays said
			moved := min(inside, movable)
			movable -= moved
			merged.Input = Count(Tokens(merged.Input) - moved)
			n += moved
		}
		if n > 0 {
			*c.to = Count(Tokens(*c.to) + n)
		}
	}
	if merged.Input == nil && other.Input != nil { // all of it is in the report's sum, and it was reported
		merged.Input = Count(0)
	}
	return merged
}

// grown is how much larger a count is than another one that was reported.
func grown(n, before *int64) int64 {
	if Tokens(n) == 0 || Tokens(before) == 0 {
		return 0
	}
	return max(0, *n-*before)
}

func most(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}
