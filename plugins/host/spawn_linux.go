package host

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startUnprivileged starts cmd without the capabilities that the gateway may have to bind port 443: neither
// the ambient ones, which children inherit, nor those of the gateway's own file, which a built-in plugin
// would get again by executing it. Both are properties of the thread that starts the child; the thread ends
// with the goroutine, for it stays locked to it.
func startUnprivileged(cmd *exec.Cmd) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- func() error {
			err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
			// A kernel that does not know of ambient capabilities passes none on.
			if err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("dropping capabilities: %w", err)
			}
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				return fmt.Errorf("dropping privileges: %w", err)
			}
			return cmd.Start()
		}()
	}()
	return <-result
}

// awaitEnd waits until the process has ended, and leaves its status to be taken by cmd.Wait: until then its
// id, which is also its group's, cannot be reused.
func awaitEnd(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
