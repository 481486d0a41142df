package machines

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Program is what a machine runs.
type Program struct {
	Name string // of its log: NAME.log in the machine's folder
	Path string
	Args []string
	Env  []string // beside the program's own
	User string   // whose it is; "" for root
	Dir  string   // where it runs; "" for the machine's folder
}

// Start runs a program on the machine, and once more a second after it has ended, as a service manager does, until the
// machine is killed. Its log goes on where it was.
func (m *Machine) Start(p Program) error {
	generation := m.generation.Load()
	cmd, err := m.launch(p)
	if err != nil {
		return fmt.Errorf("starting %s on %s: %w", p.Name, m.Name, err)
	}
	go func() {
		for {
			_ = cmd.Wait() // why it ended is in its log
			<-time.After(time.Second)
			m.mu.Lock()
			if m.generation.Load() == generation {
				cmd, err = m.launch(p)
			} else {
				err = errors.New("the machine was killed")
			}
			m.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return nil
}

func (m *Machine) launch(p Program) (*exec.Cmd, error) {
	path, err := exec.LookPath(p.Path)
	if err != nil {
		return nil, err
	}
	args := []string{"--net=/run/netns/" + m.Name}
	if p.User != "" {
		u, err := user.Lookup(p.User)
		if err != nil {
			return nil, err
		}
		args = append(args, "-S", u.Uid, "-G", u.Gid)
	}
	log, err := os.OpenFile(filepath.Join(m.Dir, p.Name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("nsenter", append(append(args, "--", path), p.Args...)...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, cmp.Or(p.Dir, m.Dir)
	cmd.Env = append(os.Environ(), p.Env...)
	return cmd, cmd.Start()
}

// Own gives a folder of the machine, and all in it, to a user.
func (m *Machine) Own(name, owner string) (string, error) {
	dir := filepath.Join(m.Dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	u, err := user.Lookup(owner)
	if err != nil {
		return "", err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return dir, os.Chown(dir, uid, gid)
}

// Running lists the machine's processes.
func (m *Machine) Running() ([]int, error) {
	var own unix.Stat_t
	if err := unix.Stat("/run/netns/"+m.Name, &own); err != nil {
		return nil, fmt.Errorf("finding the machine %s: %w", m.Name, err)
	}
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		var net unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &net) == nil && net.Ino == own.Ino {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Find lists the machine's processes whose command line contains a text.
func (m *Machine) Find(text string) ([]int, error) {
	pids, err := m.Running()
	return slices.DeleteFunc(pids, func(pid int) bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || !strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text)
	}), err
}

// Kill ends all processes of the machine at once, as a power cut does, but for what the disk has not: that is there.
func (m *Machine) Kill() error {
	m.mu.Lock()
	m.generation.Add(1) // nothing is started again
	m.mu.Unlock()
	for range 1000 {
		pids, err := m.Running()
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := signalAll(pids, unix.SIGKILL); err != nil {
			return err
		}
		<-time.After(2 * time.Millisecond) // a process that is killed ends by itself, and nobody else's parent is told
	}
	return errors.New("killing what runs on " + m.Name + ": it does not end")
}

// Pause stops all processes of the machine.
func (m *Machine) Pause() error { return m.signal(unix.SIGSTOP) }

// Resume lets them go on, who do not know that they were stopped.
func (m *Machine) Resume() error { return m.signal(unix.SIGCONT) }

func (m *Machine) signal(s unix.Signal) error {
	pids, err := m.Running()
	if err != nil {
		return err
	}
	return signalAll(pids, s)
}

func signalAll(pids []int, s unix.Signal) error {
	var failed error
	for _, pid := range pids {
		if err := unix.Kill(pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
			failed = errors.Join(failed, fmt.Errorf("sending %v to the process %d: %w", s, pid, err))
		}
	}
	return failed
}
