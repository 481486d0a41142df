package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
)

func TestALoneHandlersRequestIsFound(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, new(config.Config), engine.Options{})
	w := httptest.NewRecorder()
	require.Nil(t, takeLink(w, httptest.NewRequest(http.MethodGet, "/", nil), LinkExchange, e))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	found, err := e.FindRequest(t.Context(), w.Header().Get("X-Request-Id"))
	require.NoError(t, err, "GAP-122")
	require.Equal(t, http.StatusInternalServerError, found.Status)
	require.Equal(t, "internal_server_error", found.Code)
}
