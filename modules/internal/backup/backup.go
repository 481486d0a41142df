// Package backup copies a ledger whole, beside a gateway that runs or without one, and puts such a copy back. It is
// for commands.
package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/modules/internal/stores"
)

// A backup is a tar archive: a manifest, and then the files of the ledger under these names, whatever theirs are.
const (
	manifestName = "manifest.json"
	backedUp     = "fareway.db"
	peopleName   = "portal.db" // who may sign in to the portal; earlier fareways had none
	format       = 1
	maxManifest  = 1 << 20
)

// BackupWork and RestoreWork begin the names of the folders in which backups are made and read (files.WorkFolder).
const BackupWork, RestoreWork = ".fareway-backup-", ".fareway-restore-"

// backedFiles are what a backup may have beside the database, by what stands behind its name.
var backedFiles = []string{"", ".witness", ".spool", ".spool.aside"}

// suffixesOf are those of backedFiles, and of the spools of processes that have handed the ledger over.
func suffixesOf(database string) ([]string, error) {
	all := slices.Clone(backedFiles)
	left, err := spool.FindHandedOver(spool.Path(database))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	for _, path := range left {
		all = append(all, strings.TrimPrefix(path, database))
	}
	slices.Sort(all[len(backedFiles):])
	return all, err
}

// Manifest says what a backup has.
type Manifest struct {
	Format  int       `json:"format"`
	Made    time.Time `json:"made"`
	Version string    `json:"version"` // of the fareway that made it
	ledger.Extent
	Accounts int64  `json:"accounts"`
	Requests int64  `json:"requests"`
	Waiting  int64  `json:"waiting"` // settlements in the spool
	Files    []File `json:"files"`
	// Loss is what was missing of the ledger when it was copied, and nobody had decided about; nil: nothing was known
	// to be.
	Loss *ledger.Loss `json:"loss,omitempty"`
}

// File is a file of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Options say how a backup is made.
type Options struct {
	Temp    string // a folder with room for the copy
	Version string // of this fareway
	// Incomplete: a ledger of which a part is missing is copied, too. Its copy has a witness of its own and no damaged
	// log: only the manifest says what is missing.
	Incomplete bool
}

// CheckRoom says what is missing where a folder's disk has no room for a backup of a ledger: its copy, and the archive
// of that.
func CheckRoom(database, folder string) error {
	suffixes, err := suffixesOf(database)
	if err != nil {
		return fmt.Errorf("looking what the ledger takes: %w", err)
	}
	needed := uint64(1 << 20) // what is around it
	for _, suffix := range append(suffixes, "-wal") {
		if info, err := os.Stat(database + suffix); err == nil {
			needed += 2 * uint64(info.Size())
		}
	}
	disk, known := files.ReadDisk(folder)
	if !known || disk.Free >= needed {
		return nil
	}
	return fmt.Errorf("%w: %s has %d MiB free, and a backup takes up to %d MiB while it is made (twice the ledger): make "+
		"room there, or name a folder on another disk", ErrNoRoom, folder, disk.Free>>20, needed>>20)
}

// ErrNoRoom is why a backup is not begun.
var ErrNoRoom = errors.New("there is no room for the backup")

