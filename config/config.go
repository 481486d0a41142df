// Package config turns the operator's HCL file into frozen values and diagnostics. It knows nothing of
// Caddy, of plugins' processes or of the ledger; the engine reads what it makes.
package config

import (
	"time"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// Config is one whole, checked configuration. Nothing in it changes after Load returns it.
//
// As JSON it has the names of the HCL, durations in Go's notation, sizes in bytes and prices in microcents per
// million tokens. That is for people: secrets are ***, and it cannot be read back.
type Config struct {
	Gateway   Gateway    `json:"gateway"`
	Store     Store      `json:"store"`
	Providers []Provider `json:"providers"` // in file order
	Routes    []Route    `json:"routes"`    // in file order
	Special   Special    `json:"special"`
	Profiles  []Profile  `json:"profiles"` // in file order, then those that the file leaves out
	Plans     []Plan     `json:"plans"`    // in file order

	// Path is the file's absolute path; Files are it and every file that it names by file("...").
	Path  string   `json:"path"`
	Files []string `json:"files"`
	// Hash is the hex SHA-256 over the names and the content of Files: the same hash means the same configuration.
	Hash string `json:"hash"`
}

// Gateway holds the settings of the service as a whole.
type Gateway struct {
	Namespace        string // "service": service/auto, service/budget, ...; the header is x-service-profile
	DefaultProfile   string
	RequestTimeout   time.Duration
	MaxBody          int64 // bytes
	MaxBodyMemory    int64 // bytes, all request bodies together
	Keepalive        time.Duration
	DrainTimeout     time.Duration
	PluginDir        string     // absolute, or "" for built-in providers only
	StructuredOutput bool       // the designed behaviour of structured outputs is on (GAP-76)
	ClientModels     ModelNames // accepted beside the built-in list
}

// Store says where the ledger is.
type Store struct {
	Kind string `json:"kind"` // "sqlite"
	Path string `json:"path"` // as written; relative to the data folder
}

// Provider is one backend process.
type Provider struct {
	Name         string
	Plugin       string
	SHA256       string          // lower-case hex, or ""
	Settings     settings.Values // decoded with the plugin's schema; may hold secrets: never print
	StartTimeout time.Duration

	// printable is Settings with every secret, and everything that came from env() or file(), replaced.
	// Nil in a Provider that Load did not make: then nothing of Settings is printed.
	printable settings.Values
}

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
	Quality       float64
	Tools         bool // from `offers`
	JSONObject    bool
	JSONSchema    bool
	Specialty     []Specialty // the requests that it is kept for; empty: all
	Unsupported   []string    // request settings that the upstream refuses: "stop", "temperature"
	MaxConcurrent int64       // attempts at the same time over all accounts; 0: no limit
	Metering      Metering
	Timeout       time.Duration // one attempt
	Price         Price
}

// Price is what a route costs the account, in microcents per million tokens of each class (GAP-48).
type Price struct {
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
}

// Profile weighs cost against quality.
type Profile struct {
	Name    string  `json:"name"`
	Cost    float64 `json:"cost"`
	Quality float64 `json:"quality"`
}

// Plan is the limits of the accounts that are on it.
type Plan struct {
	Name           string `json:"name"`
	MonthlyCredits int64  `json:"monthly_credits"`
}
