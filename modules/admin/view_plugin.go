package admin

import (
	"time"

	"github.com/fareway/fareway/plugins/llm/settings"
)

// Plugin is a program that providers run: built in, or a file in plugin_dir.
type Plugin struct {
	Name    string `json:"name"`
	Builtin bool   `json:"builtin"`
	File    string `json:"file,omitempty"`
	// SHA256 is what pins the file, as sha256 in a provider block.
	SHA256 string `json:"sha256,omitempty"`
	// ReplacedBy is the sha256 of the file as it is now, where that is not what runs: the next load of the configuration
	// starts it, and a crash does, too.
	ReplacedBy   string   `json:"replaced_by,omitempty"`
	Version      string   `json:"version,omitempty"` // as it says itself; absent when nothing of it has run
	Capabilities []string `json:"capabilities"`      // the optional calls of the protocol that it serves
	Problem      string   `json:"problem,omitempty"` // why it cannot be used

	Providers []PluginProvider `json:"providers"`          // that run it
	Settings  *PluginSettings  `json:"settings,omitempty"` // of one plugin; a list leaves them out
}

// PluginProvider is a provider that runs a plugin.
type PluginProvider struct {
	Name  string `json:"name"`
	State string `json:"state"` // starting, ready, unhealthy, restarting, draining or stopped
	Ready bool   `json:"ready"` // it takes requests: one whose calls the gateway makes may do so without a process
	// Problem is why it cannot take requests, in its own words.
	Problem     string     `json:"problem,omitempty"`
	Carry       string     `json:"carry"` // who makes its calls: host or process
	PID         int        `json:"pid"`   // 0 while there is no process
	Started     *time.Time `json:"started"`
	MemoryBytes int64      `json:"memory_bytes"` // resident, with what it has started; 0 where the system does not tell
	// MaxMemoryBytes is the provider's max_memory; absent without.
	MaxMemoryBytes int64 `json:"max_memory_bytes,omitempty"`
	// Confined says what its process cannot do, Unconfined what of the confine block cannot be had, and why.
	Confined   []string `json:"confined"`
	Unconfined []string `json:"unconfined,omitempty"`
	Streams    int      `json:"streams"` // attempts in progress
	Restarts   int      `json:"restarts"`
	// Failures are its ends, failed starts and replacements by cause: crash, hang, memory, protocol, slow_start,
	// handshake or start.
	Failures  map[string]int `json:"failures,omitempty"`
	LastCrash *Crash         `json:"last_crash,omitempty"`
	// Violations are what it has broken of the plugin protocol: order, end, after_finish, message, status, answer or
	// late. All of these are of the provider since its settings, its file or its max_memory changed last.
	Violations    map[string]int `json:"violations,omitempty"`
	LastViolation string         `json:"last_violation,omitempty"`
}

// Crash is the end of a process that was still wanted, a start that failed, or why a process was replaced.
type Crash struct {
	At    time.Time `json:"at"`
	Cause string    `json:"cause"` // as in failures
	Why   string    `json:"why"`   // with its last words
}

// PluginSettings are what a plugin takes in a config block.
type PluginSettings struct {
	Attributes []PluginSetting `json:"attributes"`
	Blocks     []PluginBlock   `json:"blocks"`
}

// PluginSetting is one of them.
type PluginSetting struct {
	Name     string `json:"name"`
	Type     string `json:"type"` // string, number, bool, list(string) or map(string)
	Required bool   `json:"required"`
	Secret   bool   `json:"secret"` // from env() or file() only
	Doc      string `json:"doc"`
}

// PluginBlock is a block of them.
type PluginBlock struct {
	Name     string         `json:"name"`
	Many     bool           `json:"many"` // it may be repeated
	Doc      string         `json:"doc"`
	Settings PluginSettings `json:"settings"`
}

// ViewSchema shows a schema.
func ViewSchema(s settings.Schema) PluginSettings {
	v := PluginSettings{Attributes: []PluginSetting{}, Blocks: []PluginBlock{}}
	for _, a := range s.Attributes {
		v.Attributes = append(v.Attributes, PluginSetting{Name: a.Name, Type: string(a.Type), Required: a.Required,
			Secret: a.Secret, Doc: a.Doc})
	}
	for _, b := range s.Blocks {
		v.Blocks = append(v.Blocks, PluginBlock{Name: b.Name, Many: b.Many, Doc: b.Doc, Settings: ViewSchema(b.Schema)})
	}
	return v
}
