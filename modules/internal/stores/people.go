package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/people"
)

// OpenPeople prepares the store of people beside the ledger of a store block. Neither has to be there yet.
func OpenPeople(at config.Store, data string, o people.Options) *people.Service {
	switch at.Kind {
	case config.Postgres:
		o.DSN = at.DSN
	default:
		o.Path = File(at.File(data)).People()
	}
	return people.New(o)
}

// People is the file with the people beside it, which need not be there.
func (f File) People() string { return people.FileBeside(string(f)) }

// CopyPeople copies the people beside it, as they are at one moment, into a new file. has is false where there are
// none.
func (f File) CopyPeople(ctx context.Context, to string) (has bool, err error) {
	if _, err := os.Stat(f.People()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, people.Copy(ctx, f.People(), to)
}

// CheckPeople says what is wrong with a file that CopyPeople made, or that was one.
func CheckPeople(ctx context.Context, path string) error { return people.Check(ctx, path) }

// MovePeople takes the people beside it to a server on which no gateway runs, in the place of those there. has is
// false where there are none.
func (f File) MovePeople(ctx context.Context, to Server) (n int, has bool, err error) {
	if _, err := os.Stat(f.People()); errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	log := slog.New(slog.DiscardHandler)
	source := people.New(people.Options{Path: f.People(), Log: log})
	target := people.New(people.Options{DSN: string(to), Log: log})
	defer func() { err = errors.Join(err, source.Close(), target.Close()) }()
	n, err = people.Move(ctx, source, target)
	if err != nil {
		err = fmt.Errorf("moving who may sign in to the portal: %w", err)
	}
	return n, true, err
}
