package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

// TestCommandAccountMail: addresses are set, shown, replaced and taken away; and what is none changes nothing.
func TestCommandAccountMail(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, &config.Config{}, engine.Options{})
	data := e.DataDir()
	serve(t, e)
	do := func(args ...string) (string, error) {
		t.Helper()
		return run(t, append(append([]string{"account"}, args...), "--data", data)...)
	}
	_, err := do("create", "ann", "--mail", "ann@example.com", "--mail", "nobody")
	require.ErrorContains(t, err, `address "nobody": it must be a mail address`)
	_, err = do("show", "ann")
	require.ErrorContains(t, err, `there is no account "ann"`)
	_, err = do("create", "ann", "--mail", "ann@example.com")
	require.NoError(t, err)
	out, err := do("show", "ann")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^mail +ann@example\.com$`, out)
	out, err = do("set-mail", "ann", "Ann <ann@example.com>", "billing@example.com")
	require.NoError(t, err)
	require.Equal(t, "Account ann: what is about it is mailed to ann@example.com, billing@example.com.\n", out)
	for problem, args := range map[string][]string{
		"NAME is missing": {"set-mail"}, "ADDRESS is missing, or --clear": {"set-mail", "ann"},
		"--clear takes all addresses away": {"set-mail", "ann", "x@example.com", "--clear"},
		"at most 5":                        {"set-mail", "ann", "a@x.y", "b@x.y", "c@x.y", "d@x.y", "e@x.y", "f@x.y"},
		"must be a mail address":           {"set-mail", "ann", "a@x.y\r\nBcc: b@x.y"},
		`there is no account "bob"`:        {"set-mail", "bob", "b@x.y"},
	} {
		_, err := do(args...)
		require.ErrorContains(t, err, problem)
	}
	v := runJSON[admin.Account](t, "account", "show", "ann", "--data", data)
	require.Equal(t, []string{"ann@example.com", "billing@example.com"}, v.Mail)
	_, err = run(t, "hook", "test", "--account", "ann", "--data", data)
	require.ErrorContains(t, err, "no block alerts")
	out, err = do("set-mail", "ann", "--clear")
	require.NoError(t, err)
	require.Equal(t, "Account ann: nobody is mailed.\n", out)
	_, err = run(t, "hook", "test", "--account", "ann", "--data", data)
	require.ErrorContains(t, err, "has no mail address: `fareway gateway account set-mail ann ADDRESS`")
	out, err = run(t, "ledger", "audit", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "account.set_mail")
	require.Contains(t, out, "a***@example.com,b***@example.com")
	require.NotContains(t, out, "ann@example.com")
}

// TestHookTest: what came back is said, and the exit status says whether all took it.
func TestHookTest(t *testing.T) {
	t.Parallel()
	var answer atomic.Int64
	answer.Store(204)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(answer.Load()))
	}))
	defer receiver.Close()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ"
	e := enginetest.Start(t, &config.Config{Alerts: config.Alerts{Webhooks: []config.Webhook{
		{Name: "ops", URL: receiver.URL + "/secret-path", Secrets: []string{secret}, Timeout: 5 * time.Second},
		{Name: "night", URL: "http://127.0.0.1:1", Secrets: []string{secret}, Timeout: 5 * time.Second,
			Events: []string{"disk_full"}},
	}}}, engine.Options{})
	serve(t, e)
	data := e.DataDir()
	out, err := run(t, "hook", "test", "ops", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `^webhook ops \(http://127\.0\.0\.1:\d+/\*\*\*\): delivered after \d+ ms, status 204, `+
		`without TLS\n$`, out)
	answer.Store(500)
	out, err = run(t, "hook", "test", "--data", data)
	require.EqualError(t, err, "2 of 2 destinations did not take the test")
	require.Regexp(t, `(?m)^webhook ops .*: NOT DELIVERED after \d+ ms, status 500: it answered 500 Internal `+
		`Server Error$`, out)
	require.Regexp(t, `(?m)^webhook night .*: NOT DELIVERED after \d+ ms: dial tcp 127\.0\.0\.1:1: .*refused$`, out)
	out, err = run(t, "hook", "test", "--json", "ops", "--data", data)
	require.EqualError(t, err, "1 of 1 destination did not take the test")
	var v admin.HooksTested
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, 500, v.Results[0].Status)
	require.NotContains(t, out, "secret-path")
	acts, err := run(t, "ledger", "audit", "--data", data)
	require.NoError(t, err)
	require.Equal(t, 4, strings.Count(acts, "hook.test"), "one for each destination that was tested")
	require.Contains(t, acts, "webhook night")
	_, err = run(t, "hook", "test", "opps", "--data", data)
	require.ErrorContains(t, err, `no webhook and no mail "opps"`)

	out, err = run(t, "alert", "list", "--data", data)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^webhook ops +http://127\.0\.0\.1:\d+/\*\*\* +\d+ +`, out)
	require.Regexp(t, `(?m)^disk_full +page +operator +1m +webhook ops, webhook night$`, out)
	require.Regexp(t, `(?m)^balance_low +ticket +account +at once +webhook ops$`, out)
	out, err = run(t, "alert", "list", "--json", "--data", data)
	require.NoError(t, err)
	require.NotContains(t, out, secret[6:])
	var listed admin.Alerts
	require.NoError(t, json.Unmarshal([]byte(out), &listed))
	require.Len(t, listed.Events, len(config.AlertEvents))
}

