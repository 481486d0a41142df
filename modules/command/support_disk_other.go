//go:build !linux && !darwin

package command

// readDisk is the room of the disk that a folder is on, which this system does not tell.
func readDisk(string) map[string]int64 { return nil }
