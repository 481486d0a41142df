package engine

import (
	"time"

	"github.com/fareway/fareway/modules/internal/history"
)

// InForce is what serves, and since when.
type InForce struct {
	*Generation
	// Kept is the number of the configuration in the history; 0 where it could not be kept.
	Kept int64
	// Since is when it came into force: also before a restart.
	Since time.Time
}

// InForce is what serves; its Generation is nil when nothing does.
func (e *Engine) InForce() InForce {
	e.keeping.Lock()
	defer e.keeping.Unlock()
	return e.inForce
}

// History has the configurations that were in force.
func (e *Engine) History() *history.History { return e.history }

// remember notes what serves now, and keeps it. It is called after everything that may have changed that.
func (e *Engine) remember() {
	e.keeping.Lock()
	defer e.keeping.Unlock()
	g := e.Current()
	if g == nil || g == e.inForce.Generation {
		e.inForce.Generation = g
		return
	}
	now := e.Now().UTC()
	same := e.inForce.Generation != nil && e.inForce.Config.Hash == g.Config.Hash
	e.inForce.Generation = g
	if same {
		return // in force it has been all the time
	}
	e.inForce.Kept, e.inForce.Since = 0, now
	if len(g.Config.Files) > 0 {
		k := history.Kept{Since: now, Hash: g.Config.Hash}
		for _, f := range g.Config.Files {
			k.Files = append(k.Files, history.File{Path: f.Path, Text: f.Text})
		}
		kept, err := e.history.Add(k)
		if err != nil {
			e.Logger().Warn("the configuration that serves is not kept for a rollback", "error", err)
		}
		if kept.Number > 0 {
			e.inForce.Kept, e.inForce.Since = kept.Number, kept.Since
		}
	}
	e.metrics.setInForce(g.Config.Hash, e.inForce.Since)
}
