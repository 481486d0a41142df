//go:build soak

package portal

import (
	_ "embed"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/stores"
)

//go:embed testdata/fill.sql
var fill string

// filled is a data folder with so many requests, see testdata/fill.sql. FILLED may name one, which is filled once and
// left.
func filled(t *testing.T, requests int64) string {
	t.Helper()
	data := os.Getenv("FILLED")
	if data == "" {
		data = t.TempDir()
	} else if _, err := os.Stat(filepath.Join(data, "fareway.db")); err == nil {
		return data
	}
	t.Run("fill", func(t *testing.T) { enginetest.On(t, data, nil) }) // makes the tables
	conn, err := sqlite.OpenConn(filepath.Join(data, "fareway.db"), sqlite.OpenReadWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	year := 365 * 24 * time.Hour
	start := time.Now()
	for _, pragma := range []string{`synchronous = off`, `cache_size = -400000`, `journal_mode = off`} {
		require.NoError(t, sqlitex.ExecuteTransient(conn, `PRAGMA `+pragma, nil)) // not within the script's transaction
	}
	require.NoError(t, sqlitex.ExecuteScript(conn, fmt.Sprintf(
		`CREATE TEMP TABLE fill AS SELECT %d AS requests, %d AS step, %d AS first;`, requests, int64(year)/requests,
		start.Add(-year).UnixNano())+fill, nil))
	t.Logf("%d requests written in %s", requests, time.Since(start).Round(time.Second))
	return data
}

var older = regexp.MustCompile(`href="([^"]*after=[^"]*)"`)

// TestSoakPages asks for each page that has a list or a sum, with ten million requests in the store, and says how long
// each takes: the first page of a list, and the hundredth. It needs 5 GB on the disk.
func TestSoakPages(t *testing.T) { //nolint:paralleltest // it measures
	const most = 200 * time.Millisecond
	s := newSiteOf(t, new(config.Portal), engine.Options{OpenPeople: stores.OpenPeople, DataDir: filled(t, 10_000_000)})
	at := fmt.Sprint(time.Now().UnixNano())
	big, small := fmt.Sprintf("acct_%024x", 1), fmt.Sprintf("acct_%024x", 5000)
	browsers := map[string]*browser{
		"busy account": s.member("big"+at+"@example.com", big, people.RoleOwner),
		"another":      s.member("small"+at+"@example.com", small, people.RoleOwner),
		"operator":     s.operator("op"+at+"@example.com", people.Admin),
	}
	measure := func(t *testing.T, b *browser, path string) (a answer) {
		t.Helper()
		best := time.Hour
		var first time.Duration
		for i := range 5 {
			start := time.Now()
			a = b.get(path)
			took := time.Since(start)
			require.Equal(t, http.StatusOK, a.StatusCode, a.body)
			if best = min(best, took); i == 0 {
				first = took
			}
		}
		t.Logf("%6.1f ms, at first %6.1f ms, %4d KB: %s", best.Seconds()*1e3, first.Seconds()*1e3, len(a.body)>>10, path)
		if best > most {
			t.Errorf("%s takes %s: it is to be %s at most", path, best, most)
		}
		return a
	}
	year := time.Now().AddDate(0, -6, 0).Format(time.DateOnly)
	month := time.Now().UTC().AddDate(0, 0, -time.Now().UTC().Day()).Format("2006-01") // the last one
	rare := url.QueryEscape(fmt.Sprintf("key_%024x", 1))
	pages := map[string][]string{
		"busy account": {"/portal/", "/portal/requests", "/portal/keys",
			"/portal/usage?days=365&by=day", "/portal/usage?days=365&by=key", "/portal/usage?days=365&by=route",
			"/portal/usage?days=30&by=key", "/portal/credits",
			"/portal/requests?status=failed", "/portal/requests?route=deep", "/portal/requests?route=rare",
			"/portal/requests?profile=max", "/portal/requests?key=" + rare, "/portal/requests?until=" + year,
			"/portal/requests?status=refused&until=" + year,
			"/portal/statements", "/portal/statements/" + month, "/portal/connect", "/portal/members"},
		"another": {"/portal/", "/portal/requests", "/portal/keys", "/portal/usage?days=365&by=day", "/portal/credits",
			"/portal/requests?route=rare", "/portal/requests?until=" + year, "/portal/statements/" + month},
		"operator": {"/portal/operator/accounts", "/portal/operator/accounts?q=account+5000",
			"/portal/operator/accounts/" + big, "/portal/operator/accounts/" + small, "/portal/operator/routes",
			"/portal/operator/routes?days=90", "/portal/operator/overview", "/portal/operator/simulator",
			"/portal/operator/plugins", "/portal/operator/checkpoints", "/portal/operator/configuration",
			"/portal/operator/audit", "/portal/operator/people"},
	}
	for who, paths := range pages {
		t.Run(who, func(t *testing.T) {
			for _, path := range paths {
				measure(t, browsers[who], path)
			}
		})
	}
	for path, who := range map[string]string{"/portal/requests": "busy account", "/portal/keys": "busy account",
		"/portal/operator/accounts": "operator"} {
		t.Run("the hundredth of "+path, func(t *testing.T) {
			n := 1
			for ; n < 100; n++ {
				next := older.FindStringSubmatch(browsers[who].get(path).body)
				if next == nil {
					break
				}
				path = html.UnescapeString(next[1])
			}
			t.Logf("page %d", n)
			require.Greater(t, n, 30)
			measure(t, browsers[who], path)
		})
	}
}
