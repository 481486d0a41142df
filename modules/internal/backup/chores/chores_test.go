package chores_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// TestMissed: a chore is missed when it is a quarter late, whatever failed meanwhile, and by the clock alone.
func TestMissed(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	database := filepath.Join(t.TempDir(), "fareway.db")
	now := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	standing := func() chores.Standing {
		s, err := chores.ReadStanding(database)
		require.NoError(t, err)
		return s
	}
	require.True(t, standing().IsMissed(chores.Backup, now), "none was ever made")
	require.False(t, standing().IsMissed(chores.Trial, now), "there is none to try")

	require.NoError(t, chores.KeepFailed(database, chores.Backup, now, errors.New("no room")))
	require.True(t, standing().IsMissed(chores.Backup, now))
	require.Equal(t, "no room", standing().Backup.Failed.Text)

	done := chores.Record{File: "a.tar", Extent: ledger.Extent{Entries: 3}}
	require.NoError(t, chores.KeepDone(database, chores.Backup, done, now, day))
	require.Nil(t, standing().Backup.Failed)
	require.False(t, standing().IsMissed(chores.Backup, now.Add(30*time.Hour)))
	require.NoError(t, chores.KeepFailed(database, chores.Backup, now.Add(day), errors.New("no room")))
	require.True(t, standing().IsMissed(chores.Backup, now.Add(30*time.Hour+time.Second)), "a failure makes nothing later")
	require.EqualValues(t, 3, standing().Backup.Entries, "what is known of the last one stays")

	require.False(t, standing().IsMissed(chores.Trial, now.Add(35*day)))
	require.True(t, standing().IsMissed(chores.Trial, now.Add(35*day+time.Second)), "none was ever tried")
	require.NoError(t, chores.KeepDone(database, chores.Trial, done, now.Add(36*day), 0))
	require.False(t, standing().IsMissed(chores.Trial, now.Add(500*day)), "nobody has said how often")

	require.NoError(t, chores.KeepDone(database, chores.Backup, done, now.Add(day), day))
	require.Equal(t, now, *standing().Backup.Since, "the first time stays")

	require.NoError(t, os.WriteFile(chores.Path(database, chores.Backup), []byte("{"), 0o600))
	_, err := chores.ReadStanding(database)
	require.ErrorContains(t, err, "reading when the last backup was")
	require.NoError(t, chores.KeepDone(database, chores.Backup, done, now, day), "a damaged one is written anew")
	require.False(t, standing().IsMissed(chores.Backup, now))
}

// TestEncryptedBackupsAreTriedElsewhere: where the last backup is encrypted and none was ever tried here, no trial is
// missed; one is after the first that failed, or was done, and where backups are encrypted no longer.
func TestEncryptedBackupsAreTriedElsewhere(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	late := now.Add(36 * day)
	database := filepath.Join(t.TempDir(), "fareway.db")
	isMissed := func() bool {
		s, err := chores.ReadStanding(database)
		require.NoError(t, err)
		return s.IsMissed(chores.Trial, late)
	}
	require.NoError(t, chores.KeepDone(database, chores.Backup, chores.Record{Encrypted: true}, now, day))
	require.False(t, isMissed())
	require.NoError(t, chores.KeepDone(database, chores.Backup, chores.Record{}, now.Add(day), day))
	require.True(t, isMissed(), "the last one could be tried here")
	require.NoError(t, chores.KeepDone(database, chores.Backup, chores.Record{Encrypted: true}, now.Add(2*day), day))
	require.False(t, isMissed())

	require.NoError(t, chores.KeepFailed(database, chores.Trial, now, errors.New("a wrong key")))
	require.True(t, isMissed(), "it is tried here")
	require.NoError(t, chores.KeepDone(database, chores.Trial, chores.Record{}, now, 7*day))
	require.True(t, isMissed(), "it was tried here, and has not been since")
}
