package sqlite

import (
	"math"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// ReleaseMemory gives up the pages that SQLite keeps of all files of this process, but for those that are in use. What
// is needed again is read again.
func ReleaseMemory() {
	tls := libc.NewTLS()
	defer tls.Close()
	lib.Xsqlite3_release_memory(tls, math.MaxInt32)
}
