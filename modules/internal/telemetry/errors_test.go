package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
)

// TestErrorsGoToTheLog: what OpenTelemetry tells nobody else stands in the gateway's log, and not what was given up at
// the end. It is not parallel: the log is the process's.
func TestErrorsGoToTheLog(t *testing.T) { //nolint:paralleltest // see above
	var said bytes.Buffer
	before := errorsTo.Load()
	t.Cleanup(func() { errorsTo.Store(before) })
	errorsTo.Store(slog.New(slog.NewTextHandler(&said, nil)))
	otel.Handle(fmt.Errorf("failed to upload metrics: %w", context.Canceled))
	require.Empty(t, said.String())
	otel.Handle(errors.New("failed to upload metrics: no route to host"))
	require.Contains(t, said.String(), "level=WARN")
	require.Contains(t, said.String(), "no route to host")
}
