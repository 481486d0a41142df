package doctor

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/plugins/host"
)

var programChecks = []Check{
	{Name: "program", About: "processes", Worst: Warning, needs: gatewayRuns | process,
		Looks: "whether the program on the disk is the one that runs, and this one",
		Why:   "a new version does nothing before it runs, and a crash starts the one on the disk",
		Next:  "fareway gateway upgrade",
		run:   checkProgram},
	{Name: "plugins", About: "processes", Worst: Error, needs: configured,
		Looks: "the files of plugin_dir: executable, for this kind of machine, as pinned, not changed since they run",
		Why:   "a provider whose program cannot start serves nothing",
		Next:  "fareway gateway plugin list",
		run:   checkPlugins},
	{Name: "providers", About: "processes", Worst: Error, needs: gatewayRuns,
		Looks: "whether each provider's process is ready, and how often it had to be started again",
		Why:   "its routes do not serve meanwhile",
		Next:  "fareway gateway plugin list",
		run:   checkProviders},
	{Name: "service-manager", About: "processes", Worst: Warning,
		Looks: "the systemd unit: restart, stop time-out against drain_timeout, KillMode, watchdog, what was not loaded",
		Why:   "it decides what becomes of running streams, and whether the gateway comes back after a crash or a reboot",
		Next:  "install the package, or copy examples/public/systemd",
		run:   checkService},
}

func checkProgram(_ context.Context, s *Subject, r *result) {
	link := s.proc("exe")
	path, err := os.Readlink(link)
	if err != nil {
		r.skip("which program runs cannot be seen: %v", err)
		return
	}
	clean, deleted := strings.CutSuffix(path, " (deleted)")
	running, err := os.Stat(link)
	if err != nil {
		r.skip("the program that runs cannot be looked at: %v", err)
		return
	}
	upgrade := s.command("upgrade")
	if isUp(s.Status.Command) {
		upgrade = fmt.Sprintf("kill %d   # and start `fareway gateway up` again", s.pid())
	}
	onDisk, err := os.Stat(clean)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.found("the program that runs (process %d) was at %s, and is not there any more", s.pid(), clean).as(Error).
			because("it cannot be started again, and no provider's process either after a crash").
			then("put the program back to %s", clean)
	case err == nil && (deleted || !os.SameFile(running, onDisk)):
		r.found("%s was replaced on %s, and process %d still runs the one before (version %s)", clean,
			human.Moment(onDisk.ModTime()), s.pid(), s.Status.Version).then("%s", upgrade)
	}
	if s.Version != "" && s.Status.Version != s.Version {
		r.found("the gateway that runs is %s, and this program %s", s.Status.Version, s.Version).as(Note).
			because("what they write and understand may differ").then("%s", upgrade)
	}
}

// isUp reports whether a process was started by `gateway up`.
func isUp(args []string) bool { return len(args) > 2 && args[1] == "gateway" && args[2] == "up" }

func checkPlugins(ctx context.Context, s *Subject, r *result) {
	dir := s.Config.Gateway.PluginDir
	if dir != "" {
		checkPluginFolder(s, r, dir)
	}
	if s.Status == nil {
		return
	}
	var plugins []admin.Plugin
	if err := s.Client.Call(ctx, "GET", "/fareway/plugins", nil, &plugins); err != nil {
		r.skip("%v", err)
		return
	}
	for _, p := range plugins {
		if p.ReplacedBy != "" {
			r.found("%s was changed (sha256 %.12s), and what runs is %.12s", p.File, p.ReplacedBy, p.SHA256).as(Warning).
				because("the next load of the configuration, or a crash, starts the new one").
				then("%s", s.command("reload"))
		}
		for _, provider := range p.Providers {
			for _, missing := range provider.Unconfined {
				r.found("provider %s runs without a part of its block confine: %s", provider.Name, missing).as(Warning).
					because("it may do more than the configuration says")
			}
			for what, n := range provider.Violations {
				r.found("provider %s has broken the plugin protocol %s (%s): %s", provider.Name, human.Count(n, "time"), what,
					provider.LastViolation).as(Warning).because("its plugin has a fault").
					then("%s", s.command("plugin info %s", p.Name))
			}
		}
	}
}

