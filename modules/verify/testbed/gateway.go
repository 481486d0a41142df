// Package testbed is what the conformance suite and tests need to see what no client can: gateways of this build over
// a scripted upstream, what is in their ledger, and a provider whose receipts come when they are asked for. It is no
// part of a gateway.
package testbed

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fareway/fareway/modules/admin"
)

// Gateway is one that runs for somebody: this executable again, on a data folder that is thrown away.
type Gateway struct {
	Dir    string // the data folder
	URL    string
	Admin  *admin.Client
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
	stderr tail
}

// Start starts a gateway with this configuration, as `fareway gateway up` does; nil is the starter's. Programs are
// files beside the configuration, by their paths. Close ends it.
func Start(ctx context.Context, hcl []byte, programs map[string]string) (g *Gateway, err error) {
	// A short name: a unix socket's path has little room.
	dir, err := os.MkdirTemp("", "fwv")
	if err != nil {
		return nil, fmt.Errorf("making a data folder for a gateway: %w", err)
	}
	started := &Gateway{Dir: dir, ended: make(chan struct{})}
	g = started
	defer func() {
		if err != nil {
			started.Close()
		}
	}()
	if hcl != nil {
		if err := os.WriteFile(filepath.Join(dir, "gateway.hcl"), hcl, 0o600); err != nil {
			return nil, fmt.Errorf("writing the configuration of a gateway: %w", err)
		}
	}
	for path, content := range programs {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("making a folder for a program of a gateway: %w", err)
		}
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			return nil, fmt.Errorf("writing a program of a gateway: %w", err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this executable: %w", err)
	}
	cmd := exec.CommandContext(ctx, exe, "gateway", "up", "--no-selftest", "--listen", "127.0.0.1:0", "--data", dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = &g.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a gateway: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a gateway: %w", err)
	}
	g.cmd = cmd
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		g.Close() // then all that it says on stderr is there
		return nil, fmt.Errorf("starting a gateway: it said %q and %q", strings.TrimSpace(line), g.stderr.String())
	}
	go func() {
		_, _ = io.Copy(io.Discard, out) // it may print more, and must not wait for a reader
		_ = cmd.Wait()                  // how it ends is no part of what is verified
		close(started.ended)
	}()
	g.URL = url
	g.Admin, err = admin.NewClient(dir, "")
	return g, err
}

// Close ends the gateway and removes its folder.
func (g *Gateway) Close() {
	if g.cmd != nil {
		_ = g.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if g.URL == "" {
			_ = g.cmd.Wait()
		} else {
			select {
			case <-g.ended:
			case <-time.After(10 * time.Second):
				_ = g.cmd.Process.Kill()
				<-g.ended
			}
		}
	}
	_ = os.RemoveAll(g.Dir) // a temporary folder
}

// Account is a customer of such a gateway.
type Account struct{ Name, ID, Key, KeyID string }

// NewAccount makes an active account with credits and one key, on the plan "trial".
func (g *Gateway) NewAccount(ctx context.Context, name string, credits int64) (Account, error) {
	a := Account{Name: name}
	var made struct{ ID, Key string }
	if err := g.Admin.Call(ctx, "POST", "/fareway/accounts", map[string]any{"name": name, "plan": "trial"},
		&made); err != nil {
		return a, fmt.Errorf("making an account: %w", err)
	}
	a.ID = made.ID
	if err := g.Admin.Call(ctx, "POST", "/fareway/keys", map[string]any{"account": name, "name": "first"},
		&made); err != nil {
		return a, fmt.Errorf("making a key: %w", err)
	}
	a.Key, a.KeyID = made.Key, made.ID
	if credits == 0 {
		return a, nil
	}
	return a, g.TopUp(ctx, name, credits)
}

// TopUp gives an account credits.
func (g *Gateway) TopUp(ctx context.Context, name string, credits int64) error {
	var v struct{}
	if err := g.Admin.Call(ctx, "POST", "/fareway/credits", map[string]any{"account": name, "credits": credits},
		&v); err != nil {
		return fmt.Errorf("adding credits: %w", err)
	}
	return nil
}

// tail keeps the last of what a process prints.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - 2000; over > 0 {
		t.b = t.b[over:]
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.Join(strings.Fields(string(t.b)), " ") }
