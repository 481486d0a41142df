package command

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/files"
)

// systemView is the machine that the command runs on.
type systemView struct {
	OS         string            `json:"os"`
	Arch       string            `json:"arch"`
	Kernel     string            `json:"kernel,omitempty"`
	Processors int               `json:"processors"`
	Time       time.Time         `json:"time"`
	Zone       string            `json:"zone"`
	Root       bool              `json:"root"` // who runs the command
	Container  bool              `json:"container"`
	Proxies    []string          `json:"proxies"` // which variables of proxies are set, not what to
	Load       string            `json:"load,omitempty"`
	MemoryKiB  map[string]int64  `json:"memory_kib,omitempty"`
	Cgroup     map[string]string `json:"cgroup,omitempty"`
	Disk       *files.Disk       `json:"disk,omitempty"` // of the data folder
	Filesystem string            `json:"filesystem,omitempty"`
	Process    *processView      `json:"process,omitempty"` // the gateway's
}

// processView is what the kernel says of the gateway's process.
type processView struct {
	PID       int               `json:"pid"`
	StatusKiB map[string]int64  `json:"status_kib"`
	Limits    map[string]string `json:"limits"`
	OpenFiles int               `json:"open_files"`
}

// readSystem reads what there is; what this system or this user cannot see is left out.
func readSystem(data string, pid int) systemView {
	zone, _ := time.Now().Zone()
	v := systemView{OS: runtime.GOOS, Arch: runtime.GOARCH, Processors: runtime.NumCPU(), Time: time.Now().UTC(),
		Zone: zone, Root: os.Geteuid() == 0, Container: isThere("/.dockerenv") || isThere("/run/.containerenv"),
		Proxies: []string{},
		Kernel:  readTrimmed("/proc/sys/kernel/osrelease"), Load: readTrimmed("/proc/loadavg"),
		MemoryKiB: readKiB("/proc/meminfo", "MemTotal", "MemAvailable", "SwapTotal", "SwapFree", "Dirty")}
	if disk, ok := files.ReadDisk(data); ok {
		v.Disk = &disk
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"} {
		if os.Getenv(name) != "" || os.Getenv(strings.ToLower(name)) != "" {
			v.Proxies = append(v.Proxies, name)
		}
	}
	v.Cgroup = map[string]string{}
	for _, name := range []string{"memory.max", "memory.current", "cpu.max", "pids.max"} {
		if text := readTrimmed(filepath.Join("/sys/fs/cgroup", name)); text != "" {
			v.Cgroup[name] = text
		}
	}
	v.Filesystem = findFilesystem(data)
	if pid > 0 {
		v.Process = readProcess(pid)
	}
	return v
}

func readTrimmed(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// readKiB reads lines as in "MemTotal:  123 kB"; without names, all of them.
func readKiB(path string, names ...string) map[string]int64 {
	v := map[string]int64{}
	for line := range strings.Lines(readTrimmed(path)) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 || len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			v[name] = n
		}
	}
	return v
}

func readProcess(pid int) *processView {
	folder := fmt.Sprintf("/proc/%d", pid)
	if !isThere(folder) {
		return nil // it is another machine's
	}
	v := &processView{PID: pid, StatusKiB: readKiB(folder+"/status", "VmRSS", "VmHWM", "VmSize", "VmSwap", "Threads"),
		Limits: map[string]string{}}
	for line := range strings.Lines(readTrimmed(folder + "/limits")) {
		if name := strings.TrimSpace(line[:min(len(line), 26)]); strings.HasPrefix(name, "Max ") && len(line) > 26 {
			v.Limits[name] = strings.Join(strings.Fields(line[26:]), " ")
		}
	}
	if open, err := os.ReadDir(folder + "/fd"); err == nil {
		v.OpenFiles = len(open)
	}
	return v
}

// findFilesystem is the kind of the file system that a folder is on.
func findFilesystem(folder string) string {
	best, kind := "", ""
	for line := range strings.Lines(readTrimmed("/proc/mounts")) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		at := fields[1]
		if (at == "/" || folder == at || strings.HasPrefix(folder, at+"/")) && len(at) >= len(best) {
			best, kind = at, fields[2]
		}
	}
	return kind
}
