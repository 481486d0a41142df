package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// startUnprivileged starts cmd without the capabilities that the gateway may have to bind port 443: neither
// the ambient ones, which children inherit, nor those of the gateway's own file, which a built-in plugin
// would get again by executing it. Both are properties of the thread that starts the child; the thread ends
// with the goroutine, for it stays locked to it.
func startUnprivileged(cmd *exec.Cmd, limits func(pid int) error) error {
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
			if err := cmd.Start(); err != nil {
				return err
			}
			if err := limit(cmd, limits); err != nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				return err
			}
			return nil
		}()
	}()
	return <-result
}

// hasLimits: the limits of a process can be set from outside.
const hasLimits = true

// limit sets the limits of a process that was just started, on a thread that ends. It may be of another user, whose
// limits only that user may set, or whoever has a capability that root in a container has not: so the thread takes
// its real ids, which the system calls do for all threads only through Go's own functions.
func limit(cmd *exec.Cmd, limits func(pid int) error) error {
	if c := cmd.SysProcAttr.Credential; c != nil {
		const same = ^uintptr(0)
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(c.Gid), same, same); err != 0 {
			return fmt.Errorf("taking the group of the process: %w", err)
		}
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(c.Uid), same, same); err != 0 {
			return fmt.Errorf("taking the user of the process: %w", err)
		}
	}
	return limits(cmd.Process.Pid)
}

// limits sets what confines a process.
func (c Confine) limits(pid int) error {
	set := func(name string, resource int, n int64) error {
		if n == 0 {
			return nil
		}
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: uint64(n), Max: uint64(n)}, nil); err != nil {
			return fmt.Errorf("confine: setting %s to %d: %w; it cannot be more than the gateway's own limit", name, n, err)
		}
		return nil
	}
	if err := set("max_files", unix.RLIMIT_NOFILE, c.MaxFiles); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil // the gateway's own processes would count, too
	}
	return set("max_processes", unix.RLIMIT_NPROC, c.MaxProcesses)
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

// descriptorPath is what to execute in the place of the file at path, which the process has as its descriptor 3.
func descriptorPath(path string) string {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return path // there is no /proc
	}
	return "/proc/self/fd/3"
}
