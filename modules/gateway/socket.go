package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// maxSocketPath is what fits everywhere: systems allow 104 to 108 bytes for the name of a unix socket.
const maxSocketPath = 100

// AdminSocket is the name of the admin API's socket in the data folder.
const AdminSocket = "admin.sock"

// MakeSocketPath is the path at which the gateway on data listens on the socket name: in the data folder, or in
// a private folder of short name when the path would be too long for a socket. It makes that folder.
func MakeSocketPath(data, name string) (string, error) {
	var last error
	for _, path := range socketPaths(data, name) {
		if last = makePrivate(filepath.Dir(path), data); last == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("the data folder's path is too long for a socket, and there is no folder for it elsewhere: %w",
		last)
}

// PlanSocketPath is the path that makeSocketPath will choose on a machine where nothing is in the way of it. It makes
// nothing.
func PlanSocketPath(data, name string) string {
	paths := socketPaths(data, name)
	for _, path := range paths[:len(paths)-1] {
		if _, err := os.Stat(filepath.Dir(filepath.Dir(path))); err == nil {
			return path
		}
	}
	return paths[len(paths)-1]
}

// FindSocketPath is where a client looks for the socket: the first place where there is one, or else the first.
func FindSocketPath(data, name string) string {
	paths := socketPaths(data, name)
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return paths[0]
}

// socketPaths lists where the socket may be, best first. There are several only when the first choice, the data
// folder, is too long: a login session has /run/user/UID, a service started by the system may not.
func socketPaths(data, name string) []string {
	path := filepath.Join(data, name)
	if len(path) <= maxSocketPath {
		return []string{path}
	}
	sum := sha256.Sum256([]byte(data))
	short := hex.EncodeToString(sum[:8]) + "-" + name
	uid := strconv.Itoa(os.Getuid())
	return []string{
		filepath.Join("/run/user", uid, "fareway", short),
		filepath.Join(os.TempDir(), "fareway-"+uid, short),
	}
}

// makePrivate makes sure that dir is a folder of ours that nobody else can enter. The data folder itself is
// taken as it is.
func makePrivate(dir, data string) error {
	if dir == data {
		return nil
	}
	if err := os.Mkdir(dir, 0o700); err == nil || !os.IsExist(err) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ownedByUs(info) {
		return fmt.Errorf("%s is not a private folder of this user: remove it, or choose a data folder with a shorter path",
			dir)
	}
	return nil
}
