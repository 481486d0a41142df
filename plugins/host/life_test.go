package host_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/host"
	"github.com/fareway/fareway/plugins/llm"
	"github.com/fareway/fareway/plugins/llm/settings"
)

// clock is turned by hand: each wait is offered to the test, which lets it end by fire.
type clock struct{ waits chan wait }

type wait struct {
	d    time.Duration
	fire func()
}

func newClock() *clock { return &clock{waits: make(chan wait, 100)} }

func (c *clock) Now() time.Time { return time.Time{} }

func (c *clock) After(d time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 1)
	c.waits <- wait{d, func() { ch <- time.Time{} }}
	return ch
}

// next is the next wait of the duration given.
func (c *clock) next(t *testing.T, least, most time.Duration) wait {
	t.Helper()
	for {
		select {
		case w := <-c.waits:
			if w.d >= least && w.d <= most {
				return w
			}
		case <-t.Context().Done():
			t.Fatal("no such wait")
		}
	}
}

// observed is a host with a clock that the test turns, and the states of its only provider.
func observed(t *testing.T) (*host.Host, *clock, <-chan host.State) {
	c, states := newClock(), make(chan host.State, 100)
	h := newHost(t, func(o *host.Options) {
		o.Clock = c
		o.OnState = func(_ string, s host.State) { states <- s }
	})
	return h, c, states
}

func processID(t *testing.T, p *host.Plugin) int {
	t.Helper()
	events, err := talk(t.Context(), p, "pid")
	require.NoError(t, err)
	pid, err := strconv.Atoi(text(events))
	require.NoError(t, err)
	return pid
}

func TestAKilledPluginIsStartedAgain(t *testing.T) {
	t.Parallel()
	h, c, states := observed(t)
	p := acquire(t, h, spec("script"))
	require.Equal(t, host.Starting, <-states)
	require.Equal(t, host.Ready, <-states)
	require.True(t, p.Ready())
	first := processID(t, p)

	stream := open(t, t.Context(), p, ask("wait"))
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	_, err := stream.Recv()
	require.Equal(t, llm.ErrDied, kindOf(t, err))
	require.ErrorContains(t, err, "signal: killed")

	require.Equal(t, host.Restarting, <-states)
	_, err = p.Generate(t.Context(), ask("hello"))
	require.Equal(t, llm.ErrDied, kindOf(t, err), "another route is tried meanwhile")
	again, err := h.Acquire(t.Context(), spec("script"))
	require.NoError(t, err, "a reload does not wait for a provider that it did not change")
	require.Same(t, p, again)

	c.next(t, 80*time.Millisecond, 100*time.Millisecond).fire()
	require.Equal(t, host.Starting, <-states)
	require.Equal(t, host.Ready, <-states)
	require.NotEqual(t, first, processID(t, p))

	// The second pause is longer: the process did not live long.
	require.NoError(t, syscall.Kill(processID(t, p), syscall.SIGKILL))
	require.Equal(t, host.Restarting, <-states)
	c.next(t, 160*time.Millisecond, 200*time.Millisecond)
}

func TestAPluginThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	h, c, states := observed(t)
	p := acquire(t, h, spec("script"))
	require.Equal(t, host.Starting, <-states)
	require.Equal(t, host.Ready, <-states)
	stream := open(t, t.Context(), p, ask("wait"))
	pid := processID(t, p)
	_, err := talk(t.Context(), p, "print")
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	c.next(t, 10*time.Second, 10*time.Second).fire()
	c.next(t, 5*time.Second, 5*time.Second).fire()
	require.Equal(t, host.Unhealthy, <-states)
	require.Equal(t, "it did not answer its last health check", p.Info().Problem)
	_, err = p.Generate(t.Context(), ask("hello"))
	require.Equal(t, llm.ErrUpstream, kindOf(t, err), "nobody else waits for it")
	for range 2 {
		c.next(t, 10*time.Second, 10*time.Second).fire()
		c.next(t, 5*time.Second, 5*time.Second).fire()
	}
	require.Equal(t, host.Restarting, <-states)
	_, err = stream.Recv()
	require.Equal(t, llm.ErrDied, kindOf(t, err))
	require.ErrorContains(t, err, "it did not answer 3 health checks in a row (no answer within 5s); its last words: ")
	require.ErrorContains(t, err, "logged while running")
	require.Equal(t, host.CauseHang, p.Info().Crash.Cause)
	require.Contains(t, p.Info().Crash.Why, "logged while running")
}

func TestAPluginThatIsUnwellGetsNoRequests(t *testing.T) {
	t.Parallel()
	h, c, states := observed(t)
	p := acquire(t, h, spec("sickly"))
	require.Equal(t, host.Starting, <-states)
	require.Equal(t, host.Ready, <-states)
	c.next(t, 10*time.Second, 10*time.Second).fire()
	require.Equal(t, host.Unhealthy, <-states)
	require.False(t, p.Ready())
	_, err := p.Generate(t.Context(), ask("hello"))
	require.Equal(t, llm.ErrUpstream, kindOf(t, err))
	c.next(t, 10*time.Second, 10*time.Second).fire()
	require.Equal(t, host.Ready, <-states)
	_, err = talk(t.Context(), p, "hello")
	require.NoError(t, err)
}

