package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// handedOver is what the name of a spool has behind that of the ledger's own when its process has handed the ledger
// over: its owner follows.
const handedOver = ".of-"

// HandedOverPath is where an owner that has handed the ledger over settles what it still runs, beside the ledger's own
// spool at path.
func HandedOverPath(path, owner string) string { return path + handedOver + owner }

// FindHandedOver finds the spools of those that have handed the ledger over with the spool at path, by their owners.
func FindHandedOver(path string) (paths map[string]string, err error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil, fmt.Errorf("looking for spools of processes before: %w", err)
	}
	paths = map[string]string{}
	for _, e := range entries {
		owner, ok := strings.CutPrefix(e.Name(), base+handedOver)
		if ok && !strings.Contains(owner, ".") { // else it is what a spool is made anew in
			paths[owner] = filepath.Join(dir, e.Name())
		}
	}
	return paths, nil
}

// IsHandedOver reports whether a name is that of the spool at path, as HandedOverPath makes it, for any owner.
func IsHandedOver(name, path string) bool {
	owner, ok := strings.CutPrefix(name, path+handedOver)
	return ok && owner != "" && !strings.ContainsAny(owner, "./\\")
}
