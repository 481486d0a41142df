package views

import "github.com/fareway/fareway/modules/admin"

// Overview is what operators see first.
type Overview struct {
	Status    admin.Status
	Attention []Attention
	Today     admin.Usage // of UTC's day
	Rate      float64     // requests a second that ended, over the last minute
	Failed    int         // of them
	Serving   int         // routes
	Recent    []admin.EndedRequest
}
