package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/human"
)

var machineChecks = []Check{
	{Name: "clock", About: "machine", Worst: Error,
		Looks: "the clock, against what upstreams and servers say the time is, and whether anything keeps it right",
		Why:   "certificates, signatures of requests, expiry of keys and the periods of plans go by it",
		Next:  "sudo timedatectl set-ntp true && timedatectl status",
		run:   checkClock},
	{Name: "clock-back", About: "machine", Worst: Error,
		Looks: "whether the clock stands before what the ledger, the configuration or files here say has been",
		Why:   "a clock that was set back gives entries times that are not in order, and has what is due come late",
		Next:  "timedatectl status",
		run:   checkClockBack},
	{Name: "disk-space", About: "machine", Worst: Error,
		Looks: "free room and inodes for the data, the ledger, logs and temporary files",
		Why:   "without room charged requests are refused",
		Next:  "df -h",
		run:   checkDiskSpace},
	{Name: "disk-speed", About: "machine", Worst: Warning,
		Looks: "how long the data folder's disk takes to keep something (fsync)",
		Why:   "each reply waits for the disk once or twice",
		Next:  "put the data folder on a local SSD",
		run:   checkDiskSpeed},
	{Name: "file-system", About: "machine", Worst: Error,
		Looks: "whether the data folder is on a disk of this machine: no network, no memory, no container's layer",
		Why:   "SQLite's locks do not hold on a network, and what lies in memory or in a container's layer is gone with it",
		Next:  "put the data folder on a local disk or a volume",
		run:   checkFileSystem},
	{Name: "file-limit", About: "machine", Worst: Error, needs: process,
		Looks: "how many files the process may open and how large they may be, against max_streams and what is open",
		Why:   "a connection more is refused when there are no files left",
		Next:  "sudo systemctl edit fareway   # [Service] LimitNOFILE=1048576, then: sudo systemctl restart fareway",
		run:   checkFileLimit},
	{Name: "memory", About: "machine", Worst: Error, needs: process | configured,
		Looks: "the container's or machine's memory against the configuration's bounds, GOMEMLIMIT, swap, kills for memory",
		Why:   "a process that takes more than there is is killed, with all of its streams",
		Next:  "lower max_body_memory and max_streams in the block gateway, or give it more memory",
		run:   checkMemory},
	{Name: "cpu", About: "machine", Worst: Warning, needs: process,
		Looks: "a CPU quota, how often it stops the process, and the load",
		Why:   "a process that is stopped in the middle of a stream stutters",
		Next:  "raise the quota (CPUQuota= of the unit, or the container's limit), or take it away",
		run:   checkCPU},
	{Name: "temporary-folder", About: "machine", Worst: Error,
		Looks: "whether providers can have their sockets in the temporary folder",
		Why:   "a provider whose socket cannot be made does not start",
		Next:  "set TMPDIR to a folder that the gateway's user can write, with a short path",
		run:   checkTemporary},
	{Name: "queues", About: "machine", Worst: Warning,
		Looks: "the kernel's queue for new connections, and what was dropped from it",
		Why:   "a burst of new connections that finds the queue full waits a second or more",
		Next:  "sudo sysctl -w net.core.somaxconn=4096",
		run:   checkQueues},
}

const (
	// clockAside is from when on it is told of: the header Date has whole seconds, and caches lie a little.
	clockAside = 10 * time.Second
	// clockWrong is from when on services refuse signed requests, and certificates seem wrong.
	clockWrong = time.Minute
)

func checkClock(ctx context.Context, s *Subject, r *result) {
	asked := askTimes(ctx, s)
	var offsets []time.Duration
	for _, t := range asked {
		offsets = append(offsets, t.offset)
	}
	slices.Sort(offsets)
	if len(offsets) > 0 {
		middle := offsets[(len(offsets)-1)/2]
		for _, t := range asked {
			switch apart := t.offset.Abs(); {
			case apart < clockAside:
			case len(asked) > 2 && (t.offset-middle).Abs() >= clockAside:
				r.found("the clock of %s is %s %s ours, and %d others agree with us or each other", t.name,
					span(apart.Round(time.Second)), side(t.offset), len(asked)-1).as(Note).
					because("it is theirs that is wrong, or a cache answers").then("ask whoever runs %s", t.name)
			case apart < clockWrong:
				r.found("this machine's clock is %s %s that of %s", span(apart.Round(time.Second)), side(-t.offset),
					t.name).as(Warning)
			default:
				r.found("this machine's clock is %s %s that of %s", span(apart.Round(time.Second)), side(-t.offset),
					t.name)
			}
		}
	}
	kept, known := clockIsKept()
	if known && !kept && !inContainer() {
		r.found("the kernel says that nothing keeps the clock right (adjtimex: unsynchronized)").as(s.unlessPublic(Warning)).
			because("a clock that nobody keeps right is wrong by seconds after some weeks")
	}
	if len(asked) == 0 {
		r.skip("no upstream or server says what time it is: nothing to compare with")
	}
}

