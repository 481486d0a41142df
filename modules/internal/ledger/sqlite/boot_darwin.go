package sqlite

import "golang.org/x/sys/unix"

// readBootID is the id of this start of the machine, "" where it cannot be read.
func readBootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}
