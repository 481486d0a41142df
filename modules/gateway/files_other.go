//go:build !unix

package gateway

func maxFiles() int { return assumedFiles }
