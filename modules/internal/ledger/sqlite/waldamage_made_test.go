package sqlite

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// madeFrame is a frame of a log that a test makes up: of a page, and with how many the database has behind it where it
// ends a transaction.
type madeFrame struct{ page, pages uint32 }

// makeWAL makes a log, whose frames are full of their numbers, from 1.
func makeWAL(order binary.ByteOrder, pageSize int, frames ...madeFrame) []byte {
	wal := binary.BigEndian.AppendUint32(nil, walMagic)
	if order.Uint16([]byte{0, 1}) == 1 { // it is big-endian
		wal[3]++
	}
	wal = binary.BigEndian.AppendUint32(wal, 3007000)
	wal = binary.BigEndian.AppendUint32(wal, uint32(pageSize))
	wal = append(wal, "seq.saltsalt"...)
	sum := walSum{}.add(order, wal)
	appendSum := func() {
		wal = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(wal, sum.a), sum.b)
	}
	appendSum()
	for i, f := range frames {
		at := len(wal)
		wal = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(wal, f.page), f.pages)
		content := bytes.Repeat([]byte{byte(i + 1)}, pageSize)
		if f.page == 1 { // it has the page size, 1 for 65536
			binary.BigEndian.PutUint16(content[16:], uint16(max(pageSize%(1<<16), pageSize>>16)))
		}
		sum = sum.add(order, wal[at:]).add(order, content)
		wal = append(wal, "saltsalt"...)
		appendSum()
		wal = append(wal, content...)
	}
	return wal
}

func scan(t *testing.T, wal []byte, pageSize int) walScan {
	t.Helper()
	s, err := scanWAL(bytes.NewReader(wal), int64(len(wal)), int64(pageSize))
	require.NoError(t, err)
	return s
}

// TestScanOfMadeLogs (GAP-133): where a log ends and what is damaged of it, to the byte, for all sizes of pages and
// machines of either kind.
func TestScanOfMadeLogs(t *testing.T) {
	t.Parallel()
	frames := []madeFrame{{1, 0}, {2, 2}, {1, 1}, {2, 0}, {3, 3}, {1, 3}}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for size := 512; size <= 1<<16; size *= 2 {
			t.Run(fmt.Sprint("GAP-133 ", order, size), func(t *testing.T) {
				t.Parallel()
				wal := makeWAL(order, size, frames...)
				at := func(frame int) int64 { return int64(walHead + frame*(frameHead+size)) }
				require.Equal(t, walScan{end: at(6), bad: at(6)}, scan(t, wal, 4096))
				turned := func(i int64) walScan {
					wal[i] ^= 4
					defer func() { wal[i] ^= 4 }()
					return scan(t, wal, 4096)
				}
				within := func(frame int) bool { return at(frame)/512 == (at(frame)+23)/512 }
				for _, content := range []int64{frameHead, frameHead + int64(size) - 1} {
					require.Equal(t, walScan{bad: at(0), damaged: true, commits: 3}, turned(at(0)+content))
					require.Equal(t, walScan{bad: at(1), damaged: true, commits: 2}, turned(at(1)+content))
					require.Equal(t, walScan{end: at(2), bad: at(2), damaged: true, commits: 1}, turned(at(2)+content))
					require.Equal(t, walScan{end: at(3), bad: at(3), damaged: true, commits: 1}, turned(at(3)+content))
					require.Equal(t, walScan{end: at(3), bad: at(4), damaged: within(4)}, turned(at(4)+content))
					require.Equal(t, walScan{end: at(5), bad: at(5)}, turned(at(5)+content), "the last")
				}
				require.Equal(t, walScan{end: at(5), bad: at(5)}, turned(at(5)+8), "its salt")
				require.Equal(t, walScan{end: at(5), bad: at(5)}, turned(at(5)+16), "its sum")
				require.Equal(t, walScan{end: at(6), bad: at(6) + 100}, scan(t, append(wal, make([]byte, 100)...), 4096),
					"a part of a frame is none")

				zero := makeWAL(order, size, madeFrame{1, 1}, madeFrame{0, 0}, madeFrame{1, 1})
				require.Equal(t, walScan{end: at(1), bad: at(1)}, scan(t, zero, 4096), "no page has the number 0")
			})
		}
	}
	for _, size := range []int{0, 256, 1 << 17, 3000} {
		wal := makeWAL(binary.LittleEndian, size, madeFrame{2, 2}, madeFrame{3, 3})
		require.Equal(t, walScan{bad: int64(len(wal))}, scan(t, wal, 4096), size)
	}
	require.Equal(t, walScan{bad: walHead}, scan(t, makeWAL(binary.LittleEndian, 4096), 4096), "no frame")
}

