package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	// offered is the word of a lease whose owner would hand it over.
	offered = "offered"
	// A lease that is offered is waited for so long, longer than a list that is being read may take, and tried so often.
	// Whoever finds another one waiting gives up after awaitTurn: for a moment it may be the owner who looks.
	awaitTimeout = 90 * time.Second
	awaitTurn    = time.Second
	awaitEvery   = 5 * time.Millisecond
)

// fileLease is the lease of a ledger in a file: PATH.lock, for as long as this process lives, for the system drops it
// with the process, however that ends. So it never expires, and whoever has it knows that every earlier owner is gone.
// The file says who has it, for people, and its generation; it is never removed, for a lock on a removed file locks
// nothing. Should somebody remove it, or cut it, the ledger itself knows its owners: see raise.
//
// Its owner may offer it while he drains (Offer): whoever comes then waits with the lock of PATH.lock.next, by which
// the owner sees that somebody does (IsAwaited).
type fileLease struct {
	path       string
	lock, next *flock.Flock

	mu   sync.Mutex
	held ledger.Grant // the zero Grant: none is
}

// newFileLease is the lease of the ledger at a path, as one of its gateways takes it.
func newFileLease(path string) *fileLease {
	path += ".lock"
	return &fileLease{path: path, lock: flock.New(path), next: flock.New(path + ".next")}
}

// Acquire implements ledger.Lease. The generation is the next one by the file alone; who opens the ledger raises it.
func (l *fileLease) Acquire(owner string) (ledger.Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	got, err := false, error(nil)
	if l.held == (ledger.Grant{}) {
		if got, err = l.lock.TryLock(); err == nil && !got && isOffered(l.path) {
			got, err = l.await()
		}
	}
	switch {
	case err != nil:
		return ledger.Grant{}, fmt.Errorf("locking %s: %w; the ledger's folder has to be writable", l.path, err)
	case !got:
		return ledger.Grant{}, locked(l.path)
	}
	g := ledger.Grant{Owner: owner, Generation: generationOf(l.path) + 1}
	if err := l.record(g, ""); err != nil {
		return ledger.Grant{}, errors.Join(err, l.lock.Unlock())
	}
	l.held = g
	return g, nil
}

// raise is the grant with a generation that is no lower than the number of owners that the ledger itself knows: the
// file knows of fewer where it is new, or damaged, or an older fareway's. Grants under which nobody opened the ledger,
// as that of a restore, are counted in the file alone.
func (l *fileLease) raise(g ledger.Grant, owners int64) (ledger.Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(g); err != nil || owners <= g.Generation {
		return g, err
	}
	g.Generation = owners
	if err := l.record(g, ""); err != nil {
		return ledger.Grant{}, err
	}
	l.held = g
	return g, nil
}

// await waits for a lease that is offered, as the only one who does.
func (l *fileLease) await() (got bool, err error) {
	try := func(lock *flock.Flock, d time.Duration) (got bool, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		if got, err = lock.TryLockContext(ctx, awaitEvery); errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		return got, err
	}
	if got, err = try(l.next, awaitTurn); err != nil || !got {
		return false, err
	}
	got, err = try(l.lock, awaitTimeout)
	return got, errors.Join(err, l.next.Unlock())
}

// Offer says in the file that the lease may be waited for: its owner admits nothing more.
func (l *fileLease) Offer(g ledger.Grant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g != l.held || g == (ledger.Grant{}) {
		return ledger.ErrLapsed
	}
	return l.record(g, offered)
}

// IsAwaited reports whether somebody waits for a lease that was offered.
func (l *fileLease) IsAwaited() bool {
	got, err := l.next.TryLock()
	if got {
		err = l.next.Unlock()
	}
	return err == nil && !got
}

// record says in the file that is locked who has the lease, and a word about it. The end of this process leaves the
// whole line, or the one before; a loss of power may leave neither, which raise makes up for.
func (l *fileLease) record(g ledger.Grant, word string) error {
	f, err := os.OpenFile(l.path, os.O_RDWR, 0) // it is there since it was locked
	if err != nil {
		return fmt.Errorf("writing %s: %w", l.path, err)
	}
	text := strings.TrimSpace(fmt.Sprintf("%d %s %d %s", os.Getpid(), g.Owner, g.Generation, word)) + "\n"
	err = l.current()
	if err == nil {
		_, err = f.WriteAt([]byte(text), 0)
	}
	if err == nil {
		err = f.Truncate(int64(len(text)))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", l.path, err)
	}
	return nil
}

