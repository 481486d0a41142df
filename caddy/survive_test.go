//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// recorded is a gateway before a service that keeps records of what its replies used, as OpenRouter does, and says
// nothing of it in the replies themselves.
type recorded struct {
	*gateway
	up  *upstream.Server
	key string
}

func startRecorded(t *testing.T, carry string, steps []upstream.Step, header map[string]string) *recorded {
	t.Helper()
	up := upstream.Start(t, upstream.Options{Service: "openrouter"})
	up.Enqueue(upstream.Reply{Usage: upstream.UsageNever, Steps: steps, Header: header})
	config := strings.NewReplacer(up.BaseURL(), up.URL()+"/api/v1",
		"config {\n", "config {\n    preset = \"openrouter\"\n",
		`carry  = "host"`, fmt.Sprintf("carry = %q", carry)).Replace(hcl(up))
	g := startGateway(t, files{"gateway.hcl": config})
	return &recorded{g, up, g.account(t, 1_000_000)}
}

// books reads the ledger while the gateway runs.
func (r *recorded) books(t *testing.T, query string, each func(*sqlite.Stmt)) {
	t.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(r.Dir, "fareway.db"), sqlite.OpenReadOnly)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	rows(t, conn, query, each)
}

// known waits until the ledger has by what the upstream is asked for its n-th reply, of the one attempt that there is.
func (r *recorded) known(t *testing.T, n int, table string) {
	t.Helper()
	eventually(t, func() (bool, string) {
		reference := ""
		r.books(t, `SELECT reference FROM `+table, func(row *sqlite.Stmt) { reference = row.ColumnText(0) })
		return reference == fmt.Sprint("chatcmpl-fake-", n), fmt.Sprintf("the reference %q", reference)
	})
}

// again starts the next gateway on the same data.
func (r *recorded) again(t *testing.T) {
	t.Helper()
	r.gateway = runGateway(t, r.Dir)
	t.Cleanup(func() {
		r.stop(t)
		require.True(t, verifyOffline(t, r.Dir).OK)
	})
}

// charged waits until the one request is charged by what the upstream has on record.
func (r *recorded) charged(t *testing.T) {
	t.Helper()
	rec, err := r.up.Ended(withTimeout(t), 1)
	require.NoError(t, err)
	require.Positive(t, rec.Used.Completion)
	var charge int64
	eventually(t, func() (bool, string) {
		pending, requests := false, 0
		r.books(t, `SELECT charge, pending FROM requests`, func(row *sqlite.Stmt) {
			requests++
			charge, pending = row.ColumnInt64(0), row.ColumnBool(1)
		})
		return requests == 1 && !pending, fmt.Sprintf("%d requests, pending %t", requests, pending)
	})
	require.Equal(t, rec.Used.Prompt*300+rec.Used.Completion*1500, charge)
	r.books(t, `SELECT count(*) FROM waiting`, func(row *sqlite.Stmt) { require.Zero(t, row.ColumnInt64(0)) })
}

// Receipts survive (GAP-56, GAP-99): whoever knew by what the upstream is asked is gone, and it is asked.
func TestReceiptsSurvive(t *testing.T) {
	t.Parallel()
	silent := map[string]string{"X-Generation-Id": ""} // only the body says the reply's id
	said, wait := upstream.Text("one two three"), upstream.Wait("gate")
	for _, carry := range []string{"host", "process"} {
		for name, header := range map[string]map[string]string{"by its head": nil, "by its chunks": silent} {
			t.Run("GAP-99 a stream whose gateway is killed "+name+" "+carry, func(t *testing.T) {
				t.Parallel()
				r := startRecorded(t, carry, []upstream.Step{said, wait}, header)
				l := shapes[0].send(t, http.DefaultClient, r.URL, r.key, "hello", true)
				l.until(t, "one")
				r.known(t, 1, "holds WHERE seq = 1")
				r.kill()
				r.again(t)
				r.charged(t)
			})
		}
		t.Run("GAP-99 a JSON reply whose gateway is killed when its head has come "+carry, func(t *testing.T) {
			t.Parallel()
			r := startRecorded(t, carry, []upstream.Step{upstream.Headers(), said, wait}, nil)
			go func() {
				resp, err := http.DefaultClient.Do(shapes[0].request(t, r.URL, r.key, "hello", false))
				if err == nil {
					_ = resp.Body.Close()
				}
			}()
			r.known(t, 1, "holds WHERE seq = 1")
			r.kill()
			r.again(t)
			r.charged(t)
		})
		t.Run("BILL-28 GAP-58 a JSON reply that is cut, and a stop "+carry, func(t *testing.T) {
			t.Parallel()
			cut := []upstream.Step{said, upstream.Raw(`{"id":"chatcmpl-fake-1","choices":[{"mess`), upstream.Cut()}
			r := startRecorded(t, carry, cut, silent)
			l := shapes[0].send(t, http.DefaultClient, r.URL, r.key, "hello", false)
			require.Equal(t, http.StatusBadGateway, l.StatusCode)
			require.NotContains(t, l.all(t), "usage")
			r.stop(t)
			r.again(t)
			r.charged(t)
		})
	}
	t.Run("BILL-28 a call whose provider dies, in a request that another route serves", func(t *testing.T) {
		t.Parallel()
		r := startRecorded(t, "process", []upstream.Step{upstream.Fail(upstream.ServerError())}, nil)
		spare := strings.NewReplacer(`"up"`, `"spare"`, `carry = "process"`, `carry = "host"`, `"standard"`, `"spare"`,
			`preset = "openrouter"`, "", "quality        = 0.5", "quality        = 0.1")
		config, err := os.ReadFile(filepath.Join(r.Dir, "gateway.hcl"))
		require.NoError(t, err)
		_, two, _ := strings.Cut(string(config), "provider ")
		r.save(t, string(config)+spare.Replace("provider "+two))
		ask := func() *live { return shapes[0].send(t, http.DefaultClient, r.URL, r.key, "hello", false) }
		require.Equal(t, http.StatusOK, ask().StatusCode, "the host knows now where the calls of the spare go")
		r.up.Enqueue(upstream.Reply{Usage: upstream.UsageNever, Steps: []upstream.Step{upstream.Headers(), said, wait}})
		served := make(chan int, 1)
		go func() {
			resp, err := http.DefaultClient.Do(shapes[0].request(t, r.URL, r.key, "hello", false))
			if err != nil {
				served <- 0
				return
			}
			_ = resp.Body.Close()
			served <- resp.StatusCode
		}()
		require.NoError(t, r.up.AtGate(withTimeout(t), "gate", 1))
		r.known(t, 3, "holds WHERE seq = 1")
		r.says = `(?:.*provider failed; starting it again.*\n){2}`
		for _, plugin := range r.children(t) {
			plugin.kill(t)
		}
		require.Equal(t, http.StatusOK, <-served)
		lost, err := r.up.Ended(withTimeout(t), 3)
		require.NoError(t, err)
		eventually(t, func() (bool, string) {
			var charge int64
			r.books(t, `SELECT sum(microcents) FROM entries WHERE kind = 'receipt'`, func(row *sqlite.Stmt) {
				charge = -row.ColumnInt64(0)
			})
			return charge == lost.Used.Prompt*300+lost.Used.Completion*1500, fmt.Sprint(charge)
		})
	})
}
