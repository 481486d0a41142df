package admin

import (
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing"
)

// The views are the admin API's replies and the command line's --json output. Fields are only added, never
// changed or removed.

// Account is an account with its money. Credits are whole (1 credit = US$0.01), microcents are millionths
// of a credit.
type Account struct {
	ID                string    `json:"id"`
	Name              string    `json:"name"`
	Plan              string    `json:"plan"` // "" for none
	State             string    `json:"state"`
	Created           time.Time `json:"created"`
	BalanceCredits    int64     `json:"balance_credits"`
	ReservedCredits   int64     `json:"reserved_credits"` // the holds, rounded up
	AvailableCredits  int64     `json:"available_credits"`
	AccruedMicrocents int64     `json:"accrued_usage_microcents"`
	HeldMicrocents    int64     `json:"held_microcents"`
	Period            Period    `json:"period"`
	Limits            *Limits   `json:"limits,omitempty"` // what holds for it; absent when no configuration is known
	Requires          *Requires `json:"requires,omitempty"`
	Mail              []string  `json:"mail,omitempty"` // addresses of who is told what is about it
}

// Requires is what the routes of an account's requests must be: all that either says.
type Requires struct {
	Account config.Requires `json:"account,omitzero"` // set for the account itself
	Plan    config.Requires `json:"plan,omitzero"`
	// Routes are those that are. Absent when no configuration is known, or neither requires anything.
	Routes []string `json:"routes,omitzero"`
}

// requiresOf is what an account requires; nil for nothing. cfg may be nil.
func requiresOf(cfg *config.Config, a ledger.Account) *Requires {
	v := &Requires{Account: a.Requires}
	if cfg != nil {
		v.Plan = cfg.PlanOf(a.Plan).Requires
	}
	if v.Account.None() && v.Plan.None() {
		return nil
	}
	if cfg != nil {
		both := v.Plan.And(v.Account)
		v.Routes = []string{}
		for i := range cfg.Routes {
			if both.MetBy(&cfg.Routes[i]) {
				v.Routes = append(v.Routes, cfg.Routes[i].Name)
			}
		}
	}
	return v
}

// Period is what was settled in the account's current period, or ever when it has no periods.
type Period struct {
	End              *time.Time `json:"end"` // null: no periods
	SpentMicrocents  int64      `json:"spent_microcents"`
	Tokens           int64      `json:"tokens"`
	WaivedMicrocents int64      `json:"waived_microcents"` // left free by fair use
}

// Limits is what an account is given and allowed, in a period where it does not say otherwise; 0 is no limit, but for
// fair use.
type Limits struct {
	MonthlyCredits int64 `json:"monthly_credits"` // added at each period's beginning
	config.Limits

	// The spend cap above is the lower of these; 0: there is none.
	OperatorSpendCapCredits int64 `json:"operator_spend_cap_credits"` // of the plan, or set for the account
	OwnSpendCapCredits      int64 `json:"own_spend_cap_credits"`      // set by the account's owner

	DefaultProfile string `json:"default_profile"` // of requests that name none
	// From says of each of these, by its name, where it comes from: "account", "plan", "default" for an account on no
	// plan; of the profile "gateway", too, and of the spend cap "owner" where the owner's own is the lower one.
	// Rates are named as in "requests_per_minute.key".
	From map[string]string `json:"from"`
}

func viewAccount(a ledger.Account) Account {
	return Account{
		ID: a.ID, Name: a.Name, Plan: a.Plan, State: string(a.State), Created: a.Created.UTC(),
		BalanceCredits:    a.Balance.Credits,
		ReservedCredits:   a.Balance.Reserved(),
		AvailableCredits:  a.Balance.Available(),
		AccruedMicrocents: a.Balance.Accrued,
		HeldMicrocents:    a.Balance.Held,
		Period: Period{
			End: optionalTime(a.Period.End), SpentMicrocents: a.Period.Spent, Tokens: a.Period.Tokens,
			WaivedMicrocents: a.Period.Waived,
		},
		Mail: a.Mail,
	}
}

