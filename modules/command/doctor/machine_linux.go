package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// disk is the file system that a folder is on.
type disk struct {
	id                 uint64
	kind               string
	network, readOnly  bool
	noExec             bool
	free, whole        uint64 // bytes, as the user may still write
	inodes, inodesFree uint64
}

// fileSystems are those that mean something, by the number in statfs(2).
var fileSystems = map[int64]struct {
	name    string
	network bool
}{
	unix.TMPFS_MAGIC: {"tmpfs", false}, unix.RAMFS_MAGIC: {"ramfs", false},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlay", false},
	unix.NFS_SUPER_MAGIC:       {"NFS", true}, unix.SMB_SUPER_MAGIC: {"SMB", true}, unix.SMB2_SUPER_MAGIC: {"SMB", true},
	unix.CIFS_SUPER_MAGIC: {"CIFS", true}, unix.V9FS_MAGIC: {"9p", true}, unix.CEPH_SUPER_MAGIC: {"CephFS", true},
	unix.AFS_FS_MAGIC: {"AFS", true}, unix.FUSE_SUPER_MAGIC: {"FUSE", true}, 0x0bd00bd0: {"Lustre", true},
	0x47504653: {"GPFS", true}, 0x19830326: {"FhGFS", true},
	unix.EXT4_SUPER_MAGIC: {"ext4", false}, unix.XFS_SUPER_MAGIC: {"xfs", false},
	unix.BTRFS_SUPER_MAGIC: {"btrfs", false},
}

func statDisk(dir string) (disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return disk{}, fmt.Errorf("looking at the disk of %s: %w", dir, err)
	}
	block := uint64(s.Bsize)
	d := disk{free: s.Bavail * block, whole: s.Blocks * block, inodes: s.Files, inodesFree: s.Ffree,
		readOnly: s.Flags&unix.ST_RDONLY != 0, noExec: s.Flags&unix.ST_NOEXEC != 0,
		kind: fmt.Sprintf("a file system of type %#x", s.Type)}
	if known, ok := fileSystems[int64(s.Type)&0xffffffff]; ok { //nolint:unconvert // its type is another one on 32 bits
		d.kind, d.network = known.name, known.network
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err == nil {
		d.id = st.Dev
	}
	return d, nil
}

// clockIsKept reports whether something keeps the kernel's clock right.
func clockIsKept() (kept, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, err == nil
}
