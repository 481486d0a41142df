package exchange

import (
	"context"

	"github.com/fareway/fareway/modules/internal/telemetry"
)

// beginSpan tells OpenTelemetry of an attempt that begins, where it is to be told.
func (t *transport) beginSpan(ctx context.Context, a *attempt) (context.Context, *telemetry.Span) {
	return t.engine.Telemetry().Begin(ctx, func() telemetry.Attempt {
		told := t.gen.Config.Telemetry
		made := telemetry.Attempt{ID: a.id, Request: t.call.ID, Route: a.route.Name, System: t.gen.System(a.route.Provider),
			Model: a.route.Model, MaxTokens: a.allowance, Stream: !t.req.wantsWhole(), Upstream: told.Upstreams}
		if told.Content {
			made.Content = t.req.formFor(a.route)
		}
		return made
	})
}

// spanEnd is what came of an attempt that has ended with f.
func (a *attempt) spanEnd(f *failure) telemetry.End {
	end := telemetry.End{Usage: a.usage, Model: a.reportedModel, Key: a.key, UpstreamID: a.upstreamID, All: a.took,
		First: a.firstAfter}
	if a.reply != nil {
		end.Finish = a.reply.finish
	}
	if f != nil {
		end.Failure = string(f.kind)
	}
	return end
}
