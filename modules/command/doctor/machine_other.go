//go:build !linux

package doctor

import "errors"

type disk struct {
	id                 uint64
	kind               string
	network, readOnly  bool
	noExec             bool
	free, whole        uint64
	inodes, inodesFree uint64
}

func statDisk(string) (disk, error) {
	return disk{}, errors.New("looking at disks: this system's are not known here")
}

func clockIsKept() (kept, known bool) { return false, false }
