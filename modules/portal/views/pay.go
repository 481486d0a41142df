package views

import (
	"fmt"

	"github.com/fareway/fareway/modules/internal/people"
)

// Pay is what the page of credits has of payments.
type Pay struct {
	Unit, Minimum, Maximum int64  // credits
	Price                  string // of Unit
	Choices                []PayChoice
	Payments               []Payment // the newest first
	TopUp                  people.TopUp
	May                    bool // the viewer may pay
}

// PayChoice is so many credits, with what they cost.
type PayChoice struct {
	Credits int64
	Cost    string
}

// Payment is one, with its amount for people.
type Payment struct {
	people.Payment
	Cost string
}

// TopUpFields is a top-up as its form shows it.
func TopUpFields(v *people.TopUp) string {
	return fmt.Sprintf("%t %d %d %d %t", v.Active, v.Threshold, v.Credits, v.Monthly, v.Card != "")
}

// stateTexts say how far a payment is.
var stateTexts = map[people.PaymentState]string{
	people.PaymentBegun: "not paid", people.PaymentOpen: "not paid", people.PaymentPending: "on its way",
	people.PaymentPaid: "on its way", people.PaymentCredited: "added", people.PaymentFailed: "failed",
	people.PaymentExpired: "not paid in time",
	people.PaymentWaiting: "is looked at", people.PaymentClosed: "decided by hand",
}
