package host

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	plugin "github.com/hashicorp/go-plugin"
)

// Confine is what a provider's process may not do, as far as the system lets the gateway see to it.
type Confine struct {
	User         string // the user that it runs as, "" for the gateway's own
	MaxFiles     int64  // descriptors that a process of it may have open; 0: the gateway's own limit
	MaxProcesses int64  // processes and threads that the user may have; 0: the gateway's own limit
}

// Missing says what of it cannot be had here, and why. A provider runs without that.
func (c Confine) Missing() (missing []string) {
	if c.User != "" && os.Geteuid() != 0 {
		missing = append(missing, "user: only root can run a process as another user, and the gateway does not run as root")
	}
	if c.MaxFiles > 0 && !hasLimits {
		missing = append(missing, "max_files: the limits of another process can be set on Linux only")
	}
	switch {
	case c.MaxProcesses == 0:
	case !hasLimits:
		missing = append(missing, "max_processes: the limits of another process can be set on Linux only")
	case os.Geteuid() != 0:
		missing = append(missing, "max_processes: it counts those of a user of its own, and there is none")
	}
	return missing
}

// InForce says what a process cannot do.
func (c Confine) InForce() (list []string) {
	if hasLimits {
		list = append(list, "no new privileges")
	}
	if c.User != "" && os.Geteuid() == 0 {
		list = append(list, "user "+c.User)
	}
	if c.MaxFiles > 0 && hasLimits {
		list = append(list, fmt.Sprintf("max_files %d", c.MaxFiles))
	}
	if c.MaxProcesses > 0 && hasLimits && os.Geteuid() == 0 {
		list = append(list, fmt.Sprintf("max_processes %d", c.MaxProcesses))
	}
	return list
}

// credential is whom a process runs as; nil for the gateway's own user.
func (c Confine) credential() (*syscall.Credential, error) {
	if c.User == "" || os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(c.User)
	if err != nil {
		return nil, fmt.Errorf("confine: there is no user %q on this machine: create it, or name another", c.User)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("confine: reading the id of user %q: %w", c.User, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("confine: reading the group of user %q: %w", c.User, err)
	}
	if uid == 0 {
		return nil, fmt.Errorf("confine: user %q is root: name another", c.User)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// giveSocketFolder gives the folder of the plugin's socket, which is in its environment, to whom it runs as.
func giveSocketFolder(c *syscall.Credential, env []string) error {
	for _, variable := range env {
		if dir, ok := strings.CutPrefix(variable, plugin.EnvUnixSocketDir+"="); ok {
			if err := os.Chown(dir, int(c.Uid), int(c.Gid)); err != nil {
				return fmt.Errorf("confine: giving the folder %s to the user: %w", filepath.Base(dir), err)
			}
		}
	}
	return nil
}
