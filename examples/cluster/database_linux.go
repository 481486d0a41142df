package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fareway/fareway/examples/cluster/machines"
)

// startCoordinator starts a member of etcd, by which the members of PostgreSQL agree on their primary.
func (c *Cluster) startCoordinator(n *Node) error {
	data, err := n.Own("data", "etcd")
	if err != nil {
		return err
	}
	var members []string
	for _, m := range c.Coordinators {
		members = append(members, fmt.Sprintf("%s=http://%s:2380", m.Name, m.Address))
	}
	client, peer := "http://"+n.Address+":2379", "http://"+n.Address+":2380"
	return n.Machine.Start(machines.Program{Name: "etcd", Path: "etcd", User: "etcd", Args: []string{
		"--name", n.Name, "--data-dir", data, "--logger", "zap",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new",
		"--heartbeat-interval", "200", "--election-timeout", "2000", // the machines share one
	}})
}

// startDatabase starts Patroni, which starts PostgreSQL.
func (c *Cluster) startDatabase(n *Node) error {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(programs) == 0 {
		return errors.New("finding PostgreSQL: there is none in /usr/lib/postgresql; install the package postgresql")
	}
	data, err := n.Own("data", "postgres")
	if err != nil {
		return err
	}
	home, err := n.Own("home", "postgres")
	if err != nil {
		return err
	}
	var etcd []string
	for _, m := range c.Coordinators {
		etcd = append(etcd, "'"+m.Address+":2379'")
	}
	return n.Machine.Start(machines.Program{Name: "patroni", Path: "patroni", User: "postgres", Dir: home,
		Args: []string{c.file("patroni.yml")},
		Env: []string{
			"HOME=" + home,
			"PATRONI_NAME=" + n.Name,
			"PATRONI_ETCD3_HOSTS=" + strings.Join(etcd, ","),
			"PATRONI_RESTAPI_LISTEN=" + n.Address + ":8008",
			"PATRONI_RESTAPI_CONNECT_ADDRESS=" + n.Address + ":8008",
			"PATRONI_POSTGRESQL_LISTEN=" + n.Address + ":5432",
			"PATRONI_POSTGRESQL_CONNECT_ADDRESS=" + n.Address + ":5432",
			"PATRONI_POSTGRESQL_DATA_DIR=" + filepath.Join(data, "15"),
			"PATRONI_POSTGRESQL_BIN_DIR=" + slices.Max(programs),
			"PATRONI_POSTGRESQL_PGPASS=" + filepath.Join(home, "pgpass"),
			"PATRONI_SUPERUSER_USERNAME=postgres", "PATRONI_SUPERUSER_PASSWORD=" + c.password,
			"PATRONI_REPLICATION_USERNAME=replicator", "PATRONI_REPLICATION_PASSWORD=" + c.password,
			"PATRONI_REWIND_USERNAME=rewinder", "PATRONI_REWIND_PASSWORD=" + c.password,
		}})
}

// DatabaseURL leads to the primary, whichever machine has it: every member is tried, and the one that takes writes is
// it. One that says nothing is passed over after two seconds.
func (c *Cluster) DatabaseURL(name, database string) string {
	var hosts []string
	for _, m := range c.Databases {
		hosts = append(hosts, m.Address+":5432")
	}
	return fmt.Sprintf("postgres://%s:%s@%s/%s?target_session_attrs=read-write&connect_timeout=2&sslmode=disable", name,
		url.QueryEscape(c.password), strings.Join(hosts, ","), database)
}

// Primary is the machine that has the primary, by Patroni's own word.
func (c *Cluster) Primary(ctx context.Context) (*Node, error) {
	for _, m := range c.Databases {
		if _, err := get(ctx, "http://"+m.Address+":8008/primary", http.StatusOK); err == nil {
			return m, nil
		}
	}
	return nil, errors.New("no machine has a primary of PostgreSQL")
}

// AwaitDatabase waits for a primary with two standbys that follow it, one of which is synchronous.
func (c *Cluster) AwaitDatabase(ctx context.Context) error {
	return await(ctx, "PostgreSQL to have a primary and two standbys", func() error {
		db, err := pgx.Connect(ctx, c.DatabaseURL("postgres", "postgres"))
		if err != nil {
			return err
		}
		defer db.Close(context.WithoutCancel(ctx))
		var synchronous, all int
		err = db.QueryRow(ctx, `SELECT count(*) FILTER (WHERE sync_state = 'sync'), count(*) FROM pg_stat_replication
			WHERE state = 'streaming'`).Scan(&synchronous, &all)
		if err == nil && (synchronous < 1 || all < 2) {
			err = fmt.Errorf("%d standbys follow, %d of them synchronous", all, synchronous)
		}
		return err
	})
}

// prepareDatabase makes the ledger's database, as an operator does once.
func (c *Cluster) prepareDatabase(ctx context.Context) error {
	if err := c.AwaitDatabase(ctx); err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, c.DatabaseURL("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	for _, statement := range []string{
		"CREATE ROLE fareway LOGIN PASSWORD '" + c.password + "'", // letters and digits
		"CREATE DATABASE fareway OWNER fareway",
	} {
		if _, err := db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("making the ledger's database: %w", err)
		}
	}
	return nil
}

// SynchronousStandby is the machine that has the standby for which commits wait, by Patroni's own word.
func (c *Cluster) SynchronousStandby(ctx context.Context) (*Node, error) {
	for _, m := range c.Databases {
		if _, err := get(ctx, "http://"+m.Address+":8008/synchronous", http.StatusOK); err == nil {
			return m, nil
		}
	}
	return nil, errors.New("no machine has a synchronous standby")
}
