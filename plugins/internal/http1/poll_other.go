//go:build !unix

package http1

const canPoll = false

func (p *poll) do(uintptr) bool { return true }

func (p *poll) put(uintptr) bool { return true }
