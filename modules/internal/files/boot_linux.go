package files

import "os"

// ReadBootID is the id of this start of the machine, "" where it cannot be read.
// https://www.kernel.org/doc/html/latest/admin-guide/sysctl/kernel.html#random
func ReadBootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(id)
}