func TestEqualSpecsShareAProcess(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	one := acquire(t, h, spec("script"))
	same := acquire(t, h, spec("script"))
	require.Same(t, one, same)
	other := spec("script")
	other.Settings = settings.Values(`{"greeting": "hi"}`)
	require.NotEqual(t, processID(t, one), processID(t, acquire(t, h, other)))

	// The first release leaves the process to the second reference.
	one.Release()
	require.Equal(t, host.Ready, same.State())
	require.Same(t, one, acquire(t, h, spec("script")), "it is not on its way out")
	_, err := talk(t.Context(), same, "hello")
	require.NoError(t, err)
}

func TestTheLastReleaseDrains(t *testing.T) {
	t.Parallel()
	h, _, states := observed(t)
	s := spec("script")
	s.DrainTimeout = time.Hour
	p := acquire(t, h, s)
	stream := open(t, t.Context(), p, ask("flood"))
	p.Release()
	for state := range states {
		if state == host.Draining {
			break
		}
	}
	_, err := p.Generate(t.Context(), ask("hello"))
	require.Equal(t, llm.ErrDied, kindOf(t, err), "a released plugin takes no more requests")
	for range 100 {
		_, err = stream.Recv()
		require.NoError(t, err, "a stream goes on")
	}
	require.NotSame(t, p, acquire(t, h, s), "the next one gets a process of its own")
	stream.Close()
	for state := range states {
		if state == host.Stopped {
			break
		}
	}
}

func TestADrainHasAnEnd(t *testing.T) {
	t.Parallel()
	h, c, _ := observed(t)
	s := spec("script")
	s.DrainTimeout = 7 * time.Minute
	p := acquire(t, h, s)
	stream := open(t, t.Context(), p, ask("wait"))
	p.Release()
	c.next(t, s.DrainTimeout, s.DrainTimeout).fire()
	_, err := stream.Recv()
	require.Equal(t, llm.ErrDied, kindOf(t, err))
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	p := acquire(t, h, spec("script"))
	pid := processID(t, p)
	stream := open(t, t.Context(), p, ask("wait"))
	h.Close()
	require.Equal(t, host.Stopped, p.State())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	_, err := stream.Recv()
	require.Equal(t, llm.ErrDied, kindOf(t, err))
	_, err = h.Acquire(t.Context(), spec("script"))
	require.ErrorContains(t, err, "closed")
	_, err = h.Schema(t.Context(), host.Source{Plugin: "script"})
	require.ErrorContains(t, err, "closed")
}

func TestARequestDoesNotShapeTheProcess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p, err := newHost(t).Acquire(ctx, spec("script"))
	require.NoError(t, err)
	cancel()
	_, err = talk(t.Context(), p, "hello")
	require.NoError(t, err)
}

func TestWhatAPluginGetsOfTheGateway(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	tell := func(script string) string {
		events, err := talk(t.Context(), p, script)
		require.NoError(t, err)
		return text(events)
	}
	for line := range strings.Lines(tell("environment")) {
		name, _, _ := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(name, "PLUGIN_"), strings.HasPrefix(name, "FAREWAY_"):
		case name == "PATH", name == "TMPDIR", name == "TZ", name == "LANG":
		case !strings.Contains(line, "="), strings.HasPrefix(line, "-----"): // the certificate's lines
		default:
			require.NotContains(t, os.Environ(), strings.TrimSpace(line), "a variable of the gateway's")
		}
	}
	require.NotEqual(t, strconv.Itoa(syscall.Getpgrp()), tell("group"), "a group of its own")
	require.Equal(t, `"" <nil>`, tell("stdin"))
}

func TestAPluginOutlivesSIGTERM(t *testing.T) {
	t.Parallel()
	p := acquire(t, newHost(t), spec("script"))
	pid := processID(t, p)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	require.NoError(t, syscall.Kill(pid, syscall.SIGINT))
	require.Equal(t, pid, processID(t, p))
}

func TestWhatAPluginPrintsIsLogged(t *testing.T) {
	t.Parallel()
	var log *strings.Builder
	h := newHost(t, func(o *host.Options) { log = capture(o) })
	_, err := talk(t.Context(), acquire(t, h, spec("script")), "print")
	require.NoError(t, err)
	h.Close()
	require.Regexp(t, `msg="printed while running".* from=stdout`, log.String())
	require.Regexp(t, `msg="printed to stderr while running".* from=stderr`, log.String())
	require.Regexp(t, `level=WARN msg="logged while running".* answer=42`, log.String())
}

// One that does not listen when it is asked to end is killed after the grace.
func TestAPluginThatHangsAtItsEndIsKilled(t *testing.T) {
	t.Parallel()
	h, _, states := observed(t)
	p := acquire(t, h, spec("script"))
	require.NoError(t, syscall.Kill(processID(t, p), syscall.SIGSTOP))
	p.Release()
	for state := range states {
		if state == host.Stopped {
			break
		}
	}
}

// The folder of a plugin's socket is gone when the plugin is, also when that could not remove it.
func TestNoSocketIsLeftOfAPluginThatWasKilled(t *testing.T) {
	t.Parallel()
	h, c, _ := observed(t)
	p := acquire(t, h, spec("script"))
	events, err := talk(t.Context(), p, "environment")
	require.NoError(t, err)
	_, rest, found := strings.Cut(text(events), "PLUGIN_UNIX_SOCKET_DIR=")
	require.True(t, found)
	folder, _, _ := strings.Cut(rest, "\n")
	require.DirExists(t, folder)
	require.NoError(t, syscall.Kill(processID(t, p), syscall.SIGKILL))
	c.next(t, 80*time.Millisecond, 100*time.Millisecond)
	require.NoDirExists(t, folder)
}