// span is a time for people, to the second where it is short.
func span(d time.Duration) string {
	if d < 2*time.Minute {
		return human.Count(int64(d.Round(time.Second).Seconds()), "second")
	}
	return human.Span(d)
}

// side says where one clock is beside another.
func side(d time.Duration) string {
	if d > 0 {
		return "ahead of"
	}
	return "behind"
}

func checkClockBack(ctx context.Context, s *Subject, r *result) {
	const grace = 5 * time.Second
	now := s.Now()
	ahead := func(what string, at time.Time) {
		if by := at.Sub(now); by > grace {
			r.found("%s is of %s, %s from now (%s)", what, human.Moment(at), span(by.Round(time.Second)),
				human.Moment(now))
		}
	}
	if s.Status != nil && s.Status.InForce != nil {
		ahead("the configuration in force", *s.Status.InForce)
	}
	newest, of := newestFile(s.Data)
	if of != "" {
		ahead("the file "+of, newest)
	}
	checkEntriesAhead(ctx, s, r, now.Add(grace), ahead)
}

// newestFile is the last change among the files of a folder.
func newestFile(dir string) (newest time.Time, path string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.ModTime().After(newest) {
			newest, path = info.ModTime(), filepath.Join(dir, e.Name())
		}
	}
	return newest, path
}

// folders are those that the gateway writes to, by what they are for.
func (s *Subject) folders() map[string]string {
	list := map[string]string{"data": s.Data, "temporary files": s.temporary()}
	if s.Offline.Ledger != "" && !s.Offline.Shared {
		list["ledger"] = filepath.Dir(s.Offline.Ledger)
	}
	if s.Site != nil {
		for _, file := range logFiles(s.Site.JSON) {
			list["logs"] = filepath.Dir(file)
		}
	}
	return list
}

// temporary is the gateway's folder for temporary files.
func (s *Subject) temporary() string {
	if dir, ok := s.Env("TMPDIR"); ok && dir != "" {
		return dir
	}
	return "/tmp"
}

func checkDiskSpace(_ context.Context, s *Subject, r *result) {
	const gib = 1 << 30
	told := make(map[uint64]bool)
	looked := false
	folders := s.folders()
	for _, what := range []string{"data", "ledger", "logs", "temporary files"} {
		dir, ok := folders[what]
		if !ok {
			continue
		}
		d, err := s.disk(dir)
		if err != nil {
			continue // whoever looks at the folder says what is wrong with it
		}
		looked = true
		if told[d.id] {
			continue
		}
		told[d.id] = true
		next := fmt.Sprintf("df -h %s && sudo du -xh --max-depth=2 %s | sort -h | tail", dir, dir)
		share := 100 * float64(d.free) / float64(max(d.whole, 1))
		seen := fmt.Sprintf("%s free of %s (%.1f %%) for %s, in %s", bytesText(d.free), bytesText(d.whole), share, what, dir)
		switch {
		case d.free < 200<<20:
			r.found("%s", seen).then("%s", next)
		case d.free < gib || share < 5 && d.free < 10*gib:
			r.found("%s", seen).as(Warning).because("it is full soon, and charged requests are refused then").then("%s", next)
		}
		if d.inodes > 0 && d.inodesFree < d.inodes/50 {
			r.found("%s of %s inodes free in %s", human.Thousands(int64(d.inodesFree)), human.Thousands(int64(d.inodes)), dir).
				because("no file can be made without an inode, whatever room there is").then("df -i %s", dir)
		}
		if d.readOnly {
			r.found("%s is mounted read-only", dir).because("nothing can be kept, and charged requests are refused").
				then("findmnt -T %s && dmesg | tail", dir)
		}
	}
	if !looked {
		r.skip("the folders cannot be looked at")
	}
}

