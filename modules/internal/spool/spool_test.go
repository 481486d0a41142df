package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// small is the size of the tests' spools.
const small = 2 * firstRecord

// settlementOf is a settlement with everything in it.
func settlementOf(n int) ledger.Settlement {
	id := fmt.Sprintf("req_%032x", n)
	return ledger.Settlement{
		Request: id, Status: 200, Reason: "ok", ServiceLimit: n%2 == 0, Free: n%3 == 0, Surcharge: int64(n),
		Results: []ledger.Result{
			{Attempt: ledger.AttemptID(id, 1), Outcome: ledger.Failed},
			{Attempt: ledger.AttemptID(id, 2), Outcome: ledger.Finished,
				Usage: &llm.Usage{Input: llm.Count(0), CacheRead: llm.Count(7), Output: llm.Count(int64(n)), Estimated: true}},
		},
	}
}

func settlements(n int) []ledger.Settlement {
	list := make([]ledger.Settlement, n)
	for i := range list {
		list[i] = settlementOf(i)
	}
	return list
}

// memory is a disk that remembers what was synced, and fails when it is told to: at the sync, or at once.
type memory struct {
	*bytes.Reader
	b      []byte
	synced []byte
	broken error
	stuck  bool
}

func newMemory(b []byte) *memory {
	return &memory{Reader: bytes.NewReader(b), b: b, synced: bytes.Clone(b)}
}

func (m *memory) WriteAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > int64(len(m.b)) {
		return 0, errors.New("the file must not grow")
	}
	if m.stuck {
		return 0, m.broken
	}
	return copy(m.b[at:], b), nil
}

func (m *memory) Sync() error {
	if m.broken == nil {
		m.synced = bytes.Clone(m.b)
	}
	return m.broken
}

func (*memory) Close() error { return nil }

// reopen opens a spool of this content, whatever it is.
func reopen(t require.TestingT, content []byte) (*Spool, *memory) {
	m := newMemory(bytes.Clone(content))
	s, err := load(m, int64(len(content)))
	require.NoError(t, err)
	return s, m
}

// fresh opens an empty spool.
func fresh(t require.TestingT) (*Spool, *memory) {
	b := make([]byte, small)
	copy(b, magic)
	return reopen(t, b)
}

// waiting is everything that waits.
func waiting(t require.TestingT, s *Spool) []ledger.Settlement {
	batch, err := s.Oldest(1 << 20)
	require.NoError(t, err)
	require.Len(t, batch.Settlements, int(s.Len()))
	return batch.Settlements
}

// requireSame compares lists, of which an empty one may be nil.
func requireSame(t require.TestingT, want, got []ledger.Settlement, about ...any) {
	require.Len(t, got, len(want), about...)
	for i := range want {
		require.Equal(t, want[i], got[i], about...)
	}
}

func TestOpenMakesAWholeFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spool")
	s, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, s.Append(settlementOf(1)))
	require.NoError(t, s.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, Size, info.Size())
	require.EqualValues(t, 0o600, info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)

	s, err = Open(path)
	require.NoError(t, err)
	require.Equal(t, []ledger.Settlement{settlementOf(1)}, waiting(t, s))
	require.Zero(t, s.Torn())
	require.NoError(t, s.Close())
}

// TestTornTail opens what a process leaves that dies while a byte is written: each record before counts, nothing
// of the one that was not whole does, and the spool goes on.
func TestTornTail(t *testing.T) {
	t.Parallel()
	s, m := fresh(t)
	ends := []int64{s.end}
	for _, x := range settlements(3) {
		require.NoError(t, s.Append(x))
		ends = append(ends, s.end)
	}
	check := func(at int64, torn []byte) {
		before, exact := slices.BinarySearch(ends, at)
		if !exact {
			before--
		}
		s, m := reopen(t, torn)
		requireSame(t, settlements(3)[:before], waiting(t, s), "byte %d", at)
		require.NoError(t, s.Append(settlementOf(9)))
		again, _ := reopen(t, m.synced)
		requireSame(t, append(settlements(3)[:before], settlementOf(9)), waiting(t, again))
		require.Zero(t, again.Torn(), "what was torn is gone")
	}
	for at := ends[0]; at < ends[3]; at++ {
		torn := bytes.Clone(m.b)
		clear(torn[at:])
		check(at, torn)
		torn = bytes.Clone(m.b) // sectors reach a disk in any order
		torn[at] ^= 0x40
		check(at, torn)
	}
}

func TestTornIsReported(t *testing.T) {
	t.Parallel()
	s, m := fresh(t)
	require.NoError(t, s.Append(settlementOf(0)))
	first := s.end
	require.NoError(t, s.Append(settlementOf(1)))
	clear(m.b[first : first+headLen]) // the head is in a sector that was not written
	again, _ := reopen(t, m.b)
	require.Equal(t, s.end-first, again.Torn())
	requireSame(t, settlements(1), waiting(t, again))
}

// TestAnyContent: whatever is behind the beginning, nothing is made up and the spool is of use.
func TestAnyContent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := make([]byte, small)
		copy(b, magic)
		copy(b[firstRecord:], rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "bytes"))
		s, _ := reopen(t, b)
		require.Zero(t, s.Len())
		require.NoError(t, s.Append(settlementOf(5)))
		requireSame(t, []ledger.Settlement{settlementOf(5)}, waiting(t, s))
	})
}

