package entry

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

// TestEndedRequestsTakeNoMemory: who may look at what has ended costs a request nothing but the copy.
func TestEndedRequestsTakeNoMemory(t *testing.T) { //nolint:paralleltest // it counts allocations
	e := enginetest.New(t, nil)
	call, rec, now := &gateway.Call{ID: "req_1", Endpoint: "chat"}, new(recorder), time.Now()
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		ended := endedRequest(call, rec, time.Second, now)
		e.NoteEnded(&ended)
	}))
	list, _ := e.Recent(0)
	require.NotEmpty(t, list)
	require.Equal(t, "req_1", list[0].ID)
}
