package command

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/stores"
)

// leftOlder is a data folder into which an older copy of the database was put back: ann's second top-up is gone.
func leftOlder(t *testing.T) (data string) {
	t.Helper()
	data = t.TempDir()
	path := filepath.Join(data, "fareway.db")
	var ann ledger.Account
	topUp := func() []byte {
		e, err := engine.Open(engine.Options{OpenStore: stores.Open, DataDir: data, Logger: slog.New(slog.DiscardHandler)},
			&config.Config{Store: config.DefaultStore()})
		require.NoError(t, err)
		if ann.ID == "" {
			ann, err = e.Store().CreateAccount(t.Context(), "ann", "")
			require.NoError(t, err)
		}
		_, _, err = e.Store().AddCredit(t.Context(), ledger.Credit{Account: ann.ID, Credits: 1000})
		require.NoError(t, err)
		require.NoError(t, e.Close())
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return content
	}
	older := topUp()
	topUp()
	require.NoError(t, os.WriteFile(path, older, 0o600))
	return data
}

const lost = "a part of the ledger is missing: at least 1 movements of money and 1 acts of operators"

func TestCommandAcceptLoss(t *testing.T) {
	t.Parallel()
	t.Run("GAP-133 with a gateway", func(t *testing.T) {
		t.Parallel()
		data := leftOlder(t)
		e := enginetest.On(t, data, nil)
		serve(t, e)

		out, err := run(t, "status", "--data", data)
		require.NoError(t, err)
		require.Contains(t, out, "not ready: "+lost)
		status := runJSON[admin.Status](t, "status", "--data", data)
		require.Equal(t, &ledger.Loss{HasEntries: 1, SeenEntries: 2, HasActs: 2, SeenActs: 3}, status.Loss)
		require.False(t, status.Ready)
		_, err = run(t, "ledger", "verify", "--data", data)
		require.ErrorContains(t, err, "the ledger does not agree at witness: "+lost)
		for _, refused := range [][]string{
			{"credit", "add", "--account", "ann", "5"},
			{"credit", "adjust", "--account", "ann", "--credits", "5", "--reason", "x"},
		} {
			_, err = run(t, append(refused, "--data", data)...)
			require.ErrorContains(t, err, "a part of it is missing")
			require.ErrorContains(t, err, "`fareway gateway ledger accept-loss --reason TEXT`")
			require.NotContains(t, err.Error(), "repeat")
		}

		_, err = run(t, "ledger", "accept-loss", "--data", data)
		require.ErrorContains(t, err, "--reason is missing")
		_, err = run(t, "ledger", "accept-loss", "--data", data, "--reason", " ")
		require.ErrorContains(t, err, "the reason is missing: a decision says why it was made")
		_, err = run(t, "ledger", "accept-loss", "now", "--data", data, "--reason", "x")
		require.Error(t, err)
		out, err = run(t, "ledger", "accept-loss", "--data", data, "--reason", "disk failed")
		require.NoError(t, err)
		require.Contains(t, out, "Accepted: at least 1 movements of money")
		_, err = run(t, "ledger", "accept-loss", "--data", data, "--reason", "disk failed")
		require.ErrorContains(t, err, "there is nothing to accept")

		require.Nil(t, runJSON[admin.Status](t, "status", "--data", data).Loss)
		_, err = run(t, "credit", "add", "--account", "ann", "5", "--data", data)
		require.NoError(t, err)
		out, err = run(t, "ledger", "verify", "--data", data)
		require.NoError(t, err)
		require.Contains(t, out, "The ledger is clean.")
		require.NotContains(t, out, "witness")
		out, err = run(t, "ledger", "audit", "--data", data)
		require.NoError(t, err)
		require.Contains(t, out, "ledger.accept_loss")
	})
	t.Run("GAP-133 without one", func(t *testing.T) {
		t.Parallel()
		data := leftOlder(t)
		_, err := run(t, "ledger", "verify", "--data", data)
		require.ErrorContains(t, err, lost)
		v := runJSON[admin.AcceptedLoss](t, "ledger", "accept-loss", "--data", data, "--reason", "disk failed")
		require.EqualValues(t, 2, v.SeenEntries)
		_, err = run(t, "ledger", "verify", "--data", data)
		require.NoError(t, err)
		_, err = run(t, "ledger", "accept-loss", "--data", data, "--reason", "disk failed")
		require.ErrorContains(t, err, "there is nothing to accept")
	})
	t.Run("GAP-133 nobody saw", func(t *testing.T) {
		t.Parallel()
		data := leftOlder(t)
		require.NoError(t, os.Remove(filepath.Join(data, "fareway.db.witness")))
		out, err := run(t, "ledger", "verify", "--data", data)
		require.NoError(t, err)
		require.Contains(t, out, "There is no witness beside it, so nobody can see here whether its newest part is missing.")
	})
}
