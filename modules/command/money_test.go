package command

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// books is a data folder with a running gateway and two charged requests of ann.
func books(t *testing.T) (data string, e *engine.Engine, ann enginetest.Customer) {
	t.Helper()
	_, e = running(t)
	ann = enginetest.NewCustomer(t, e, "ann")
	ann.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	ann.Settle(t, e, "req_2", enginetest.OK(), enginetest.Proven())
	return e.DataDir(), e, ann
}

func TestCommandKeys(t *testing.T) {
	t.Parallel()
	data, _, ann := books(t)
	out, err := run(t, "key", "set", ann.Key.ID, "--expires", "90d", "--spend-cap", "500", "--data", data)
	require.NoError(t, err)
	require.Regexp(t,
		`^Key first \(key_[0-9a-f]+\) of account ann is active: expires 20.* UTC, spend cap 500.000000 credits, spent `+
			`2.670000 credits.\n$`, out)
	out, err = run(t, "key", "list", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `first +\.\.\..... +active, expires in 89 days .* 2\.670000 +500\.000000\n`, out)

	rotated := runJSON[map[string]any](t, "key", "rotate", ann.Key.ID, "--overlap", "1d", "--data", data)
	require.Regexp(t, "^"+strings.Trim(ledger.KeyPattern, `\b`)+"$", rotated["key"])
	out, err = run(t, "key", "rotate", rotated["id"].(string), "--overlap", "0s", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "The old key is now first~2")
	require.Contains(t, out, "and has ended.")
	out, err = run(t, "key", "rename", ann.Key.ID, "old", "--data", data)
	require.NoError(t, err)
	require.Equal(t, "Key "+ann.Key.ID+" of account ann is now old.\n", out)
	out, err = run(t, "key", "set", ann.Key.ID, "--expires", "never", "--spend-cap", "none", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "expires never, spend cap none")
	_, err = run(t, "key", "revoke", ann.Key.ID, "--data", data)
	require.NoError(t, err)
	out, err = run(t, "key", "set", ann.Key.ID, "--expires", "1d", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "is revoked: expires 20", "a time does not bring it back")
}

func TestCommandAccountShowsItsLimits(t *testing.T) {
	t.Parallel()
	data, _, _ := books(t)
	out, err := run(t, "account", "show", "ann", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `requests a minute, key +600 \(default, on no plan\)\n`, out)
	require.Regexp(t, `requests a minute, account +2,400 \(default, on no plan\)\n`, out)
	require.Regexp(t, `requests a minute, address +6,000 \(default, on no plan\)\n`, out)
	require.Regexp(t, `requests at a time +64 \(default, on no plan\)\n`, out)
	require.Regexp(t, `profile +balanced \(the gateway's default_profile\)\n`, out)
	limits := runJSON[admin.Account](t, "account", "show", "ann", "--data", data).Limits
	require.Equal(t, config.RequestsPerMinute{Key: 600, Account: 2400, Address: 6000}, limits.RequestsPerMinute)
}

func TestCommandUsage(t *testing.T) {
	t.Parallel()
	data, _, ann := books(t)
	out, err := run(t, "usage", "--by", "key,route", "--data", data)
	require.NoError(t, err)
	require.Equal(t, `ACCOUNT  KEY    ROUTE  REQUESTS  PROMPT  OUTPUT   CHARGED    WAIVED      OVER  REFUNDED      COST `+
		`   MARGIN  PENDING
ann      first  deep          2   1,900   1,400  2.670000  0.000000  0.000000  0.000000  0.890000  1.780000        0
`, out)
	out, err = run(t, "usage", "--by", "account", "--csv", "--data", data)
	require.NoError(t, err)
	require.Equal(t, `account,account_id,requests,attempts,input,cache_read,cache_write,output,reasoning,microcents,`+
		`waived_microcents,over_microcents,refunded_microcents,cost_microcents,margin_microcents,pending,pruned
ann,`+ann.Account.ID+`,2,2,1900,,,1400,128,2670000,0,0,0,890000,1780000,0,0
`, out)
	row := runJSON[admin.Usage](t, "usage", "--key", ann.Key.ID, "--key", ann.Key.ID, "--data", data)
	require.EqualValues(t, 2670000, row.Microcents, "of either key")
	_, err = run(t, "usage", "--key", ann.Key.ID, "--key", "key_none", "--data", data)
	require.ErrorContains(t, err, "key_none")
	row = runJSON[admin.Usage](t, "usage", "--by", "account", "--data", data)
	require.EqualValues(t, 2670000, row.Microcents, "one row is one line")
	_, err = run(t, "usage", "--profile", "maximum", "--data", data)
	require.ErrorContains(t, err, `profile "maximum": a profile is one of budget, balanced, max`)
	out, err = run(t, "usage", "--since", "2020-01-01", "--until", "2020-02-01", "--data", data)
	require.NoError(t, err)
	require.Equal(t, "Nothing was used.\n", out)

	out, err = run(t, "usage", "req_1", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `charged +1,335,000 +1\.335000\n`, out)
	require.EqualValues(t, 1335000, runJSON[admin.Request](t, "usage", "req_1", "--data", data).Microcents)
}

