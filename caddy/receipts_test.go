//go:build linux

package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// attemptOf takes apart the model's name in a record of the service. attempt is "" when it came from another provider.
func attemptOf(rec upstream.Record) (model, attempt string) {
	model, attempt, _ = strings.Cut(rec.Model, "@")
	return model, attempt
}

// office is where the service tells afterwards what it has served: its own log, by attempt.
type office struct {
	url string

	mu     sync.Mutex
	served map[string]upstream.Usage
}

func openOffice(t testing.TB) *office {
	o := &office{served: map[string]upstream.Usage{}}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

// file takes a record when its reply has ended, in whatever way. A reply that was refused has used nothing; of one
// that was broken off, the prompt and what was said until then counts.
func (o *office) file(rec upstream.Record) {
	_, attempt := attemptOf(rec)
	if attempt == "" || rec.Status != http.StatusOK && rec.Outcome != upstream.OutcomeLeft {
		return
	}
	used := upstream.Usage{Prompt: rec.N, Completion: rec.Used.Completion}
	if rec.Reported != nil {
		used = *rec.Reported
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.served[attempt] = used
}

// all is a copy of what was served.
func (o *office) all() map[string]upstream.Usage {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string]upstream.Usage, len(o.served))
	for attempt, used := range o.served {
		all[attempt] = used
	}
	return all
}

// ServeHTTP answers questions as later.Desk does.
func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		return // what the provider says it used: the log knows better
	}
	o.mu.Lock()
	used, ok := o.served[strings.TrimPrefix(r.URL.Path, "/")]
	o.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(llm.Usage{Input: &used.Prompt, Output: &used.Completion}) // the provider may be gone
}

// pluginFolder is a folder with the provider "later" in it.
func pluginFolder(t testing.TB) string {
	t.Helper()
	const name = "fareway-provider-later"
	command, err := exec.LookPath(name)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	in, err := os.Open(command)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return dir
}