func viewLimits(cfg *config.Config, a ledger.Account) *Limits {
	p := engine.PlanOf(cfg, a)
	v := &Limits{MonthlyCredits: p.MonthlyCredits, Limits: p.Limits, OperatorSpendCapCredits: operatorCap(cfg, a),
		DefaultProfile: p.DefaultProfile, From: limitSources(cfg, a)}
	if own := a.Limits.Of(ledger.LimitOwnSpendCap); own != nil {
		v.OwnSpendCapCredits = *own / ledger.MicrocentsPerCredit
	}
	return v
}

// optionalTime is nil for the zero time.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// Key is a key. Key is its text, in the reply that made it and nowhere else.
type Key struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Account string    `json:"account"` // the account's name
	Last4   string    `json:"last4"`
	Revoked bool      `json:"revoked"`
	Created time.Time `json:"created"`
	Key     string    `json:"key,omitempty"`

	State   keyState   `json:"state"`
	Expires *time.Time `json:"expires"` // null: never
	// SpendCapMicrocents bounds what the key, with those that it replaced, spends in its account's period; 0: no cap.
	SpendCapMicrocents int64 `json:"spend_cap_microcents"`
	SpentMicrocents    int64 `json:"spent_microcents"`
}

// keyState is whether a key opens its account.
type keyState string

const (
	KeyActive  keyState = "active"
	keyExpired keyState = "expired"
	keyRevoked keyState = "revoked"
)

func viewKey(k ledger.Key, account string, now time.Time) Key {
	v := Key{
		ID: k.ID, Name: k.Name, Account: account, Last4: k.Last4, Revoked: k.Revoked, Created: k.Created.UTC(),
		State: KeyActive, Expires: optionalTime(k.Expires), SpendCapMicrocents: k.SpendCap, SpentMicrocents: k.Spent,
	}
	switch {
	case k.Revoked:
		v.State = keyRevoked
	case !k.Usable(now):
		v.State = keyExpired
	}
	return v
}

// Rotated is a new key and the one that it replaces, which ends when its expires says.
type Rotated struct {
	Key
	Old Key `json:"old"`
}

// Status is what runs.
type Status struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why it is not ready
	PID    int    `json:"pid"`
	// Command is how the process was started: its arguments, first the executable.
	Command    []string `json:"command"`
	Version    string   `json:"version"`
	Data       string   `json:"data"`
	Config     string   `json:"config"`      // path of the HCL file
	ConfigHash string   `json:"config_hash"` // of its content and of what it names
	Generation uint64   `json:"generation"`  // counts the configurations that this process has run
	// InForce is since when that content serves, also before a restart; null while nothing does.
	InForce *time.Time `json:"config_in_force_since"`
	// Number counts the configurations of the data folder, as in the list of those that were in force.
	Number int64 `json:"config_number"`
	// Kept is false of one that could not be kept there.
	Kept bool `json:"config_kept"`
	// By is what brought it into force, and who as far as that is known.
	By    string   `json:"config_by,omitempty"`
	Files []string `json:"config_files"` // the HCL file and all that it names
	// Model is the trained one that predicts what routes reach; absent while nothing serves.
	Model *routing.About `json:"model,omitempty"`
	// Classifier is the provider that predicts before it, "" for none.
	Classifier string `json:"classifier,omitempty"`
	// Training is what came of the last nightly training, absent where there was none.
	Training  *engine.Training `json:"training,omitempty"`
	Providers []Provider       `json:"providers"`
	Routes    []Route          `json:"routes"`
	Plans     []string         `json:"plans"`
	Spool     Spool            `json:"spool"`
	// Loss is what the ledger does not have of what its witness has seen; absent when nothing is missing (GAP-133).
	Loss *ledger.Loss `json:"ledger_loss,omitempty"`
	// Durability is what a charge survives whose client has its reply: "power", a power cut, or "process", the end of the
	// gateway's process, so that a power cut may take the last second's.
	Durability config.Durability `json:"durability"`
	// Ledger is the server that keeps the ledger, absent where it is in a file of the process's own.
	Ledger *LedgerServer `json:"ledger,omitempty"`
	// Backups is how the ledger's backups stand, absent where PostgreSQL has its own.
	Backups *Backups `json:"backups,omitempty"`
	// Certificates are those of the hosts for which Caddy gets them.
	Certificates []engine.Certificate `json:"certificates,omitempty"`
	// Alerts are what is raised, and who does not hear of it; absent where there is neither.
	Alerts *AlertsSummary `json:"alerts,omitempty"`
	// Limiter is the server in which the limiter counts, absent where it counts in the memory of the process.
	Limiter *LimiterServer `json:"limiter,omitempty"`
	// Servers are those in which nodes share more: "cache", the response cache, and "conversations", where those are.
	Servers map[string]Server `json:"servers,omitempty"`

	Traffic Traffic `json:"traffic"`

	// FailedLoad is why the configuration as it is saved now was not taken: what is above serves on.
	FailedLoad *FailedLoad `json:"failed_load,omitempty"`

	// Upstreams is what of the configuration does not fit its upstreams, by what they said when they were asked last.
	Upstreams *Upstreams `json:"upstreams,omitempty"`
}