func TestCommandUsageByProfile(t *testing.T) {
	t.Parallel()
	data, _, _ := books(t)
	out, err := run(t, "usage", "--by", "profile", "--csv", "--data", data)
	require.NoError(t, err)
	require.Equal(t, `profile,requests,attempts,input,cache_read,cache_write,output,reasoning,microcents,`+
		`waived_microcents,over_microcents,refunded_microcents,cost_microcents,margin_microcents,pending,pruned
max,2,2,1900,,,1400,128,2670000,0,0,0,890000,1780000,0,0
`, out)
	out, err = run(t, "usage", "--by", "day,profile", "--profile", "max", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^DAY +PROFILE +REQUESTS .*\n20\S+ +max +2 `, out)
	out, err = run(t, "usage", "--by", "account", "--profile", "budget", "--data", data)
	require.NoError(t, err)
	require.Equal(t, "Nothing was used.\n", out)
}

// TestCommandUsageAsFocus: the rows come to what the sums say, and a month is all of it.
func TestCommandUsageAsFocus(t *testing.T) {
	t.Parallel()
	data, e, ann := books(t)
	month := e.Now().UTC().Format("2006-01")
	out, err := run(t, "usage", "--focus", "--month", month, "--account", "ann", "--issuer", "=Acme", "--data", data)
	require.NoError(t, err)
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	row := map[string]string{}
	for i, name := range rows[0] {
		row[name] = rows[1][i]
	}
	require.Equal(t, "0.0267", row["BilledCost"], "2.67 credits")
	require.Equal(t, "3300", row["ConsumedQuantity"])
	require.Equal(t, []string{ann.Account.ID, "ann", ann.Key.ID, "first"}, []string{row["BillingAccountId"],
		row["BillingAccountName"], row["SubAccountId"], row["SubAccountName"]})
	require.Equal(t, "'=Acme", row["ProviderName"], "no cell is a formula")
	sums := runJSON[admin.Usage](t, "usage", "--month", month, "--data", data)
	require.EqualValues(t, 2_670_000, sums.Microcents)
	out, err = run(t, "usage", "--focus", "--month", "2020-01", "--data", data)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(out, "\n"), "columns, and no row")
}

func TestCommandStatement(t *testing.T) {
	t.Parallel()
	data, e, ann := books(t)
	month := e.Now().UTC().Format("2006-01")
	_, err := run(t, "credit", "add", "--account", "ann", "5", "--reference", "invoice-17", "--data", data)
	require.NoError(t, err)
	out, err := run(t, "statement", "ann", month, "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "Account ann ("+ann.Account.ID+"), "+month+"-01 to ")
	require.Regexp(t, `The month still runs: this is how it is now.

opening balance +0.000000
top-up +1,005.000000
charges +-2.670000
closing balance +1,002.330000

TIME +WHAT +CREDITS +REFERENCE +REASON
`, out)
	require.Regexp(t, ` top-up +5.000000 +invoice-17 +-\n`, out)
	require.Regexp(t, `KEY +REQUESTS +CHARGED\nfirst +2 +2.670000\n`, out)
	require.Contains(t, out, "Entries 1 to 4 of the account; no checkpoint covers them all yet.\n")
	_, err = e.Store().MakeCheckpoint(t.Context())
	require.NoError(t, err)
	out, err = run(t, "statement", "ann", month, "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `the last with the hash [0-9a-f]{64}, which\ncheckpoint 1 of .* covers \([0-9a-f]{64}\).\n$`, out)
	out, err = run(t, "statement", "ann", month, "--csv", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, ",top_up,invoice-17,,0,5000000,")
	require.EqualValues(t, 1_002_330_000, runJSON[admin.Statement](t, "statement", "ann", month, "--data", data).Closing)
	for _, wrong := range [][]string{{"ann", "2026-13"}, {"ann", "2001-01"}, {"nobody", month}, {"ann"},
		{"ann", month, "--csv", "--json"}} {
		_, err := run(t, append(append([]string{"statement"}, wrong...), "--data", data)...)
		require.Error(t, err, wrong)
	}
}

func TestCommandUsageTogether(t *testing.T) {
	t.Parallel()
	data, e, _ := books(t)
	enginetest.NewCustomer(t, e, "bob").Settle(t, e, "req_3", enginetest.OK(), enginetest.Proven())
	out, err := run(t, "usage", "--data", data)
	require.NoError(t, err)
	require.Equal(t, `ACCOUNT   REQUESTS  PROMPT  OUTPUT   CHARGED    WAIVED      OVER  REFUNDED      COST    MARGIN  `+
		`PENDING
ann              2   1,900   1,400  2.670000  0.000000  0.000000  0.000000  0.890000  1.780000        0
bob              1     950     700  1.335000  0.000000  0.000000  0.000000  0.445000  0.890000        0
together         3   2,850   2,100  4.005000  0.000000  0.000000  0.000000  1.335000  2.670000        0
`, out)
}

func TestCommandCorrections(t *testing.T) {
	t.Parallel()
	data, e, ann := books(t)
	out, err := run(t, "credit", "adjust", "--account", "ann", "--credits", "-7", "--reason", "twice", "--data", data)
	require.NoError(t, err)
	require.Equal(t, "Adjusted account ann by -7.000000 credits.\nIts balance is 991 credits (US$9.91), less 0.670000 "+
		"cents for usage that is not debited yet.\n", out)
	out, err = run(t, "credit", "refund", "req_1", "--microcents", "335000", "--reason", "sorry", "--reference", "t1",
		"--data", data)
	require.NoError(t, err)
	require.Equal(t, "Refunded 335,000 microcents (0.335000 credits) to account ann for request req_1.\nIts balance is "+
		"991 credits (US$9.91), less 0.335000 cents for usage that is not debited yet.\n", out)
	_, err = run(t, "credit", "refund", "req_1", "--reason", "sorry", "--reference", "t1", "--data", data)
	require.ErrorContains(t, err, "0.335000 credits")
	require.ErrorContains(t, err, "not of a refund of all that is left of request req_1; nothing was moved")
	for _, want := range []string{"Refunded 1,000,000 microcents", "Nothing was changed: account ann has reference t2"} {
		out, err = run(t, "credit", "refund", "req_1", "--reason", "sorry", "--reference", "t2", "--data", data)
		require.NoError(t, err)
		require.Contains(t, out, want)
		require.NotContains(t, out, "receipt")
	}
	ann.Settle(t, e, "req_part", enginetest.OK(), enginetest.Proven(), ledger.Result{Outcome: ledger.Unproven})
	out, err = run(t, "credit", "refund", "req_part", "--reason", "sorry", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "for request req_part.\nPart of the request is not proven yet: a receipt may charge it "+
		"later, and can be refunded then.\n")

	for want, args := range map[string][]string{
		"give --credits or --microcents": {"adjust", "--account", "ann", "--reason", "x"},
		"one of the two": {"adjust", "--account", "ann", "--reason", "x", "--credits", "1", "--microcents",
			"1"},
		"--reason is missing, as in":      {"adjust", "--account", "ann", "--credits", "1"},
		"more than any balance":           {"adjust", "--account", "ann", "--credits", "10000000000000", "--reason", "x"},
		"a refund is at least 1; leave":   {"refund", "req_1", "--microcents", "0", "--reason", "x"},
		"charged 1335000 microcents, of ": {"refund", "req_1", "--microcents", "1000001", "--reason", "x"},
		"REQUEST is missing":              {"refund", "--reason", "x"},
	} {
		_, err := run(t, append(append([]string{"credit"}, args...), "--data", data)...)
		require.ErrorContains(t, err, want)
	}
}

func TestCommandExport(t *testing.T) {
	t.Parallel()
	data, e, _ := books(t)
	dir := t.TempDir()
	jsonl, table, kept := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "journal.csv"),
		filepath.Join(dir, "checkpoint.json")
	out, err := run(t, "ledger", "export", "-o", jsonl, "--data", data)
	require.NoError(t, err)
	require.Regexp(t,
		`Checkpoint 1 \(the last line\) covers the first 3 movements of money and [0-9]+ acts of operators\.\nKeep the `+
			`checkpoint where nobody`, out)
	out, err = run(t, "ledger", "export", "--format", "csv", "-o", table, "--checkpoint-file", kept, "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "Checkpoint 1 ("+kept+")")

	var fromJSON []admin.Entry
	content, err := os.ReadFile(jsonl)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		var entry admin.Entry
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		require.Equal(t, entry.Entry.Hash(), entry.Hash, "the line has all that its hash covers")
		fromJSON = append(fromJSON, entry)
	}
	require.Len(t, fromJSON, 3)
	require.Equal(t, fromJSON[1].Hash, fromJSON[2].Prev)
	last, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, string(last), lines[len(lines)-1]+"\n")

	f, err := os.Open(table)
	require.NoError(t, err)
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, exportColumns, rows[0])
	for i, row := range rows[1:] {
		require.Equal(t, exportRow(fromJSON[i]), row)
	}

	for _, file := range []string{jsonl, kept} {
		v := runJSON[map[string]any](t, "ledger", "verify", "--checkpoint", file, "--data", data)
		require.Equal(t, true, v["ok"])
	}
	out, err = run(t, "ledger", "verify", "--checkpoint", jsonl, "--checkpoint", kept, "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "It still has what 2 kept checkpoints fixed.")
	for _, member := range []string{"entries", "acts"} {
		forged := strings.Replace(string(last), `"`+member+`":`, `"`+member+`":1`, 1) // 3 is 13
		require.NoError(t, os.WriteFile(kept, []byte(forged), 0o600))
		_, err = run(t, "ledger", "verify", "--checkpoint", kept, "--data", data)
		require.ErrorContains(t, err, "the ledger does not agree at")
	}

	_, err = e.Store().MakeCheckpoint(t.Context())
	require.NoError(t, err)
	out, err = run(t, "ledger", "export", "--account", "ann", "--since", "1h", "--json", "--data", data)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(out, `"kind"`))
	_, err = run(t, "ledger", "export", "--format", "xml", "--data", data)
	require.EqualError(t, err, `--format "xml": there are jsonl and csv`)
	_, err = run(t, "ledger", "export", "-o", filepath.Join(dir, "none", "file"), "--data", data)
	require.ErrorContains(t, err, "writing the export")
}

// TestExportEndsAtItsCheckpoint: what is booked while it runs is not in it.
func TestExportEndsAtItsCheckpoint(t *testing.T) {
	t.Parallel()
	data, e, ann := books(t)
	c, err := admin.NewClient(data, "")
	require.NoError(t, err)
	var before ledger.Checkpoint
	require.NoError(t, c.Call(t.Context(), "POST", "/fareway/ledger/checkpoints", nil, &before))
	ann.Settle(t, e, "req_3", enginetest.OK(), enginetest.Proven())
	x := &export{format: "jsonl", target: target{data: data}}
	cmd := ledgerExportCommand()
	cmd.SetContext(t.Context())
	var out goldenText
	w := bufio.NewWriter(&out)
	require.NoError(t, x.entries(cmd, c, url.Values{}, w, &before))
	require.NoError(t, w.Flush())
	require.Equal(t, 3, strings.Count(string(out), "\n"))
}

func TestCommandCheckpoint(t *testing.T) {
	t.Parallel()
	data, _, _ := books(t)
	out, err := run(t, "ledger", "checkpoint", "--json", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `^\{"checkpoint":\{"n":1,"entries":3,.*\}\}\n$`, out)
	file := filepath.Join(t.TempDir(), "kept")
	out, err = run(t, "ledger", "checkpoint", "-o", file, "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "Checkpoint 1 covers 3 movements of money and ")
	_, err = run(t, "ledger", "checkpoint", "-o", file, "--data", data)
	require.ErrorIs(t, err, os.ErrExist, "one that was kept is not overwritten")
}

func TestCommandPrune(t *testing.T) {
	t.Parallel()
	data, e, _ := books(t)
	before := []string{"ledger", "prune", "--before", "1ns", "--data", data}
	out, err := run(t, before...)
	require.NoError(t, err)
	require.Contains(t, out, "of 2 requests that were settled before")
	require.Contains(t, out, "Nothing was changed: add --yes to do it.\n")
	first, err := e.Store().Request(t.Context(), "req_1")
	require.NoError(t, err)

	out, err = run(t, "usage", "--data", data)
	require.NoError(t, err)
	require.NotContains(t, out, "pruned")
	kept := strings.Split(out, "\n")[1]
	out, err = run(t, append(before, "--yes")...)
	require.NoError(t, err)
	require.Contains(t, out, "Removed the detail of 2 requests")
	out, err = run(t, "usage", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^ann +2 +`, out, "the sums are left")
	require.Contains(t, out, ": of 2 requests here only the\nsums of their days are left.\n")
	require.Equal(t, kept, strings.Split(out, "\n")[1])
	out, err = run(t, "usage", "--by", "route", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, ": of some requests here only the\nsums", "one counts on each route that it was tried on")
	cut := first.Created.Format(time.RFC3339Nano) // of its day: an hour ago may have been yesterday
	out, err = run(t, "usage", "--since", cut, "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `^No request is left here.\n\nThe detail of requests was pruned up to `, out)
	row := runJSON[map[string]any](t, "usage", "--data", data)
	require.EqualValues(t, 2, row["pruned"])
	require.EqualValues(t, 2, row["requests"])
	out, err = run(t, before...)
	require.NoError(t, err)
	require.Contains(t, out, "of 0 requests that were settled before", "once")
	_, err = run(t, "usage", "req_1", "--data", data)
	require.ErrorContains(t, err, `the detail of request "req_1" was pruned, and with it its routes`)
	require.ErrorContains(t, err, " to account ann")
	_, err = run(t, "credit", "refund", "req_1", "--reason", "sorry", "--data", data)
	require.ErrorContains(t, err, `the detail of request "req_1" was pruned, so that it cannot be refunded`)
	require.ErrorContains(t, err, "gateway credit adjust`")
	for _, args := range [][]string{{"usage", "req_1"}, {"credit", "refund", "req_1", "--reason", "sorry"}} {
		out, err = run(t, append(args, "--json", "--data", data)...)
		require.Error(t, err)
		var v admin.PrunedProblem
		require.NoError(t, json.Unmarshal([]byte(out), &v), out)
		require.Equal(t, "request_pruned", v.Code)
		require.Equal(t, "ann", v.Request.Account)
		require.EqualValues(t, enginetest.ExampleCharge, v.Request.Microcents)
		require.WithinDuration(t, time.Now(), v.Request.Settled, time.Minute)
		require.Len(t, v.Request.Entries, 1)
	}
	_, err = run(t, "usage", "req_none", "--data", data)
	require.ErrorContains(t, err, `there is no request "req_none"`)
	v := runJSON[map[string]any](t, "ledger", "verify", "--data", data)
	require.Equal(t, true, v["ok"])
	require.EqualValues(t, 3, v["entries"], "entries stay")
	_, err = run(t, "ledger", "prune", "--before", "2099-01-01", "--data", data)
	require.ErrorContains(t, err, "in the past")
}

func TestCommandAudit(t *testing.T) {
	t.Parallel()
	data, _, ann := books(t)
	_, err := run(t, "account", "suspend", "ann", "--data", data)
	require.NoError(t, err)
	out, err := run(t, "ledger", "audit", "--account", "ann", "--since", "1h", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `via socket +account.set_state +ann +`+ann.Account.ID+
		` +\{"state":"active"\} -> \{"state":"suspended"\}\n`, out)
	out, err = run(t, "ledger", "audit", "--until", "2020-01-01", "--data", data)
	require.NoError(t, err)
	require.Equal(t, "There is nothing in the audit trail for this.\n", out)
	out, err = run(t, "ledger", "audit", "--json", "--data", data)
	require.NoError(t, err)
	for line := range strings.Lines(out) {
		require.NoError(t, json.Unmarshal([]byte(line), new(admin.Act)))
	}
}

// TestOffline: without a gateway what only reads the ledger reads its file, and says the same.
func TestOffline(t *testing.T) {
	t.Parallel()
	data, e, _ := books(t)
	_, err := e.Store().MakeCheckpoint(t.Context())
	require.NoError(t, err)
	type answer struct{ out, beside string }
	asked := map[string]answer{}
	commands := []string{"usage --by account,key,route,day", "usage req_2", "usage --csv", "ledger audit",
		"ledger export --format jsonl", "ledger export --account ann --format csv"}
	for _, c := range commands {
		var a answer
		a.out, a.beside, err = runApart(t, append(strings.Fields(c), "--data", data)...)
		require.NoError(t, err, c)
		asked[c] = a
	}
	require.NoError(t, os.Remove(filepath.Join(data, gateway.AdminSocket)))
	for _, c := range commands {
		out, beside, err := runApart(t, append(strings.Fields(c), "--data", data)...)
		require.NoError(t, err, c)
		require.Equal(t, asked[c].out, out, c)
		require.Equal(t, "A gateway runs on "+data+" and does not answer here: what it decided in the last moments may be "+
			"missing.\n"+asked[c].beside, beside, "GAP-132: who reads the file is told up to which moment it is")
	}
	_, err = run(t, "usage", "--account", "nobody", "--data", data)
	require.ErrorContains(t, err, `there is no account "nobody"`)
	for _, c := range []string{"account list", "key list", "ledger checkpoint", "ledger prune --before 1d",
		"credit refund req_1 --reason x"} {
		_, err := run(t, append(strings.Fields(c), "--data", data)...)
		require.ErrorIs(t, err, admin.ErrNoGateway, c)
	}
}

// TestCommandLargeSum: a large sum is asked about, up or down, in whatever unit.
func TestCommandLargeSum(t *testing.T) {
	t.Parallel()
	data, e, _ := books(t)
	before, err := e.Store().Account(t.Context(), "ann")
	require.NoError(t, err)
	asked := func(answer string, args ...string) (string, error) {
		root, cmd := &cobra.Command{Use: "fareway", SilenceUsage: true, SilenceErrors: true}, &cobra.Command{}
		setUpCommand(cmd)
		root.AddCommand(cmd)
		out := new(strings.Builder)
		root.SetOut(out)
		root.SetIn(strings.NewReader(answer))
		root.SetArgs(append([]string{"gateway", "credit", "--account", "ann", "--reason", "x", "--data", data}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	adjust := func(answer string, more ...string) (string, error) {
		return asked(answer, append([]string{"adjust"}, more...)...)
	}
	out, err := asked("n\n", "add", "10000")
	require.ErrorContains(t, err, "nothing is added")
	require.Contains(t, out, "Add 10,000 credits (US$100.00) to account ann? [y/N] ")
	_, err = asked("y\n", "add", "10000", "--json")
	require.ErrorContains(t, err, "nobody is there to be asked: say --yes to add so much")
	_, err = adjust("n\n", "--microcents", "-9223372036854775808")
	require.ErrorContains(t, err, "it is not adjusted")
	_, err = adjust("", "--microcents", "-9223372036854775808", "--yes")
	require.ErrorContains(t, err, "(-9,223,372,036,854.775808 credits)")
	for _, amount := range [][]string{{"--credits", "10000"}, {"--credits", "-10000"}, {"--microcents", "10000000000"}} {
		out, err := adjust("n\n", amount...)
		require.ErrorContains(t, err, "it is not adjusted: nothing has changed")
		require.Regexp(t, `Adjust account ann by -?10,000 credits \(-?US\$100\.00\)\? \[y/N\] `, out)
		_, err = adjust("", append(amount, "--json")...)
		require.ErrorContains(t, err, "nobody is there to be asked: say --yes to adjust by so much")
	}
	after, err := e.Store().Account(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, before.Balance, after.Balance)
	for answer, amount := range map[string][]string{
		"y\n": {"--credits", "10000"}, "": {"--credits", "10000", "--yes"}, "n\n": {"--credits", "-9999"},
	} {
		out, err := adjust(answer, amount...)
		require.NoError(t, err)
		require.Contains(t, out, "Adjusted account ann by ")
	}
	for answer, more := range map[string][]string{
		"y\n": {"add", "10000"}, "": {"add", "10000", "--yes"}, "n\n": {"add", "9999"},
	} {
		out, err := asked(answer, more...)
		require.NoError(t, err)
		require.Contains(t, out, "Added ")
	}
}
