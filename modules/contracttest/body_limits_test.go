package contracttest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/fareway/fareway/plugins/families"
	"github.com/fareway/fareway/plugins/families/chat"
	"github.com/fareway/fareway/plugins/families/messages"
	"github.com/fareway/fareway/plugins/families/responses"
)

// deadlines notes the read deadlines that handlers set.
type deadlines struct {
	http.ResponseWriter
	mu  sync.Mutex
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set = append(d.set, t)
	return nil
}

// A deadline that is left set would end the reply when it comes.
func TestTheDeadlineOfABodyEndsWithIt(t *testing.T) {
	t.Parallel()
	s := start(t, setup{Gateway: `request_timeout = "7m"`})
	h := chain(t, s.Engine, []families.Server{chat.Server{}, responses.Server{}, messages.Server{}}, zap.NewNop())
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/chat/completions",
		strings.NewReader(`{"model":"service/auto","messages":[{"role":"user","content":"hi"}]}`))
	r.Header.Set("Authorization", "Bearer "+s.Key)
	w := httptest.NewRecorder()
	d := &deadlines{ResponseWriter: w}
	before := time.Now()
	h.ServeHTTP(d, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.Len(t, d.set, 2)
	require.WithinRange(t, d.set[0], before.Add(7*time.Minute), time.Now().Add(7*time.Minute))
	require.True(t, d.set[1].IsZero())
}

// The memory for bodies is also what a body grows into.
func TestABodyThatGrowsBeyondTheMemory(t *testing.T) {
	t.Parallel()
	s := start(t, setup{Gateway: "max_body = \"64KiB\"\nmax_body_memory = \"80KiB\""})
	body := `{"model":"service/auto","messages":[{"role":"user","content":"` + strings.Repeat("a ", 20<<10) + `"}]}`
	ended := func() *http.Response { // and has given back what it took: that is done before its line is written
		a := s.Do("POST", "/v1/chat/completions", body)
		s.Access(a.Header.Get("X-Request-Id"))
		return a.Response
	}
	require.Equal(t, http.StatusOK, ended().StatusCode)
	require.True(t, s.Engine.AcquireBody(50<<10))
	refused := ended()
	require.Equal(t, http.StatusTooManyRequests, refused.StatusCode)
	require.Empty(t, refused.Header.Get("Retry-After"), "429 without headers")
	s.Engine.ReleaseBody(50 << 10)
	require.Equal(t, http.StatusOK, ended().StatusCode, "what it had taken is given back")
}
