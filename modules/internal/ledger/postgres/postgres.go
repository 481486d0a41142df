package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// Options say how the store is opened.
type Options struct {
	ledger.Options
	// URL is of the database, as libpq takes it: "postgres://user:password@host/database". It is a secret.
	URL string
	// BootID names this process, and no other that was or will be.
	BootID string
	// Lease is how long this process may admit requests since it last told the database that it lives. Default: 15 s.
	Lease time.Duration
	// NeedsStandby: nothing is written while the server's commits wait for no standby.
	NeedsStandby bool
	// Lanes are how many transactions of requests run at once, each of accounts of its own. Default: 2.
	Lanes int
}

const (
	defaultLease = 15 * time.Second
	defaultLanes = 2
	readers      = 4 // connections of each pool
)

// Store is a ledger in a PostgreSQL database.
type Store struct {
	o     Options
	pool  *pgxpool.Pool // of who reads a row or some; nobody who has one of its connections waits for another
	lists *pgxpool.Pool // of lists, which take as long as their readers
	lanes []*lane       // of accounts, and behind them one of what is about none

	questions chan *question // of Check
	closed    chan struct{}
	answering sync.WaitGroup

	held     sync.Map // *held, by request
	roots    sync.Map // of lines, by keyID
	payers   sync.Map // the root of the line that has paid last, by account
	settings sync.Map // *settingRow, by account
	unmade   sync.Map // attempts on record whose callers had given up: they were never made
	prices   sync.Map // by priceID
	cursors  atomic.Int64
	server   serverState
	about    atomic.Pointer[ledger.About] // what this node says of itself
	changed  chan struct{}                // capacity 1: that is another one

	expires  atomic.Int64 // of the lease, by this process's monotonic clock since it was opened
	opened   time.Time
	ended    chan struct{}
	renewing *pgx.ConnConfig // for the connection that renews the lease, which waits for nobody

	seen    sync.Map // leaseSeen, by node: since when this process has seen another node's lease not renewed
	renewed sync.WaitGroup

	ending   sync.Once // of the renewals
	closing  sync.Once
	closeErr error
}

func (o *Options) fill() {
	if o.Terms == nil {
		o.Terms = func(string) ledger.Terms { return ledger.Terms{} }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.WaitTimeout == 0 {
		o.WaitTimeout = 5 * time.Second
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration, int) {}
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Lanes == 0 {
		o.Lanes = defaultLanes
	}
}

// newStore is a store that is no node yet.
func newStore(o Options) *Store {
	s := &Store{o: o, opened: time.Now(), ended: make(chan struct{}), changed: make(chan struct{}, 1),
		questions: make(chan *question, queueLen), closed: make(chan struct{})}
	s.server.Needed = o.NeedsStandby
	s.about.Store(&ledger.About{})
	return s
}

// Open connects to the database, brings its tables to this version, and takes a lease as a node of its own. Other
// nodes may have the same ledger open.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	o.fill()
	s := newStore(o)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.connect(ctx, toPrimary); err != nil {
		return nil, err
	}
	if err := s.checkServer(ctx); err != nil {
		return nil, err
	}
	if err := migrate(ctx, s.pool, o); err != nil {
		return nil, err
	}
	if err := s.checkServed(ctx); err != nil {
		return nil, err
	}
	s.addMonths(ctx)
	if err := s.signIn(ctx); err != nil {
		return nil, err
	}
	// Once more: a move that began meanwhile sees this node, or this node sees it.
	if err := s.checkServed(ctx); err != nil {
		return nil, err
	}
	c := s.pool.Config()
	writer := c.ConnConfig.Copy()
	prepare(writer)
	for range o.Lanes + 1 {
		s.lanes = append(s.lanes, startLane(s, writer.Copy()))
	}
	for range readers / 2 {
		s.answering.Go(s.answerQuestions)
	}
	s.renewing = c.ConnConfig
	s.renewed.Go(s.renew)
	s.answering.Go(s.sumContinually)
	return s, nil
}

// connect makes the pools of those who read. It does not ask anything yet.
func (s *Store) connect(ctx context.Context, where destination) error {
	c, err := pgxpool.ParseConfig(s.o.URL)
	if err != nil {
		return fmt.Errorf("%w: its dsn cannot be read; it looks like postgres://user:password@host/database",
			ledger.ErrInvalid) // pgx's error may say parts of it
	}
	c.MaxConns = readers
	if where == toPrimary {
		c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	for _, pool := range []**pgxpool.Pool{&s.pool, &s.lists} {
		if *pool, err = pgxpool.NewWithConfig(ctx, c.Copy()); err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
	}
	return nil
}

// destination is which of the dsn's hosts is connected to.
type destination bool

const (
	toAny     destination = false // or what the dsn asks for (target_session_attrs)
	toPrimary destination = true
)

// NameOf names the database that a dsn leads to, without what is secret of it.
func NameOf(url string) (string, error) {
	c, err := pgx.ParseConfig(url)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: its dsn cannot be read; it looks like postgres://user:password@host/database",
			ledger.ErrInvalid) // pgx's error may say parts of it
	case strings.HasPrefix(c.Host, "/"):
		return "postgres:///" + c.Database + "?host=" + c.Host, nil
	}
	return "postgres://" + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database, nil
}

