package llm

// Model is a model of an upstream, as far as it is known.
type Model struct {
	ID            string   // the upstream's own name
	ContextWindow int64    // tokens of a request with its reply; 0: not known
	MaxOutput     int64    // tokens of a reply; 0: not known
	Offers        []string // what it is known to take: "tools", "json_object", "json_schema"
	Price         *ModelPrice

	// Of a model that a plugin knows without asking: the settings with which this holds, by name, an empty one for a
	// setting that is not set; the public document that says so, and when that was read ("2026-11-22").
	Where        map[string]string
	Source, Date string
}

// ModelPrice is what tokens cost, in US dollars per million of them, as decimal numbers ("0.15"); "" is not known.
type ModelPrice struct{ Input, Output, CacheRead, CacheWrite string }
