package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
)

// loadError is why a configuration was not taken: what is wrong in the HCL file, or cannot be done that it asks for.
type loadError struct {
	path string
	err  error
}

func (e *loadError) Error() string { return fmt.Sprintf("loading %s: %v", e.path, e.err) }
func (e *loadError) Unwrap() error { return e.err }

// reportLoadFailure tells of a load that has failed, where people look for it: `gateway status` of the gateway that
// goes on serving, and the terminal, as `gateway check` prints it. Caddy itself makes one line of an error, in its
// log.
func (a *App) reportLoadFailure(err error) {
	load, inFile := errors.AsType[*loadError](err)
	diags, _ := errors.AsType[*config.Diagnostics](err)
	if e := runningEngine(a.Data); e != nil {
		f := engine.FailedLoad{Path: a.Config, Problem: Own(err.Error())}
		if inFile {
			f.Path, f.InFile, f.Diagnostics = load.path, true, diags
		}
		e.NoteFailedLoad(f)
		engine.LogFindings(a.log, diags)
		if !human.IsTerminal(os.Stderr) {
			return // it is a log that programs read, too
		}
	}
	if diags != nil {
		printLoad.diagnostics(diags)
	}
}

// runningEngine is the engine that this process has on a data folder, nil when it has none.
func runningEngine(data string) (found *engine.Engine) {
	engines.Range(func(key, value any) bool {
		if p, ok := value.(pooledEngine); ok && key == data {
			found = p.Engine
		}
		return true
	})
	return found
}

// printLoad prints diagnostics on the terminal, once for each text: one command may come by twice.
var printLoad loadPrinter

type loadPrinter struct {
	mu   sync.Mutex
	last string
}

func (p *loadPrinter) diagnostics(d *config.Diagnostics) {
	var text strings.Builder
	_ = d.Write(&text, human.IsTerminal(os.Stderr)) // a builder takes everything
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != text.String() {
		p.last = text.String()
		fmt.Fprintln(os.Stderr, p.last)
	}
}

// quiet has Caddyfiles read without a word about their HCL files.
var quiet atomic.Bool

// ReadQuietly has this process read Caddyfiles without a word about their HCL files: it says itself what is wrong
// there.
func ReadQuietly() { quiet.Store(true) }

// previewLoad prints what is wrong in the HCL file of a Caddyfile whose gateway runs in another process: this is then
// a command, such as `reload`, that hands the configuration over, and gets an error back of which Caddy makes one
// line.
func (a *App) previewLoad(data string) {
	if quiet.Load() || runningEngine(data) != nil || !answers(data) {
		return
	}
	if _, diags := engine.CheckConfig(context.Background(), a.Config, slog.New(slog.DiscardHandler)); diags.HasErrors() {
		printLoad.diagnostics(diags)
	}
}

// answers reports whether a gateway listens on a data folder.
func answers(data string) bool {
	p, err := Locate(data, "")
	if err != nil {
		return false
	}
	conn, err := net.DialTimeout(p.Network, p.Dial, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