// Backups is how a ledger's backups stand.
type Backups struct {
	chores.Standing
	Missed  []chores.Chore `json:"missed"`            // what should have been done by now
	Problem string         `json:"problem,omitempty"` // why it cannot be read
}

// LimiterServer is the server in which several nodes count.
type LimiterServer struct {
	Address string    `json:"address"` // without a user and passwords
	Mode    string    `json:"mode"`    // single, sentinel or cluster
	Up      bool      `json:"up"`      // false: this node admits its share of each limit
	Since   time.Time `json:"since"`   // when it came, or went away
	Reason  string    `json:"reason,omitempty"`
	Nodes   int       `json:"nodes"`  // that share the limits
	Shares  int64     `json:"shares"` // questions that were decided by this node's share since the start
}

// Server is one that the gateway can do without.
type Server struct {
	Address string    `json:"address"` // without a user and passwords
	Up      bool      `json:"up"`
	Since   time.Time `json:"since"` // when it came, or went away
	Reason  string    `json:"reason,omitempty"`
}

// Upstreams is what was found when the upstreams were asked for what they offer.
type Upstreams struct {
	At          time.Time           `json:"at"`
	Diagnostics []config.Diagnostic `json:"diagnostics"` // as `gateway check --json` has them
	Text        string              `json:"text"`        // as `gateway check --online` prints them
}

// FailedLoad is a load of a configuration that was not taken.
type FailedLoad struct {
	At          time.Time           `json:"at"`
	Config      string              `json:"config"`
	Problem     string              `json:"problem"`
	InFile      bool                `json:"in_file"`               // the reason is in the HCL file, or in what that names
	Diagnostics []config.Diagnostic `json:"diagnostics,omitempty"` // as `gateway check --json` has them
	Text        string              `json:"text,omitempty"`        // as `gateway check` prints them
}

// Traffic is what a watched apply goes by (engine.Traffic).
type Traffic struct {
	Since time.Time `json:"since"` // when counting began: with the process
	engine.Traffic
	// Accounts are those with failures, at most 200 with the most of them, by their ids.
	Accounts map[string]engine.Traffic `json:"accounts,omitempty"`
}

// Reloaded is what came of loading the HCL file.
type Reloaded struct {
	Changed    bool      `json:"changed"` // false: it served already
	Number     int64     `json:"config_number"`
	ConfigHash string    `json:"config_hash"`
	InForce    time.Time `json:"config_in_force_since"`
}