// bytesText is a size for people.
func bytesText(n uint64) string {
	const unit = 1024
	switch {
	case n >= unit*unit*unit:
		return fmt.Sprintf("%.1f GiB", float64(n)/(unit*unit*unit))
	case n >= unit*unit:
		return fmt.Sprintf("%.0f MiB", float64(n)/(unit*unit))
	case n >= unit:
		return fmt.Sprintf("%.0f KiB", float64(n)/unit)
	}
	return fmt.Sprintf("%d bytes", n)
}

func checkDiskSpeed(ctx context.Context, s *Subject, r *result) {
	dir := s.Data
	if folder, ok := s.folders()["ledger"]; ok {
		dir = folder
	}
	times, err := timeSyncs(ctx, dir)
	if err != nil {
		r.skip("a file to measure with cannot be made: %v", err)
		return
	}
	slices.Sort(times)
	judgeSyncs(r, dir, times[len(times)/2], times[len(times)-1])
}

func judgeSyncs(r *result, dir string, median, slowest time.Duration) {
	seen := fmt.Sprintf("the disk of %s takes %.1f ms to keep 4 KiB (median; the slowest of %d took %.1f ms)", dir,
		median.Seconds()*1000, syncs, slowest.Seconds()*1000)
	switch {
	case median > 100*time.Millisecond:
		r.found("%s", seen)
	case median > 25*time.Millisecond:
		r.found("%s", seen).as(Note)
	}
}

// syncs is how many are timed.
const syncs = 9

// timeSyncs writes into a file of its own, which it removes.
func timeSyncs(ctx context.Context, dir string) (times []time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	for range syncs {
		begun := time.Now()
		if _, err := f.Write(block); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(begun))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return times, nil
}

func checkFileSystem(_ context.Context, s *Subject, r *result) {
	list := map[string]string{"data folder": s.Data}
	if dir, ok := s.folders()["ledger"]; ok && dir != s.Data {
		list["ledger"] = dir
	}
	for what, dir := range list {
		d, err := s.disk(dir)
		if err != nil {
			r.skip("%v", err)
			continue
		}
		seen := fmt.Sprintf("the %s %s is on %s", what, dir, d.kind)
		switch {
		case d.network:
			r.found("%s, a file system of a network", seen).
				because("SQLite's locks do not hold there: two gateways could serve one ledger, and it is damaged then")
		case d.kind == "tmpfs" || d.kind == "ramfs":
			r.found("%s, which is memory", seen).because("all of it, money included, is gone when the machine starts again")
		case d.kind == "overlay":
			r.found("%s, a container's own layer", seen).as(s.unlessPublic(Warning)).
				because("all of it, money included, is gone with the container, unless that is on a volume").
				then("docker run -v fareway-data:%s ...", dir)
		}
	}
}

// limits reads what /proc says of a process's limits: soft ones, -1 for none.
func readLimits(path string) (map[string]int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	limits := make(map[string]int64)
	for line := range strings.Lines(string(text)) {
		if len(line) < 47 {
			continue
		}
		name, rest := strings.TrimSpace(line[:26]), strings.Fields(line[26:])
		if len(rest) == 0 {
			continue
		}
		limits[name] = -1
		if n, err := strconv.ParseInt(rest[0], 10, 64); err == nil {
			limits[name] = n
		}
	}
	return limits, nil
}

func checkFileLimit(_ context.Context, s *Subject, r *result) {
	limits, err := readLimits(s.proc("limits"))
	if err != nil {
		r.skip("%v", err)
		return
	}
	files, ok := limits["Max open files"]
	if !ok {
		r.skip("the system does not say how many files the process may open")
		return
	}
	if n := limits["Max file size"]; n >= 0 && n != 0 {
		r.found("the process may write files of %s at most (RLIMIT_FSIZE)", bytesText(uint64(n))).
			because("the ledger stops at that size").
			then("sudo systemctl edit fareway   # [Service] LimitFSIZE=infinity")
	}
	if files < 0 {
		return
	}
	open, err := os.ReadDir(s.proc("fd"))
	if err == nil && int64(len(open)) > files*8/10 {
		r.found("%s of %s files are open", human.Thousands(int64(len(open))), human.Thousands(files))
	}
	if s.Config == nil {
		return
	}
	// A stream has its client's connection and its upstream's.
	if needs := 2*s.Config.Gateway.MaxStreams + 200; files < needs {
		severity := s.unlessPublic(Warning)
		if files < 2048 {
			severity = Warning
		}
		r.found("the process may open %s files, and max_streams = %d needs %s", human.Thousands(files),
			s.Config.Gateway.MaxStreams, human.Thousands(needs)).as(severity)
	}
}

