//go:build !linux

package engine

// calm bounds nothing here: the process bounds its own memory (GOMEMLIMIT) and takes one core.
func calm(int) error { return nil }
