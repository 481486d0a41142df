package move_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/move"
	"github.com/fareway/fareway/modules/internal/ledger/postgres"
	"github.com/fareway/fareway/modules/internal/ledger/sqlite"
)

// moveHelper names the variable by which this test binary is a process that moves a ledger: PATH URL.
const moveHelper = "FAREWAY_MOVE_HELPER"

func isHelper() bool { return os.Getenv(moveHelper) != "" }

// help moves the ledger, and tells how far it is, a line for each row.
func help() int {
	path, url, _ := strings.Cut(os.Getenv(moveHelper), " ")
	err := func() error {
		ctx := context.Background()
		mark, err := sqlite.ReadMove(path)
		if err != nil {
			return err
		}
		target, err := postgres.OpenTarget(ctx, postgres.Options{URL: url, Options: ledger.Options{Logger: quiet}})
		if err != nil {
			return err
		}
		if !mark.Done.IsZero() {
			return finish(ctx, path, mark, target)
		}
		s, err := sqlite.Open(sqlite.Options{Path: path, Logger: quiet})
		if err != nil {
			return err
		}
		_, err = move.Run(ctx, s, target, move.Options{From: filepath.Base(path), To: "there", Batch: 5,
			Progress: func(step string, done, of int64) { fmt.Println(step, done, of) }})
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// finish has the target of a ledger that was moved told so.
func finish(ctx context.Context, path string, mark move.Mark, target *postgres.Target) error {
	old, err := sqlite.OpenBooks(ctx, path)
	if err != nil {
		return err
	}
	_, _, err = move.Finish(ctx, mark, old, target, move.Options{})
	return errors.Join(err, old.Close())
}
