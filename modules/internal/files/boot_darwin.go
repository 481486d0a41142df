package files

import "golang.org/x/sys/unix"

// ReadBootID is the id of this start of the machine, "" where it cannot be read.
func ReadBootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}
