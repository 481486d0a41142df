package host

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may have, as the kernel has it.
const maxLinks = 40

// checkPath refuses a path that anyone but root and us, the user of that id, could make lead elsewhere: through any
// folder above it, and those that symbolic links on the way lead through. In a folder that all may write to, but where
// each may only remove what is his own (as in /tmp), what is next on the way has to be root's or ours.
func checkPath(path string, us int) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest := "/", strings.Split(path, "/")
	if err := checkStep(at, us); err != nil {
		return err
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at) // which has been checked
			continue
		}
		next := filepath.Join(at, name)
		if err := checkStep(next, us); err != nil {
			return err
		}
		info, err := os.Lstat(next)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s: %w", path, syscall.ELOOP)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return nil
}

// checkStep looks at one file or folder on the way, not behind a link.
func checkStep(path string, us int) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return checkInfo(path, info, us, info.IsDir() && info.Mode()&fs.ModeSticky != 0)
}

// checkWriters refuses what anyone but root and us, the user of that id, can write: they could run what they like as
// the gateway.
func checkWriters(path string, us int) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return checkInfo(path, info, us, false)
}

func checkInfo(path string, info fs.FileInfo, us int, shared bool) error {
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSymlink == 0 && !shared {
		return fmt.Errorf(
			"%s can be written by others (mode %04o), who could run anything as the gateway; run: chmod go-w %s",
			path, info.Mode().Perm(), path)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != us {
		return fmt.Errorf("%s belongs to user %d, who could run anything as the gateway; give it to the gateway's user or "+
			"to root: chown %d %s",
			path, owner.Uid, us, path)
	}
	return nil
}

// opened is a plugin's file as it is executed.
type opened struct {
	file *os.File
	path string // what to execute
}

// open opens the file once more, which may have changed since it was found, and looks that nobody else could have put
// it there. What is hashed of a pinned one is what is executed: its descriptor, so that it does not matter what becomes
// of the name meanwhile. A script is executed by its name all the same, for that is what its interpreter reads, and
// where it looks for what belongs to it; so are all where the system executes no descriptors.
func (e executable) open(us int) (o *opened, err error) {
	o = &opened{path: e.argv[0]}
	if !e.guarded {
		return o, nil
	}
	if err := checkPath(o.path, us); err != nil {
		return nil, fmt.Errorf("verifying %s: %w", o.path, err)
	}
	if !e.pinned {
		return o, nil
	}
	if o.file, err = os.Open(o.path); err != nil {
		return nil, fmt.Errorf("verifying %s: %w", o.path, err)
	}
	if err := o.verify(e.digest, us); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// verify looks whether the open file has the digest, and finds out by what name it can be executed.
func (o *opened) verify(digest string, us int) error {
	info, err := o.file.Stat()
	if err == nil {
		err = checkInfo(o.path, info, us, false)
	}
	var found string
	if err == nil {
		found, err = digestOf(o.file)
	}
	if err != nil {
		return fmt.Errorf("verifying %s: %w", o.path, err)
	}
	if !strings.EqualFold(found, digest) {
		return fmt.Errorf("%s has changed and no longer has the pinned sha256", o.path)
	}
	begin := make([]byte, 2)
	if _, err := o.file.ReadAt(begin, 0); err != nil || string(begin) != "#!" {
		o.path = descriptorPath(o.path)
	}
	return nil
}

// close lets go of the file.
func (o *opened) close() {
	if o.file != nil {
		_ = o.file.Close() // it was only read
	}
}

// extra are the descriptors that the process needs in order to be executed: the first is its descriptor 3.
func (o *opened) extra() []*os.File {
	if o.file == nil {
		return nil
	}
	return []*os.File{o.file}
}
