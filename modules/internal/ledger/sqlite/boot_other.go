//go:build !linux && !darwin

package sqlite

// readBootID: nothing names a start of the machine here, so that no loss is taken for a power cut's.
func readBootID() string { return "" }
