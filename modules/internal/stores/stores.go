// Package stores opens what a configuration names: the ledger of its store block, the counts of its limiter block, and
// what nodes share beside them.
// It is the one room that knows which kinds there are; the others have a ledger.Store, a ratelimit.Limiter, or a File.
package stores

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/cache"
	rediscache "github.com/fareway/fareway/modules/internal/cache/redis"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/live"
	"github.com/fareway/fareway/modules/internal/ledger/move"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/modules/internal/ledger/shared"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
	"github.com/fareway/fareway/modules/internal/ratelimit"
	"github.com/fareway/fareway/modules/internal/ratelimit/redis"
	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/routing/affinity"
	redisaffinity "github.com/fareway/fareway/modules/internal/routing/affinity/redis"
)

// Open opens the ledger that a store block names, for a gateway with this data folder: a live.Store, or for several
// processes at a time a shared.Store. It returns ledger.ErrLocked when another process admits requests on it, or has
// this data folder.
func Open(at config.Store, data string, o ledger.Options) (ledger.Store, error) {
	switch at.Kind {
	case config.SQLite:
		o.Behind = at.Durability == config.DurableProcess
		return File(at.File(data)).Open(o)
	case config.Postgres:
		return openPostgres(at, File(at.File(data)), o)
	}
	return nil, fmt.Errorf("opening the ledger: there is no store of kind %q", at.Kind)
}

// CheckVersion says why this program cannot take up the ledger that a store block names, from a process that has it.
// Only one that others have, too, is never taken up from a process.
func CheckVersion(at config.Store, data string) error {
	if at.Kind != config.SQLite {
		return nil
	}
	return sqlite.CheckVersion(at.File(data))
}

// node is a store in PostgreSQL, by a process with a data folder of its own.
type node struct {
	*postgres.Store
	unlock func() error // the data folder
}

// openPostgres opens the store as a node, to which what lies in the data folder beside a file belongs.
func openPostgres(at config.Store, beside File, o ledger.Options) (shared.Store, error) {
	unlock, err := beside.Lock()
	if err != nil {
		return nil, err
	}
	store, err := postgres.Open(context.Background(), postgres.Options{Options: o, URL: at.DSN, BootID: rand.Text(),
		NeedsStandby: at.Standby == config.StandbyRequired})
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	return &node{Store: store, unlock: unlock}, nil
}

// Close implements ledger.Store.
func (n *node) Close() error { return errors.Join(n.Store.Close(), n.unlock()) }

// OpenLimiter opens the counts that a limiter block names. A server need not be there; log says when it is not. What
// has a Close is to be closed.
func OpenLimiter(at config.Limiter, log *slog.Logger) (ratelimit.Limiter, error) {
	switch cmp.Or(at.Kind, config.Memory) {
	case config.Memory:
		return ratelimit.NewMemory(ratelimit.Options{}), nil
	case config.RedisKind:
		conn, err := connect(&at.Redis)
		if err != nil {
			return nil, fmt.Errorf("opening the limiter: %w", err)
		}
		return redis.New(redis.Options{Conn: conn, LeastNodes: int(at.Nodes), Logger: log}), nil
	}
	return nil, fmt.Errorf("opening the limiter: there is none of kind %q", at.Kind)
}

// OpenCache opens the response cache that a cache block names, where nodes share it. A server need not be there.
func OpenCache(at config.Cache, log *slog.Logger) (cache.Shared, error) {
	conn, err := connect(&at.Redis)
	if err != nil {
		return nil, fmt.Errorf("opening the response cache: %w", err)
	}
	return rediscache.New(conn, log), nil
}

// OpenConversations opens the memory of conversations of nodes that share a limiter, in its server; nil where they do
// not. A server need not be there.
func OpenConversations(at config.Limiter, now func() time.Time, log *slog.Logger) (affinity.Shared, error) {
	if at.Kind != config.RedisKind {
		return nil, nil
	}
	conn, err := connect(&at.Redis)
	if err != nil {
		return nil, fmt.Errorf("opening the memory of conversations: %w", err)
	}
	return redisaffinity.New(conn, now, log), nil
}

// RedisServer is what a Redis says of itself.
type RedisServer = redisconn.Server

