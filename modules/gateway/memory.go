package gateway

import (
	"os"
	"runtime/debug"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// gcPercent lets the heap grow to five times what lives in it before garbage is collected: a gateway has little that
	// lives and makes much garbage.
	gcPercent = 400
	// memoryShare of the machine's memory, or of the container's, is where that ends: near it garbage is collected as
	// often as it takes.
	memoryShare = 0.6
)

// tuneMemory sets the garbage collector's targets for the process, once. What the operator has set by GOGC and
// GOMEMLIMIT stays (and AUTOMEMLIMIT, by which Caddy's own limit is set).
var tuneMemory = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("AUTOMEMLIMIT") != "" {
		return
	}
	limit, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err == nil && limit > 0 { // otherwise nobody knows how much there is
		debug.SetMemoryLimit(int64(float64(limit) * memoryShare))
	}
})
