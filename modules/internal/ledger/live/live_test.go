package live

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

// memoryLog is a log that survives its process, and no machine.
type memoryLog struct {
	mu      sync.Mutex
	number  uint64
	courses map[uint64]*book.Course
	err     error
}

func newMemoryLog() *memoryLog { return &memoryLog{courses: map[uint64]*book.Course{}} }

func (m *memoryLog) Append(c *book.Course) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, m.err
	}
	m.number++
	m.courses[m.number] = c
	return m.number, nil
}

func (m *memoryLog) Empty() error { return nil }

func (m *memoryLog) Release(_ int64, numbers ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, number := range numbers {
		if m.courses[number] == nil {
			panic("released twice, or never appended")
		}
		delete(m.courses, number)
	}
}

func TestLedgerOverSQLite(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB, o ledgertest.Options) ledger.Store {
		store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(o.Dir, "ledger.db"), BootID: o.BootID, Now: o.Now,
			Terms: o.Terms})
		require.NoError(t, err)
		l, err := Open(t.Context(), store, newMemoryLog(), Options{
			Options: ledger.Options{Now: o.Now, Terms: o.Terms}, Refuse: func(c *book.Course, u book.TakenUp) error {
				t.Errorf("request %s is refused: %v", c.ID, u.Err)
				return nil
			}})
		require.NoError(t, err)
		return l
	})
}

var _ = []any{context.Background, errors.New, time.Now}
