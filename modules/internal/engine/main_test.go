package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fareway/fareway/modules/internal/ledger/postgrestest"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/provider"
)

// TestMain makes the test binary a provider, too, when the engine starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "provider" {
		if os.Args[2] == "signpost" {
			provider.Serve(new(signpost))
			return
		}
		provider.Serve(new(archivist))
		return
	}
	code := m.Run()
	if err := postgrestest.StopOwn(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// builtinArchivist starts the test binary as a provider.
func builtinArchivist(plugin string) ([]string, bool) {
	self, err := os.Executable()
	return []string{self, "provider", "archivist"}, err == nil && plugin == "archivist"
}

// archivist is a provider whose upstream never reports usage in its reply. It gives receipts from a folder: the
// usage of an attempt is in the file of its id.
type archivist struct {
	settings struct {
		Dir string `hcl:"dir" doc:"Where the receipts are."`
	}
}

func (a *archivist) Settings() any { return &a.settings }

func (a *archivist) Start(context.Context) error {
	if a.settings.Dir == "" {
		return errors.New("setting dir must name a folder")
	}
	return nil
}

func (a *archivist) Generate(_ context.Context, _ *llm.Request, send func(llm.Event) error) error {
	return send(llm.Event{Kind: llm.EventFinish, Finish: llm.FinishStop})
}

func (a *archivist) Receipts(_ context.Context, attempts []provider.Attempt) ([]provider.Receipt, error) {
	var receipts []provider.Receipt
	for _, asked := range attempts {
		attempt := asked.ID
		text, err := os.ReadFile(filepath.Join(a.settings.Dir, attempt))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		receipt := provider.Receipt{Attempt: attempt}
		if err == nil {
			err = json.Unmarshal(text, &receipt.Usage)
		}
		if err != nil {
			return receipts, llm.Errorf(llm.ErrUpstream, "reading a receipt: %v", err)
		}
		receipts = append(receipts, receipt)
	}
	return receipts, nil
}

// Models are in the file "models" of the folder: where there is none it cannot be reached.
func (a *archivist) Models(context.Context) ([]llm.Model, error) {
	text, err := os.ReadFile(filepath.Join(a.settings.Dir, "models"))
	if err != nil {
		return nil, llm.Errorf(llm.ErrUpstream, "connecting to the upstream: no file")
	}
	var models []llm.Model
	if json.Unmarshal(text, &models) != nil {
		return nil, &llm.Error{Kind: llm.ErrRejected, Status: 404, Message: "there is no list"}
	}
	return models, nil
}

var (
	_ provider.Provider  = (*archivist)(nil)
	_ provider.Starter   = (*archivist)(nil)
	_ provider.Receipter = (*archivist)(nil)
)
