package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/stores"
	"github.com/fareway/fareway/plugins/host/trust"
)

var fileChecks = []Check{
	{Name: "data-folder", About: "files", Worst: Error,
		Looks: "whether the data folder is there, is the gateway's user's, can be written, and is closed to others",
		Why:   "the admin token, keys of certificates and the ledger lie in it",
		Next:  "chmod 700 the data folder, and give it to the gateway's user",
		run:   checkDataFolder},
	{Name: "secrets", About: "files", Worst: Error,
		Looks: "whether files with secrets can be read, and those of the configuration written, by others",
		Why:   "who reads them can spend with your keys; who writes them decides what the gateway does",
		Next:  "chmod 600 the file, and give it to the gateway's user",
		run:   checkSecrets},
	{Name: "admin-socket", About: "files", Worst: Error,
		Looks: "whether the admin socket is the gateway's user's alone, and answers",
		Why:   "who reaches it can make keys and read everything",
		Next:  "chmod 600 the socket; the gateway makes it so at its next start",
		run:   checkAdminSocket},
	{Name: "leftovers", About: "files", Worst: Warning,
		Looks: "what was set aside or left behind: damaged logs, refused configurations, a key of a trial in public",
		Why:   "nobody has decided about it",
		Next:  "look at it, and move it away",
		run:   checkLeftovers},
}

// owner is the gateway's user: that of its process, or of the data folder.
func (s *Subject) owner() int {
	if s.pid() != 0 {
		if uid, ok := numbers(s.proc("status"))["Uid"]; ok {
			return int(uid)
		}
	}
	if info, err := os.Stat(s.Data); err == nil {
		if uid, _, ok := ownerOf(info); ok {
			return uid
		}
	}
	return s.User
}

func (s *Subject) userName() string { return userName(s.owner()) }

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// mayWrite reports whether the gateway's user may write what info is about.
func (s *Subject) mayWrite(info fs.FileInfo) bool {
	us := s.owner()
	uid, gid, ok := ownerOf(info)
	mode := info.Mode().Perm()
	switch {
	case !ok || us == 0:
		return true
	case uid == us:
		return mode&0o200 != 0
	case slices.Contains(groupsOf(us), gid):
		return mode&0o020 != 0
	}
	return mode&0o002 != 0
}

func groupsOf(uid int) (groups []int) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return nil
	}
	ids, _ := u.GroupIds()
	for _, id := range append(ids, u.Gid) {
		if n, err := strconv.Atoi(id); err == nil {
			groups = append(groups, n)
		}
	}
	return groups
}

func checkDataFolder(_ context.Context, s *Subject, r *result) {
	info, err := os.Stat(s.Data)
	if err != nil {
		r.found("%v", err).because("there is no gateway without its data folder").
			then("fareway gateway up --data %s   # makes one; or name the right folder with --data or --config", s.Data)
		return
	}
	if !info.IsDir() {
		r.found("%s is no folder", s.Data).then("name the data folder with --data")
		return
	}
	if _, err := os.ReadDir(s.Data); errors.Is(err, fs.ErrPermission) {
		r.found("this user (%s) may not look into %s", userName(s.User), s.Data).
			because("most of what could be wrong cannot be seen").
			then("sudo %s", s.command("doctor"))
		return
	}
	uid, _, _ := ownerOf(info)
	us := s.owner()
	mode := info.Mode().Perm()
	switch {
	case mode&0o007 != 0:
		r.found("%s is open to every user of this machine (mode %04o)", s.Data, mode).then("chmod 700 %s", s.Data)
	case mode&0o070 != 0:
		r.found("%s is open to its group (mode %04o)", s.Data, mode).as(Warning).then("chmod 700 %s", s.Data)
	}
	if !s.mayWrite(info) {
		r.found("the gateway's user (%s) may not write into %s, which is %s's (mode %04o)", s.userName(), s.Data,
			userName(uid), mode).because("nothing can be kept, and no request is charged").
			then("sudo chown -R %s %s && sudo chmod 700 %s", s.userName(), s.Data, s.Data)
	} else if uid != us && uid != 0 {
		r.found("%s belongs to %s, and the gateway runs as %s", s.Data, userName(uid), s.userName()).
			then("sudo chown -R %s %s", s.userName(), s.Data)
	}
	checkOwners(s, r, us)
}

// checkOwners looks for files of the data folder that the gateway's user cannot write: a command that root has given
// leaves such.
func checkOwners(s *Subject, r *result, us int) {
	var strange []string
	entries, err := os.ReadDir(s.Data)
	if err != nil {
		r.skip("%v", err)
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			continue
		}
		if uid, _, ok := ownerOf(info); ok && uid != us && us != 0 {
			strange = append(strange, e.Name())
		}
	}
	if len(strange) > 0 {
		r.found("%d of the files in %s are not the gateway's user's (%s): %s", len(strange), s.Data, s.userName(),
			some(strange)).because("a command that was given as another user, root perhaps, has made them, and the "+
			"gateway may not be able to write them").then("sudo chown -R %s %s", s.userName(), s.Data)
	}
}

