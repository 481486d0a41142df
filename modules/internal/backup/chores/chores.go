// Package chores keeps what came of the chores of backups that timers do, beside the ledger: when the last one was
// made, and when one was last tried. Commands write it, and a gateway reads it, so that a backup that did not happen is
// missed.
package chores

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// Chore is one of those that are done again and again.
type Chore string

// The chores: a backup is made, and a backup is restored elsewhere and verified.
const (
	Backup Chore = "backup"
	Trial  Chore = "trial"
)

// All are the chores in the order of their listing.
var All = []Chore{Backup, Trial}

// firstTrial is when a backup has to have been tried for the first time, after the first was made.
const firstTrial = 35 * 24 * time.Hour

// Record is what came of a chore.
type Record struct {
	// Since is when it was done for the first time.
	Since *time.Time `json:"since,omitempty"`
	// Done is when it was done last; nil: never, or nothing but failures.
	Done *time.Time `json:"done,omitempty"`
	// Due is by when it has to be done again; nil: nobody has said how often it is.
	Due  *time.Time `json:"due,omitempty"`
	File string     `json:"file,omitempty"` // of the backup
	Made time.Time  `json:"made,omitzero"`  // as of when the backup is
	ledger.Extent
	Encrypted bool `json:"encrypted,omitempty"`
	Sent      bool `json:"sent,omitempty"` // elsewhere, by the operator's program
	// Failed is the last failure, nil where the chore has been done since.
	Failed *Failure `json:"failed,omitempty"`
}

// Failure is when a chore has failed, and why.
type Failure struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// Path is the file with a chore's record, of the ledger in a database.
func Path(database string, chore Chore) string { return database + "." + string(chore) }

// Read reads a chore's record; one that was never done has an empty one.
func Read(database string, chore Chore) (r Record, err error) {
	content, err := os.ReadFile(Path(database, chore))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil {
		return r, fmt.Errorf("reading when the last %s was: %w", chore, err)
	}
	return r, nil
}

// KeepDone notes that a chore is done, and by when it is to be done again: within how often it is done, and a quarter
// more. every 0: nobody has said.
func KeepDone(database string, chore Chore, done Record, now time.Time, every time.Duration) error {
	now = now.UTC().Truncate(time.Second)
	last, err := Read(database, chore)
	if err != nil {
		last = Record{} // a damaged one is written anew
	}
	done.Done, done.Since, done.Due, done.Failed = &now, last.Since, nil, nil
	if done.Since == nil {
		done.Since = &now
	}
	if every > 0 {
		due := now.Add(every + every/4)
		done.Due = &due
	}
	return write(database, chore, done)
}

// KeepFailed notes that a chore has failed. What is known of the last one that was done stays.
func KeepFailed(database string, chore Chore, now time.Time, reason error) error {
	last, err := Read(database, chore)
	if err != nil {
		last = Record{}
	}
	last.Failed = &Failure{At: now.UTC().Truncate(time.Second), Text: reason.Error()}
	return write(database, chore, last)
}

func write(database string, chore Chore, r Record) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = files.ReplaceFile(Path(database, chore), append(content, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keeping when the last %s was: %w", chore, err)
	}
	return nil
}

// Standing is how a ledger's chores stand.
type Standing struct {
	Backup Record `json:"backup"`
	Trial  Record `json:"trial"`
}

// ReadStanding reads the records of all chores.
func ReadStanding(database string) (s Standing, err error) {
	s.Backup, err = Read(database, Backup)
	var trial error
	s.Trial, trial = Read(database, Trial)
	return s, errors.Join(err, trial)
}

// Of is the record of a chore.
func (s Standing) Of(chore Chore) Record {
	if chore == Trial {
		return s.Trial
	}
	return s.Backup
}

// IsMissed reports whether a chore should have been done by now and was not. A backup that was never made is missed at
// once, and one that was never tried when the first is as old as firstTrial; not where it is encrypted and nothing was
// ever kept of a trial, for then it is tried where its key is, and nobody here hears of that.
func (s Standing) IsMissed(chore Chore, now time.Time) bool {
	r := s.Of(chore)
	switch {
	case r.Done != nil:
		return r.Due != nil && now.After(*r.Due)
	case chore == Backup:
		return true
	}
	elsewhere := s.Backup.Encrypted && r.Failed == nil
	return !elsewhere && s.Backup.Since != nil && now.After(s.Backup.Since.Add(firstTrial))
}