// Provider is a provider of the configuration.
type Provider struct {
	Name   string `json:"name"`
	Plugin string `json:"plugin"`
	// Ready: it takes requests; one whose calls the gateway makes may do so without a process.
	Ready    bool   `json:"ready"`
	State    string `json:"state"`             // of its process, as in GET /fareway/plugins
	Problem  string `json:"problem,omitempty"` // why the process cannot take requests, in its own words
	Restarts int    `json:"restarts"`
	// LastCrash is why it was started again, or is to be.
	LastCrash *Crash `json:"last_crash,omitempty"`
	// Keys are its credentials, where it has several; absent otherwise.
	Keys []ProviderKey `json:"keys,omitempty"`
}

// ProviderKey is how one of a provider's credentials does, by its name.
type ProviderKey struct {
	Name  string     `json:"name"`
	State string     `json:"state"`           // serves, rate_limited, out_of_quota or refused
	Until *time.Time `json:"until,omitempty"` // when it is tried again
}

// Route is a route of the configuration.
type Route struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Model    string `json:"model"`

	// State is serves, open, half_open, ejected, rate_limited, out_of_quota, refused or not_ready.
	State  string     `json:"state"`
	Reason string     `json:"reason,omitempty"` // why it does not serve
	Until  *time.Time `json:"until,omitempty"`  // when it is called again
	// LastFailure is why its latest attempt failed, in this process and the operator's words; absent when it has served
	// since.
	LastFailure *RouteFailure `json:"last_failure,omitempty"`
	// ConcurrencyLimit is how many attempts may run at a time, with max_concurrent = "auto".
	ConcurrencyLimit int64 `json:"concurrency_limit,omitempty"`
	// Waiting is how many requests wait for the route, whose upstream said that it takes more within seconds.
	Waiting int64 `json:"waiting,omitempty"`
	// TemplateTokens is what its upstream adds to prompts, as the configuration says or as was learned.
	TemplateTokens int64 `json:"template_tokens,omitempty"`
}

// RouteFailure is why an attempt failed.
type RouteFailure struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// NewAccount makes an account.
type NewAccount struct {
	Name string   `json:"name"`
	Plan string   `json:"plan,omitempty"`
	Mail []string `json:"mail,omitempty"`
}

// NewName renames an account.
type NewName struct {
	Name string `json:"name"`
}

// NewPlan puts an account on a plan.
type NewPlan struct {
	Plan string `json:"plan"` // of the configuration, or "none"
}

// NewLimit sets a limit of an account.
type NewLimit struct {
	Limit string `json:"limit"` // a name of config.AccountLimits
	Value *int64 `json:"value"` // 0 as in a plan; null: what the plan says
}

// NewOwnCap sets the spend cap that an account's owner wants for it.
type NewOwnCap struct {
	Credits *int64 `json:"credits"` // a period; null: none of their own
}

// NewProfile sets an account's default profile.
type NewProfile struct {
	Profile string `json:"profile"` // "budget", "balanced", "max", or "none"
}

// NewRequires changes what an account requires of routes; null leaves it.
type NewRequires struct {
	Region    *[]string `json:"region"`    // one of these; []: wherever
	Retention *string   `json:"retention"` // "none" or a duration; "": however long
}

// NewMail sets the addresses of who is told what is about an account.
type NewMail struct {
	Mail *[]string `json:"mail"` // []: nobody
}

// NewState sets an account's state.
type NewState struct {
	State ledger.State `json:"state"`
}

// NewKey makes a key.
type NewKey struct {
	Account string `json:"account"` // name or id
	Name    string `json:"name"`
	KeyLimits
}

// KeyChange changes a key: what is given.
type KeyChange struct {
	Name *string `json:"name,omitempty"`
	KeyLimits
}

// Rotation replaces a key.
type Rotation struct {
	OverlapSeconds int64 `json:"overlap_seconds"` // how long the old key goes on; 0: it ends now
}
