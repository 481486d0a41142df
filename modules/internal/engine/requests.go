package engine

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/requestlog"
)

// RequestLogDir is where a gateway on this data folder remembers requests that the ledger has nothing about.
func RequestLogDir(data string) string { return filepath.Join(data, "requests") }

// openRequestLog is called once the ledger's lock says that no other process has the data folder.
func (r *requests) openRequestLog(o *Options) (err error) {
	r.requestLog, err = requestlog.Open(requestlog.Options{
		Dir: RequestLogDir(o.DataDir),
		Keep: func() time.Duration {
			return cmp.Or(r.configOr(new(config.Config)).Gateway.RequestLog, config.DefaultRequestLog)
		},
		Now:    o.Now,
		Logger: r.Logger(),
		Lost:   r.metrics.requestsUnlogged,
	})
	if err != nil {
		return fmt.Errorf("opening the request log: %w", err)
	}
	return nil
}

// LogRequest remembers for request_log what became of a request that the ledger has nothing about (GAP-122).
func (r *requests) LogRequest(record requestlog.Record) { r.requestLog.Add(record) }

// ReopenRequestLog lets what is written of requests from now on be in new files: those before may have been renamed.
func (r *requests) ReopenRequestLog(ctx context.Context) { r.requestLog.Reopen(ctx) }

// FindRequest is what LogRequest was told, or requestlog.ErrNotFound.
func (r *requests) FindRequest(ctx context.Context, id string) (requestlog.Record, error) {
	return r.requestLog.Find(ctx, id)
}
