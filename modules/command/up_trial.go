package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/files"
	"github.com/fareway/fareway/modules/internal/ledger"
)

const (
	trialName    = "trial" // of the account, its plan, its first key and its top-up's reference
	trialCredits = 1000
	trialKeyFile = "trial.key"
)

// trial is the account that `up` makes to try the gateway with.
type trial struct {
	account ledger.Account
	key     string
}

// prepareTrial makes what is missing of the trial account, its credits and its key. What an operator has
// changed about it stays.
func prepareTrial(ctx context.Context, e *engine.Engine, data string) (trial, error) {
	ctx = ledger.WithActor(ctx, admin.LocalActor()+" via up")
	account, err := e.Store().Account(ctx, trialName)
	if errors.Is(err, ledger.ErrNotFound) {
		var plan string
		if slices.Contains(admin.PlanNames(e.Current().Config), trialName) {
			plan = trialName
		}
		account, err = admin.CreateAccount(ctx, e, trialName, plan)
	}
	if err != nil {
		return trial{}, fmt.Errorf("preparing the trial account: %w", err)
	}
	_, _, err = e.Store().AddCredit(ctx, ledger.Credit{
		Account: account.ID, Credits: trialCredits, Reference: trialName, Reason: "trial credits",
	})
	if err != nil && !errors.Is(err, ledger.ErrReference) { // an older fareway gave another amount
		return trial{}, fmt.Errorf("giving the trial account its credits: %w", err)
	}
	key, err := trialKey(ctx, e, account, filepath.Join(data, trialKeyFile))
	if err != nil {
		return trial{}, fmt.Errorf("preparing the trial key: %w", err)
	}
	return trial{account: account, key: key}, nil
}

// trialKey returns the key in the file or, when there is none that still works, makes one and keeps it there.
func trialKey(ctx context.Context, e *engine.Engine, account ledger.Account, path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if hash, ok := ledger.ParseKey(text); ok {
		p, err := e.Store().Lookup(ctx, hash)
		if err == nil && p.Account.ID == account.ID && p.Key.Usable(e.Now()) {
			return text, nil
		}
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return "", err
		}
	}
	name, err := freeKeyName(ctx, e.Store(), account.ID)
	if err != nil {
		return "", err
	}
	_, text, err = admin.CreateKey(ctx, e, account, name, ledger.KeyChange{})
	if err != nil {
		return "", err
	}
	return text, files.ReplaceFile(path, []byte(text+"\n"))
}

// freeKeyName is "trial", or with a number when the account has had that key before.
func freeKeyName(ctx context.Context, books ledger.Books, account string) (string, error) {
	taken := make(map[string]bool)
	err := books.Keys(ctx, ledger.KeyQuery{Account: account}, func(k ledger.Key) error {
		taken[k.Name] = true
		return nil
	})
	name := trialName
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", trialName, n)
	}
	return name, err
}
