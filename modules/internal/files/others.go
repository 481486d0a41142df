package files

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"syscall"
)

// WhoElse says who but root and this process's user can change what is at a path, by the file itself or by the folder
// that it is in; "" for nobody. A group that is its owner's own (of the same name, as many systems give everybody one)
// is nobody else, and a folder like /tmp, where each can only remove what is his own, counts as safe.
func WhoElse(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	for _, p := range [...]string{path, filepath.Dir(path)} {
		if info, err := os.Stat(p); err == nil {
			if who := whoElse(info, os.Geteuid()); who != "" {
				return p + " " + who
			}
		}
	}
	return ""
}

func whoElse(info fs.FileInfo, us int) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	shared := info.IsDir() && info.Mode()&fs.ModeSticky != 0
	switch mode := info.Mode().Perm(); {
	case !ok:
		return ""
	case stat.Uid != 0 && int(stat.Uid) != us:
		return fmt.Sprintf("belongs to user %d", stat.Uid)
	case shared:
		return ""
	case mode&0o002 != 0:
		return fmt.Sprintf("can be written by everybody (mode %04o)", mode)
	case mode&0o020 != 0 && stat.Gid != 0 && !isOwnGroup(stat.Uid, stat.Gid):
		return fmt.Sprintf("can be written by its group (mode %04o)", mode)
	}
	return ""
}

// isOwnGroup reports a group that is one user's own.
func isOwnGroup(uid, gid uint32) bool {
	owner, err := user.LookupId(fmt.Sprint(uid))
	if err != nil {
		return false
	}
	group, err := user.LookupGroupId(fmt.Sprint(gid))
	return err == nil && group.Name == owner.Username
}
