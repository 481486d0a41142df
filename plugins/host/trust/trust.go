// Package trust says who can change what a path leads to, beside root and one user. What a gateway executes has to be
// nobody else's, and what it is configured by should be.
package trust

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may have, as the kernel has it.
const maxLinks = 40

// Finding is a file or folder that others than root and one user can change.
type Finding struct {
	Path string
	Mode fs.FileMode
	// Owner is whose it is, -1 where that is root or the user.
	Owner int
	// OwnGroup: only a group can write it, and it is root's or its owner's own (of the same name, as many systems give
	// everybody one).
	OwnGroup bool
}

// String says who it is that can change it.
func (f Finding) String() string {
	who := "everybody"
	if f.Owner >= 0 {
		return fmt.Sprintf("%s belongs to user %d", f.Path, f.Owner)
	}
	if f.Mode&0o002 == 0 {
		who = "its group"
	}
	return fmt.Sprintf("%s can be written by %s (mode %04o)", f.Path, who, f.Mode.Perm())
}

// Judge finds whether others than root and us, the user of that id, can change what info is about; nil: nobody can.
func Judge(path string, info fs.FileInfo, us int) *Finding {
	f := &Finding{Path: path, Mode: info.Mode(), Owner: -1}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && stat.Uid != 0 && int(stat.Uid) != us {
		f.Owner = int(stat.Uid)
		return f
	}
	if f.Mode&0o022 == 0 || f.Mode&fs.ModeSymlink != 0 {
		return nil
	}
	f.OwnGroup = ok && f.Mode&0o002 == 0 && (stat.Gid == 0 || isOwnGroup(stat.Uid, stat.Gid))
	return f
}

// OnTheWay finds by what others than root and us, the user of that id, could make a path lead elsewhere, or change
// what it leads to: the folders above it, what it leads to, and all of those that symbolic links on the way lead
// through. In a folder that all may write to, but where each may only remove what is his own (as in /tmp), what is
// next on the way has to be root's or ours. Where the way ends early, what was found until there comes with the
// error.
func OnTheWay(path string, us int) (found []Finding, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	at, rest := "/", strings.Split(path, "/")
	if _, err := step(at, us, &found); err != nil {
		return found, err
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at) // which has been looked at
			continue
		}
		next := filepath.Join(at, name)
		info, err := step(next, us, &found)
		if err != nil {
			return found, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return found, fmt.Errorf("%s: %w", path, syscall.ELOOP)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return found, err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return found, nil
}

// step looks at one file or folder on the way, not behind a link.
func step(path string, us int, found *[]Finding) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	f := Judge(path, info, us)
	if f != nil && (f.Owner >= 0 || !info.IsDir() || info.Mode()&fs.ModeSticky == 0) {
		*found = append(*found, *f)
	}
	return info, nil
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
