package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/stores"
)

var serverChecks = []Check{
	{Name: "postgres", About: "servers", Worst: Error, needs: configured,
		Looks: "the ledger's PostgreSQL: reached, connections against max_connections, a replica, hanging transactions",
		Why:   "without it no request is charged, and so none is served",
		Next:  "psql -c 'TABLE pg_stat_activity'",
		run:   checkPostgres},
	{Name: "redis", About: "servers", Worst: Error, needs: configured,
		Looks: "the servers of limits, cache and conversations: reached, version, what they throw away when they are full",
		Why:   "limits are divided among the gateways while the server is away",
		Next:  "redis-cli -u URL ping",
		run:   checkRedis},
	{Name: "nodes", About: "servers", Worst: Error, needs: gatewayRuns,
		Looks: "the gateways that share the ledger: same version, configuration and prices, leases and clocks",
		Why:   "what a request costs depends on which of them it comes to",
		Next:  "fareway gateway nodes",
		run:   checkNodes},
}

// errNoServer: the ledger is in a file.
var errNoServer = errors.New("the ledger is not in PostgreSQL")

// inspectLedger asks the ledger's server once how it is set up.
func (s *Subject) inspectLedger(context.Context) (stores.Inspection, error) {
	s.database.Do(func() {
		if s.Config == nil || s.Config.Store.Kind != config.Postgres {
			s.noServer = errNoServer
			return
		}
		ctx, cancel := context.WithTimeout(s.run, 10*time.Second)
		defer cancel()
		s.server, s.noServer = stores.Server(s.Config.Store.DSN).Inspect(ctx)
	})
	return s.server, s.noServer
}

// connectionsOfNode is how many connections a gateway has to the ledger's server, about.
const connectionsOfNode = 12

func checkPostgres(ctx context.Context, s *Subject, r *result) {
	if s.Config.Store.Kind != config.Postgres {
		return
	}
	name, _ := stores.Server(s.Config.Store.DSN).Name() // a dsn that cannot be read, Inspect tells of
	if s.Status != nil && s.Status.Ledger != nil && !s.Status.Ledger.Up {
		r.found("the gateway does not reach %s since %s: %s", s.Status.Ledger.Address,
			human.Moment(s.Status.Ledger.Since), s.Status.Ledger.Reason)
	}
	i, err := s.inspectLedger(ctx)
	if err != nil {
		r.found("%s cannot be reached from here: %v", name, err)
		return
	}
	nodes := int64(1)
	if s.Status != nil && s.Status.Ledger != nil {
		nodes = max(nodes, int64(s.Status.Ledger.Nodes))
	}
	switch left := i.Most - i.Connections; {
	case left < connectionsOfNode:
		r.found("%s has %d of %d connections, and a gateway needs %d", name, i.Connections, i.Most, connectionsOfNode).
			because("the next gateway, or a new version beside the old one, gets none").
			then("psql -c \"ALTER SYSTEM SET max_connections = 200\"   # and restart the server, or put PgBouncer before it")
	case i.Most < connectionsOfNode*(nodes+1):
		r.found("%s takes %d connections, and %d gateways (and one more in an upgrade) need %d", name, i.Most, nodes,
			connectionsOfNode*(nodes+1)).as(Warning).because("a gateway more gets no connection").
			then("psql -c \"ALTER SYSTEM SET max_connections = 200\"   # and restart the server")
	}
	if i.Replica {
		r.found("%s is a replica", name).because("a gateway cannot write there").
			then("name the primary in the dsn, or several hosts with target_session_attrs=read-write")
	}
	if i.IdleInTransaction > 0 {
		r.found("%s idle in a transaction for more than a minute", human.Count(i.IdleInTransaction, "connection")+" of "+
			name+" "+are(i.IdleInTransaction)).as(Warning).because("what they have locked, and old rows, stay").
			then("psql -c \"SELECT pid, usename, application_name, state_change FROM pg_stat_activity " +
				"WHERE state LIKE 'idle in transaction%%'\"")
	}
	if i.Poisoned > 60 {
		r.found("the oldest transaction of %s is %d %% on the way to wraparound", name, i.Poisoned).
			because("the server takes no writes when it is there").then("vacuumdb --all --freeze")
	}
}

