//go:build unix

package http1

import (
	"errors"
	"syscall"
)

const canPoll = true

// do reads from a descriptor that does not block.
func (p *poll) do(fd uintptr) bool {
	p.n, p.err = syscall.Read(int(fd), p.into)
	switch {
	case errors.Is(p.err, syscall.EAGAIN), errors.Is(p.err, syscall.EINTR):
		p.n, p.err = 0, errNothing
	case p.err != nil:
		p.n = 0
	}
	return true
}

// put writes to a descriptor that does not block. What is wrong with it, the next writing hears.
func (p *poll) put(fd uintptr) bool {
	n, _ := syscall.Write(int(fd), p.into)
	p.n = max(n, 0)
	return true
}
