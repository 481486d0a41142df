package spool

import "pgregory.net/rapid"

// Computer is the disk of this package's tests, for those of who settles into a spool.
type Computer = computer

// NewComputer is one whose power is gone after so many operations, once its spool is open.
func NewComputer(size int64, operations int) (*Computer, *Spool, error) {
	c := newComputer()
	s, err := open(c, where, size)
	c.left = operations
	return c, s, err
}

// Restart is the computer when the power is back, and its spool.
func (c *computer) Restart(t *rapid.T, size int64) (*Spool, error) {
	return open(c.after(t), where, size)
}
