package ledger

import "time"

// Learned is what is counted of one route's outcomes at one kind of work: numbers, and nothing of any request. It is
// no money: what it means is for who counts it, and Verify does not look at it.
type Learned struct {
	Route, Model   string    // the model as the upstream calls it: another one begins anew
	Kind           string    // of work
	Worked, Failed float64   // decayed to At, as is
	Good, Bad      float64   // what people said of it
	At             time.Time // in UTC
}
