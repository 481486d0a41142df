package stores

import (
	"context"
	"errors"
	"io/fs"
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

// CopyPeople copies the people beside it, as they are at one moment, into a new file. has is false where there are none.
func (f File) CopyPeople(ctx context.Context, to string) (has bool, err error) {
	if _, err := os.Stat(f.People()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, people.Copy(ctx, f.People(), to)
}
