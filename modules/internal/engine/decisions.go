package engine

import (
	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
)

// DecisionsPath is where the decision log of a ledger is.
func DecisionsPath(database string) string { return database + ".decisions" }

// openDecisions is called once the ledger's lock says that no other process has the data folder. A gateway serves
// without the log, too.
func (l *learning) openDecisions(o *Options, cfg *config.Config) {
	log, err := decisions.Open(decisions.Options{
		Path:     DecisionsPath(cfg.Store.File(o.DataDir)),
		Settings: func() config.DecisionLog { return l.configOr(cfg).DecisionLog },
		Now:      o.Now,
		Logger:   l.Logger(),
		Lost:     l.metrics.decisionsLost,
	})
	if err != nil {
		l.Logger().Error("requests are served, and how they are routed is not remembered", "error", err)
		return
	}
	l.decisions = log
}

// Decisions is the log of how requests were routed.
func (l *learning) Decisions() *decisions.Log { return l.decisions }
