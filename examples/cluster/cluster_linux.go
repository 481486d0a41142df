package cluster

import (
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fareway/fareway/examples/cluster/machines"
)

//go:embed patroni.yml haproxy.cfg gateway.hcl Caddyfile redis.conf sentinel.conf upstream.json
var configuration embed.FS

// Options say what runs, and where.
type Options struct {
	Dir      string    // for everything that is kept and logged; every user can reach it
	Fareway  string    // the program of the gateways
	Upstream string    // the program of the fake model service (plugins/providertest/upstream/cmd/fake-upstream)
	Log      io.Writer // is told of each part that runs
}

// Cluster is the machines. The fields are in the order in which they depend on one another.
type Cluster struct {
	Coordinators []*Node // etcd
	Databases    []*Node // PostgreSQL and Patroni
	Caches       []*Node // Redis and Sentinel
	Upstream     *Node   // the model service
	Gateways     []*Node
	Balancer     *Node // HAProxy

	options  Options
	password string // of everything that has one
}

// Node is a machine and what it runs.
type Node struct {
	*machines.Machine
	start func() error
}

// Start starts what the machine runs, after Kill again: with what its folder has.
func (n *Node) Start() error { return n.start() }

// New makes the machines; nothing runs on them.
func New(o Options) (*Cluster, error) {
	network, err := machines.NewNetwork()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, password: rand.Text()}
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	add := func(name string, number int, start func(*Node) error) *Node {
		n := &Node{}
		if err == nil {
			n.Machine, err = network.Add(name, number, filepath.Join(o.Dir, name))
		}
		n.start = func() error { return start(n) }
		return n
	}
	for i := 1; i <= 3; i++ {
		c.Coordinators = append(c.Coordinators, add(fmt.Sprint("etcd", i), 10+i, c.startCoordinator))
		c.Databases = append(c.Databases, add(fmt.Sprint("postgres", i), 20+i, c.startDatabase))
		c.Caches = append(c.Caches, add(fmt.Sprint("redis", i), 30+i, c.startCache))
		c.Gateways = append(c.Gateways, add(fmt.Sprint("gateway", i), 40+i, c.startGateway))
	}
	c.Upstream = add("upstream", 50, c.startUpstream)
	c.Balancer = add("haproxy", 10, c.startBalancer)
	return c, err
}

// writeFiles puts the configuration where programs of all users can read it.
func (c *Cluster) writeFiles() error {
	if err := os.MkdirAll(c.options.Dir, 0o755); err != nil {
		return err
	}
	all, err := configuration.ReadDir(".")
	if err != nil {
		return err
	}
	for _, entry := range all {
		text, err := configuration.ReadFile(entry.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(c.file(entry.Name()), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) file(name string) string { return filepath.Join(c.options.Dir, name) }

// URL is where clients reach the service.
func (c *Cluster) URL() string { return "http://" + c.Balancer.Address + ":8080" }

// Nodes are all machines.
func (c *Cluster) Nodes() []*Node {
	var all []*Node
	for _, some := range [][]*Node{c.Coordinators, c.Databases, c.Caches, {c.Upstream}, c.Gateways, {c.Balancer}} {
		all = append(all, some...)
	}
	return all
}

// Start starts everything and waits until it serves.
func (c *Cluster) Start(ctx context.Context) error {
	for _, part := range []struct {
		name  string
		nodes []*Node
		ready func(context.Context) error
	}{
		{"etcd and Redis", append(append([]*Node{c.Upstream}, c.Coordinators...), c.Caches...), c.awaitCaches},
		{"PostgreSQL, its standbys and the ledger's database", c.Databases, c.prepareDatabase},
		{"the gateways and HAProxy", append([]*Node{c.Balancer}, c.Gateways...), c.AwaitReady},
	} {
		began := time.Now()
		for _, n := range part.nodes {
			if err := n.Start(); err != nil {
				return err
			}
		}
		if err := part.ready(ctx); err != nil {
			return fmt.Errorf("starting %s: %w", part.name, err)
		}
		fmt.Fprintf(c.options.Log, "%s: started after %.1f s\n", part.name, time.Since(began).Seconds())
	}
	return nil
}

// AwaitReady waits until each gateway is ready, and HAProxy gives it requests.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	var all errgroup.Group
	for _, g := range c.Gateways {
		all.Go(func() error { return await(ctx, g.Name+" to be ready", func() error { return c.IsReady(ctx, g) }) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return await(ctx, "HAProxy to give requests to a gateway", func() error {
		_, err := get(ctx, c.URL()+"/v1/models", http.StatusUnauthorized) // nobody has asked with a key
		return err
	})
}

// IsReady is nil for a gateway that says that it is ready.
func (c *Cluster) IsReady(ctx context.Context, g *Node) error {
	_, err := get(ctx, "http://"+g.Address+":2021/readyz", http.StatusOK)
	return err
}

// await asks until there is no error, which it has none to ask for by an event of another machine's program.
func await(ctx context.Context, what string, ask func() error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; the last that was seen: %w", what, ctx.Err(), err)
		}
	}
}

// get asks an address of a machine, and wants a status.
func get(ctx context.Context, url string, status int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := fresh.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
	}
	return string(body), err
}

// fresh makes a connection for each question: those of a machine that was killed are of no use.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