// current is ErrLapsed where the file at the path is not the one that is locked: another process may lock that.
func (l *fileLease) current() error {
	is, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: somebody removed %s", ledger.ErrLapsed, l.path)
	}
	if err != nil {
		return err
	}
	ours, err := l.lock.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(is, ours) {
		return fmt.Errorf("%w: somebody put another file at %s", ledger.ErrLapsed, l.path)
	}
	return nil
}

// check is ErrLapsed where a grant is not the one that is held, or its lock keeps nobody out any more.
func (l *fileLease) check(g ledger.Grant) error {
	if g != l.held || g == (ledger.Grant{}) {
		return ledger.ErrLapsed
	}
	return l.current()
}

// Renew implements ledger.Lease. There is no end to put off; it says whether the lock is still the ledger's.
func (l *fileLease) Renew(g ledger.Grant) (ledger.Grant, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(g); err != nil {
		return ledger.Grant{}, err
	}
	return g, nil
}

// Release implements ledger.Lease. One that fails can be tried again.
func (l *fileLease) Release(g ledger.Grant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g != l.held || g == (ledger.Grant{}) {
		return nil
	}
	if err := l.lock.Unlock(); err != nil {
		return fmt.Errorf("unlocking %s: %w", l.path, err)
	}
	l.held = ledger.Grant{}
	return nil
}

// locked says who has the lock of a ledger.
func locked(name string) error {
	return fmt.Errorf("%w: process %s has %s; stop it first, or give this gateway a data folder of its own",
		ledger.ErrLocked, holder(name), name)
}

// generationOf is the generation of the last lease by a lock file. It is 0 where the file says none that can be one:
// there was no file, or an older fareway's, or it is damaged. Then the ledger has to know: see raise.
func generationOf(name string) int64 {
	words := readLease(name)
	if len(words) != 3 && !isOffered(name) {
		return 0
	}
	n, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || n < 0 || n == math.MaxInt64 {
		return 0
	}
	return n
}

// isOffered reports whether the owner of a lock file offers it.
func isOffered(name string) bool {
	words := readLease(name)
	return len(words) == 4 && words[3] == offered
}

// readLease is the words of a lock file's line, none where it cannot be read.
func readLease(name string) []string {
	text, _ := os.ReadFile(name)
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.Fields(line)
}

// holder is the process id in a lock file, or a word in its place.
func holder(name string) string {
	text, err := os.ReadFile(name)
	if pid, _, ok := strings.Cut(string(text), " "); err == nil && ok {
		return pid
	}
	return "(unknown)"
}

// resolve follows symbolic links, so that two names of one database share one lock.
func resolve(path string) (string, error) {
	if path == "" {
		return "", errors.New("opening the ledger: its path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("opening the ledger: %w", err)
	}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", fmt.Errorf("opening the ledger: %w; make its folder first", err)
		}
		return filepath.Join(dir, filepath.Base(path)), nil
	}
	if err != nil {
		return "", fmt.Errorf("opening the ledger: %w", err)
	}
	return target, nil
}

// IsOffered reports whether the process that admitted requests on the ledger at path drains, and hands it over to the
// next one that opens it.
func IsOffered(path string) bool {
	path, err := resolve(path)
	return err == nil && isOffered(path+".lock")
}

// CheckUnlocked is ledger.ErrLocked where another process admits requests on the ledger at path. It changes nothing.
func CheckUnlocked(path string) error {
	path, err := resolve(path)
	if err != nil {
		return err
	}
	name := path + ".lock"
	if _, err := os.Stat(name); err != nil {
		return nil // nobody ever has
	}
	l := flock.New(name, flock.SetFlag(os.O_RDONLY))
	got, err := l.TryLock()
	if err != nil {
		return fmt.Errorf("looking at %s: %w", name, err)
	}
	if !got {
		return locked(name)
	}
	return l.Unlock()
}
