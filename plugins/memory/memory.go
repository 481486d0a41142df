// Package memory bounds what a process of Fareway's holds, and gives back what it does not need: the gateway and each
// provider have much that only starting or a busy hour takes.
package memory

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	lookEvery = 5 * time.Second
	// A process is idle that has made less garbage than idleBytes in each of idleLooks looks, one after the other.
	idleBytes = 1 << 20
	idleLooks = 4
)

// Tune sets the garbage collector's targets for this process, once: how far the heap may grow beyond what lives in it,
// in percent of that, and where garbage is collected as often as it takes, limit in bytes (0 where nobody knows). What
// the operator has set by GOGC and GOMEMLIMIT stays. From then on what is free is given back to the system: soon after
// the start, and whenever the process has become idle. Then release is called too, which may be nil.
func Tune(percent int, limit int64, release func()) {
	tune.Do(func() {
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(percent)
		}
		if os.Getenv("GOMEMLIMIT") == "" && limit > 0 {
			debug.SetMemoryLimit(limit)
		}
		go func() {
			var w watch
			for range time.Tick(lookEvery) {
				if w.look(allocatedByProcess()) {
					if release != nil {
						release()
					}
					debug.FreeOSMemory()
					releaseProgram()
				}
			}
		}()
	})
}

var tune sync.Once

// watch tells when there is something to give back.
type watch struct {
	began bool
	last  uint64 // what was allocated by the last look, in bytes
	quiet int    // looks, one after the other, that found the process idle
}

// look is told what the process has ever allocated, in bytes, every lookEvery. It reports whether to give memory back:
// at the first look, and each time that the process has become idle.
func (w *watch) look(allocated uint64) bool {
	first, made := !w.began, allocated-w.last
	w.began, w.last = true, allocated
	switch {
	case first:
		return true
	case made >= idleBytes:
		w.quiet = 0
		return false
	}
	w.quiet++
	return w.quiet == idleLooks
}

// allocatedByProcess is what this process has ever allocated, in bytes.
func allocatedByProcess() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
