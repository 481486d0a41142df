package machines

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stage says how far the program is inside: "init" reaps what others leave, "inside" does the work.
const stage = "FAREWAY_MACHINES"

// Enter starts the program once more inside and exits with its status; inside it returns, and Scratch is there. outside
// names a network interface that is made on this machine, by which it reaches those inside; "" for none.
func Enter(outside string) {
	var status int
	var err error
	switch os.Getenv(stage) {
	case "":
		status, err = runInside(outside)
	case "init":
		if err = settle(); err == nil {
			status, err = reap()
		}
	default:
		os.Unsetenv(stage)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(1, status)
	}
	os.Exit(status)
}

// Scratch is a folder in memory that is gone with the program.
const Scratch = "/run/fareway"

// runInside starts this program as the first process of new namespaces, with which all others end.
func runInside(outside string) (int, error) {
	if os.Getuid() != 0 {
		return 1, errors.New("making network namespaces needs root: run it as root")
	}
	for _, name := range []string{"ip", "nsenter", "nft"} {
		if _, err := exec.LookPath(name); err != nil {
			return 1, fmt.Errorf("finding %s: %w; .ci/cluster installs what is needed, on Debian", name, err)
		}
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stage+"=init")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  unix.SIGKILL,
	}
	signals := make(chan os.Signal, 8) // before it starts, so that none is lost
	signal.Notify(signals, os.Interrupt, unix.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("starting in namespaces of its own: %w: run it as root, and not in a container without "+
			"privileges", err)
	}
	go handOn(signals, cmd.Process)
	if outside != "" {
		if err := connectHost(outside, cmd.Process.Pid); err != nil {
			_ = cmd.Process.Kill()
			return 1, errors.Join(err, cmd.Wait())
		}
	}
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, exit.ExitCode()), nil // -1 for a signal
	}
	return 0, err
}

// connectHost makes the pair of interfaces by which the host reaches the machines. It goes with its inner end.
func connectHost(outside string, pid int) error {
	for _, line := range []string{
		fmt.Sprintf("link add %s type veth peer name host netns %d", outside, pid),
		fmt.Sprintf("address add %s/24 dev %s", hostAddress, outside),
		fmt.Sprintf("link set %s up", outside),
	} {
		if err := run("ip", strings.Fields(line)...); err != nil {
			return fmt.Errorf("connecting this machine to those of the cluster: %w", err)
		}
	}
	return nil
}

// settle makes the new namespaces usable: a /proc that shows their processes, and a /run of their own.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to ourselves: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := unix.Mount("fareway", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	return os.Mkdir(Scratch, 0o755)
}

// reap starts the program that does the work, and waits for whatever ends until that does: a process that has ended
// and for which nobody has waited is there for those who look (PostgreSQL does).
func reap() (int, error) {
	if err := os.Setenv(stage, "inside"); err != nil {
		return 1, err
	}
	program, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 1, fmt.Errorf("starting inside: %w", err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, unix.SIGTERM)
	go handOn(signals, program)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1, fmt.Errorf("waiting for what runs inside: %w", err)
		case pid == program.Pid && status.Exited():
			return status.ExitStatus(), nil
		case pid == program.Pid:
			return 1, fmt.Errorf("what runs inside was ended by the signal %v", status.Signal())
		}
	}
}

// handOn sends a process the signals that this one gets. An interrupt of the terminal reaches it twice, which is once.
func handOn(signals <-chan os.Signal, to *os.Process) {
	for s := range signals {
		_ = to.Signal(s) // it may have ended
	}
}

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
