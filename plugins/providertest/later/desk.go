package later

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// Desk keeps receipts until they are handed out. It is the handler of the server that Settings.Desk names: what the
// provider used comes by POST, and goes by GET, at the path "/" and the attempt's id.
type Desk struct {
	mu      sync.Mutex
	usage   map[string]json.RawMessage // by attempt
	open    map[string]bool
	asked   map[string]int
	changed chan struct{} // closed and replaced at every change
}

// NewDesk makes a desk that hands nothing out.
func NewDesk() *Desk {
	return &Desk{usage: make(map[string]json.RawMessage), open: make(map[string]bool), asked: make(map[string]int),
		changed: make(chan struct{})}
}

func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	attempt := strings.TrimPrefix(r.URL.Path, "/")
	if r.Method == http.MethodPost {
		var usage json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&usage); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d.change(func() { d.usage[attempt] = usage })
		return
	}
	var usage json.RawMessage
	d.change(func() {
		d.asked[attempt]++
		if d.open[attempt] {
			usage = d.usage[attempt]
		}
	})
	if usage == nil {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(usage) // the provider may be gone
}

func (d *Desk) change(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	close(d.changed)
	d.changed = make(chan struct{})
}

// HandOut lets the provider have an attempt's receipt from now on, when it has said what it used.
func (d *Desk) HandOut(attempt string) {
	d.change(func() { d.open[attempt] = true })
}

// Learn hands out a receipt of so many output tokens and none of input, whatever the provider has said.
func (d *Desk) Learn(attempt string, output int64) {
	d.change(func() {
		d.usage[attempt], d.open[attempt] = json.RawMessage(fmt.Sprintf(`{"Input":0,"Output":%d}`, output)), true
	})
}

// Asked waits until an attempt's receipt has been asked for so many times, or until ctx ends.
func (d *Desk) Asked(ctx context.Context, attempt string, times int) error {
	for {
		d.mu.Lock()
		asked, changed := d.asked[attempt], d.changed
		d.mu.Unlock()
		if asked >= times {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for questions about %q: %d of %d came: %w", attempt, asked, times, context.Cause(ctx))
		}
	}
}

var _ http.Handler = (*Desk)(nil)
