package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/modules/internal/ledger/audit"
)

// profileBatch is how many requests one transaction gives their profile in the sums: those of others wait for it, some
// milliseconds.
const profileBatch = 100

// profilesAgain is after how long it is tried again where it failed: the disk may be full, or the writer busy.
const profilesAgain = time.Minute

// addProfiles gives the requests their profile in the sums of days that were summed up before there were sums by
// profile, bit by bit, and as long as ctx lasts; a start goes on where the last process was. It rests as long as it
// works.
func (s *Store) addProfiles(ctx context.Context) error {
	for {
		begun := time.Now()
		left := false
		err := s.write(ctx, "add_profiles", func(t *tx) (err error) {
			left, err = t.addProfiles(profileBatch)
			return err
		})
		if err != nil || !left {
			return wrap(err, "adding profiles to the sums of days")
		}
		rest := time.NewTimer(time.Since(begun))
		select {
		case <-ctx.Done():
			rest.Stop()
			return ctx.Err()
		case <-rest.C:
		}
	}
}

// startProfiles has addProfiles run, until it is done or the store is closed.
func (s *Store) startProfiles() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	s.stopProfiles = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		for {
			err := s.addProfiles(ctx)
			if err == nil || ctx.Err() != nil {
				return
			}
			s.opts.Logger.Error("sums by profile are not complete; it is tried again in a minute", "error", err)
			again := time.NewTimer(profilesAgain)
			select {
			case <-ctx.Done():
				again.Stop()
				return
			case <-again.C:
			}
		}
	}()
}

// addProfiles does so for the next requests, n at most. It reports whether there are more.
func (t *tx) addProfiles(n int) (left bool, err error) {
	was, err := newCells(t.conn, math.MaxInt)
	if err != nil || was.unprofiled.After == nil {
		return false, err
	}
	is, err := newCells(t.conn, math.MaxInt)
	if err != nil {
		return false, err
	}
	is.unprofiled = audit.Unprofiled{}
	after := *was.unprofiled.After
	last, looked := after, 0
	err = t.query(`SELECT id FROM requests WHERE id > ? ORDER BY id LIMIT ?`, func(row *sqlite.Stmt) error {
		last = row.ColumnText(0)
		looked++
		return nil
	}, after, n)
	if err != nil {
		return false, err
	}
	err = eachDetail(t.conn, `WHERE r.id <= ?`+andUnprofiled, func(r *audit.Request) error {
		return errors.Join(was.count(r), is.count(r))
	}, last)
	if err != nil {
		return false, fmt.Errorf("reading requests: %w", err)
	}
	t.wrote = true // also where it fails midway: all of it is undone then
	if err := addToDays(t.conn, was, false, -1); err != nil {
		return false, err
	}
	if err := addToDays(t.conn, is, false, 1); err != nil {
		return false, err
	}
	if left = looked == n; !left {
		return false, t.exec(`UPDATE meta SET unprofiled = 0, profiled = NULL`)
	}
	return true, t.exec(`UPDATE meta SET profiled = ?`, last)
}
