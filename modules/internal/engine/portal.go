package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/payments"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// portal is who may sign in to the pages, where the configuration has some.
type portal struct {
	open     func(people.Options) *people.Service // nil: this engine has none
	service  atomic.Pointer[people.Service]
	config   atomic.Pointer[config.Portal]
	closing  sync.WaitGroup // of those that a configuration has taken away
	log      func(error)
	options  people.Options
	payments *payments.Service
}

// openPortal prepares it; the first configuration with the block opens it.
func (e *Engine) openPortal(o *Options, cfg *config.Config) {
	if o.OpenPeople == nil {
		return
	}
	p := &e.portal
	p.open = func(options people.Options) *people.Service { return o.OpenPeople(cfg.Store, o.DataDir, options) }
	p.log = func(err error) { e.Logger().Warn("closing the store of people", "error", err) }
	p.options = people.Options{Limiter: e.requests.signIns(), Log: e.Logger(), Now: o.Now,
		Record: func(ctx context.Context, action, account, subject string, after map[string]any) error {
			return e.store.RecordAct(ctx, action, account, subject, after)
		},
		Config: func() config.Portal {
			if c := p.config.Load(); c != nil {
				return *c
			}
			return config.Portal{}
		}}
	p.payments = payments.New(payments.Options{Ledger: e.store, People: e.People, Log: e.Logger(), Now: o.Now,
		Transport: o.Stripe, Config: func() *config.Stripe {
			if c := p.config.Load(); c != nil {
				return c.Stripe
			}
			return nil
		}})
}

// signIns counts failures to sign in.
func (r *requests) signIns() ratelimit.Limiter { return r.limiter }

// use opens or closes it, as a configuration says. It waits for nothing: the lifecycle's lock is held.
func (p *portal) use(c *config.Portal) {
	p.config.Store(c)
	switch was := p.service.Load(); {
	case p.open == nil:
	case c == nil && was != nil:
		p.service.Store(nil)
		p.closing.Go(func() { p.closeService(was) })
	case c != nil && was == nil:
		p.service.Store(p.open(p.options))
	}
}

func (p *portal) closeService(s *people.Service) {
	if err := s.Close(); err != nil {
		p.log(err)
	}
}

func (p *portal) close() {
	p.closing.Wait()
	if s := p.service.Swap(nil); s != nil {
		p.closeService(s)
	}
}

// People are who may sign in to the portal; nil where the configuration has none.
func (e *Engine) People() *people.Service { return e.portal.service.Load() }
