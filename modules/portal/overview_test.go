package portal

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/backup/chores"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/texts"
)

// TestOverview: it is what operators see first, with what needs them and the money of today.
func TestOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	ann.Settle(t, s.engine, requestOfAnn, enginetest.OK(), enginetest.Proven())
	b := s.operator("read@example.com", people.ReadOnly)
	first := b.get("/portal/")
	require.Equal(t, "/portal/operator/overview", first.Request.URL.Path)
	requireSafe(t, first)
	for _, want := range []string{"Route deep: Its provider does not run.", `href="/portal/operator/routes/deep"`,
		"1.335000 credits", "0.890000 credits", "0 of 2"} {
		require.Contains(t, first.body, want)
	}
}

// TestOperatorAttention: whatever is wrong is said, and nothing where nothing is.
func TestOperatorAttention(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	soon, late := now.Add(time.Hour), now.Add(-time.Hour)
	v := &visit{language: texts.English}
	require.Empty(t, v.operatorAttention(&admin.Status{Ready: true, Routes: []admin.Route{{State: "serves"}},
		Providers: []admin.Provider{{Ready: true}}, Spool: admin.Spool{Waiting: 3, Since: &now}}, now))
	for says, s := range map[string]admin.Status{
		"takes no requests: why":            {Reason: "why"},
		"lacks something":                   {Ready: true, Loss: new(ledger.Loss)},
		"2 settlements could not be booked": {Ready: true, Spool: admin.Spool{Undecided: 2}},
		"One settlement waits":              {Ready: true, Spool: admin.Spool{Waiting: 1, Since: &late}},
		"was not taken":                     {Ready: true, FailedLoad: new(admin.FailedLoad)},
		"Route deep: It failed too often":   {Ready: true, Routes: []admin.Route{{Name: "deep", State: "open"}}},
		"The provider up is not ready. why": {Ready: true, Providers: []admin.Provider{{Name: "up", Problem: "why"}}},
		"The limiter's server is away":      {Ready: true, Limiter: new(admin.LimiterServer)},
		"is away (cache): why":              {Ready: true, Servers: map[string]admin.Server{"cache": {Reason: "why"}}},
		"No backup was made in time":        {Ready: true, Backups: &admin.Backups{Missed: []chores.Chore{chores.Backup}}},
		"No backup was tried in time":       {Ready: true, Backups: &admin.Backups{Missed: []chores.Chore{chores.Trial}}},
		"The certificate for a.example ends soon": {Ready: true,
			Certificates: []engine.Certificate{{Host: "a.example", Expires: &soon}}},
		"No certificate could be had for a.example: why": {Ready: true, Certificates: []engine.Certificate{{
			Host: "a.example", Failed: &engine.CertificateFailure{Text: "why"}}}},
		"Upstreams do not offer": {Ready: true, Upstreams: new(admin.Upstreams)},
		"The disk is full. Make room.": {Ready: true, Alerts: &admin.AlertsSummary{Raised: []alerts.Alert{{
			Event: "disk", Text: "The disk is full.", Next: "Make room."}}}},
		"2 accounts: balance_low":   {Ready: true, Alerts: &admin.AlertsSummary{Accounts: map[string]int{"balance_low": 2}}},
		"Messages to x do not":      {Ready: true, Alerts: &admin.AlertsSummary{Failing: []alerts.Destination{{Key: "x"}}}},
		"may reach nobody: because": {Ready: true, Alerts: &admin.AlertsSummary{Idle: "because"}},
	} {
		list := v.operatorAttention(&s, now)
		require.Len(t, list, 1, says)
		require.Contains(t, list[0].Text, says)
	}
}

// TestRate: requests a second are of the last minute, also where the list of them is shorter than that.
func TestRate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	ended := func(ago time.Duration, status int) admin.EndedRequest {
		return admin.EndedRequest{Time: now.Add(-ago), Status: status}
	}
	list := []admin.EndedRequest{ended(time.Second, 200), ended(2*time.Second, 502), ended(time.Hour, 500)}
	rate, failed := rateOf(&admin.Recent{Since: now.Add(-time.Hour), Requests: list}, now)
	require.InDelta(t, 2.0/60, rate, 1e-9)
	require.Equal(t, 1, failed)
	rate, _ = rateOf(&admin.Recent{Since: now.Add(-10 * time.Second), Requests: list[:2]}, now)
	require.InDelta(t, 0.2, rate, 1e-9, "since it runs")
	rate, _ = rateOf(&admin.Recent{Since: now.Add(-time.Hour), Missed: 9, Requests: list[:2]}, now)
	require.InDelta(t, 1, rate, 1e-9, "as far as it remembers")
}

// TestCheckpointsPage: they are listed, downloaded, and compared with the ledger.
func TestCheckpointsPage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	enginetest.NewCustomer(t, s.engine, "ann")
	b := s.operator("support@example.com", people.Support)
	const at = "/portal/operator/checkpoints"
	require.Contains(t, b.get(at).body, "There is none yet.")
	require.Contains(t, b.post(at, "act", "make").body, "It is made.")
	page := b.get(at)
	requireSafe(t, page)
	require.Contains(t, page.body, `href="/portal/operator/checkpoints/1"`)
	kept := b.get(at + "/1")
	require.Equal(t, `attachment; filename="checkpoint-1.json"`, kept.Header.Get("Content-Disposition"))
	var line admin.KeptCheckpoint
	require.NoError(t, json.Unmarshal([]byte(kept.body), &line))
	require.EqualValues(t, 1, line.Checkpoint.N)
	for _, none := range []string{"/2", "/0", "/x", "/-1"} {
		require.Equal(t, http.StatusNotFound, b.get(at+none).StatusCode, none)
	}
	compare := func(text string, more ...string) answer {
		a := b.post(at, append([]string{"act", "verify", "kept", text}, more...)...)
		requireSafe(t, a)
		return a
	}
	require.Contains(t, compare(kept.body).body, "It holds")
	require.Contains(t, compare(kept.body, "only", "yes").body, "What came after the checkpoint")
	line.Checkpoint.Hash[0] ^= 1
	changed, err := json.Marshal(line)
	require.NoError(t, err)
	require.Contains(t, compare(string(changed)).body, "It does not hold")
	for _, bad := range []string{"", "x", "{}", `{"checkpoint":null}`, `{"checkpoint":{"n":-1}}`, "<script>"} {
		require.Equal(t, http.StatusBadRequest, compare(bad).StatusCode, bad)
	}
	reader := s.operator("read@example.com", people.ReadOnly)
	require.Equal(t, http.StatusOK, reader.get(at).StatusCode)
	require.Equal(t, http.StatusForbidden, reader.post(at, "act", "make").StatusCode)
	require.NotContains(t, strings.ToLower(reader.get(at).body), "recompute")

	for i := range shownCheckpoints + 2 {
		_, err := s.engine.Store().CreateAccount(t.Context(), "more-"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "")
		require.NoError(t, err)
		_, err = s.engine.Store().MakeCheckpoint(t.Context())
		require.NoError(t, err)
	}
	first := b.get(at)
	require.NotContains(t, first.body, `checkpoints/1"`)
	require.Contains(t, first.body, `href="?before=4"`)
	require.Contains(t, b.get(at+"?before=4").body, `checkpoints/1"`)
}
