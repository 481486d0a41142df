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

// memoryOf is how much resident memory a process and its descendants have, in bytes; 0 when it has ended.
func memoryOf(pid int) (bytes int64) {
	tree := []int{pid}
	for i := 0; i < len(tree) && i < maxTree; i++ {
		bytes += residentMemory(tree[i])
		tree = append(tree, childrenOf(tree[i])...)
	}
	return bytes
}

// residentMemory is how much memory a process has, in bytes; 0 when it has ended.
func residentMemory(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
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
