package postgres

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
)

// serverState is what is known of the server: by the renewals of the lease, and by each transaction.
type serverState struct {
	mu sync.Mutex
	ledger.Server
	looked bool
}

// Server is how the server does.
func (s *Store) Server() ledger.Server {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return s.server.Server
}

// noteServer notes whether the lease could be renewed, and returns whether it could not be before.
func (s *Store) noteServer(at string, err error) (failed bool) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	is := &s.server.Server
	failed = !is.Up && !is.Since.IsZero()
	if up := err == nil; up != is.Up || is.Since.IsZero() {
		is.Up, is.Since = up, time.Now().UTC()
	}
	is.Address, is.Reason = cmp.Or(at, is.Address), ""
	if err != nil {
		is.Reason = err.Error()
	}
	return failed
}

// noteStandbys notes whom the server's commits wait for, synchronous_standby_names, and says when that changes. It is
// ledger.ErrUnavailable where they wait for none and have to.
func (s *Store) noteStandbys(names string) error {
	s.server.mu.Lock()
	changed := names != s.server.Standbys || !s.server.looked
	first := !s.server.looked
	s.server.Standbys, s.server.looked = names, true
	s.server.mu.Unlock()
	switch {
	case names != "" && changed:
		s.o.Logger.Info("commits of the ledger's database wait for a standby", "synchronous_standby_names", names)
	case names == "" && changed && first && !s.o.NeedsStandby:
		s.o.Logger.Info("commits of the ledger's database wait for no standby: if its machine is lost, so are charges that " +
			"clients were told of since the last backup of its log")
	case names == "" && changed:
		s.o.Logger.Error("commits of the ledger's database wait for no standby: " + standbyAdvice)
	}
	if names == "" && s.o.NeedsStandby {
		return fmt.Errorf("%w: its commits wait for no standby, which the configuration requires", ledger.ErrUnavailable)
	}
	return nil
}

// waitedSince asks whether commits have waited for a standby since a moment of the database's clock. Who empties the
// setting lets those go that wait, as if their standby had answered, and may set it again at once; so nothing may have
// been read anew. The server tells its connections of a new configuration before it lets anybody go, and they read it
// before their next statement, but not between those of one message: it is asked by a message of its own.
func waitedSince(clock int64) string {
	return fmt.Sprintf(`SELECT current_setting('synchronous_standby_names') <> ''
		AND extract(epoch FROM pg_conf_load_time()) * 1000000 <= %d`, clock)
}

const standbyAdvice = "a failover may lose what was charged since. Look whether the standbys run " +
	"(pg_stat_replication), and with Patroni whether synchronous_mode_strict is on"
