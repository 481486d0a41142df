package postgres_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/ledgertest"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
)

var server *postgrestest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		_ = checks.Value.Set("25") // a step takes a hundred times as long as in memory; soak tests make the others
	}
	var err error
	if server, err = postgrestest.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var (
	databases sync.Map // urls by the suite's folders
	migrated  sync.Once
)

// databaseOf is the database that stands for a folder.
func databaseOf(t testing.TB, dir string) string {
	if url, ok := databases.Load(dir); ok {
		return url.(string)
	}
	sum := sha256.Sum256([]byte(dir))
	migrated.Do(func() { // one for all, which are copies of it
		require.NoError(t, server.Exec(`CREATE DATABASE migrated`))
		store, err := postgres.Open(context.Background(), postgres.Options{URL: server.URL("migrated"), BootID: "migration"})
		require.NoError(t, err)
		require.NoError(t, store.Close())
	})
	url := server.CreateDatabase(t, "t"+hex.EncodeToString(sum[:8]), "migrated")
	databases.Store(dir, url)
	t.Cleanup(func() { databases.Delete(dir) })
	return url
}

func openNode(t testing.TB, o ledgertest.Options, name string) ledger.Store {
	store, err := postgres.Open(context.Background(), postgres.Options{
		Options: ledger.Options{Now: o.Now, Terms: o.Terms, Logger: slog.New(slog.DiscardHandler), WaitTimeout: time.Minute},
		URL:     databaseOf(t, o.Dir), BootID: o.BootID + name, Lanes: 2,
	})
	require.NoError(t, err)
	return store
}

func TestOneNode(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB, o ledgertest.Options) ledger.Store {
		return ledgertest.Spread(openNode(t, o, ""))
	})
}

func TestTwoNodes(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB, o ledgertest.Options) ledger.Store {
		return ledgertest.Spread(openNode(t, o, " a"), openNode(t, o, " b"))
	})
}
