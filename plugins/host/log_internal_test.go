package host

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFloodOfLog: a plugin that writes without end to stderr is logged in part, and what it said last is known all the
// same.
func TestFloodOfLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	lines := newStderrLog(new(scrubber))
	now := time.Unix(0, 0)
	lines.now = func() time.Time { return now }
	var say lastWords
	for range 3 * logBurst {
		say.add(lines.write(log, "flood"))
	}
	require.Equal(t, logBurst, strings.Count(out.String(), "msg=flood"))
	require.NotContains(t, out.String(), "lines_left_out")
	say.add(lines.write(log, `{"@level":"error","@message":"the end"}`))
	require.NotContains(t, out.String(), "the end")
	require.Contains(t, say.String(), "the end")

	now = now.Add(time.Second)
	out.Reset()
	for range 3 * logRate {
		lines.write(log, "more")
	}
	require.Equal(t, logRate, strings.Count(out.String(), "msg=more"))
	require.Contains(t, out.String(), "lines_left_out=2001")
	out.Reset()
	lines.close(log)
	lines.close(log)
	require.Equal(t, 1, strings.Count(out.String(), "lines_left_out=200"))
}

// What a plugin has written is marked so, whatever it calls so itself: a support bundle leaves such lines out.
func TestPluginsLinesAreMarked(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	newStderrLog(new(scrubber)).write(log, `{"@level":"info","@message":"x","from":"me","zz":"y"}`)
	require.Contains(t, out.String(), "zz=y from=plugin\n")
	out.Reset()
	newStderrLog(new(scrubber)).write(log, "x")
	require.Contains(t, out.String(), "from=stderr\n")
}
