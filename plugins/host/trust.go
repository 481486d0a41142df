package host

import (
	"fmt"
	"os"
	"strings"

	"github.com/fareway/fareway/plugins/host/trust"
)

// checkPath refuses a path that anyone but root and us, the user of that id, could make lead elsewhere: they could run
// what they like as the gateway.
func checkPath(path string, us int) error {
	found, err := trust.OnTheWay(path, us)
	if len(found) > 0 {
		return refuse(&found[0], us)
	}
	return err
}

// checkWriters refuses what anyone but root and us, the user of that id, can write, and a folder like /tmp.
func checkWriters(path string, us int) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return refuse(trust.Judge(path, info, us), us)
}

func refuse(f *trust.Finding, us int) error {
	switch {
	case f == nil:
		return nil
	case f.Owner >= 0:
		return fmt.Errorf("%s belongs to user %d, who could run anything as the gateway; give it to the gateway's user or "+
			"to root: chown %d %s", f.Path, f.Owner, us, f.Path)
	}
	return fmt.Errorf("%s can be written by others (mode %04o), who could run anything as the gateway; run: chmod go-w %s",
		f.Path, f.Mode.Perm(), f.Path)
}

// opened is a plugin's file as it is executed.
type opened struct {
	file *os.File
	path string // what to execute
}

// open opens the file once more, which may have changed since it was found, and looks that nobody else could have put
// it there. What is hashed of a pinned one is what is executed: its descriptor, so that it does not matter what
// becomes of the name meanwhile. A script is executed by its name all the same, for that is what its interpreter
// reads, and where it looks for what belongs to it; so are all where the system executes no descriptors.
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
		err = refuse(trust.Judge(o.path, info, us), us)
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
