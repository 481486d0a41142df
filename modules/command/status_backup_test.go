package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/engine"
)

// TestStatusOfBackups: what was missed or has failed cannot be overlooked, and each has its time.
func TestStatusOfBackups(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	due := at.Add(30 * time.Hour)
	b := &admin.Backups{Missed: []chores.Chore{chores.Backup}}
	require.Contains(t, backupState(b), "NEVER MADE: `fareway gateway backup run --into FOLDER`")
	b.Backup = chores.Record{Done: &at, Due: &due, File: "/b/a.tar.age", Encrypted: true, Sent: true,
		Failed: &chores.Failure{At: due, Text: "no\nroom"}}
	require.Equal(t, "2026-11-26 03:00:00 UTC, /b/a.tar.age, encrypted, sent elsewhere, MISSED since 2026-11-27 09:00:00 "+
		"UTC; it FAILED at 2026-11-27 09:00:00 UTC: no; room", backupState(b))
	require.Equal(t, "never on this machine; one that was tried where its key is doesn't show here",
		choreState(b, chores.Trial))
	b.Problem = "reading when the last backup was: permission denied"
	require.Contains(t, backupState(b), "permission denied")
}

// TestStatusOfCertificates: one that clients refuse is said to be that.
func TestStatusOfCertificates(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	c := &engine.Certificate{Host: "a", Issuer: "R3", Expires: &at}
	require.Equal(t, `valid until 2026-11-26 03:00:00 UTC, from "R3"`, certificateState(c, at.Add(-time.Second)))
	c.Failed = &engine.CertificateFailure{At: at, Text: "no route"}
	require.Equal(t, `EXPIRED at 2026-11-26 03:00:00 UTC, so that clients refuse it, from "R3"; getting a new one has `+
		"FAILED at 2026-11-26 03:00:00 UTC, and is tried again: no route", certificateState(c, at))
	require.Equal(t, "NONE YET", certificateState(&engine.Certificate{Host: "a"}, at))
}