// Write writes a backup of the ledger at a path, beside a gateway that runs or without one: the database as it is at
// one moment, the spool, what was kept aside of it, and a witness. The copy is verified before any of it is written.
// ledger.ErrLost: a part of the ledger is missing, and nobody has decided about that.
func Write(ctx context.Context, database string, o Options, w io.Writer) (m Manifest, err error) {
	loss, err := stores.File(database).FindLoss(ctx)
	if err != nil {
		return m, err
	}
	if loss != nil && !o.Incomplete {
		return m, fmt.Errorf("copying the ledger: %w: %s; %s", ledger.ErrLost, loss, ledger.LossAdvice)
	}
	work, err := files.MakeWorkFolder(o.Temp, BackupWork)
	if err != nil {
		return m, fmt.Errorf("making room for the copy: %w", err)
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	dir := work.Path
	copied := filepath.Join(dir, backedUp)
	// The spool before the database: a settlement that goes from one into the other meanwhile is in both.
	if err := copySpool(database, copied); err != nil {
		return m, fmt.Errorf("copying the spool: %w", err)
	}
	if err := stores.File(database).Copy(ctx, copied); err != nil {
		return m, err
	}
	if err := dropEmptySpool(ctx, copied); err != nil {
		return m, err
	}
	if _, err := stores.File(database).CopyPeople(ctx, filepath.Join(dir, peopleName)); err != nil {
		return m, err
	}
	if m, err = describe(ctx, copied); err != nil {
		return m, fmt.Errorf("verifying the copy: %w", err)
	}
	m.Made, m.Version, m.Loss = time.Now().UTC().Truncate(time.Second), o.Version, loss
	return m, writeArchive(w, m, dir)
}

// copySpool copies a ledger's spool, and what was kept aside of it. A gateway may be writing it meanwhile: what looks
// damaged then is whole in another copy.
func copySpool(database, to string) error {
	for range 10 {
		suffixes, err := suffixesOf(database)
		if err != nil {
			return err
		}
		for _, beside := range suffixes {
			if !strings.HasPrefix(beside, ".spool") {
				continue
			}
			if err := copyFile(database+beside, to+beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		after, err := suffixesOf(database)
		if err != nil {
			return err
		}
		_, damaged, err := spool.Inspect(to + ".spool")
		if err == nil && len(damaged) == 0 && slices.Equal(after, suffixes) { // none was handed over meanwhile
			return nil
		}
	}
	return nil // it is damaged, and copied as it is
}

// dropEmptySpool removes the copy of a spool in which nothing waits and nothing is damaged: 16 MiB of nothing, which a
// gateway makes anew.
func dropEmptySpool(ctx context.Context, database string) error {
	books, err := stores.File(database).OpenBooks(ctx)
	if err != nil {
		return err
	}
	waiting, damaged, err := findWaiting(ctx, database, books)
	if err := errors.Join(err, books.Close()); err != nil || waiting > 0 || damaged > 0 {
		return err
	}
	left, err := spool.FindHandedOver(spool.Path(database))
	if err != nil {
		return err
	}
	for _, path := range append(slices.Collect(maps.Values(left)), spool.Path(database)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("copying the spool: %w", err)
		}
	}
	return nil
}

// findWaiting finds how many settlements of a ledger's spool the ledger does not have, and how much is damaged in it.
func findWaiting(ctx context.Context, database string, books ledger.Books) (waiting int64, damaged int, err error) {
	records, items, err := spool.Inspect(database + ".spool")
	if err != nil {
		return 0, 0, err
	}
	left, err := spool.FindHandedOver(spool.Path(database))
	if err != nil {
		return 0, 0, err
	}
	for _, path := range left {
		more, damaged, err := spool.Inspect(path)
		if err != nil {
			return 0, 0, err
		}
		records, items = append(records, more...), append(items, damaged...)
	}
	w, err := live.MeasureBacklog(ctx, books, records)
	return w.Settlements, len(items), err
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// describe verifies the files of a backup in a folder, and says what they have.
func describe(ctx context.Context, database string) (Manifest, error) {
	m := Manifest{Format: format}
	books, err := stores.File(database).OpenBooks(ctx)
	if err != nil {
		return m, err
	}
	report, err := books.Verify(ctx)
	if err == nil {
		m.Waiting, _, err = findWaiting(ctx, database, books)
	}
	if err := errors.Join(err, books.Close()); err != nil {
		return m, err
	}
	if !report.OK {
		return m, fmt.Errorf("it does not agree at %s: %s", report.Entry, report.Problem)
	}
	m.Accounts, m.Requests = report.Accounts, report.Requests
	if m.Extent, err = stores.File(database).ReadExtent(ctx); err != nil {
		return m, err
	}
	suffixes, err := suffixesOf(database)
	if err != nil {
		return m, err
	}
	for _, suffix := range suffixes {
		file, err := sum(database + suffix)
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			continue
		}
		if err != nil {
			return m, err
		}
		file.Name = backedUp + suffix
		m.Files = append(m.Files, file)
	}
	people := filepath.Join(filepath.Dir(database), peopleName)
	file, err := sum(people)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, nil
	case err != nil:
		return m, err
	}
	if err := stores.CheckPeople(ctx, people); err != nil {
		return m, err
	}
	file.Name = peopleName
	m.Files = append(m.Files, file)
	return m, nil
}

// placeOf is where a file of a backup belongs beside a ledger.
func placeOf(database string, file File) string {
	if file.Name == peopleName {
		return stores.File(database).People()
	}
	return database + file.Name[len(backedUp):]
}

func sum(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	return File{Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, errors.Join(err, f.Close())
}

func writeArchive(w io.Writer, m Manifest, dir string) error {
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	err = addFile(archive, File{Name: manifestName, Size: int64(len(manifest))}, m.Made, bytes.NewReader(manifest))
	for _, file := range m.Files {
		if err != nil {
			break
		}
		var f *os.File
		if f, err = os.Open(filepath.Join(dir, file.Name)); err == nil {
			err = errors.Join(addFile(archive, file, m.Made, f), f.Close())
		}
	}
	if err := errors.Join(err, archive.Close()); err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

func addFile(archive *tar.Writer, file File, made time.Time, content io.Reader) error {
	head := &tar.Header{Name: file.Name, Size: file.Size, Mode: 0o600, ModTime: made, Format: tar.FormatPAX}
	err := archive.WriteHeader(head)
	if err == nil {
		_, err = io.Copy(archive, content)
	}
	return err
}

// ErrLedgerThere: there is a ledger where a backup is to be restored.
var ErrLedgerThere = errors.New("there is a ledger already")

// Restored is what came of restoring a backup.
type Restored struct {
	Manifest
	// Aside is the folder with the files that were there before, "" for none; Was is how much was in their ledger.
	Aside string         `json:"aside,omitempty"`
	Was   *ledger.Extent `json:"was,omitempty"`
}

// Missing is what a backup does not have of what was known elsewhere.
func (m Manifest) Missing(known ledger.Extent) ledger.Extent {
	return ledger.Extent{Entries: max(known.Entries-m.Entries, 0), Acts: max(known.Acts-m.Acts, 0)}
}

// Restore puts a backup in the place of a ledger that no gateway has open, in a folder that it makes. It is verified
// before anything is changed, and against checkpoints that were kept elsewhere as far as they are no newer. With
// replace, files that are there are moved into a folder beside it, and never removed; without, they are
// ErrLedgerThere. The restoring is on the audit trail, with its reason. Where it fails, all is as it was.
func Restore(ctx context.Context, r io.Reader, database, reason string, replace bool,
	kept []ledger.Checkpoint) (done Restored, err error) {
	if err := refuseThere(ctx, database, replace); err != nil {
		return done, err
	}
	work, err := files.MakeWorkFolder(files.ExistingFolder(filepath.Dir(database)), RestoreWork)
	if err != nil {
		return done, fmt.Errorf("making room for the backup: %w", err)
	}
	defer func() { err = errors.Join(err, work.Remove()) }() // after what came of it was taken back into it
	dir := work.Path
	var changes files.Changes
	defer func() {
		if err != nil {
			err = errors.Join(err, changes.TakeBack())
		}
	}()
	if done.Manifest, err = readArchive(ctx, r, dir, kept); err != nil {
		return done, err
	}
	if err := changes.MakeFolder(filepath.Dir(database), 0o700); err != nil {
		return done, fmt.Errorf("making the ledger's folder: %w", err)
	}
	release, err := stores.File(database).Lock()
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, release()) }()
	was, there, err := extentOf(ctx, database)
	if err == nil && there && !replace {
		err = refuseThere(ctx, database, replace) // it came meanwhile
	}
	if err != nil {
		return done, err
	}
	if there {
		done.Was = &was
	}
	if there || isAnyThere(peopleReplaced(database, &done.Manifest)) {
		if done.Aside, err = moveAside(database, &done.Manifest, &changes); err != nil {
			return done, err
		}
	}
	for _, file := range slices.Backward(done.Files) { // the database last: without it nothing starts on the rest
		if err := changes.Rename(filepath.Join(dir, file.Name), placeOf(database, file)); err != nil {
			return done, fmt.Errorf("putting the backup in place: %w", err)
		}
	}
	for _, suffix := range append(slices.Clone(backedFiles), "-wal", "-shm") {
		if _, err := os.Lstat(database + suffix); errors.Is(err, fs.ErrNotExist) {
			changes.Appears(database + suffix) // when the ledger is opened
		}
	}
	if err := files.SyncFolder(filepath.Dir(database)); err != nil {
		return done, err
	}
	return done, recordRestore(ctx, release, database, done, reason)
}

// refuseThere refuses to replace a ledger that is in use, or that nobody said is to be replaced.
func refuseThere(ctx context.Context, database string, replace bool) error {
	if _, err := os.Stat(filepath.Dir(database)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := stores.File(database).CheckUnlocked(); err != nil {
		return err
	}
	was, there, _ := extentOf(ctx, database)
	// One whose mark cannot be read may be damaged, which is why it is replaced.
	if mark, err := stores.File(database).ReadMove(); err == nil && mark.Refuse() != nil {
		return fmt.Errorf("replacing %s, which would be served once more: %w", database, mark.Refuse())
	}
	if there && !replace {
		return fmt.Errorf("%w: %s, with %d movements of money and %d acts of operators", ErrLedgerThere, database,
			was.Entries, was.Acts)
	}
	return nil
}

// extentOf is how much is in a ledger that is there; none of one that cannot be read, which may be why it is replaced.
func extentOf(ctx context.Context, database string) (was ledger.Extent, there bool, err error) {
	suffixes, err := suffixesOf(database)
	if err != nil {
		return was, false, err
	}
	var paths []string
	for _, suffix := range append(suffixes, "-wal") {
		paths = append(paths, database+suffix)
	}
	there = isAnyThere(paths)
	if was, err = stores.File(database).ReadExtent(ctx); err != nil {
		was = ledger.Extent{}
	}
	return was, there, ctx.Err()
}

// recordRestore puts the restoring on the audit trail.
func recordRestore(ctx context.Context, release func() error, database string, done Restored, reason string) error {
	if err := release(); err != nil {
		return err
	}
	store, err := stores.File(database).Open(ledger.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	after := map[string]any{"reason": reason, "made": done.Made, "entries": done.Entries, "acts": done.Acts}
	if done.Was != nil {
		missing := done.Missing(*done.Was)
		after["missing_entries"], after["missing_acts"] = missing.Entries, missing.Acts
	}
	if done.Loss != nil {
		after["loss"] = done.Loss.String()
	}
	return errors.Join(store.RecordAct(ctx, "ledger.restore", "", "ledger", after), store.Close())
}

// moveAside moves the files of a ledger into a new folder beside it. Who may sign in to the portal goes only where the
// backup says who may: one that an earlier fareway made does not.
func moveAside(database string, m *Manifest, moved *files.Changes) (string, error) {
	dir, err := os.MkdirTemp(filepath.Dir(database), "ledger-before-restore-"+m.Made.Format("20060102-150405")+"-*")
	if err != nil {
		return "", fmt.Errorf("making a folder for the ledger that is there: %w", err)
	}
	moved.Made(dir)
	damaged, err := stores.File(database).DamagedLogs()
	if err != nil {
		return dir, err
	}
	for _, log := range damaged {
		if err := moved.Rename(log, filepath.Join(dir, filepath.Base(log))); err != nil {
			return dir, fmt.Errorf("moving the ledger that is there into %s: %w", dir, err)
		}
	}
	suffixes, err := suffixesOf(database)
	if err != nil {
		return dir, err
	}
	var paths []string
	for _, suffix := range append(suffixes, "-wal", "-shm") {
		paths = append(paths, database+suffix)
	}
	for _, path := range append(paths, peopleReplaced(database, m)...) {
		err := moved.Rename(path, filepath.Join(dir, filepath.Base(path)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return dir, fmt.Errorf("moving the ledger that is there into %s: %w", dir, err)
		}
	}
	return dir, nil
}

// peopleReplaced are the files of who may sign in to the portal that a backup replaces: all, for the log of one file
// would be read as that of another.
func peopleReplaced(database string, m *Manifest) []string {
	if !slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == peopleName }) {
		return nil
	}
	people := stores.File(database).People()
	return []string{people, people + "-wal", people + "-shm"}
}

func isAnyThere(paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	})
}