// checkPluginFolder looks at the programs that the configuration names.
func checkPluginFolder(s *Subject, r *result, dir string) {
	if d, err := s.disk(dir); err == nil && d.noExec {
		r.found("%s is on a file system that is mounted noexec", dir).because("no program in it can be started").
			then("findmnt -T %s", dir)
	}
	for _, p := range s.Config.Providers {
		path := filepath.Join(dir, "fareway-provider-"+p.Plugin)
		info, err := os.Stat(path)
		if err != nil {
			continue // it is built in, or the configuration's check says that there is none
		}
		if info.Mode().Perm()&0o111 == 0 {
			r.found("%s, of provider %s, is not executable (mode %04o)", path, p.Name, info.Mode().Perm()).
				then("chmod 755 %s", path)
		}
		if machine, err := machineOf(path); err == nil && machine != elfMachines[runtime.GOARCH] {
			r.found("%s, of provider %s, is for %s, and this machine is %s", path, p.Name, machine, runtime.GOARCH).
				then("build it with GOARCH=%s", runtime.GOARCH)
		}
		if p.SHA256 == "" {
			continue
		}
		if digest, err := host.Digest(path); err == nil && digest != p.SHA256 {
			r.found("%s, of provider %s, has sha256 %s, and the configuration pins %s", path, p.Name, digest, p.SHA256).
				because("it is not started: it was changed since somebody looked at it").
				then("sha256 = \"%s\"   # in the provider block, if the change is yours", digest)
		}
	}
}

// elfMachines are what programs say that they are for, by GOARCH.
var elfMachines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "386": elf.EM_386,
	"arm": elf.EM_ARM, "riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390,
	"loong64": elf.EM_LOONGARCH}

// machineOf says what an ELF program is for. Scripts, and other systems' programs, are none.
func machineOf(path string) (elf.Machine, error) {
	f, err := elf.Open(path)
	if err != nil {
		return 0, err
	}
	return f.Machine, f.Close()
}

func checkProviders(_ context.Context, s *Subject, r *result) {
	for _, p := range s.Status.Providers {
		switch {
		case !p.Ready:
			r.found("provider %s (%s) is %s: %s", p.Name, p.Plugin, p.State, orNothing(p.Problem))
		case p.Restarts >= 3:
			seen := fmt.Sprintf("provider %s (%s) was started again %s", p.Name, p.Plugin,
				human.Count(p.Restarts, "time"))
			if p.LastCrash != nil {
				seen += fmt.Sprintf(", last at %s (%s): %s", human.Moment(p.LastCrash.At), p.LastCrash.Cause, p.LastCrash.Why)
			}
			r.found("%s", seen).as(Warning)
		}
	}
}

func orNothing(text string) string {
	if text == "" {
		return "it says nothing"
	}
	return text
}

// unit is what systemd says of a unit.
type unit map[string]string

// showUnit asks systemd.
func (s *Subject) showUnit(ctx context.Context, name string) (unit, error) {
	cmd := exec.CommandContext(ctx, s.Systemctl, "show", name, "--no-pager", "--property="+
		"LoadState,ActiveState,UnitFileState,Restart,TimeoutStopUSec,KillMode,WatchdogUSec,LimitNOFILE,"+
		"NeedDaemonReload,NRestarts,EnvironmentFiles,Environment,User,Result,DropInPaths,FragmentPath")
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("asking systemd for %s: %w: %s", name, err, clean(string(failed.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("asking systemd for %s: %w", name, err)
	}
	u := make(unit)
	for line := range strings.Lines(string(out)) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "="); ok {
			u[key] = strings.TrimSpace(u[key] + " " + value) // one key may come in several lines
		}
	}
	return u, nil
}

