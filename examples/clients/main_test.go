//go:build clients && linux

package clients_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside marks the process that has the namespaces.
const inside = "FAREWAY_CLIENTS_INSIDE"

// TestMain runs the tests in namespaces of their own, so that no client reaches anything but the loopback device
// (telemetry, updates), and none leaves a process behind (some start daemons): all end with the first one.
func TestMain(m *testing.M) {
	if os.Getenv(inside) == "" {
		status, err := runInside()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(status)
	}
	if err := settle(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	if err := writeBoard(); err != nil {
		fmt.Fprintln(os.Stderr, "writing the board:", err)
		status = 1
	}
	os.Exit(status)
}

// runInside starts this program again in new namespaces and returns its exit status.
func runInside() (int, error) {
	tmp, err := os.MkdirTemp("", "fareway-clients")
	if err != nil {
		return 1, fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(tmp) // nobody is left who could write to it
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1", "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  unix.SIGKILL,
	}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
	}
	signal.Ignore(os.Interrupt) // it reaches the inner process too
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode()), nil // -1 for a signal
	}
	if err != nil {
		return 1, fmt.Errorf("starting the tests in namespaces of their own: %w: run them as root, or where people may "+
			"make user namespaces", err)
	}
	return 0, nil
}

// settle makes the new namespaces usable: a /proc that shows their processes, and a loopback device that is up.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to ourselves: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("naming the loopback device: %w", err)
	}
	loopback.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback); err != nil {
		return fmt.Errorf("starting the loopback device: %w", err)
	}
	return nil
}
