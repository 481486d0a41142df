package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/routing/outcome"
	"github.com/fareway/fareway/modules/internal/routing/predict"
)

// learnEvery is how often what was counted of routes is kept, and changes what is expected of them.
const learnEvery = time.Minute

// saveCounts keeps what is counted of routes in the store, in one write, whatever came. Of several nodes, each takes
// up so what the others have counted.
func (l *learning) saveCounts(ctx context.Context) error {
	return l.outcomes.Save(func(fold func(kept []outcome.Row) []outcome.Row) error {
		return l.store.Learn(ctx, func(kept []ledger.Learned) []ledger.Learned {
			var rows, templates []ledger.Learned
			for _, k := range kept {
				if k.Kind == templateKind {
					templates = append(templates, k)
				} else {
					rows = append(rows, k)
				}
			}
			all := append(l.templates.fold(templates), keptRows(fold(readRows(rows)))...)
			slices.SortFunc(all, order)
			return all
		})
	})
}

const (
	// ofAccount stands between a kind of work and the account whose outcomes a row has. A gateway of before accounts were
	// told apart takes it for a kind that it does not know: it keeps the row and looks at nothing of it.
	ofAccount = "@"
	// ofOwn ends the name of a row whose failures are those that a client can bring about.
	ofOwn = "!"
)

// readRows are the rows that are kept.
func readRows(kept []ledger.Learned) []outcome.Row {
	type source struct{ route, model, kind string }
	at := make(map[source]int)
	var rows []outcome.Row
	for _, k := range kept {
		name, own := strings.CutSuffix(k.Kind, ofOwn)
		of := source{k.Route, k.Model, name}
		i, known := at[of]
		if !known {
			i, at[of] = len(rows), len(rows)
			kind, account, _ := strings.Cut(name, ofAccount)
			rows = append(rows, outcome.Row{Route: k.Route, Model: k.Model, Kind: kind, Account: account, At: k.At})
		}
		if own {
			rows[i].Own = k.Failed
			continue
		}
		r := &rows[i]
		r.Worked, r.Failed, r.Good, r.Bad = k.Worked, k.Failed, k.Good, k.Bad
	}
	return rows
}

// keptRows are rows as they are kept: of each, what a client can bring about has a row of its own.
func keptRows(rows []outcome.Row) []ledger.Learned {
	var kept []ledger.Learned
	for _, r := range rows {
		k := ledger.Learned{Route: r.Route, Model: r.Model, Kind: r.Kind, Worked: r.Worked, Failed: r.Failed, Good: r.Good,
			Bad: r.Bad, At: r.At}
		if r.Account != "" {
			k.Kind += ofAccount + r.Account
		}
		if kept = append(kept, k); r.Own > 0 {
			kept = append(kept, ledger.Learned{Route: r.Route, Model: r.Model, Kind: k.Kind + ofOwn, Failed: r.Own, At: r.At})
		}
	}
	return kept
}

// Outcomes are what came of requests, by route and kind of work; they outlive reloads and restarts.
func (l *learning) Outcomes() *outcome.Book { return l.outcomes }

// ErrNothingToLearn is why feedback about a request changes nothing.
var ErrNothingToLearn = errors.New("nothing can be learned of it")

// Feedback takes what somebody says of a request that was answered, the last word once, and returns the route that it
// is about. ledger.ErrNotFound when nobody knows the request, ErrNothingToLearn when no route answered it, or the
// route is not there any more or does not learn.
func (l *learning) Feedback(ctx context.Context, id string, good bool) (route string, err error) {
	verdict := outcome.ToldBad
	if good {
		verdict = outcome.ToldGood
	}
	known, ok := l.outcomes.Find(id)
	if !ok {
		if known, err = l.settledRequest(ctx, id); err != nil {
			return "", err
		}
	}
	if err := l.checkLearns(known.Route, known.Model); err != nil {
		return "", err
	}
	if !ok {
		l.outcomes.Remember(known)
	}
	l.outcomes.Tell(id, verdict)
	if err := l.keepFeedback(ctx, id, known.Route, known.Model, good); err != nil {
		l.Logger().Warn("feedback counts, and is not kept to train by", "request_id", id, "error", err)
	}
	account := ""
	if r, err := l.store.Request(ctx, id); err == nil {
		account = r.Account
	}
	return known.Route, l.store.RecordAct(ctx, "route.feedback", account, id,
		map[string]any{"route": known.Route, "verdict": verdict.String()})
}

// checkLearns says why a route does not learn.
func (l *learning) checkLearns(route, model string) error {
	if g := l.Current(); g != nil {
		for i := range g.Config.Routes {
			r := &g.Config.Routes[i]
			switch {
			case r.Name != route || r.Model != model:
			case !r.Learns():
				return fmt.Errorf("%w: route %q has learn = false", ErrNothingToLearn, route)
			default:
				return nil
			}
		}
	}
	return fmt.Errorf("%w: the configuration has no route %q with the model %q any more", ErrNothingToLearn, route, model)
}

// settledRequest is a request as far as the ledger knows it: not what kinds of work it was of, so all of them alike.
func (l *learning) settledRequest(ctx context.Context, id string) (outcome.Request, error) {
	r, err := l.store.Request(ctx, id)
	if err != nil {
		return outcome.Request{}, err
	}
	if len(r.Attempts) == 0 || r.Status != 200 {
		return outcome.Request{}, fmt.Errorf("%w: no route answered request %q", ErrNothingToLearn, id)
	}
	last := r.Attempts[len(r.Attempts)-1]
	known := outcome.Request{ID: id, Route: last.Route, Model: last.Model}
	for k := range known.Kinds {
		known.Kinds[k] = 1 / float32(predict.NumKinds)
	}
	return known, nil
}
