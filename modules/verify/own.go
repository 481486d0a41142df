package verify

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

// own is a gateway that a run starts for itself: this executable again, on a data folder that is thrown away.
type own struct {
	dir    string // the data folder
	url    string
	admin  *admin.Client
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
	stderr tail
}

// startOwn starts a gateway with this configuration, as `fareway gateway up` does; nil is the starter's. Programs are
// files beside the configuration, by their paths. Close ends it.
func startOwn(ctx context.Context, hcl []byte, programs map[string]string) (o *own, err error) {
	// A short name: a unix socket's path has little room.
	dir, err := os.MkdirTemp("", "fwv")
	if err != nil {
		return nil, fmt.Errorf("making a data folder for a gateway: %w", err)
	}
	started := &own{dir: dir, ended: make(chan struct{})}
	o = started
	defer func() {
		if err != nil {
			started.close()
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
	cmd.Stderr = &o.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting a gateway: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a gateway: %w", err)
	}
	o.cmd = cmd
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		o.close() // then all that it says on stderr is there
		return nil, fmt.Errorf("starting a gateway: it said %q and %q", strings.TrimSpace(line), o.stderr.String())
	}
	go func() {
		_, _ = io.Copy(io.Discard, out) // it may print more, and must not wait for a reader
		_ = cmd.Wait()                  // how it ends is no part of what is verified
		close(started.ended)
	}()
	o.url = url
	o.admin, err = admin.NewClient(dir, "")
	return o, err
}

// close ends the gateway and removes its folder.
func (o *own) close() {
	if o.cmd != nil {
		_ = o.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if o.url == "" {
			_ = o.cmd.Wait()
		} else {
			select {
			case <-o.ended:
			case <-time.After(10 * time.Second):
				_ = o.cmd.Process.Kill()
				<-o.ended
			}
		}
	}
	_ = os.RemoveAll(o.dir) // a temporary folder
}

// account is a customer of a gateway of one's own.
type account struct{ Name, ID, Key, KeyID string }

// newAccount makes an active account with credits and one key, on the plan "trial".
func (o *own) newAccount(ctx context.Context, name string, credits int64) (account, error) {
	a := account{Name: name}
	var made struct{ ID, Key string }
	if err := o.admin.Call(ctx, "POST", "/fareway/accounts", map[string]any{"name": name, "plan": "trial"},
		&made); err != nil {
		return a, fmt.Errorf("making an account: %w", err)
	}
	a.ID = made.ID
	if err := o.admin.Call(ctx, "POST", "/fareway/keys", map[string]any{"account": name, "name": "first"},
		&made); err != nil {
		return a, fmt.Errorf("making a key: %w", err)
	}
	a.Key, a.KeyID = made.Key, made.ID
	if credits == 0 {
		return a, nil
	}
	return a, o.topUp(ctx, name, credits)
}

func (o *own) topUp(ctx context.Context, name string, credits int64) error {
	var v struct{}
	if err := o.admin.Call(ctx, "POST", "/fareway/credits", map[string]any{"account": name, "credits": credits},
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
