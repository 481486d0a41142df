// Package config turns the operator's HCL file into frozen values and diagnostics. It knows nothing of
// Caddy, of plugins' processes or of the ledger; the engine reads what it makes.
package config

import (
	"slices"
	"time"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// Config is one whole, checked configuration. Nothing in it changes after Load returns it.
//
// As JSON it has the names of the HCL, durations in Go's notation, sizes in bytes and prices in microcents per
// million tokens. That is for people: secrets are ***, and it cannot be read back.
type Config struct {
	Gateway    Gateway    `json:"gateway"`
	Store      Store      `json:"store"`
	Limiter    Limiter    `json:"limiter"`
	Providers  []Provider `json:"providers"` // in file order
	Routes     []Route    `json:"routes"`    // in file order
	Special    Special    `json:"special"`
	Profiles   []Profile  `json:"profiles"`             // in file order, then those that the file leaves out
	Strategies []Strategy `json:"strategies,omitempty"` // in file order
	Plans      []Plan     `json:"plans"`                // in file order; DefaultPlan for accounts on none of them
	PreAuth    PreAuth    `json:"pre_auth"`
	Affinity   Affinity   `json:"affinity"`
	Breaker    Breaker    `json:"breaker"` // of routes that have none of their own

	RetryBudget RetryBudget `json:"retry_budget"`

	Predictor   Predictor   `json:"predictor"`
	Telemetry   Telemetry   `json:"telemetry"`
	DecisionLog DecisionLog `json:"decision_log"`
	Outcomes    Outcomes    `json:"outcomes"`
	Screening   Screening   `json:"screening"`
	Cache       Cache       `json:"cache"`
	Alerts      Alerts      `json:"alerts,omitzero"`  // without the block nobody is told
	Portal      *Portal     `json:"portal,omitempty"` // nil: there is no portal

	// Path is the file's absolute path; Files are it and every file that it names.
	Path  string `json:"path"`
	Files []File `json:"files"`
	// Hash is the hex SHA-256 over the names and the content of Files: the same hash means the same configuration.
	Hash string `json:"hash"`

	located *located // nil in a Config that Load did not make

	planPlaces map[string]string // by name, as FILE:LINE
}

// OutsideValues are the values that came from the environment or by file("..."): each may be a secret.
func (c *Config) OutsideValues() []string {
	if c.located == nil {
		return nil
	}
	return c.located.outside()
}

// Gateway holds the settings of the service as a whole.
type Gateway struct {
	Namespace        string // "service": service/auto, service/budget, ...; the header is x-service-profile
	DefaultProfile   string
	RequestTimeout   time.Duration
	MaxBody          int64 // bytes
	MaxBodyMemory    int64 // bytes, all request bodies together
	MaxStreams       int64 // charged requests in progress, streamed or not
	Keepalive        time.Duration
	DrainTimeout     time.Duration
	PluginDir        string     // absolute, or "" for built-in providers only
	StructuredOutput bool       // structured outputs are on: STRUCT-08 to STRUCT-34 (GAP-76)
	ClientModels     ModelNames // accepted beside the built-in list
	// ReceiptAge is how long an unproven attempt waits for its provider's receipt. Then it is closed at zero (GAP-56).
	ReceiptAge time.Duration
	// ClientStall is how long a client may take nothing of what is ready for it. Then it has left (GAP-112).
	ClientStall time.Duration
	// RequestLog is how long a request that was refused is found by its id (GAP-122).
	RequestLog time.Duration
}

// Store says where the ledger is.
type Store struct {
	Kind string // SQLite or Postgres
	// Of SQLite.
	Path       string     // as written; relative to the data folder
	Durability Durability // what an acknowledged charge survives; "" is DurablePower
	// Of Postgres.
	DSN     string  // where it is, a secret
	Standby Standby // whether charges need one; "" is StandbyAny
}

// Durability says what a charge that was acknowledged survives.
type Durability string

// What it survives: a power cut; or the end of the gateway's process, so that a power cut may take the last second's.
const (
	DurablePower   Durability = "power"
	DurableProcess Durability = "process"
)

// Standby says whether a charge that was acknowledged has to be on a standby of the database, too.
type Standby string

// As the server is set up; or always, so that nothing is charged while it waits for none.
const (
	StandbyAny      Standby = "any"
	StandbyRequired Standby = "required"
)

// Limiter says where the rate limits are counted.
type Limiter struct {
	Kind string // Memory or RedisKind
	// Of RedisKind: where, and with how many nodes one reckons at least.
	Redis Redis
	Nodes int64
}

// PreAuth bounds what an address can do before any key is looked at.
type PreAuth struct {
	// FailuresPerMinute is how many failed authentications an address has in any 60 s before all its requests are
	// refused (GAP-90). 0: no limit.
	FailuresPerMinute int64 `json:"failures_per_minute"`
}

// Affinity says whether conversations stay on their routes.
type Affinity struct {
	Mode AffinityMode
	TTL  time.Duration // how long a conversation is remembered after its last turn
}

// DecisionLog says for how long it is remembered how requests were routed.
type DecisionLog struct {
	Mode        DecisionMode
	Keep        time.Duration
	MaxRequests int64
}

// DecisionMode is on or off.
type DecisionMode string

const (
	DecisionsOn  DecisionMode = "on"
	DecisionsOff DecisionMode = "off" // nothing new is remembered; what was grows old
)

// Breaker says when a route is not called for a while.
type Breaker struct {
	Failures int64         // that open it; 0: never
	Window   time.Duration // in which they count
	OpenFor  time.Duration // at first; longer where a probe fails
	// Outliers: a route that does worse than it did and than the others is called where nothing else is left.
	Outliers bool
	// RetryAfter: a route whose upstream says how long it takes no more is passed over for so long.
	RetryAfter bool
}

// RetryBudget bounds how many requests are tried on another route.
type RetryBudget struct {
	Ratio        float64 `json:"ratio"`          // of the requests of the last seconds
	MinPerSecond int64   `json:"min_per_second"` // besides
}

// AffinityMode is on or off.
type AffinityMode string

const (
	AffinityOn  AffinityMode = "on"  // a conversation stays on its route while that is a good choice
	AffinityOff AffinityMode = "off" // every turn is chosen afresh
)

// Provider is one backend process.
type Provider struct {
	Name         string
	Plugin       string
	SHA256       string          // lower-case hex, or ""
	Settings     settings.Values // decoded with the plugin's schema; may hold secrets: never print
	StartTimeout time.Duration
	Carry        Carry
	// MaxMemory bounds the memory of its process, in bytes. 0: no bound.
	MaxMemory int64
	Confine   Confine
	// Keys are several credentials of one service, in file order. Without any, Settings has what there is.
	Keys []Key

	// printable is Settings with every secret, and everything that came from env() or file(), replaced.
	// Nil in a Provider that Load did not make: then nothing of Settings is printed.
	printable settings.Values
}

// Confine is what a provider's process may not do.
type Confine struct {
	User         string `json:"user,omitempty"` // that it runs as; "": the gateway's own
	MaxFiles     int64  `json:"max_files,omitempty"`
	MaxProcesses int64  `json:"max_processes,omitempty"` // of the user
}

// Carry says who makes the upstream calls of a provider.
type Carry string

const (
	CarryHost    Carry = "host"    // the gateway, where the provider can say where calls go
	CarryProcess Carry = "process" // the provider's process
)

// Metering says where a route's usage comes from.
type Metering string

const (
	MeteringReported Metering = "reported"
	MeteringEstimate Metering = "estimate"
)

// Route is one upstream model behind a provider.
type Route struct {
	Name          string
	Provider      string
	Model         string
	ContextWindow int64 // tokens
	MaxOutput     int64 // tokens
	// Quality is what the operator says of it, 0 to 1; QualityBy has the kinds of work for which that is another number
	// (see KindNames).
	Quality   float64
	QualityBy map[string]float64
	// QualityWeight is as how many observations Quality counts beside what is learned of the model; 0: it alone counts.
	QualityWeight int64
	// Learn says whether what comes of its requests is counted and changes what is expected of it, nil where the operator
	// does not say: see Learns.
	Learn *bool
	// Reasons: the model thinks before it answers, and its thoughts count towards the output.
	Reasons     bool
	Tools       bool // from `offers`
	JSONObject  bool
	JSONSchema  bool
	Specialty   []Specialty // the requests that it is kept for; empty: all
	Unsupported []string    // what the upstream refuses, see llm.Restrictions
	// FinishReasons are words with which this upstream ends replies, in lower case, beside those that the gateway knows.
	FinishReasons map[string]llm.FinishReason
	MaxConcurrent int64 // attempts at the same time over all accounts; 0: no limit
	// AutoConcurrent: how many there may be follows from how the upstream does; MaxConcurrent is 0 then.
	AutoConcurrent bool
	Breaker        *Breaker // nil: as for all
	Metering       Metering
	Timeout        time.Duration // one attempt
	// Region is where the upstream keeps and works on what it is sent, "" where the operator does not say.
	Region string
	// Retention is for how long it is kept there, 0 for not at all; nil where the operator does not say.
	Retention *time.Duration
	// BillsPastAllowance: the upstream may bill more output than the request allows, so that holds are sized by
	// MaxOutput (GAP-49).
	BillsPastAllowance bool
	// TemplateTokens is how many tokens the upstream adds to a prompt at most, by its chat template; nil: it is learned
	// from what it reports.
	TemplateTokens *int64
	Price          Price // what the account pays
	Cost           Price // what the operator pays; equals Price unless the file says otherwise
	// LaterPrices and LaterCosts take the place of Price and Cost when they begin, in the order of time.
	LaterPrices, LaterCosts []Dated
}

// Profile weighs cost against quality.
type Profile struct {
	Name    string  `json:"name"`
	Cost    float64 `json:"cost"`
	Quality float64 `json:"quality"`
	// KeepQuality: the cheapest route is chosen that keeps this share of the best one's quality, whatever the weights
	// say. 0: the weights decide.
	KeepQuality float64 `json:"keep_quality,omitempty"`
	Shadow      Shadow  `json:"shadow,omitzero"`
	// Hedge is when a second call is made beside the first one, and HedgeShare for how large a share of the requests.
	Hedge      Hedge   `json:"hedge,omitzero"`
	HedgeShare float64 `json:"hedge_share,omitempty"`
}

// Shadow sends a share of a profile's requests to a second route as well, for comparison only. The zero Shadow sends
// none.
type Shadow struct {
	Route string  `json:"route"`
	Share float64 `json:"share"` // over 0 and at most 1
}

// Plan is the limits of the accounts that are on it, and what they are given.
type Plan struct {
	Name           string `json:"name"`
	DefaultProfile string `json:"default_profile"` // of accounts that have none of their own; "": the gateway's
	MonthlyCredits int64  `json:"monthly_credits"` // added to the balance at each period's beginning
	Periods        bool   `json:"periods"`         // the plan has periods, also without monthly credits

	Limits

	Requires Requires `json:"requires,omitzero"`
	// SuspendAfterDeclines: accounts are suspended by themselves.
	SuspendAfterDeclines Declines `json:"suspend_after_declines,omitzero"`
}

// Requires is what the routes of an account must be. A route of which the operator does not say it is not.
type Requires struct {
	Regions   []string       // one of these; empty: wherever
	Retention *time.Duration // at most so long; nil: however long
}

// MetBy reports whether a route is what is required.
func (q *Requires) MetBy(r *Route) bool {
	if len(q.Regions) > 0 && !slices.Contains(q.Regions, r.Region) {
		return false
	}
	return q.Retention == nil || r.Retention != nil && *r.Retention <= *q.Retention
}

// And is what is required by both. What is required by one is never loosened by the other.
func (q Requires) And(o Requires) Requires {
	switch {
	case len(q.Regions) == 0:
		q.Regions = o.Regions
	case len(o.Regions) > 0:
		both := slices.DeleteFunc(slices.Clone(q.Regions), func(r string) bool { return !slices.Contains(o.Regions, r) })
		if len(both) == 0 {
			both = []string{nowhere}
		}
		q.Regions = both
	}
	if q.Retention == nil || o.Retention != nil && *o.Retention < *q.Retention {
		q.Retention = o.Retention
	}
	return q
}

// nowhere is longer than the name of a region may be: no route has it.
const nowhere = "(none: the regions of the plan and those of the account have nothing in common)"
