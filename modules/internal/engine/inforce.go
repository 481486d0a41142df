package engine

import (
	"context"
	"time"

	"github.com/fareway/fareway/modules/internal/history"
)

// InForce is what serves, and since when.
type InForce struct {
	*Generation
	// Number counts the configurations of the data folder: it is the one in the history where it is kept.
	Number int64
	// Kept is Number where the configuration is in the history; 0 where it could not be kept.
	Kept int64
	// Since is when it came into force: also before a restart.
	Since time.Time
	// By is what brought it into force, and who as far as that is known; "" of what an older gateway kept.
	By string
}

// What brings a configuration into force when nobody says more.
const (
	byStart  = "start"
	bySaved  = "saved file"
	byReload = "reload"
	byReturn = "return to the one before, for the next one did not start"
)

type causeKey struct{}

// WithCause says by what, and by whom, a configuration is loaded with ctx: "SIGHUP", "apply by ann@desk via socket".
func WithCause(ctx context.Context, by string) context.Context {
	return context.WithValue(ctx, causeKey{}, by)
}

func causeOf(ctx context.Context) string {
	if by, ok := ctx.Value(causeKey{}).(string); ok {
		return by
	}
	return byReload
}

// InForce is what serves; its Generation is nil when nothing does.
func (e *Engine) InForce() InForce {
	e.keeping.Lock()
	defer e.keeping.Unlock()
	return e.inForce
}

// History has the configurations that were in force.
func (e *Engine) History() *history.History { return e.history }

// remember notes what serves now, and keeps it. It is called after everything that may have changed that, and reports
// whether it is another configuration.
func (e *Engine) remember(by string) (changed bool) {
	e.keeping.Lock()
	defer e.keeping.Unlock()
	g := e.Current()
	if g == nil || g == e.inForce.Generation {
		e.inForce.Generation = g
		return false
	}
	first := e.inForce.Number == 0
	same := e.inForce.Generation != nil && e.inForce.Config.Hash == g.Config.Hash
	e.inForce.Generation = g
	if same {
		return false // in force it has been all the time
	}
	if first && by == byReload {
		by = byStart
	}
	last := e.inForce.Number
	now := e.Now().UTC()
	e.inForce.Number, e.inForce.Kept, e.inForce.Since, e.inForce.By = last+1, 0, now, by
	if len(g.Config.Files) > 0 {
		k := history.Kept{Number: last, Since: now, Hash: g.Config.Hash, By: by}
		for _, f := range g.Config.Files {
			k.Files = append(k.Files, history.File{Path: f.Path, Text: f.Text})
		}
		kept, err := e.history.Add(k)
		if err != nil {
			e.Logger().Warn("the configuration that serves is not kept for a rollback", "error", err)
		}
		if kept.Number > 0 {
			e.inForce.Number, e.inForce.Kept, e.inForce.Since, e.inForce.By = kept.Number, kept.Number, kept.Since, kept.By
		}
	}
	e.metrics.setNumber(e.inForce.Number)
	e.metrics.setInForce(g.Config.Hash, e.inForce.Since)
	return true
}

// signFor is for how long somebody who asks for a load is taken for the one who brought about what was loaded just now:
// a command installs the file and asks, and the watch, or Caddy's own reload, may have been faster.
const signFor = 10 * time.Second

// sign notes who asked for what serves already, where nobody is known yet.
func (e *Engine) sign(by string) {
	e.keeping.Lock()
	defer e.keeping.Unlock()
	anonymous := e.inForce.By == bySaved || e.inForce.By == byReload
	if by == byReload || by == bySaved || !anonymous || e.Now().Sub(e.inForce.Since) > signFor {
		return
	}
	e.inForce.By = by
	if e.inForce.Kept > 0 {
		if err := e.history.Sign(e.inForce.Kept, by); err != nil {
			e.Logger().Warn("who has brought the configuration into force is not kept", "error", err)
		}
	}
}