func checkTemporary(_ context.Context, s *Subject, r *result) {
	dir := s.temporary()
	const longest = 108 - len("/plugin-dir0123456789/plugin0123456789") // what a socket's path has besides
	if len(dir) > longest {
		r.found("the path of the temporary folder %s has %d bytes", dir, len(dir)).
			because("a unix socket's path has 107 bytes at most, so providers cannot be spoken to")
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		r.found("the temporary folder: %v", err)
		return
	case !info.IsDir():
		r.found("the temporary folder %s is no folder", dir)
		return
	}
	if !s.mayWrite(info) {
		r.found("the gateway's user (%s) may not write into the temporary folder %s (mode %04o)", s.userName(), dir,
			info.Mode().Perm())
	}
}

// inContainer reports whether this process is in one.
func inContainer() bool {
	for _, path := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	_, kubernetes := os.LookupEnv("KUBERNETES_SERVICE_HOST")
	return kubernetes
}

// number reads a file with one number; false where there is none.
func number(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// numbers reads a file with lines of a name and a number.
func numbers(path string) map[string]int64 {
	text, _ := os.ReadFile(path)
	list := make(map[string]int64)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			list[strings.TrimSuffix(fields[0], ":")] = n
		}
	}
	return list
}

// cgroup is the folder of the process's control group (v2), "" where that cannot be known. Limits of those above it
// hold, too.
func (s *Subject) cgroup() (folders []string) {
	text, err := os.ReadFile(s.proc("cgroup"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for {
			folders = append(folders, filepath.Join(s.Cgroups, path))
			if path == "/" || path == "." || path == "" {
				return folders
			}
			path = filepath.Dir(path)
		}
	}
	return folders
}

// cgroupLimit is the least limit of a kind above the process, and where it is.
func (s *Subject) cgroupLimit(file string) (limit int64, folder string, ok bool) {
	for _, dir := range s.cgroup() {
		if n, there := number(filepath.Join(dir, file)); there && (!ok || n < limit) {
			limit, folder, ok = n, dir, true
		}
	}
	return limit, folder, ok
}

const (
	streamBytes = 85 << 10  // what a stream in progress takes (the manual: Memory)
	restBytes   = 150 << 20 // what the gateway and its providers take at rest, about
	aheadBytes  = 256 << 20 // what clients have not taken yet, of all streams
)

func checkMemory(_ context.Context, s *Subject, r *result) {
	whole, of := numbers(filepath.Join(s.Proc, "meminfo"))["MemTotal"]<<10, "this machine"
	if whole == 0 {
		r.skip("the system does not say how much memory there is")
		return
	}
	if limit, dir, ok := s.cgroupLimit("memory.max"); ok && limit < whole {
		whole, of = limit, "the control group "+dir
	}
	// Those above the process's own group count others' kills, too.
	for _, dir := range s.cgroup()[:min(len(s.cgroup()), 1)] {
		if n := numbers(filepath.Join(dir, "memory.events"))["oom_kill"]; n > 0 {
			r.found("%s in %s for processes, because memory was full", human.Count(n, "kill"), dir).as(Warning).
				then("journalctl -k | grep -i 'killed process'")
		}
	}
	g := s.Config.Gateway
	most := g.MaxBodyMemory + g.MaxStreams*streamBytes + aheadBytes + restBytes
	if most > whole {
		r.found("max_body_memory, max_streams and what clients do not take come to %s, and %s has %s",
			bytesText(uint64(most)), of, bytesText(uint64(whole))).as(s.unlessPublic(Warning)).
			because("under full load it takes more than there is, and is killed with all of its streams")
	}
	if text, ok := s.Env("GOMEMLIMIT"); ok && text != "" {
		if n, err := parseBytes(text); err != nil {
			r.found("GOMEMLIMIT is %q, which is no size", text).as(Warning).
				then("write a size as in GOMEMLIMIT=2GiB, or leave it out: the gateway finds a limit by itself")
		} else if n > whole {
			r.found("GOMEMLIMIT is %s, and %s has %s", text, of, bytesText(uint64(whole))).as(Warning).
				because("garbage is collected too late, and the process is killed").
				then("leave GOMEMLIMIT out: the gateway finds a limit by itself")
		}
	}
	if swapped := numbers(s.proc("status"))["VmSwap"] << 10; swapped > 64<<20 {
		r.found("%s of the process are in swap", bytesText(uint64(swapped))).as(Warning).
			because("a request that needs them waits for the disk")
	}
	if s.Status != nil && s.pid() != 0 {
		if rss := numbers(s.proc("status"))["VmRSS"] << 10; rss > whole*9/10 {
			r.found("the process takes %s of the %s of %s", bytesText(uint64(rss)), bytesText(uint64(whole)), of)
		}
	}
}

func were(n int64) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// parseBytes reads a size as GOMEMLIMIT has it.
func parseBytes(text string) (int64, error) {
	unit := int64(1)
	for _, u := range []struct {
		name string
		size int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}} {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = rest, u.size
			break
		}
	}
	if text == "off" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n * unit, err
}

