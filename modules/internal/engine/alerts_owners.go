package engine

import (
	"fmt"
	"time"

	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// What the owner of an account is told is said here. They know nothing of the operator's commands, and are to read
// nothing of what is behind the service.

// askTheService is what an owner can do where only the operator can.
const askTheService = "ask whoever runs the service"

func wordsOfBalance(a *ledger.Account) alerts.ForOwner {
	o := alerts.ForOwner{Title: fmt.Sprintf("The balance of your account %s is low", a.Name),
		Text: fmt.Sprintf("The balance of your account %s is %s. When it is used up, requests are refused.", a.Name,
			human.Credits(a.Balance.Credits)),
		Next: "To go on, have it topped up: " + askTheService + "."}
	if a.Balance.Available() <= 0 {
		o.Title = fmt.Sprintf("Your account %s has no credits left", a.Name)
		o.Text = fmt.Sprintf("The balance of your account %s is %s, and nothing of it is free: requests that cost "+
			"something are refused.", a.Name, human.Credits(a.Balance.Credits))
	}
	return o
}

// wordsOfCap say how much of its limits an account has used: "93 % of its spend cap".
func wordsOfCap(a *ledger.Account, what, used string) alerts.ForOwner {
	o := alerts.ForOwner{Title: fmt.Sprintf("Your account %s %s", a.Name, what),
		Text: fmt.Sprintf("Your account %s has used %s. Requests beyond that are refused.", a.Name, used),
		Next: "If you need more, " + askTheService + " for a higher limit."}
	if end := a.Period.End; !end.IsZero() {
		o.Text = fmt.Sprintf("Your account %s has used %s for the period that ends on %s. Requests beyond that are refused "+
			"until then.", a.Name, used, end.UTC().Format(time.RFC1123))
	}
	return o
}

func wordsOfSuspension(a *ledger.Account) alerts.ForOwner {
	return alerts.ForOwner{Title: fmt.Sprintf("Your account %s is suspended", a.Name),
		Text: fmt.Sprintf("Your account %s was suspended, because too many of its requests were declined by the service's "+
			"content policy. All its requests are refused.", a.Name),
		Next: "If you did not send them, somebody else may have one of your keys. To have the account back, " +
			askTheService + "."}
}

// wordsOfEnd are what the owner is told when an alert is over, by event: where requests were refused that are taken
// now. That a balance is higher, or a new period has begun, is nothing new to them.
func wordsOfEnd(a *ledger.Account) map[string]*alerts.ForOwner {
	if len(a.Mail) == 0 || a.State != ledger.Active {
		return nil
	}
	again := &alerts.ForOwner{Title: fmt.Sprintf("Your account %s takes requests again", a.Name),
		Text: fmt.Sprintf("Your account %s takes requests again.", a.Name)}
	return map[string]*alerts.ForOwner{"cap_reached": again, suspendedEvent: again}
}
