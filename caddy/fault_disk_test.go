//go:build linux

package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ledgerFault is something that takes the ledger of a running gateway away.
type ledgerFault struct {
	name  string
	dir   func(t *testing.T) string // makes the gateway's data folder
	begin func(t *testing.T, g *gateway) (end func())
}

// ledgerFaults are those that can be made on this machine: some take root.
func ledgerFaults(t *testing.T) []ledgerFault {
	t.Helper()
	plain := func(t *testing.T) string { return t.TempDir() }
	faults := []ledgerFault{{"locked by another process", plain, locked},
		{"at the largest size of a file", plain, limited}}
	if disk, ok := smallDisk(t); ok {
		require.NoError(t, unix.Unmount(disk, 0))
		faults = append(faults, ledgerFault{"on a full disk", mounted, filled})
	}
	probe := filepath.Join(t.TempDir(), "probe")
	require.NoError(t, os.WriteFile(probe, nil, 0o600))
	if setImmutable(probe) == nil {
		require.NoError(t, setMutable(probe))
		faults = append(faults, ledgerFault{"read-only", plain, frozen})
	}
	return faults
}

func locked(t *testing.T, g *gateway) (end func()) {
	lock := lockLedger(t, g.Dir)
	return func() { lock.release(t) }
}

// limited lets no file grow beyond the size that the ledger's log of writes has: what comes next fails as on a disk
// with an error, with no room for a page.
func limited(t *testing.T, g *gateway) (end func()) {
	wal, err := os.Stat(filepath.Join(g.Dir, "fareway.db-wal"))
	require.NoError(t, err)
	set := func(soft uint64) {
		var limit unix.Rlimit
		require.NoError(t, unix.Prlimit(g.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &limit))
		limit.Cur = min(soft, limit.Max)
		require.NoError(t, unix.Prlimit(g.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))
	}
	set(uint64(wal.Size()))
	return func() {
		if !g.hasEnded() {
			set(unix.RLIM_INFINITY)
		}
	}
}

// smallDisk mounts a file system of 64 MiB; ok is false when that is not allowed here.
func smallDisk(t *testing.T) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	return dir, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=0700") == nil
}

func mounted(t *testing.T) string {
	dir, ok := smallDisk(t)
	require.True(t, ok)
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// filled leaves no block of the disk free.
func filled(t *testing.T, g *gateway) (end func()) {
	path := filepath.Join(g.Dir, "ballast")
	f, err := os.Create(path)
	require.NoError(t, err)
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		block := make([]byte, size)
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
		require.ErrorIs(t, err, unix.ENOSPC)
	}
	_ = f.Close() // there is no room for what it may still want
	return func() { require.NoError(t, os.Remove(path)) }
}

// frozen lets nothing be written into the ledger's files any more, also through descriptors that are open.
func frozen(t *testing.T, g *gateway) (end func()) {
	paths := []string{filepath.Join(g.Dir, "fareway.db"), filepath.Join(g.Dir, "fareway.db-wal")}
	for _, path := range paths {
		require.NoError(t, setImmutable(path))
		t.Cleanup(func() { _ = setMutable(path) }) // it could not be removed otherwise
	}
	return func() {
		for _, path := range paths {
			require.NoError(t, setMutable(path))
		}
	}
}

const immutable = 0x10 // FS_IMMUTABLE_FL of linux/fs.h

func setImmutable(path string) error {
	return changeFlags(path, func(flags uint32) uint32 { return flags | immutable })
}

func setMutable(path string) error {
	return changeFlags(path, func(flags uint32) uint32 { return flags &^ immutable })
}

func changeFlags(path string, change func(uint32) uint32) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(change(flags)))
	}
	return errors.Join(err, f.Close())
}
