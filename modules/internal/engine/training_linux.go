package engine

import (
	"errors"

	"golang.org/x/sys/unix"
)

// calm makes a process that just began one of low priority and bounded memory.
func calm(pid int) error {
	const lowest = 19
	return errors.Join(unix.Setpriority(unix.PRIO_PROCESS, pid, lowest),
		unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: trainingMemory, Max: trainingMemory}, nil))
}
