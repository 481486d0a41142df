package admin

import (
	"net/http"
	"os"
	"time"

	"github.com/fareway/fareway/modules/gateway"
)

// Upgrade says which program is to take the gateway's place.
type Upgrade struct {
	// Program is its path, absolute. "": the program at the path of the one that runs, which may be a newer one by now.
	Program string `json:"program,omitempty"`
}

// Upgraded says which process has taken the gateway's place.
type Upgraded struct {
	PID     int    `json:"pid"`
	Before  int    `json:"before"` // the process before
	Program string `json:"program"`
	Version string `json:"version"`
	// PausedMS is for how long requests waited, in milliseconds.
	PausedMS int64 `json:"paused_ms"`
	// Running is how many requests go on in the process before, and Until when those are ended at the latest.
	Running int       `json:"running"`
	Until   time.Time `json:"until"`
}

// upgrade starts another process in the place of this one.
func (a *API) upgrade(r *http.Request) (any, error) {
	if err := onSocket(r); err != nil {
		return nil, err
	}
	in, err := readJSON[Upgrade](r)
	if err != nil {
		return nil, err
	}
	a.engine.Logger().Info("this process is to be replaced", "by", actorOf(r))
	up, err := gateway.Upgrade(r.Context(), a.engine, in.Program)
	if err != nil {
		return nil, problem(http.StatusConflict, "%w", gateway.OwnError(err))
	}
	return Upgraded{PID: up.PID, Before: os.Getpid(), Program: up.Program, Version: up.Version,
		PausedMS: up.Paused.Milliseconds(), Running: up.Running, Until: up.Until}, nil
}
