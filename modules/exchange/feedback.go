package exchange

import (
	"github.com/fareway/fareway/modules/internal/decisions"
)

// feedback is what is kept of an exchange so that later ones are routed better: the decision log (decision.go), how
// routes did (learn.go), what predictors are trained by (training.go), where conversations are (conversation.go), and
// calls for comparison (shadow.go).
type feedback struct {
	*scope
	prompt       *prompt
	decision     *decisions.Record // nil where the decision log wants nothing, or has it
	lesson       *lesson
	training     *training
	conversation *conversation
	shadow       *shadow // nil: nothing is compared
}

// copied is feedback for an exchange beside this one.
func (f *feedback) copied() (c feedback) {
	if f.training != nil {
		c.training = new(*f.training)
	}
	return c
}
