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
func (c *configuration) InForce() InForce {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	return c.inForce
}

// History has the configurations that were in force.
func (c *configuration) History() *history.History { return c.history }

// remember notes what serves now, and keeps it. It is called after everything that may have changed that, and reports
// whether it is another configuration.
func (c *configuration) remember(by string) (changed bool) {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	g := c.Current()
	if g == nil || g == c.inForce.Generation {
		c.inForce.Generation = g
		return false
	}
	first := c.inForce.Number == 0
	same := c.inForce.Generation != nil && c.inForce.Config.Hash == g.Config.Hash
	c.inForce.Generation = g
	if same {
		return false // in force it has been all the time
	}
	if first && by == byReload {
		by = byStart
	}
	last := c.inForce.Number
	now := c.Now().UTC()
	c.inForce.Number, c.inForce.Kept, c.inForce.Since, c.inForce.By = last+1, 0, now, by
	if len(g.Config.Files) > 0 {
		k := history.Kept{Number: last, Since: now, Hash: g.Config.Hash, By: by}
		for _, f := range g.Config.Files {
			k.Files = append(k.Files, history.File{Path: f.Path, Text: f.Text})
		}
		kept, err := c.history.Add(k)
		if err != nil {
			c.Logger().Warn("the configuration that serves is not kept for a rollback", "error", err)
		}
		if kept.Number > 0 {
			c.inForce.Number, c.inForce.Kept, c.inForce.Since, c.inForce.By = kept.Number, kept.Number, kept.Since, kept.By
		}
	}
	c.metrics.setNumber(c.inForce.Number)
	c.metrics.setInForce(g.Config.Hash, c.inForce.Since)
	return true
}

// signFor is for how long somebody who asks for a load is taken for the one who brought about what was loaded just
// now: a command installs the file and asks, and the watch, or Caddy's own reload, may have been faster.
const signFor = 10 * time.Second

// sign notes who asked for what serves already, where nobody is known yet.
func (c *configuration) sign(by string) {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	anonymous := c.inForce.By == bySaved || c.inForce.By == byReload
	if by == byReload || by == bySaved || !anonymous || c.Now().Sub(c.inForce.Since) > signFor {
		return
	}
	c.inForce.By = by
	if c.inForce.Kept > 0 {
		if err := c.history.Sign(c.inForce.Kept, by); err != nil {
			c.Logger().Warn("who has brought the configuration into force is not kept", "error", err)
		}
	}
}
