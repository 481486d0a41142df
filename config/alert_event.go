package config

import (
	"slices"
	"strings"
	"time"
)

// AlertSeverity says how soon somebody should hear of an event.
type AlertSeverity string

// The severities, as the alert rules of examples/observe have them.
const (
	AlertPage   AlertSeverity = "page"   // wakes somebody
	AlertTicket AlertSeverity = "ticket" // is for the next working day
)

// AlertEvent is what somebody must hear of. What is looked at for it is the engine's: it has a row for each of these.
type AlertEvent struct {
	Name     string
	Severity AlertSeverity
	// Account: it is about an account, so that its owner has to know, too. Else it is the operator's.
	Account bool
	// Shared: the nodes that share a ledger see the same, so that one of them tells of it.
	Shared bool
	// For is how long it has to hold before anybody is told.
	For time.Duration
	// Doc is what it is about, in Markdown, and what it is told of apart.
	Doc string
}

// Lasts is For in words.
func (e *AlertEvent) Lasts() string {
	if e.For == 0 {
		return "at once"
	}
	text := strings.TrimSuffix(e.For.String(), "0s")
	return strings.Replace(text, "h0m", "h", 1)
}

// AlertEvents are all of them.
var AlertEvents = []AlertEvent{
	{"no_route", AlertPage, false, false, time.Minute, "No route serves: every request is refused."},
	{"provider_down", AlertPage, false, false, 2 * time.Minute, "The process of a provider is not ready."},
	{"provider_key", AlertPage, false, false, 2 * time.Minute,
		"An upstream refuses the credential of a provider, or its quota is used up."},
	{"route_down", AlertTicket, false, false, 3 * time.Minute, "The breaker of a route is open: too many attempts fail."},
	{"ledger_spooling", AlertPage, false, false, time.Minute,
		"The ledger is away: charged requests are refused, and what ends is written into the spool."},
	{"ledger_loss", AlertPage, false, false, 0,
		"A part of the ledger is missing, and charges are refused until you decide."},
	{"spool_undecided", AlertTicket, false, false, 5 * time.Minute,
		"What was in the spool could not be applied and waits for your decision."},
	{"standby_away", AlertPage, false, true, 2 * time.Minute,
		"Commits of the ledger's database wait for no standby, though they did or must: a failover may lose charges."},
	{"nodes_differ", AlertTicket, false, true, 5 * time.Minute,
		"Nodes serve by different configurations, prices or versions."},
	{"limiter_away", AlertTicket, false, false, time.Minute,
		"The limiter's server is away: this node admits its share of each limit."},
	{"server_away", AlertTicket, false, false, 5 * time.Minute,
		"The server of the response cache, or of conversations, is away."},
	{"config_refused", AlertTicket, false, false, time.Minute,
		"The saved configuration is refused, and the one before serves: a restart would not come up."},
	{"certificate_failing", AlertTicket, false, false, 10 * time.Minute,
		"The certificate of a host cannot be obtained or renewed."},
	{"certificate_expiring", AlertPage, false, false, time.Minute,
		"The certificate of a host has less than a fifth of its time left, or has expired."},
	{"disk_filling", AlertTicket, false, false, 15 * time.Minute,
		"Less than a tenth of the disk of a folder is left."},
	{"disk_full", AlertPage, false, false, time.Minute, "Less than 1 GB is left on the disk of a folder."},
	{"backup_missing", AlertTicket, false, false, time.Hour,
		"A backup of the ledger, or its trial, should have been made by now and was not."},
	{"backup_failed", AlertTicket, false, false, 0, "The last backup of the ledger, or its last trial, has failed."},
	{"payment_waiting", AlertTicket, false, true, 0,
		"A payment cannot be credited, or is disputed, and waits for your decision."},
	{"alerts_undelivered", AlertTicket, false, false, 15 * time.Minute,
		"A destination of alerts takes no messages. The others hear of it."},
	{"balance_low", AlertTicket, true, true, 0, "The balance of an account is below `balance_low_credits`."},
	{"cap_near", AlertTicket, true, true, 0,
		"An account has used `cap_near_percent` of its spend cap or token budget of the period."},
	{"cap_reached", AlertTicket, true, true, 0, "An account has reached its spend cap or token budget of the period."},
	{"account_suspended", AlertTicket, true, true, 0,
		"An account was suspended by itself, by its plan's `suspend_after_declines`."},
	{"top_up_failed", AlertTicket, true, true, 0,
		"An account could not be topped up by itself: its means of payment " +
			"was declined."},
}

// accountEvents are the names of those that are about accounts.
var accountEvents = func() (names []string) {
	for i := range AlertEvents {
		if AlertEvents[i].Account {
			names = append(names, AlertEvents[i].Name)
		}
	}
	return names
}()

// AccountEventNames are the names of those that are about accounts.
func AccountEventNames() []string { return slices.Clone(accountEvents) }

// AlertEventNames are their names.
func AlertEventNames() []string {
	names := make([]string, len(AlertEvents))
	for i := range AlertEvents {
		names[i] = AlertEvents[i].Name
	}
	return names
}
