package host

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxRounds bounds how often killAll looks: a process that hangs in the kernel does not die.
	maxRounds = 10
	// dying is how long it waits for the end of one, in milliseconds.
	dying = 200
)

// mark tells the processes of one run of a plugin from all others: what the plugin starts inherits both parts of it.
type mark struct {
	// variable is in the environment that the plugin is started with, as in NAME=value. It is there from the beginning;
	// who clears the environment loses it.
	variable string
	// limit is how long a process of the real-time classes may compute, in microseconds: more than 70,000 years, and a
	// number of its own. Nothing looks at it in passing, and nobody can raise it again.
	limit uint64
}

// newMark makes a mark that no other run has.
func newMark(variable string) mark { return mark{variable, 1<<61 + rand.Uint64N(1<<61)} }

// put marks a process that was just started. Where the system does not let us, there is the variable.
func (m mark) put(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: m.limit, Max: m.limit}, nil)
}

// killAll kills every process that has the mark. So it finds what has left its group, and whatever that starts while
// it looks.
func (m mark) killAll() {
	for found, rounds := true, 0; found && rounds < maxRounds; rounds++ {
		found = false
		processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
		for _, process := range processes {
			if m.isOn(process) && m.killOne(process) {
				found = true
			}
		}
	}
}

// isOn reports whether a process, a folder below /proc, has the mark. One that may not be read, or has ended, has not.
func (m mark) isOn(process string) bool {
	environ, err := os.ReadFile(filepath.Join(process, "environ"))
	if err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+m.variable+"\x00")) {
		return true
	}
	limits, err := os.ReadFile(filepath.Join(process, "limits"))
	return err == nil && bytes.Contains(limits, strconv.AppendUint([]byte(" "), m.limit, 10))
}

// killOne kills a marked process, and none that has got its id since.
func (m mark) killOne(process string) bool {
	pid, err := strconv.Atoi(filepath.Base(process))
	if err != nil {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if !m.isOn(process) || unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	// An error says that the wait is over early.
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, dying)
	return true
}