// InspectRedis asks the server of a block, and says where it is, without what is secret.
func InspectRedis(ctx context.Context, at *config.Redis) (s RedisServer, address string, err error) {
	conn, err := connect(at)
	if err != nil {
		return s, "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	s, err = conn.Inspect(ctx)
	if err != nil {
		err = redisconn.Explain(err)
	}
	return s, conn.Address(), err
}

// connect is a connection to the server of a block, which need not be there.
func connect(at *config.Redis) (*redisconn.Conn, error) {
	a, err := at.Address()
	if err != nil {
		return nil, fmt.Errorf("reading the url: it %w", err)
	}
	secured, err := at.TLS()
	if err != nil {
		return nil, err
	}
	return redisconn.New(redisconn.Options{Mode: redisconn.Mode(at.Mode), Addrs: a.Hosts, Master: at.Master, User: a.User,
		Password: a.Password, SentinelPassword: at.SentinelPassword, DB: a.DB, TLS: secured, Prefix: at.Prefix,
		Timeout: at.Timeout}), nil
}

// File is a ledger in a file of this machine, by its path, for commands. It need not be there.
type File string

// Open opens it as its gateway does. ledger.ErrLocked when one runs.
func (f File) Open(o ledger.Options) (live.Store, error) {
	store, err := sqlite.Open(sqlite.Options{Path: string(f),
		Now: o.Now, Terms: o.Terms, WaitTimeout: o.WaitTimeout, Logger: o.Logger, Observe: o.Observe, Behind: o.Behind})
	if err != nil {
		return nil, err // and no interface of a nil store
	}
	return store, nil
}

// Books reads a ledger that others may have open.
type Books interface {
	ledger.Books
	io.Closer
}

// OpenBooks opens it for reading, beside a gateway that runs or without one.
func (f File) OpenBooks(ctx context.Context) (Books, error) {
	books, err := sqlite.OpenBooks(ctx, string(f))
	if err != nil {
		return nil, err
	}
	return books, nil
}

// CheckUnlocked is ledger.ErrLocked where a gateway runs on it. It changes nothing.
func (f File) CheckUnlocked() error { return sqlite.CheckUnlocked(string(f)) }

// IsOffered reports whether the gateway that runs on it drains, and hands it over to the next one that is started.
func (f File) IsOffered() bool { return sqlite.IsOffered(string(f)) }

// Lock keeps gateways from it until release is called. ledger.ErrLocked when one runs.
func (f File) Lock() (release func() error, err error) { return sqlite.Lock(string(f)) }

// ReadMove reads whether it was moved elsewhere, or is being moved.
func (f File) ReadMove() (move.Mark, error) { return sqlite.ReadMove(string(f)) }

// OpenMoved opens it for reading, with what is moved of it.
func (f File) OpenMoved(ctx context.Context) (*sqlite.BooksFile, error) {
	return sqlite.OpenBooks(ctx, string(f))
}

// UndoMove has it served again here, although it was moved. ledger.ErrLocked when somebody has it.
func (f File) UndoMove() error { return sqlite.UndoMove(string(f)) }

// Copy copies it as it is at one moment into a new file, with a witness, both on the disk when it returns.
func (f File) Copy(ctx context.Context, to string) error { return sqlite.Copy(ctx, string(f), to) }

// ReadExtent reads how much it has, or had by its witness, whichever is more.
func (f File) ReadExtent(ctx context.Context) (ledger.Extent, error) {
	return sqlite.ReadExtent(ctx, string(f))
}

// FindLoss finds what is missing of it, without changing anything; nil when nothing is known to be.
func (f File) FindLoss(ctx context.Context) (*ledger.Loss, error) {
	return sqlite.FindLoss(ctx, string(f))
}

// DamagedLogs are files beside it with a damaged part of it, which were kept and nobody has decided about.
func (f File) DamagedLogs() (paths []string, err error) { return sqlite.DamagedLogs(string(f)) }

// Server is a ledger in PostgreSQL, by its dsn, for commands.
type Server string

// Name is its name for people, without what is secret of the dsn.
func (s Server) Name() (string, error) { return postgres.NameOf(string(s)) }

// OpenBooks opens it for reading, beside gateways or without one, on the primary or a replica.
func (s Server) OpenBooks(ctx context.Context) (*postgres.Books, error) {
	return postgres.OpenBooks(ctx, string(s))
}

// Inspection is what a server of PostgreSQL says of itself.
type Inspection = postgres.Inspection

// Inspect asks it how it is set up.
func (s Server) Inspect(ctx context.Context) (Inspection, error) {
	return postgres.Inspect(ctx, string(s))
}

// OpenTarget opens it for a ledger that is moved there.
func (s Server) OpenTarget(ctx context.Context, log *slog.Logger) (*postgres.Target, error) {
	return postgres.OpenTarget(ctx, postgres.Options{URL: string(s), Options: ledger.Options{Logger: log}})
}

// ReleaseMemory gives up what SQLite keeps in memory of the files of this process, but for what is in use.
func ReleaseMemory() { sqlite.ReleaseMemory() }