// TestModel runs appends, applications, broken disks and losses of power against a list.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, m := fresh(t)
		var all, old []ledger.Settlement // in the file; what was in it before it was emptied
		applied, made := 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				made++
				err := s.Append(settlementOf(made))
				switch {
				case m.broken != nil:
					require.Error(t, err)
				case err != nil:
					require.ErrorIs(t, err, ErrFull)
					require.Greater(t, s.end, int64(small-1000))
				default:
					all = append(all, settlementOf(made))
				}
			},
			"apply": func(t *rapid.T) {
				batch, err := s.Oldest(rapid.IntRange(1, 4).Draw(t, "n"))
				require.NoError(t, err)
				requireSame(t, all[applied:applied+len(batch.Settlements)], batch.Settlements)
				err = s.Applied(batch)
				applied += len(batch.Settlements)
				if applied < len(all) || len(all) == 0 {
					require.NoError(t, err)
					return
				}
				if old, all, applied = all, nil, 0; m.broken != nil {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				require.Empty(t, bytes.TrimRight(m.synced[firstRecord:], "\x00"))
			},
			"break and repair": func(t *rapid.T) {
				if m.broken == nil {
					m.broken, m.stuck = errors.New("broken by the test"), rapid.Bool().Draw(t, "at once")
				} else {
					m.broken, m.stuck = nil, false
				}
			},
			"lose power": func(t *rapid.T) {
				s, m = reopen(t, m.synced)
				if all == nil && s.Len() > 0 { // the emptying was lost
					all = old
				}
				requireSame(t, all, waiting(t, s)) // those that were applied come again
				applied = 0
			},
			"": func(t *rapid.T) {
				require.EqualValues(t, len(all)-applied, s.Len())
			},
		})
	})
}

// TestConcurrently appends from many goroutines while another applies: each settlement comes out once.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	b := make([]byte, 1<<20)
	copy(b, magic)
	s, _ := reopen(t, b)
	const each, writers = 20, 16
	var appending sync.WaitGroup
	for w := range writers {
		appending.Go(func() {
			for i := range each {
				require.NoError(t, s.Append(settlementOf(w*each+i)))
			}
		})
	}
	seen := make(map[string]bool)
	take := func() {
		batch, err := s.Oldest(7)
		require.NoError(t, err)
		for _, x := range batch.Settlements {
			require.False(t, seen[x.Request])
			seen[x.Request] = true
		}
		require.NoError(t, s.Applied(batch))
	}
	done := make(chan struct{})
	go func() {
		appending.Wait()
		close(done)
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			take()
		}
	}
	for s.Len() > 0 {
		take()
	}
	require.Len(t, seen, each*writers)
}

func TestFull(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	var err error
	n := 0
	for ; err == nil; n++ {
		err = s.Append(settlementOf(n))
	}
	require.ErrorIs(t, err, ErrFull)
	require.EqualValues(t, n-1, s.Len())
	batch, err := s.Oldest(n)
	require.NoError(t, err)
	require.NoError(t, s.Applied(batch))
	require.NoError(t, s.Append(settlementOf(0)), "there is room again")
}

func TestForeignFiles(t *testing.T) {
	t.Parallel()
	newer := make([]byte, small)
	copy(newer, magic)
	b, _ := appendRecord(nil, 0, []byte(`{"status":"of another kind"}`))
	copy(newer[firstRecord:], b)
	for name, content := range map[string][]byte{
		"another program's": bytes.Repeat([]byte("something else\n"), 1000),
		"empty":             nil,
		"cut":               []byte(magic),
		"newer":             newer,
	} {
		path := filepath.Join(t.TempDir(), "spool")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		_, err := Open(path)
		require.ErrorIs(t, err, ErrForeign, name)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, kept), name)
	}
}

// TestFormat: a file that this fareway wrote is read by every later one.
func TestFormat(t *testing.T) {
	t.Parallel()
	b := make([]byte, small)
	copy(b, "fareway spool 1\n")
	copy(b[4096:], "\x95\x00\x00\x00?\xcc\x96o"+`{"request":"req_1","status":200,"reason":"ok","results":[{"attempt":"req_1.1","outcome":"finished","usage":{"Input":3,"CacheRead":null,"Output":4}}]}`)
	s, _ := reopen(t, b)
	requireSame(t, []ledger.Settlement{{Request: "req_1", Status: 200, Reason: "ok", Results: []ledger.Result{
		{Attempt: "req_1.1", Outcome: ledger.Finished, Usage: &llm.Usage{Input: llm.Count(3), Output: llm.Count(4)}}}}}, waiting(t, s))
}

func BenchmarkAppend(b *testing.B) {
	file, size, err := open(filepath.Join(b.TempDir(), "spool"), 256<<20)
	require.NoError(b, err)
	s, err := load(file, size)
	require.NoError(b, err)
	b.ResetTimer()
	x := settlementOf(1)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Append(x); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(s.end-firstRecord)/float64(s.Len()), "bytes/settlement")
	require.NoError(b, s.Close())
}
