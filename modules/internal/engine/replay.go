package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/decisions"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// replayStep is how many requests are planned between two words about how far it is.
const replayStep = 1 << 13

// Replay compares what the configuration that serves makes of the requests since a time with what another would, given
// as what stands in for files (see Plan). It tells how far it is, and changes nothing.
func (l *learning) Replay(ctx context.Context, installed config.Overlay, since time.Time,
	told func(done, of int64) error) (*decisions.Comparison, *config.Diagnostics, error) {
	g, release := l.life.acquire()
	defer release()
	if g == nil {
		return nil, nil, ErrReplaced
	}
	o := optionsOf(l.host)
	o.Overlay = installed
	cfg, diags := config.Load(ctx, g.Config.Path, o)
	if cfg == nil {
		return nil, diags, nil
	}
	of, err := l.decisions.Count(ctx, since)
	if err != nil {
		return nil, nil, err
	}
	who, err := l.whoAsked(ctx, g.Config, cfg)
	if err != nil {
		return nil, nil, err
	}
	replay := decisions.NewReplay(decisions.Settings{Before: g.Config, After: cfg, Now: l.Now(),
		Predictor: l.PredictorOf,
		Requires:  func(account string) config.Requires { return who[account].Requires },
		Named:     func(account string) string { return who[account].Name }, Learned: l.Outcomes().Learned(),
		Templates: l.Templates().Known()})
	done := int64(0)
	err = l.decisions.Each(ctx, since, func(r *decisions.Record) error {
		if done%replayStep == 0 {
			if err := told(done, max(of, done)); err != nil {
				return err
			}
		}
		done++
		replay.Add(r)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	c := replay.Comparison()
	c.Since = since
	return &c, nil, told(done, done)
}

// whoAsked are the accounts, by their ids, of which something matters: what they require of routes now, besides their
// plans, or their names, which a condition asks.
func (l *learning) whoAsked(ctx context.Context, all ...*config.Config) (map[string]ledger.Account, error) {
	named := slices.ContainsFunc(all, func(cfg *config.Config) bool {
		return slices.ContainsFunc(cfg.Strategies, func(s config.Strategy) bool {
			return s.When != nil && s.When.Asks("account.name")
		})
	})
	who := make(map[string]ledger.Account)
	err := l.store.Accounts(ctx, "", func(a ledger.Account) error {
		if named || !a.Requires.None() {
			who[a.ID] = ledger.Account{Name: a.Name, Requires: a.Requires}
		}
		return nil
	})
	return who, err
}