func are(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func checkRedis(ctx context.Context, s *Subject, r *result) {
	if s.Status != nil {
		if l := s.Status.Limiter; l != nil && !l.Up {
			r.found("the limiter's server %s is away since %s: %s", l.Address, human.Moment(l.Since), l.Reason).
				because("each of %d gateways admits a share of each limit", l.Nodes)
		}
		for _, what := range slices.Sorted(maps.Keys(s.Status.Servers)) {
			if server := s.Status.Servers[what]; !server.Up {
				r.found("the server of %s, %s, is away since %s: %s", what, server.Address, human.Moment(server.Since),
					server.Reason).as(Warning).because("the gateways do without it: each request costs its full price")
			}
		}
	}
	blocks := map[string]*config.Redis{}
	if s.Config.Limiter.Kind == config.RedisKind {
		blocks["limiter"] = &s.Config.Limiter.Redis
	}
	if s.Config.Cache.Kind == config.RedisKind {
		blocks["cache"] = &s.Config.Cache.Redis
	}
	for _, what := range slices.Sorted(maps.Keys(blocks)) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		server, address, err := stores.InspectRedis(ctx, blocks[what])
		cancel()
		if err != nil {
			r.found("%s, the server of the block %s, cannot be reached from here: %v", address, what, err)
			continue
		}
		if !server.Suffices() {
			r.found("%s, the server of the block %s, is Redis %s, and 6.2 is needed", address, what, server.Version).
				then("update it")
		}
		if what == "limiter" && server.Eviction != "" && server.Eviction != "noeviction" {
			r.found("%s, the limiter's server, has maxmemory-policy %s", address, server.Eviction).as(Warning).
				because("when its memory is full it forgets who has sent how much, and limits do not hold").
				then("redis-cli CONFIG SET maxmemory-policy noeviction")
		}
		if what == "cache" && server.Eviction == "noeviction" {
			r.found("%s, the cache's server, has maxmemory-policy noeviction", address).as(Note).
				because("when its memory is full it takes no new replies").
				then("redis-cli CONFIG SET maxmemory-policy allkeys-lru")
		}
	}
}

func checkNodes(ctx context.Context, s *Subject, r *result) {
	if s.Status.Ledger == nil {
		return
	}
	var v admin.Nodes
	if err := s.Client.Call(ctx, "GET", "/fareway/nodes", nil, &v); err != nil {
		r.skip("%v", err)
		return
	}
	judgeNodes(s, r, v)
}

func judgeNodes(s *Subject, r *result, v admin.Nodes) {
	for _, text := range v.Drift {
		r.found("%s", text).as(Warning)
	}
	lives := 0
	for _, n := range v.Nodes {
		switch n.State {
		case "lives":
			lives++
		case "lapsed":
			r.found("the lease of node %s has lapsed, and %s what it held", n.Label, human.Count(n.Holds, "request")+
				" wait for").as(Warning).because("the node is gone, or is cut off from the database").
				then("%s", s.command("nodes"))
		}
		if n.Spooled > 0 {
			r.found("%s in the spool of node %s", human.Count(n.Spooled, "settlement")+" wait", n.Label).as(Warning).
				because("that node does not reach the ledger")
		}
		if ahead := n.Since.Sub(s.Now()); ahead > 10*time.Second {
			r.found("node %s says to have begun in %s: its clock is ahead of this machine's", n.Label,
				span(ahead.Round(time.Second))).then("timedatectl status   # on %s", n.Machine)
		}
	}
	if lives > 1 && s.Config != nil && s.Config.Limiter.Kind != config.RedisKind {
		r.found("%d gateways share the ledger, and each counts requests by itself", lives).as(Warning).
			because("accounts may send %d times what their limits say", lives).
			then("limiter \"redis\" { url = env(\"REDIS_URL\") }   # in %s", strings.TrimSpace(s.HCL))
	}
}
