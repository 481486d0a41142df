//go:build !linux && !darwin

package files

// ReadDisk does not tell here.
func ReadDisk(string) (Disk, bool) { return Disk{}, false }