// unitName is the systemd unit that the gateway's process is of, or the package's.
func (s *Subject) unitName() string {
	text, _ := os.ReadFile(s.proc("cgroup"))
	for line := range strings.Lines(string(text)) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if strings.HasSuffix(part, ".service") && !strings.HasPrefix(part, "user@") {
				return part
			}
		}
	}
	if s.Status != nil {
		return ""
	}
	return "fareway.service"
}

// duration is a time of `systemctl show`: "7min 3s", "infinity", or microseconds.
func unitSpan(text string) (time.Duration, bool) {
	if text == "infinity" || text == "" {
		return 0, false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(n) * time.Microsecond, true
	}
	var sum time.Duration
	for part := range strings.FieldsSeq(text) {
		part = strings.NewReplacer("min", "m", "us", "µs", "w", "*168h", "d", "*24h").Replace(part)
		if count, days, ok := strings.Cut(part, "*"); ok {
			n, _ := strconv.Atoi(count)
			d, _ := time.ParseDuration(days)
			sum += time.Duration(n) * d
			continue
		}
		d, err := time.ParseDuration(part)
		if err != nil {
			return 0, false
		}
		sum += d
	}
	return sum, true
}

func checkService(ctx context.Context, s *Subject, r *result) {
	name := s.unitName()
	if _, err := exec.LookPath(s.Systemctl); err != nil {
		if inContainer() || !s.isPublic() {
			return
		}
		r.skip("there is no systemctl here: whatever starts the gateway cannot be asked")
		return
	}
	if name == "" {
		if s.isPublic() && !inContainer() {
			r.found("no systemd unit has started process %d (%s)", s.pid(), strings.Join(s.Status.Command, " ")).
				because("after a crash or a reboot nobody starts it again")
		}
		return
	}
	u, err := s.showUnit(ctx, name)
	if err != nil {
		r.skip("%v", err)
		return
	}
	if u["LoadState"] != "loaded" {
		return // there is none, and none runs
	}
	edit := "sudo systemctl edit " + name + "   # [Service] "
	if u["NeedDaemonReload"] == "yes" {
		r.found("%s was changed (%s), and systemd has not read it", name, u["FragmentPath"]).
			because("the unit as it was before is what holds").then("sudo systemctl daemon-reload")
	}
	if u["ActiveState"] == "failed" {
		r.found("%s has failed: %s", name, u["Result"]).as(Error).because("no gateway runs").
			then("journalctl -u %s -n 50 --no-pager", name)
	}
	if state := u["UnitFileState"]; state == "disabled" || state == "masked" {
		r.found("%s is %s", name, state).because("after a reboot no gateway runs").then("sudo systemctl enable %s", name)
	}
	if mode := u["Restart"]; mode == "no" || mode == "on-success" {
		r.found("%s has Restart=%s", name, mode).because("after a crash nobody starts it again").then("%sRestart=on-failure",
			edit)
	}
	if mode := u["KillMode"]; mode == "control-group" || mode == "process" || mode == "none" {
		why := "SIGTERM goes to the providers as well, and running streams end in the middle"
		if mode != "control-group" {
			why = "what the gateway leaves behind goes on running beside the next one"
		}
		r.found("%s has KillMode=%s", name, mode).because("%s", why).then("%sKillMode=mixed", edit)
	}
	if n, _ := strconv.Atoi(u["NRestarts"]); n >= 3 {
		r.found("systemd has started %s again %s by itself", name, human.Count(n, "time")).
			because("it crashes, or the watchdog ends it").then("journalctl -u %s -p err --no-pager | tail -50", name)
	}
	if watchdog, ok := unitSpan(u["WatchdogUSec"]); (!ok || watchdog == 0) && u["WatchdogUSec"] != "" {
		r.found("%s has no watchdog", name).as(Note).because("a gateway that hangs stays so").then("%sWatchdogSec=60", edit)
	}
	checkStopTime(s, r, name, edit, u)
	if paths := environmentPaths(u); len(paths) > 0 {
		for _, p := range paths {
			if _, err := os.Stat(p.path); errors.Is(err, fs.ErrNotExist) && !p.optional {
				r.found("%s reads its environment from %s, which is not there", name, p.path).as(Error).
					because("the unit does not start")
			}
		}
	}
}

