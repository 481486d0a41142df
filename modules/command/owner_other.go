//go:build !unix

package command

// checkOwner: there is no root here.
func checkOwner(string) error { return nil }