// TestMadeLogsWithoutAHeader (GAP-133): they are damaged where the database does not have what they say.
func TestMadeLogsWithoutAHeader(t *testing.T) {
	t.Parallel()
	for size := 512; size <= 1<<16; size *= 2 {
		t.Run(fmt.Sprint("GAP-133 ", size), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "fareway.db")
			wal := makeWAL(binary.NativeEndian, size, madeFrame{1, 0}, madeFrame{2, 2}, madeFrame{3, 0}, madeFrame{1, 2},
				madeFrame{2, 0})
			wal[13] ^= 1
			at := func(frame int) int64 { return int64(walHead + frame*(frameHead+size) + frameHead) }
			s := scan(t, wal, size)
			require.True(t, s.headless)
			require.True(t, s.damaged)
			require.Zero(t, s.bad)
			require.Equal(t, []walFrame{{1, at(0)}, {2, at(1)}, {3, at(2)}, {1, at(3)}}, s.frames)
			require.EqualValues(t, 2, s.pages)
			page := func(frame int) []byte { return wal[at(frame) : at(frame)+int64(size)] }
			check := func(database []byte) *ledger.LogDamage {
				require.NoError(t, os.WriteFile(path, database, 0o600))
				require.NoError(t, os.WriteFile(path+"-wal", wal, 0o600))
				damage, _, err := findDamage(path, path+"-wal")
				require.NoError(t, err)
				return damage
			}
			has := append(bytes.Clone(page(3)), page(1)...)
			require.Nil(t, check(has), "of the third page nothing, which was cut off since")
			require.NotNil(t, check(has[:size]), "its second page is not there")
			for _, i := range []int{0, size - 1, size, 2*size - 1} {
				lacks := bytes.Clone(has)
				lacks[i] ^= 1
				require.Equal(t, &ledger.LogDamage{File: path + "-wal", Commits: 2}, check(lacks), "byte %d", i)
			}
		})
	}
}

// TestKeptLogThatIsInnocentByNow (GAP-133): nobody has decided about it all the same.
func TestKeptLogThatIsInnocentByNow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fareway.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	damage, err := undecidedDamage(path)
	require.NoError(t, err)
	require.Nil(t, damage)
	kept := path + keptDamaged + "20261126-000000"
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	damage, err = undecidedDamage(path)
	require.NoError(t, err)
	require.Equal(t, &ledger.LogDamage{File: kept}, damage)
	require.NoError(t, acceptLogs(path))
	damage, err = undecidedDamage(path)
	require.NoError(t, err)
	require.Nil(t, damage)
	require.FileExists(t, path+keptAccepted+"20261126-000000")

	// One that cannot be renamed is said.
	require.NoError(t, os.WriteFile(path+keptDamaged+"20261126-000001", nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(path+keptAccepted+"20261126-000001", "x"), 0o700))
	require.ErrorContains(t, acceptLogs(path), "the next start asks again")
	_, err = undecidedDamage(filepath.Join(path, "no folder"))
	require.ErrorContains(t, err, "looking for damaged logs")
}

// TestLogThatCannotBeKept (GAP-133): it is left as it is, and the ledger is not gone on with.
func TestLogThatCannotBeKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "fareway.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	wal := makeWAL(binary.NativeEndian, 4096, madeFrame{1, 1}, madeFrame{2, 2}, madeFrame{1, 2})
	wal[walHead+frameHead] ^= 1
	require.NoError(t, os.WriteFile(path+"-wal", wal, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".damaged-log.part"), 0o700))
	require.ErrorContains(t, settleLog(path, workStart), "make room beside it and start again")
	content, err := os.ReadFile(path + "-wal")
	require.NoError(t, err)
	require.Equal(t, wal, content)

	require.NoError(t, os.Remove(filepath.Join(dir, ".damaged-log.part")))
	require.NoError(t, settleLog(path, workStart))
	kept, err := DamagedLogs(path)
	require.NoError(t, err)
	require.Len(t, kept, 1)
	content, err = os.ReadFile(kept[0])
	require.NoError(t, err)
	require.Equal(t, wal, content)
	info, err := os.Stat(path + "-wal")
	require.NoError(t, err)
	require.Zero(t, info.Size(), "it ends before its first transaction")
	require.NoError(t, settleLog(path, workStart), "nothing is damaged any more")
	require.NoError(t, settleLog(filepath.Join(dir, "none.db"), workStart))
}