// readArchive reads and verifies a backup.
func readArchive(ctx context.Context, r io.Reader, dir string, kept []ledger.Checkpoint) (m Manifest, err error) {
	archive := tar.NewReader(r)
	head, err := archive.Next()
	if err != nil || head.Name != manifestName || head.Size > maxManifest {
		return m, errors.New("reading the backup: this is none: it begins with no manifest")
	}
	if err := json.NewDecoder(archive).Decode(&m); err != nil {
		return m, fmt.Errorf("reading the backup: its manifest: %w", err)
	}
	if m.Format != format {
		return m, fmt.Errorf("reading the backup: it has format %d, and this fareway knows %d: a newer one made it", m.Format,
			format)
	}
	for _, file := range m.Files {
		isBacked := slices.ContainsFunc(backedFiles, func(suffix string) bool { return file.Name == backedUp+suffix })
		if !isBacked && file.Name != peopleName && !spool.IsHandedOver(file.Name, spool.Path(backedUp)) {
			return m, fmt.Errorf("reading the backup: %q is no file of a ledger", file.Name)
		}
		if head, err = archive.Next(); err != nil || head.Name != file.Name {
			return m, fmt.Errorf("reading the backup: it ends before %s: it is cut off", file.Name)
		}
		if err := extract(archive, filepath.Join(dir, file.Name), file); err != nil {
			return m, err
		}
	}
	again, err := describe(ctx, filepath.Join(dir, backedUp))
	if err != nil {
		return m, fmt.Errorf("verifying the backup: %w", err)
	}
	m.Extent, m.Accounts, m.Requests, m.Waiting = again.Extent, again.Accounts, again.Requests, again.Waiting
	return m, compareKept(ctx, filepath.Join(dir, backedUp), m, kept)
}

// compareKept compares a ledger with the checkpoints that were kept elsewhere and are no newer.
func compareKept(ctx context.Context, database string, m Manifest, kept []ledger.Checkpoint) error {
	kept = slices.DeleteFunc(slices.Clone(kept), func(c ledger.Checkpoint) bool {
		return c.Entries > m.Entries || c.Acts > m.Acts
	})
	if len(kept) == 0 {
		return nil
	}
	books, err := stores.File(database).OpenBooks(ctx)
	if err != nil {
		return err
	}
	report, err := books.Verify(ctx, kept...)
	if err := errors.Join(err, books.Close()); err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("verifying the backup: it does not agree at %s: %s", report.Entry, report.Problem)
	}
	return nil
}

func extract(r io.Reader, path string, file File) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), r)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("reading the backup: %s: %w", file.Name, err)
	}
	if n != file.Size || hex.EncodeToString(h.Sum(nil)) != file.SHA256 {
		return fmt.Errorf("reading the backup: %s is damaged: it is not what was backed up", file.Name)
	}
	return nil
}
