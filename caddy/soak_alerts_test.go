//go:build linux && soak

package main_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// TestSoakAlertsOfAProvider: one whose process ends again and again is told of, and that it is back.
func TestSoakAlertsOfAProvider(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{})
	l := openListener(t)
	dir := t.TempDir()
	files{"gateway.hcl": hcl(up) + l.block(""), "mail.pem": l.ca}.write(t, dir)
	g := &gateway{Dir: dir, Env: []string{"HOOK_SECRET=" + l.secret}, ended: make(chan struct{}),
		says: `(?:\{.*"provider failed; starting it again".*\}\n)+`}
	g.launch(t, "")
	g.awaitStart(t)
	stop, killed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(killed)
		for {
			for _, p := range g.children(t) {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	_, body := l.await(t, "provider_down.raised")
	require.Contains(t, body, `"subject":"up"`)
	l.awaitMail(t, "provider_down (page): raised")
	close(stop)
	<-killed
	l.await(t, "provider_down.resolved")
	l.awaitMail(t, "provider_down (page): resolved")
	g.stop(t)
}
