package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel"
)

// errorsTo is where OpenTelemetry's own errors go. It has one handler for the process, which writes to stderr past all
// logs unless it is told otherwise.
var errorsTo atomic.Pointer[slog.Logger]

func init() {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(handleError))
}

// handleError logs what OpenTelemetry could not do, for which nobody who could be told has called it. What is given up
// because the process ends, or the metrics do, is no error.
func handleError(err error) {
	log := errorsTo.Load()
	if log == nil {
		log = slog.Default()
	}
	if errors.Is(err, context.Canceled) {
		log.Debug("telemetry was given up", "error", err)
		return
	}
	log.Warn("telemetry could not be sent; requests go on", "error", err)
}