// checkStopTime compares how long the service may take to stop with how long running requests have to end.
func checkStopTime(s *Subject, r *result, name, edit string, u unit) {
	stop, bounded := unitSpan(u["TimeoutStopUSec"])
	if !bounded || s.Config == nil {
		return
	}
	if drain := s.Config.Gateway.DrainTimeout; stop < drain {
		r.found("%s has TimeoutStopSec=%s, and drain_timeout is %s", name, span(stop), span(drain)).
			because("systemd kills the gateway while streams still run").
			then("%sTimeoutStopSec=%ds", edit, int((drain + 2*time.Minute).Seconds()))
	}
}

// environmentPath is a file with variables of a unit.
type environmentPath struct {
	path     string
	optional bool
}

// environmentPaths reads what `systemctl show` says: "/etc/fareway/environment (ignore_errors=yes)".
func environmentPaths(u unit) (list []environmentPath) {
	fields := strings.Fields(u["EnvironmentFiles"])
	for i, f := range fields {
		if strings.HasPrefix(f, "/") {
			list = append(list, environmentPath{f, i+1 < len(fields) && fields[i+1] == "(ignore_errors=yes)"})
		}
	}
	return list
}

// environmentFiles are those of the gateway's unit.
func (s *Subject) environmentFiles() []string {
	_, paths := s.environmentOfUnit()
	return paths
}

// environmentOfUnit is the gateway's unit, with its environment files.
func (s *Subject) environmentOfUnit() (u unit, paths []string) {
	name := s.unitName()
	if name == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	u, err := s.showUnit(ctx, name)
	if err != nil || u["LoadState"] != "loaded" {
		return nil, nil
	}
	for _, p := range environmentPaths(u) {
		paths = append(paths, p.path)
	}
	return u, paths
}

// splitWords takes apart what `systemctl show` says of Environment: `A=b "C=d e"`.
func splitWords(text string) (words []string) {
	var word strings.Builder
	quoted, escaped, begun := false, false, false
	for _, c := range text {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

// TakeEnvironment finds the variables that the gateway has: those of its process or, where none runs, of its unit.
func (s *Subject) TakeEnvironment() {
	if s.NoProcess {
		s.EnvHidden = "the variables of the gateway cannot be seen from here: it may be in a container"
	}
	if s.pid() != 0 {
		text, err := os.ReadFile(s.proc("environ"))
		if err == nil {
			s.useEnvironment(fmt.Sprintf("process %d", s.pid()), strings.Split(string(text), "\x00"))
			return
		}
		s.EnvHidden = fmt.Sprintf("the variables of the gateway cannot be seen: %v; as root, or its user, they can", err)
	}
	u, files := s.environmentOfUnit()
	lines := splitWords(u["Environment"])
	of := files
	if len(lines) > 0 {
		of = append([]string{s.unitName()}, files...)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				s.EnvHidden = fmt.Sprintf("the variables of the gateway cannot be seen: %v; as root they can", err)
			}
			continue
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != ';' {
				name, value, _ := strings.Cut(line, "=")
				lines = append(lines, name+"="+unquote(value))
			}
		}
	}
	if len(lines) > 0 {
		s.useEnvironment(strings.Join(of, " and "), append(slices.Clone(os.Environ()), lines...))
	}
}

// unquote takes off the quotes that systemd takes off.
func unquote(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

func (s *Subject) useEnvironment(of string, list []string) {
	values := make(map[string]string)
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok {
			values[name] = value
		}
	}
	s.EnvOf = of
	s.Env = func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}
