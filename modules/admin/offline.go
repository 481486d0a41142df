package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/requestlog"
	"github.com/fareway/fareway/modules/internal/spool"
	"github.com/fareway/fareway/modules/internal/stores"
)

// Offline is the ledger of a gateway that does not run. A part of the admin API is served from it in this process, so
// that there is one way to ask, and the answers are the same.
type Offline struct {
	Data   string         // the data folder
	Ledger string         // the database's file
	Shared bool           // there is none: the ledger is a server's, and Ledger the name of what the folder has beside
	DSN    string         // the server's, or a replica's; it is a secret
	Alone  bool           // only the server is asked, whatever the data folder has
	Config *config.Config // of the gateway, nil when it cannot be read
	// Tell is told up to which moment Read sees, where the ledger's file is behind.
	Tell func(text string)
}

// Read is for what only reads.
func (o Offline) Read(ctx context.Context, ask func(c *Client) error) error {
	if o.DSN != "" {
		return o.readServer(ctx, ask)
	}
	books, err := stores.File(o.Ledger).OpenBooks(ctx)
	if err != nil {
		return err
	}
	readSpool := func() (engine.SpoolState, []spool.Item, error) { return engine.ReadSpool(ctx, o.Ledger, books) }
	if o.Tell != nil {
		if text := o.findMoment(readSpool); text != "" {
			o.Tell(text)
		}
	}
	api := o.api(books, readSpool)
	return errors.Join(serveHere(api.routes(), o.Ledger, ask), books.Close())
}

// readServer is Read of a ledger in PostgreSQL.
func (o Offline) readServer(ctx context.Context, ask func(c *Client) error) (err error) {
	server := stores.Server(o.DSN)
	name, err := server.Name()
	if err != nil {
		return err
	}
	books, err := server.OpenBooks(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, books.Close()) }()
	seen, replica, err := books.Seen(ctx)
	switch {
	case err != nil:
		return err
	case replica && o.Tell != nil:
		until := "a moment that nobody knows, for it has replayed nothing since it was started"
		if !seen.IsZero() {
			until = human.Moment(seen)
		}
		o.Tell(fmt.Sprintf("Seen up to %s: %s is a replica.", until, name))
	}
	readSpool := func() (engine.SpoolState, []spool.Item, error) { return engine.ReadSpool(ctx, o.Ledger, books) }
	if o.Alone {
		readSpool = func() (engine.SpoolState, []spool.Item, error) { return engine.SpoolState{}, nil, nil }
	} else if state, _, err := readSpool(); err == nil && state.Settlements > 0 && o.Tell != nil {
		o.Tell(fmt.Sprintf("%s in the spool of this node are not in the ledger yet.",
			human.Count(state.Settlements, "settlement")))
	}
	return serveHere(o.api(books, readSpool).routes(), name, ask)
}

// findMoment says up to which moment the ledger's file has what happened; "" where it has all.
func (o Offline) findMoment(readSpool func() (engine.SpoolState, []spool.Item, error)) string {
	if moved, err := stores.File(o.Ledger).ReadMove(); err == nil && !moved.Done.IsZero() {
		return fmt.Sprintf("Seen up to %s, when this ledger was moved to %s, where it goes on.", human.Moment(moved.Done),
			moved.Target)
	}
	if err := stores.File(o.Ledger).CheckUnlocked(); errors.Is(err, ledger.ErrLocked) {
		return "A gateway runs on " + o.Data + " and does not answer here: what it decided in the last moments may be " +
			"missing."
	}
	state, _, err := readSpool()
	if err != nil || state.Settlements == 0 {
		return "" // who reads the spool is told what hinders that
	}
	until := "a moment that nobody knows"
	if !state.Since.IsZero() { // those of a fareway before have no time
		until = human.Moment(state.Since)
	}
	return fmt.Sprintf("Seen up to %s. Later settlements are in the spool, until the gateway starts: %s.", until,
		human.Thousands(state.Settlements))
}

// Decide is for decisions about what the ledger has lost and what the spool kept aside. It takes the ledger's lock, so
// that beside a gateway that starts or ends it is refused.
func (o Offline) Decide(ask func(c *Client) error) error {
	aside, store, closeAside, err := engine.OpenAside(o.Ledger, stores.File(o.Ledger).Open, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	api := o.api(store, func() (engine.SpoolState, []spool.Item, error) {
		return engine.SpoolState{Aside: aside.Path()}, aside.Items(), nil
	})
	decisions := decisionsAPI{aside: func() *engine.Aside { return aside }, books: api, acceptLoss: store.AcceptLoss}
	routes := append(decisions.routes(func(handle func(*http.Request) (any, error)) caddy.AdminHandler {
		return reply(func(r *http.Request) (any, error) {
			return handle(r.WithContext(ledger.WithActor(r.Context(), LocalActor()+" via file")))
		})
	}), caddy.AdminRoute{Pattern: "GET /fareway/ledger/spool", Handler: list(api.listAside)})
	return errors.Join(serveHere(routes, o.Ledger, ask), closeAside())
}

func (o Offline) api(books ledger.Books, spool func() (engine.SpoolState, []spool.Item, error)) *booksAPI {
	return &booksAPI{books: books, now: time.Now, spool: spool,
		config: func() *config.Config { return o.Config },
		logged: o.logged,
		failure: func(ctx context.Context, attempt string) string {
			r, err := o.logged(ctx, attempt)
			if err != nil {
				return "" // it did not fail, or that is forgotten; what else it may be, the request itself will show
			}
			return r.Failure
		}}
}

// logged finds a record of the request log.
func (o Offline) logged(_ context.Context, id string) (requestlog.Record, error) {
	age := config.DefaultRequestLog
	if o.Config != nil {
		age = o.Config.Gateway.RequestLog
	}
	return requestlog.Find(engine.RequestLogDir(o.Data), id, time.Now().Add(-age))
}
