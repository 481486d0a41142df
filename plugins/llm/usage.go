package llm

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
		Reasoning: add(u.Reasoning, o.Reasoning), Estimated: u.Estimated || o.Estimated}
}

// Merge is what is known of an attempt's usage when a later report comes: what that leaves out stays, and neither the
// output nor the prompt nor what was cached of it goes down (GAP-111). What was reported outranks what was estimated.
// Both may be nil; neither is changed.
func (u *Usage) Merge(later *Usage) *Usage {
	switch {
	case later == nil:
		return u
	case u == nil || u.Flaw != "" || later.Flaw != "":
		return later
	case u.Estimated != later.Estimated && u.Known() && later.Known():
		if u.Estimated {
			return later
		}
		return u
	}
	merged := &Usage{
		CacheRead: most(u.CacheRead, later.CacheRead), CacheWrite: most(u.CacheWrite, later.CacheWrite),
		Output: most(u.Output, later.Output), Reasoning: most(u.Reasoning, later.Reasoning),
		Estimated: u.Estimated || later.Estimated,
	}
	if u.Input != nil || later.Input != nil {
		prompt := max(u.Prompt(), later.Prompt())
		merged.Input = Count(max(0, prompt-Tokens(merged.CacheRead)-Tokens(merged.CacheWrite)))
	}
	return merged
}

func most(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}
