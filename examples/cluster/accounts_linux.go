package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
)

// Command runs `fareway gateway ARGS --data ... --json` on a gateway and decodes what it prints into out, unless that
// is nil.
func (c *Cluster) Command(ctx context.Context, g *Node, out any, args ...string) error {
	args = append(append([]string{"gateway"}, args...), "--data", c.DataOf(g), "--json")
	cmd := exec.CommandContext(ctx, c.options.Fareway, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	printed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("fareway %q: %w: %s%s", args, err, printed, &stderr)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(printed, out); err != nil {
		return fmt.Errorf("reading what fareway %q printed: %w: %s", args, err, printed)
	}
	return nil
}

// CreateAccount makes an account with credits, and returns its key.
func (c *Cluster) CreateAccount(ctx context.Context, g *Node, name string, credits int64) (key string, err error) {
	if err := c.Command(ctx, g, nil, "account", "create", name, "--plan", "team"); err != nil {
		return "", err
	}
	if err := c.Command(ctx, g, nil, "credit", "add", "--account", name, fmt.Sprint(credits), "--yes"); err != nil {
		return "", err
	}
	var made struct{ Key string }
	err = c.Command(ctx, g, &made, "key", "create", "--account", name, "--name", "first")
	return made.Key, err
}
