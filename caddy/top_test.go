//go:build linux

package main_test

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"sync"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// screen is what a program has drawn on a terminal of 80 columns and 24 lines.
type screen struct {
	cmd      *exec.Cmd
	keyboard io.Writer
	mu       sync.Mutex
	drawn    bytes.Buffer
	from     int // what was looked at
}

// draw runs a command on a terminal.
func draw(t *testing.T, g *gateway, kind string, args ...string) *screen {
	t.Helper()
	s := &screen{cmd: fareway(g.Dir, append([]string{"gateway"}, args...)...)}
	s.cmd.Env = append(s.cmd.Env, "TERM="+kind)
	terminal, err := pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 24, Cols: 80})
	require.NoError(t, err)
	s.keyboard = terminal
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := terminal.Read(buffer)
			s.mu.Lock()
			s.drawn.Write(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				return // the program has ended
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.cmd.Wait()
		_ = terminal.Close()
		<-read
	})
	return s
}

// text is what was drawn since shows has found something, without what styles it.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(s.drawn.String()[s.from:], "")
}

// shows waits until something was drawn.
func (s *screen) shows(t *testing.T, pattern string) {
	t.Helper()
	want := regexp.MustCompile(pattern)
	eventually(t, func() (bool, string) {
		text := s.text()
		return want.MatchString(text), text
	})
	s.mu.Lock()
	s.from = s.drawn.Len()
	s.mu.Unlock()
}

func (s *screen) press(t *testing.T, keys string) {
	t.Helper()
	_, err := io.WriteString(s.keyboard, keys)
	require.NoError(t, err)
}

// TestTopOnATerminal: the real command on a real terminal, with real requests, and a gateway that goes away meanwhile.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{Script: model})
	g := startGateway(t, files{"gateway.hcl": hcl(up)})
	reply := shapes[0].send(t, http.DefaultClient, g.URL, g.Key, "hello", false)
	require.Equal(t, http.StatusOK, reply.StatusCode)
	id := reply.Header.Get("X-Request-Id")

	s := draw(t, g, "xterm", "top", "--interval", "500ms", "--data", g.Dir)
	s.shows(t, `fareway  ready`)
	s.press(t, "3")
	s.shows(t, `200 +trial +`+g.Key[len(g.Key)-4:]+` (?s:.*)`+id[len(id)-8:])
	s.press(t, "\r")
	s.shows(t, `request +`+id)
	s.press(t, "\x1b")
	s.shows(t, `MICROCENTS`)

	g.stop(t)
	s.shows(t, `GONE since`)
	again := runGateway(t, g.Dir)
	s.shows(t, `RESTARTED`)
	s.press(t, "q")
	require.NoError(t, s.cmd.Wait())
	s.shows(t, `\x1b\[\?1049l`) // what stood there before is back
	again.stop(t)

	dumb := draw(t, g, "dumb", "top", "--data", g.Dir)
	dumb.shows(t, "nothing can be drawn")
	require.Error(t, dumb.cmd.Wait())
}
