package gateway

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
)

// A process that ends removes its sockets by their paths, which may be those of the process after it by then. One that
// starts while the process before it drains has its sockets under a second name, too, and puts them back.

const (
	// secondName is what the second name of a socket has behind the first.
	secondName = ".next"
	// putBackFor is how long a process that has left the ledger may take until it has removed its sockets, which are
	// looked for each putBackEvery.
	putBackFor   = 30 * time.Second
	putBackEvery = 10 * time.Millisecond
)

// keepSockets keeps the sockets at these paths where they are, until the processes before this one have ended.
func keepSockets(ctx context.Context, e *engine.Engine, log *slog.Logger, paths ...string) {
	alone := e.PredecessorsEnded()
	select {
	case <-alone:
		return
	default:
	}
	kept := make(map[string]fs.FileInfo, len(paths))
	for _, path := range paths {
		_ = os.Remove(path + secondName) // of a process that was killed, or of one whose place this one takes
		err := os.Link(path, path+secondName)
		if err == nil {
			kept[path], err = os.Lstat(path + secondName)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("the process before this one removes a socket at its end: restart this one then", "path", path,
				"error", err)
		}
	}
	go func() {
		defer func() {
			for path, own := range kept {
				if is, err := os.Lstat(path + secondName); err == nil && os.SameFile(is, own) { // not the next one's
					_ = os.Remove(path + secondName)
				}
			}
		}()
		tick := time.NewTicker(putBackEvery)
		defer tick.Stop()
		var over <-chan time.Time
		for {
			select {
			case <-ctx.Done():
				return
			case <-over:
				return
			case <-alone:
				alone, over = nil, time.After(putBackFor)
			case <-tick.C:
				if Relays() {
					return // the next process takes the paths, and would find them taken
				}
				putBack(log, kept)
			}
		}
	}()
}

// putBack puts back what is gone of sockets.
func putBack(log *slog.Logger, kept map[string]fs.FileInfo) {
	for path := range kept {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Link(path+secondName, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("a socket cannot be put back that the process before this one has removed", "path", path, "error", err)
		}
	}
}