// prepare has what the server warns of kept (see noticeOf), and no connection ever cancel what the server does: a
// commit that is cancelled while it waits for its standby is there, and lost by a failover.
func prepare(c *pgx.ConnConfig) {
	c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	c.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if len(n.Code) > 2 && n.Code[:2] == "01" {
			noticeOfConn(conn).Store(n)
		}
	}
	dialer := &net.Dialer{Control: setPeerTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: peerTimeout / 4, Interval: peerTimeout / 4, Count: 3,
	}}
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(connecting{}) == nil {
			return nil, errors.New("nothing of the server's is cancelled")
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// peerTimeout is how long the network may say nothing, before a connection is given up. A server that works on a commit
// answers the network's own questions, so that bounds no commit.
const peerTimeout = 10 * time.Second

// connecting marks a context in which a connection is made.
type connecting struct{}

func noticeOf(conn *pgx.Conn) *atomic.Pointer[pgconn.Notice] { return noticeOfConn(conn.PgConn()) }

func noticeOfConn(conn *pgconn.PgConn) *atomic.Pointer[pgconn.Notice] {
	kept, ok := conn.CustomData()["notice"].(*atomic.Pointer[pgconn.Notice])
	if !ok {
		kept = &atomic.Pointer[pgconn.Notice]{}
		conn.CustomData()["notice"] = kept
	}
	return kept
}

// isSaid reports whether an error is what the server said of a statement, so that it has taken the transaction back.
func isSaid(err error) bool {
	if errors.Is(err, errMissing) {
		return true
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code == "40003" || strings.HasPrefix(e.Code, "08") {
		return false
	}
	severity := cmp.Or(e.SeverityUnlocalized, e.Severity)
	return severity != "FATAL" && severity != "PANIC"
}

// isLocked reports whether somebody else has had a row or a table locked for too long.
func isLocked(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55P03"
}

// isElsewhere reports whether to connect anew: this server is read-only, or ends, or has forgotten what was prepared.
func isElsewhere(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "25006" || e.Code == "26000" || strings.HasPrefix(e.Code, "57P0"))
}

// isRetryable reports whether the same transaction may succeed at once: it met another one (40001, 40P01), or another
// node has recorded the same price.
func isRetryable(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01" || e.ConstraintName == "prices_pkey")
}

func (s *Store) nowAt(clock int64) time.Time {
	if s.o.Now != nil {
		return s.o.Now().UTC()
	}
	return time.UnixMicro(clock).UTC()
}

// checkServer refuses a server that the ledger cannot be kept on.
func (s *Store) checkServer(ctx context.Context) error {
	var version int64
	var standbys string
	err := s.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
			current_setting('synchronous_standby_names')`).Scan(&version, &s.server.Version, &standbys)
	if errors.Is(err, pgconn.ErrReadOnlyConnection) {
		return fmt.Errorf("%w: the server is a replica; the dsn has to lead to the primary", ledger.ErrUnavailable)
	}
	if err := refuseVersion(version, err); err != nil {
		return err
	}
	_ = s.noteStandbys(standbys) // what it refuses is refused when it is asked for
	return nil
}

// checkVersion refuses a server that the ledger cannot be read on.
func (s *Store) checkVersion(ctx context.Context) error {
	var version int64
	err := s.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::bigint`).Scan(&version)
	return refuseVersion(version, err)
}

func refuseVersion(version int64, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: connecting: %w", ledger.ErrUnavailable, explain(err))
	case version < 140000:
		return fmt.Errorf("%w: the server is PostgreSQL %d; it has to be 14 or newer", ledger.ErrInvalid, version/10000)
	}
	return nil
}

func newID(prefix string) string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}

type priceID struct {
	route   string
	version int64
}

// price finds a version of a route's price, which never changes.
func (s *Store) price(ctx context.Context, route string, version int64) (price, cost config.Price, err error) {
	if kept, ok := s.prices.Load(priceID{route, version}); ok {
		p, _ := kept.(book.Price)
		return p.Price, p.Cost, nil
	}
	p := book.Price{}
	err = s.readPrices(ctx, func(_ string, is book.Price) error { p = is; return nil },
		`WHERE route = $1 AND version = $2`, route, version)
	err = unavailable(err)
	if err == nil && p.Version == 0 {
		err = book.NoPrice(route, version)
	}
	if err == nil {
		s.prices.Store(priceID{route, version}, p)
	}
	return p.Price, p.Cost, err
}

// Ping implements ledger.Store.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.mayAdmit(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.WaitTimeout)
	defer cancel()
	var standbys string
	err := s.pool.QueryRow(ctx, `SELECT current_setting('synchronous_standby_names')`).Scan(&standbys)
	if err != nil {
		return unavailable(err)
	}
	return s.noteStandbys(standbys)
}

// unavailable puts errors of the server into the ledger's terms.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range [...]error{ledger.ErrUnavailable, ledger.ErrNotFound, ledger.ErrExists, ledger.ErrInvalid,
		ledger.ErrInsufficient, ledger.ErrSpendCap, ledger.ErrTokenBudget, ledger.ErrKeySpendCap, ledger.ErrUsage} {
		if errors.Is(err, known) {
			return err
		}
	}
	var e *pgconn.PgError
	if errors.As(err, &e) && slices.Contains([]string{"names_pkey", "hashes_pkey", "keys_account_name_key"},
		e.ConstraintName) {
		return fmt.Errorf("%w: %s", ledger.ErrExists, e.ConstraintName)
	}
	if isConflict(err) {
		return fmt.Errorf("%w: %w; %w", ledger.ErrUnavailable, err, errConflict)
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, explain(err))
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// Close finishes the operations that wait and gives the lease back. Holds stay: another node releases them.
func (s *Store) Close() error {
	s.closing.Do(func() {
		for _, l := range s.lanes {
			l.close()
		}
		s.endRenewals()
		close(s.closed)
		s.answering.Wait()
		if s.pool != nil {
			if s.expires.Load() > 0 { // it signed in
				s.closeErr = s.signOut()
			}
			s.pool.Close()
		}
		if s.lists != nil {
			s.lists.Close()
		}
	})
	return s.closeErr
}

// machineName is what people call this machine.
func machineName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
