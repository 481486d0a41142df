package files

// Disk is the room of a disk, in bytes and in files.
type Disk struct {
	Free       uint64 `json:"free"` // that this user may still write
	Size       uint64 `json:"size"`
	FreeInodes uint64 `json:"free_inodes"`
	Inodes     uint64 `json:"inodes"` // 0 where it does not count them
}
