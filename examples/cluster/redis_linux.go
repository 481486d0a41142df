package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/fareway/fareway/examples/cluster/machines"
)

// startCache starts Redis and the Sentinel beside it.
func (c *Cluster) startCache(n *Node) error {
	data, err := n.Own("data", "redis")
	if err != nil {
		return err
	}
	args := []string{c.file("redis.conf"), "--dir", data, "--bind", n.Address, "--requirepass", c.password,
		"--masterauth", c.password}
	primary := c.Caches[0]
	if found := c.cachePrimary(context.Background(), n); found != "" {
		args = append(args, "--replicaof", found+" 6379")
	} else if n != primary {
		args = append(args, "--replicaof", primary.Address+" 6379")
	}
	server := machines.Program{Name: "redis", Path: "redis-server", User: "redis", Args: args}
	if err := n.Machine.Start(server); err != nil {
		return err
	}
	own := filepath.Join(data, "sentinel.conf") // Sentinel keeps there what it knows
	if _, err := os.Stat(own); errors.Is(err, os.ErrNotExist) {
		text, err := configuration.ReadFile("sentinel.conf")
		if err != nil {
			return err
		}
		more := fmt.Sprintf("bind %s\ndir %s\nsentinel monitor fareway %s 6379 2\nsentinel auth-pass fareway %s\n"+
			"sentinel down-after-milliseconds fareway 2000\nsentinel failover-timeout fareway 10000\n",
			n.Address, data, primary.Address, c.password)
		if err := os.WriteFile(own, append(text, more...), 0o666); err != nil {
			return err
		}
		if err := os.Chmod(own, 0o666); err != nil {
			return err
		}
	}
	return n.Machine.Start(machines.Program{Name: "sentinel", Path: "redis-sentinel", User: "redis", Args: []string{own}})
}

// cachePrimary is the address of the server that another machine's Sentinel holds for the primary, unless that is n.
func (c *Cluster) cachePrimary(ctx context.Context, n *Node) string {
	for _, m := range c.Caches {
		if m == n {
			continue
		}
		found, err := askSentinel(ctx, m, "get-master-addr-by-name")
		if address, _, ok := strings.Cut(found, "\n"); err == nil && ok && (n == nil || address != n.Address) {
			return address
		}
	}
	return ""
}

// askSentinel asks a machine's Sentinel about the primary.
func askSentinel(ctx context.Context, m *Node, question string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-cli", "-h", m.Address, "-p", "26379", "-e", "sentinel", question,
		"fareway").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("asking the Sentinel of %s: %w: %s", m.Name, err, out)
	}
	return string(out), nil
}

// RedisURL is where the Sentinels are.
func (c *Cluster) RedisURL() string {
	var all []string
	for _, m := range c.Caches {
		all = append(all, m.Address+":26379")
	}
	return "redis://:" + c.password + "@" + strings.Join(all, ",")
}

// CachePrimary is the machine that has Redis's primary, by the Sentinels' word.
func (c *Cluster) CachePrimary(ctx context.Context) (*Node, error) {
	address := c.cachePrimary(ctx, nil)
	for _, m := range c.Caches {
		if m.Address == address {
			return m, nil
		}
	}
	return nil, errors.New("no Sentinel knows Redis's primary")
}

// awaitCaches waits until the Sentinels know one another, and could agree on another primary.
func (c *Cluster) awaitCaches(ctx context.Context) error {
	for _, m := range c.Caches {
		if err := await(ctx, "the Sentinel of "+m.Name+" to know the others", func() error {
			said, err := askSentinel(ctx, m, "ckquorum")
			if err == nil && !strings.Contains(said, "3 usable") {
				err = errors.New(said)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
