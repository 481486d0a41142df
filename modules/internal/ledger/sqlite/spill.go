package sqlite

// spilling is how many rows a spill keeps in memory.
const spilling = 1 << 13

// spill sums rows by their keys in bounded memory: when it has as many as it may keep, it has them added to a table that
// SQLite keeps on the disk.
type spill[K comparable, V any] struct {
	rows map[K]*V
	add  func(K, *V) error // to the table
}

func newSpill[K comparable, V any](add func(K, *V) error) *spill[K, V] {
	return &spill[K, V]{rows: map[K]*V{}, add: add}
}

// at is the row of a key, to be changed at once. It is what has come since the table was added to, not the sum.
func (s *spill[K, V]) at(key K) (*V, error) {
	if row, ok := s.rows[key]; ok {
		return row, nil
	}
	if len(s.rows) >= spilling {
		if err := s.flush(); err != nil {
			return nil, err
		}
	}
	row := new(V)
	s.rows[key] = row
	return row, nil
}

// flush adds everything to the table.
func (s *spill[K, V]) flush() error {
	for key, row := range s.rows {
		if err := s.add(key, row); err != nil {
			return err
		}
	}
	clear(s.rows)
	return nil
}
