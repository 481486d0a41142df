package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxTree bounds how many processes memoryOf looks at.
const maxTree = 1000

// memoryOf is how much resident memory a process and its descendants have to themselves, in bytes; 0 when it has
// ended. What it maps of files is not counted, such as its program: all built-in providers and the gateway share that
// one, and the kernel takes it back when it needs room.
func memoryOf(pid int) (bytes int64) {
	tree := []int{pid}
	for i := 0; i < len(tree) && i < maxTree; i++ {
		bytes += ownMemory(tree[i])
		tree = append(tree, childrenOf(tree[i])...)
	}
	return bytes
}

// ownMemory is how much resident memory a process has that is of no file, in bytes; 0 when it has ended. See
// proc_pid_status(5).
func ownMemory(pid int) (bytes int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "RssAnon" && name != "RssShmem" {
			continue
		}
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		bytes += kib << 10
	}
	return bytes
}

// childrenOf are the processes that a process has started and that run; none where the kernel does not tell.
func childrenOf(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
