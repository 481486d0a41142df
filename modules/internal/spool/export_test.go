package spool

// Computer is the disk of this package's tests, for those of who settles into a spool.
type Computer = computer

// Small is the size of a spool with a few records in each half.
const Small = small

// NewComputer is one whose power is gone after so many operations, once its spool is open; negative: never.
func NewComputer(size int64, operations int) (*Computer, *Spool, error) {
	c := newComputer()
	s, err := open(c, where, size)
	c.left = operations
	return c, s, err
}

// Gone reports whether an operation has met the loss of power.
func (c *computer) Gone() bool { return c.gone.Load() }

// Restarts are the spools that the computer can have when the power is back.
func (c *computer) Restarts(size int64) (list []*Spool, err error) {
	for _, after := range c.all() {
		s, err := open(after, where, size)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}