// TestAlertsWithoutABlock: it is said that nobody is told.
func TestAlertsWithoutABlock(t *testing.T) {
	t.Parallel()
	data, _ := running(t)
	out, err := run(t, "alert", "list", "--data", data)
	require.NoError(t, err)
	require.Contains(t, out, "Nobody is told: the configuration has no block alerts")
	_, err = run(t, "hook", "test", "--data", data)
	require.ErrorContains(t, err, "the configuration has no block alerts with a webhook or mail in it")
}

// TestPrintAlerts: what an operator reads.
func TestPrintAlerts(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 1, 0, 0, 0, time.UTC)
	v := admin.Alerts{Standing: alerts.Standing{Problem: "The outbox cannot be written: no space left",
		Beyond: map[string]int{"balance_low": 3},
		Alerts: []alerts.Alert{
			{Event: "provider_down", Subject: "openai", Text: "It is down.", Since: at, Raised: &at, Told: &at},
			{Event: "balance_low", Subject: "acct_1", Name: "ann", Text: "It is low.", Since: at, Raised: &at, Elsewhere: true},
			{Event: "no_route", Text: "None serves.", Since: at, Raised: &at}},
		Destinations: []alerts.Destination{{Key: "webhook ops", Name: "ops", Address: "https://a.example/x", Waiting: 2,
			Failing: &at, Error: "it answered 500", Next: &at}, {Key: "mail ops", Name: "ops",
			Disabled: &alerts.Disabled{Why: "it answered that it is gone (410)", Since: at}}},
		GivenUp: []alerts.GivenUp{{Type: "no_route.raised", Destination: "mail ops", Written: at,
			Why: "it was tried for three days"}},
	}}
	var out strings.Builder
	printAlerts(&out, v)
	for _, want := range []string{
		"This process does not look yet",
		"The outbox cannot be written: no space left.",
		"provider_down  openai  2026-11-27 01:00:00 UTC  2026-11-27 01:00:00 UTC  It is down.",
		"balance_low    ann     2026-11-27 01:00:00 UTC  by another node          It is low.",
		"no_route       -       2026-11-27 01:00:00 UTC  no                       None serves.",
		"3 more alerts of balance_low are not listed.",
		"FAILING since 2026-11-27 01:00:00 UTC: it answered 500; tried again at",
		"TOLD NOTHING since 2026-11-27 01:00:00 UTC: it answered that it is gone (410); `fareway gateway hook test ops` " +
			"tries it",
		"no_route.raised  mail ops",
	} {
		require.Contains(t, out.String(), want)
	}
	out.Reset()
	printAlertsSummary(&out, &admin.AlertsSummary{Raised: v.Alerts[:1], Accounts: map[string]int{"balance_low": 2},
		Failing: v.Destinations[:1], Problem: "the outbox cannot be written"})
	require.Equal(t, "alert\tprovider_down since 2026-11-27 01:00:00 UTC: It is down.\nalert\tbalance_low of 2 accounts\n"+
		"alerts to webhook ops\tFAILING since 2026-11-27 01:00:00 UTC: it answered 500; "+
		"tried again at 2026-11-27 01:00:00 UTC\n"+
		"alerts\tthe outbox cannot be written\n", out.String())
}
