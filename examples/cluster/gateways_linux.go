package cluster

import (
	"fmt"
	"path/filepath"

	"github.com/fareway/fareway/examples/cluster/machines"
)

// startGateway starts a gateway.
func (c *Cluster) startGateway(n *Node) error {
	return n.Machine.Start(machines.Program{Name: "stderr", Path: c.options.Fareway,
		Args: []string{"run", "--config", c.file("Caddyfile"), "--adapter", "caddyfile"},
		Env: []string{
			"HOME=" + n.Dir,
			"ADDRESS=" + n.Address,
			"BALANCER=" + c.Balancer.Address,
			"DATA=" + c.DataOf(n),
			"GATEWAY_HCL=" + c.file("gateway.hcl"),
			"DATABASE_URL=" + c.DatabaseURL("fareway", "fareway"),
			"REDIS_URL=" + c.RedisURL(),
			"UPSTREAM_URL=http://" + c.Upstream.Address + ":9000/v1",
		}})
}

// DataOf is a gateway's data folder, for `fareway gateway ... --data`.
func (c *Cluster) DataOf(n *Node) string { return filepath.Join(n.Dir, "data") }

// startBalancer starts HAProxy.
func (c *Cluster) startBalancer(n *Node) error {
	var env []string
	for i, g := range c.Gateways {
		env = append(env, fmt.Sprintf("GATEWAY%d=%s", i+1, g.Address))
	}
	return n.Machine.Start(machines.Program{Name: "haproxy", Path: "haproxy", Env: env,
		Args: []string{"-db", "-f", c.file("haproxy.cfg")}})
}

// UpstreamLog is where the model service says what it has served, a line of JSON a request.
func (c *Cluster) UpstreamLog() string { return filepath.Join(c.Upstream.Dir, "served.jsonl") }

// startUpstream starts the fake model service.
func (c *Cluster) startUpstream(n *Node) error {
	return n.Machine.Start(machines.Program{Name: "upstream", Path: c.options.Upstream,
		Args: []string{"--listen", n.Address + ":9000", "--keep", "100", "--log", c.UpstreamLog(), "--script",
			c.file("upstream.json")}})
}
