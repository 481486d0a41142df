// Package config turns the operator's HCL file into frozen values and diagnostics. It knows nothing of
// Caddy, of plugins' processes or of the ledger; the engine reads what it makes.
package config

import (
	"time"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// Config is one whole, checked configuration. Nothing in it changes after Load returns it.
type Config struct {
	Gateway   Gateway
	Store     Store
	Providers []Provider // in file order
	Routes    []Route    // in file order
	Profiles  []Profile  // in file order
	Plans     []Plan     // in file order

	// Path is the file's absolute path; Files are it and every file that it names by file("...").
	Path  string
	Files []string
	// Hash is the hex SHA-256 over the content of Files: the same hash means the same configuration.
	Hash string
}

// Gateway holds the settings of the service as a whole.
type Gateway struct {
	Namespace      string // "service": service/auto, service/budget, ...; the header is x-service-profile
	DefaultProfile string
	RequestTimeout time.Duration
	MaxBody        int64 // bytes
	MaxBodyMemory  int64 // bytes, all request bodies together
	Keepalive      time.Duration
	DrainTimeout   time.Duration
	PluginDir      string // absolute, or "" for built-in providers only
}

// Store says where the ledger is.
type Store struct {
	Kind string // "sqlite"
	Path string // as written; relative to the data folder
}

// Provider is one backend process.
type Provider struct {
	Name         string
	Plugin       string
	SHA256       string          // lower-case hex, or ""
	Settings     settings.Values // decoded with the plugin's schema; may hold secrets: never print
	StartTimeout time.Duration
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
	Metering      Metering
	Timeout       time.Duration // one attempt
	Price         Price
}

// Price is what a route costs the account, in microcents per million tokens of each class (GAP-48).
type Price struct {
	Input      int64
	CacheRead  int64
	CacheWrite int64
	Output     int64
}

// Profile weighs cost against quality.
type Profile struct {
	Name    string
	Cost    float64
	Quality float64
}

// Plan is the limits of the accounts that are on it.
type Plan struct {
	Name           string
	MonthlyCredits int64
}
