// Command cluster starts Fareway as examples/cluster/README.md describes it, on network namespaces of this machine. It
// sends requests, kills a gateway and the primary of the database meanwhile, shows what became of the money, and takes
// everything down. With --keep it stays until Ctrl-C.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fareway/fareway/examples/cluster"
	"github.com/fareway/fareway/examples/cluster/machines"
)

func main() {
	keep := flag.Bool("keep", false, "leave it up until Ctrl-C, in place of killing something and taking it down")
	dir := flag.String("dir", ".cache/cluster", "a folder for logs and data, of an earlier run's which is removed first")
	programs := flag.String("bin", "bin", "the folder with the programs fareway and fake-upstream")
	flag.Parse()
	machines.Enter("fareway0")

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := show(ctx, *dir, *programs, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func show(ctx context.Context, dir, programs string, keep bool) error {
	c, err := prepare(dir, programs)
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := c.Start(starting); err != nil {
		return fmt.Errorf("%w; the logs are in %s", err, dir)
	}
	key, err := c.CreateAccount(ctx, c.Gateways[0], "trial", 100_000)
	if err != nil {
		return err
	}
	fmt.Printf("\nThe service is at %s (HAProxy), and this is the account's key: %s\n", c.URL(), key)
	for _, n := range c.Nodes() {
		fmt.Printf("  %-10s %s\n", n.Name, n.Address)
	}
	fmt.Printf(`
  curl %s/v1/chat/completions -H "Authorization: Bearer %s" -H "Content-Type: application/json" \
    -d '{"model": "service/auto", "messages": [{"role": "user", "content": "one two three"}]}'
  %s gateway status --data %s
  nsenter -t $(pgrep -of 'cluster/patroni.yml') -m -n ip netns list    # the machines, from outside

`, c.URL(), key, filepath.Join(programs, "fareway"), c.DataOf(c.Gateways[0]))
	if keep {
		fmt.Println("It is up until Ctrl-C.")
		<-ctx.Done()
		return nil
	}
	return demonstrate(ctx, c, key)
}

// prepare makes the machines.
func prepare(dir, programs string) (*cluster.Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("removing what an earlier run has left: %w", err)
	}
	if programs, err = filepath.Abs(programs); err != nil {
		return nil, err
	}
	o := cluster.Options{Dir: dir, Fareway: filepath.Join(programs, "fareway"),
		Upstream: filepath.Join(programs, "fake-upstream"), Log: os.Stdout}
	for _, path := range []string{o.Fareway, o.Upstream} {
		if _, err := exec.LookPath(path); err != nil {
			return nil, fmt.Errorf("%w: `make cluster` builds it", err)
		}
	}
	return cluster.New(o)
}
