package admin

import (
	"net/http"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/engine"
)

// ReplayRequest asks what a configuration would have made of requests that were routed.
type ReplayRequest struct {
	Text  string    `json:"text"` // of the HCL file, as in PlanRequest
	File  string    `json:"file,omitempty"`
	Since time.Time `json:"since"`
}

// Replay is a line of the answer: how far it is, and at last what came of it.
type Replay struct {
	Done       int64                 `json:"done,omitempty"`
	Of         int64                 `json:"of,omitempty"`
	Comparison *decisions.Comparison `json:"comparison,omitempty"`
}

// replanRequests plans requests of the past again.
func (a *API) replanRequests(r *http.Request, out *lineWriter) error {
	if err := onSocket(r); err != nil {
		return err
	}
	in, err := readJSONUpTo[ReplayRequest](r, maxPlanBody)
	if err != nil {
		return err
	}
	g := a.engine.Current()
	if g == nil {
		return engine.ErrReplaced
	}
	path, err := fileOf(g.Config, in.File)
	if err != nil {
		return err
	}
	installed := config.Overlay{path: &in.Text}
	if bounded(r, g.Config) {
		if d := beyond(g.Config, installed); d.HasErrors() {
			return refusedText(d)
		}
	}
	c, diags, err := a.engine.Replay(r.Context(), installed, in.Since, func(done, of int64) error {
		if err := out.emit(Replay{Done: done, Of: of}); err != nil {
			return err
		}
		if err := out.flush(); err != nil {
			return err
		}
		_ = out.control.Flush() // what cannot (a test's recorder) keeps it
		return nil
	})
	switch {
	case err != nil:
		return err
	case diags != nil:
		return refusedText(diags)
	}
	return out.emit(Replay{Comparison: c})
}

func refusedText(diags *config.Diagnostics) error {
	var text strings.Builder
	_ = diags.Write(&text, false) // a builder takes everything
	return problem(http.StatusUnprocessableEntity, "the configuration has errors:\n\n%s", text.String())
}
