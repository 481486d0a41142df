package host

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxRounds bounds how often killMarked looks: a process that hangs in the kernel does not die.
	maxRounds = 10
	// dying is how long it waits for the end of one, in milliseconds.
	dying = 200
)

// killMarked kills every process that was started with the variable, as in NAME=value. So it finds what has left its
// group, and whatever that starts while it looks; only who clears its environment gets away.
func killMarked(variable string) {
	mark := []byte("\x00" + variable + "\x00")
	for found, rounds := true, 0; found && rounds < maxRounds; rounds++ {
		found = false
		environs, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
		for _, environ := range environs {
			if isMarked(environ, mark) && killOne(environ, mark) {
				found = true
			}
		}
	}
}

// isMarked reports whether the mark is in an environment. It is in nobody's that may not be read, or that has ended.
func isMarked(environ string, mark []byte) bool {
	b, err := os.ReadFile(environ)
	return err == nil && bytes.Contains(append([]byte{0}, b...), mark)
}

// killOne kills a marked process, and none that has got its id since.
func killOne(environ string, mark []byte) bool {
	pid, err := strconv.Atoi(filepath.Base(filepath.Dir(environ)))
	if err != nil {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if !isMarked(environ, mark) || unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	// An error says that the wait is over early.
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, dying)
	return true
}
