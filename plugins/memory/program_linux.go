package memory

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// releaseProgram takes the pages of the program itself out of this process: two thirds of them are what only its start
// has used, of all that is linked. They stay in the system's cache of the file, and what is used again comes back from
// there, page by page. It is best effort.
func releaseProgram() {
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, m := range findMappings(bytes.NewReader(smaps), program) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED)
	}
}

type mapping struct{ start, end uintptr }

// findMappings returns those mappings of a program, out of a file like /proc/self/smaps, that are as in its file: they
// cannot be written, and no page of theirs ever was (by a linker, or for a breakpoint), for such a page would be lost.
func findMappings(smaps io.Reader, program string) []mapping {
	var found []mapping
	var m mapping
	ours := false
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		// START-END PERMS OFFSET DEVICE INODE PATH
		if start, end, ok := strings.Cut(fields[0], "-"); ok && len(fields) >= 5 {
			from, err1 := strconv.ParseUint(start, 16, 64)
			to, err2 := strconv.ParseUint(end, 16, 64)
			m = mapping{uintptr(from), uintptr(to)}
			ours = err1 == nil && err2 == nil && !strings.Contains(fields[1], "w") && strings.HasSuffix(fields[1], "p") &&
				len(fields) > 5 && strings.Join(fields[5:], " ") == program
		}
		if ours && fields[0] == "Anonymous:" && fields[1] == "0" {
			found = append(found, m)
		}
	}
	return found
}
