//go:build !amd64

package jsonview

const wide = false

func plainBlocks([]byte) (n int, beyondASCII bool) { return 0, false }