// some names a few of many.
func some(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// isSecret reports whether a file of the data folder is for the gateway's user alone.
func isSecret(name string) bool {
	return strings.HasSuffix(name, ".key") || strings.HasSuffix(name, ".token") || strings.HasSuffix(name, ".hcl") ||
		strings.HasSuffix(name, ".env") || strings.Contains(name, ".db") || strings.Contains(name, "spool") ||
		name == "environment" || name == ".env"
}

const mostFiles = 20_000

func checkSecrets(_ context.Context, s *Subject, r *result) {
	var open []string
	seen := 0
	err := filepath.WalkDir(s.Data, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > mostFiles {
			return fs.SkipAll
		}
		info, err := e.Info()
		if err != nil || path == s.Data {
			return nil //nolint:nilerr // it went away meanwhile
		}
		if e.IsDir() {
			if info.Mode().Perm()&0o001 == 0 {
				return fs.SkipDir // nobody gets at what is in it
			}
			return nil
		}
		if info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 && isSecret(e.Name()) {
			open = append(open, path)
		}
		return nil
	})
	if err != nil {
		r.skip("%v", err)
	} else if seen > mostFiles {
		r.skip("there are more than %s files in %s, and the first of them were looked at", human.Thousands(mostFiles), s.Data)
	}
	if len(open) > 0 && isReachable(s.Data) {
		r.found("every user of this machine can read %s", some(open)).then("chmod 600 %s", strings.Join(open, " "))
	}
	checkNamedFiles(s, r)
}

// isReachable reports whether others get as far as into a folder.
func isReachable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// checkNamedFiles looks at what the configuration is made of, wherever it lies.
func checkNamedFiles(s *Subject, r *result) {
	paths := []string{s.HCL}
	if s.Caddyfile != "" {
		paths = append(paths, s.Caddyfile)
	}
	secret := make(map[string]bool)
	if s.Config != nil {
		outside := s.Config.OutsideValues()
		for _, f := range s.Config.Files {
			paths = append(paths, f.Path)
			// What file("...") brought is a value of the configuration.
			content, err := os.ReadFile(f.Path)
			secret[f.Path] = err == nil && slices.Contains(outside, strings.TrimSpace(string(content)))
		}
	}
	for _, file := range s.environmentFiles() {
		paths, secret[file] = append(paths, file), true
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		info, err := os.Stat(path)
		if err != nil {
			continue // whoever reads it says so
		}
		if secret[path] && info.Mode().Perm()&0o004 != 0 && isReachable(filepath.Dir(path)) {
			r.found("%s has a secret, and every user of this machine can read it (mode %04o)", path, info.Mode().Perm()).
				then("chmod 600 %s", path)
		}
		found, _ := trust.OnTheWay(path, s.owner())
		for _, f := range found {
			if f.OwnGroup || s.User != s.owner() && f.Owner == s.User {
				continue
			}
			r.found("%s, on the way to %s", f, path).as(s.unlessPublic(Warning)).
				because("who can change it decides where prompts and keys go").
				then("sudo chown root %s && sudo chmod go-w %s", f.Path, f.Path)
			break
		}
	}
}

func checkAdminSocket(_ context.Context, s *Subject, r *result) {
	path := gateway.FindSocketPath(s.Data, gateway.AdminSocket)
	info, err := os.Lstat(path)
	if err != nil {
		if s.Status == nil {
			r.skip("there is no socket at %s: no gateway runs, or it has another admin address", path)
		}
		return
	}
	if info.Mode()&fs.ModeSocket == 0 {
		r.found("%s is no socket", path).because("the gateway cannot listen there").then("mv %s %s.aside", path, path)
		return
	}
	if info.Mode().Perm()&0o002 != 0 && isReachable(filepath.Dir(path)) {
		r.found("every user of this machine can use the admin socket %s (mode %04o)", path, info.Mode().Perm()).
			then("chmod 600 %s", path)
	}
	if s.Status == nil && s.Running != nil {
		r.found("the admin socket %s is there, and the gateway does not answer: %v", path, s.Running).
			because("it has ended without removing it, or this user may not use it").
			then("sudo -u %s %s", userName(ownerID(info, s.User)), s.command("doctor"))
	}
}

func ownerID(info fs.FileInfo, or int) int {
	if uid, _, ok := ownerOf(info); ok {
		return uid
	}
	return or
}

func checkLeftovers(_ context.Context, s *Subject, r *result) {
	aside, _ := filepath.Glob(s.HCL + ".aside-*") // its pattern is good
	for _, path := range aside {
		r.found("%s was set aside", path).as(Note).
			because("a configuration that did not serve was kept; what is good in it is not in force").then("less %s", path)
	}
	if s.Offline.Ledger != "" {
		damaged, err := stores.File(s.Offline.Ledger).DamagedLogs()
		if err != nil {
			r.skip("%v", err)
		}
		for _, path := range damaged {
			r.found("%s was set aside", path).
				because("a part of the ledger's log was damaged, and nobody has decided about it").
				then("%s", s.command("ledger spool list"))
		}
	}
	if key := filepath.Join(s.Data, "trial.key"); s.isPublic() {
		if _, err := os.Stat(key); err == nil {
			r.found("the trial's key is in %s, and the gateway is public", key).
				because("who has the file spends the trial's credits").
				then("%s && rm %s", s.command("account suspend trial"), key)
		}
	}
}
