package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// nameTime is how a backup in a folder is named after its time, so that names sort as times do.
const nameTime = "20060102T150405Z"

var ownName = regexp.MustCompile(`^fareway-(\d{8}T\d{6}Z)\.tar(\.age)?$`)

// Name is the name in a folder of a backup that was made at a time.
func Name(made time.Time, sealed bool) string {
	name := "fareway-" + made.UTC().Format(nameTime) + ".tar"
	if sealed {
		name += ".age"
	}
	return name
}

// Find finds the backups in a folder that have names by Name, the newest first. Other files are nobody's business, and
// so are those that a clock which was ahead has named: they would be the newest for good.
func Find(folder string, now time.Time) (paths []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("looking for backups: %w", err)
	}
	for _, e := range slices.Backward(entries) {
		if made, ok := timeOf(e.Name()); ok && e.Type().IsRegular() && !made.After(now) {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths, nil
}

func timeOf(name string) (time.Time, bool) {
	m := ownName.FindStringSubmatch(name)
	if m == nil {
		return time.Time{}, false
	}
	made, err := time.Parse(nameTime, m[1])
	return made, err == nil
}

// Kept says which backups are kept: those that one of these holds for.
type Kept struct {
	Newest int           // so many of the newest
	For    time.Duration // those that are not older
	Months int           // the newest of each of so many of the newest months
}

// Rotate removes of the backups in a folder all that are not kept. It returns what it has removed.
func Rotate(folder string, now time.Time, keep Kept) (removed []string, err error) {
	all, err := Find(folder, now)
	if err != nil {
		return nil, err
	}
	month, kept := "", 0
	for i, path := range all {
		made, _ := timeOf(filepath.Base(path))
		isNewestOfMonth := made.Format("200601") != month
		month = made.Format("200601")
		if isNewestOfMonth {
			kept++
		}
		if i < keep.Newest || now.Sub(made) <= keep.For || isNewestOfMonth && kept <= keep.Months {
			continue
		}
		if err := os.Remove(path); err != nil {
			return removed, fmt.Errorf("removing an old backup: %w", err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}
