package contracttest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/verify/wire"
)

// What verify and these tests read with alike.
type (
	shape    = wire.Shape
	outcome  = wire.Outcome
	toolCall = wire.ToolCall
	verdict  = wire.Verdict
	frame    = wire.Frame
)

var (
	shapes = wire.Shapes
	posts  = wire.Posts // the shapes of all calls that take a request body
)

func str(v any) string { return wire.Str(v) }

func quote(s string) string { return wire.Quote(s) }

func shapeOf(name string) shape { return wire.ShapeOf(name) }

// modes are the ways to be answered.
var modes = []struct{ Name, Field string }{
	{"json", `"stream":false`},
	{"streamed", `"stream":true,"stream_options":{"include_usage":true}`},
}

// postName is how a test names one of posts.
func postName(sh shape) string {
	if sh.Path == wire.Count.Path {
		return "count_tokens"
	}
	return sh.Name
}

// unknownPath is the code of an unknown path below a shape's (GAP-02).
func unknownPath(sh shape) string {
	if sh.Name == "messages" {
		return "not_found_error"
	}
	return "invalid_request_error"
}

// outcomeOf reads a successful reply. A stream has to be complete.
func outcomeOf(t testing.TB, sh shape, a answer) outcome {
	t.Helper()
	return sh.OutcomeOf(t, a.StatusCode, a.Header, a.Raw)
}

// errorOf reads a JSON error body.
func errorOf(t testing.TB, sh shape, a answer) wire.Failure {
	t.Helper()
	return wire.Failure{Code: sh.Code(a.JSON(t)), Message: str(a.At(t, "error", "message"))}
}

// requireError checks an error reply, whole: status, headers, and a body of exactly the shape's form
// (ERR-01 to ERR-08, BILL-32).
func requireError(t testing.TB, sh shape, a answer, status int, code string) {
	t.Helper()
	requireErrorBody(t, sh, a, status, code)
	require.Equal(t, wire.RetryHeader(status, code), a.Header.Get("X-Should-Retry"), "x-should-retry")
}

// requirePassing is requireError for one that may pass, whatever its status (GAP-119).
func requirePassing(t testing.TB, sh shape, a answer, status int, code string) {
	t.Helper()
	requireErrorBody(t, sh, a, status, code)
	require.Empty(t, a.Header.Values("X-Should-Retry"), "x-should-retry")
}

func requireErrorBody(t testing.TB, sh shape, a answer, status int, code string) {
	t.Helper()
	message := sh.RequireError(t, status, a.StatusCode, a.Header, a.Raw, code)
	require.Equal(t, "application/json", a.Header.Get("Content-Type"))
	require.Regexp(t, `^req_[0-9a-f]{32}$`, a.Header.Get("X-Request-Id"))
	require.NoError(t, wire.CheckAdvice(message, strings.EqualFold(a.Header.Get("X-Should-Retry"), "false")))
}

// stopField is the member that sets stop sequences in a shape.
func stopField(sh shape, stops ...string) string {
	list := make([]string, len(stops))
	for i, s := range stops {
		list[i] = quote(s)
	}
	return quote(sh.Stop) + ":[" + strings.Join(list, ",") + "]"
}

// askBoth asks for a reply in JSON and as a stream, which must say the same, and returns the stream.
func askBoth(t testing.TB, c *caller, sh shape, fields ...string) verdict {
	t.Helper()
	streamed := c.Stream(t, sh, fields...)
	require.True(t, streamed.Complete, "the stream failed: %v", streamed.Error)
	a := c.Ask(sh, fields...)
	whole := outcomeOf(t, sh, a)
	require.Equal(t, whole, streamed.Outcome)
	return streamed
}