func checkCPU(_ context.Context, s *Subject, r *result) {
	for _, dir := range s.cgroup() {
		text, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
		fields := strings.Fields(string(text))
		if err != nil || len(fields) < 2 || fields[0] == "max" {
			continue
		}
		quota, _ := strconv.ParseFloat(fields[0], 64)
		period, _ := strconv.ParseFloat(fields[1], 64)
		if period == 0 {
			continue
		}
		cpus := quota / period
		stat := numbers(filepath.Join(dir, "cpu.stat"))
		if periods, stopped := stat["nr_periods"], stat["nr_throttled"]; periods > 100 && stopped*20 > periods {
			r.found("a quota of %.2f CPUs (%s) stopped the process in %.0f %% of the periods", cpus, dir,
				100*float64(stopped)/float64(periods))
		} else if cpus < 1 {
			r.found("the process has %.2f of a CPU (%s)", cpus, dir).as(s.unlessPublic(Warning))
		}
	}
	text, err := os.ReadFile(filepath.Join(s.Proc, "loadavg"))
	online, _ := os.ReadFile("/sys/devices/system/cpu/online")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return
	}
	load, _ := strconv.ParseFloat(fields[2], 64) // of a quarter of an hour
	if n := countCPUs(string(online)); n > 0 && load > 4*float64(n) {
		r.found("the load of the last 15 minutes is %.1f, with %s", load, human.Count(n, "CPU")).as(s.unlessPublic(Warning)).
			because("everything waits for the CPU, requests as well").then("top")
	}
}

// countCPUs counts "0-3,6".
func countCPUs(list string) (n int) {
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		b := a
		if isRange {
			b, _ = strconv.Atoi(last)
		}
		n += max(b-a+1, 0)
	}
	return n
}

func checkQueues(_ context.Context, s *Subject, r *result) {
	length, ok := number(filepath.Join(s.Proc, "sys/net/core/somaxconn"))
	if !ok {
		r.skip("the system does not say how long its queues are")
		return
	}
	if length < 1024 {
		r.found("net.core.somaxconn is %d", length).as(s.unlessPublic(Warning))
	}
	if free, ok := number(filepath.Join(s.Proc, "sys/fs/file-nr")); ok && free == 0 {
		r.skip("the system does not say how many files are open")
	}
	drops := dropped(filepath.Join(s.Proc, "net/netstat"))
	if drops > 0 {
		r.found("the kernel has dropped %s from full queues since this machine (or container) started",
			human.Count(drops, "connection")).as(Note)
	}
}

// dropped is TcpExt's ListenOverflows.
func dropped(path string) int64 {
	text, _ := os.ReadFile(path)
	var names []string
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, "TcpExt:")
		switch {
		case !ok:
		case names == nil:
			names = strings.Fields(rest)
		default:
			values := strings.Fields(rest)
			if i := slices.Index(names, "ListenOverflows"); i >= 0 && i < len(values) {
				n, _ := strconv.ParseInt(values[i], 10, 64)
				return n
			}
		}
	}
	return 0
}
