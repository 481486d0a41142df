package sockets_test

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/sockets"
)

func listen(t *testing.T, s *sockets.Set, address string) net.Listener {
	t.Helper()
	ln, err := s.Listen(t.Context(), "tcp", address, net.ListenConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func dial(t *testing.T, to net.Addr) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), to.Network(), to.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// accept takes a connection that waits, and sends a word over it.
func accept(t *testing.T, ln net.Listener, word string) {
	t.Helper()
	c, err := ln.Accept()
	require.NoError(t, err)
	_, err = io.WriteString(c, word)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func read(t *testing.T, c net.Conn) string {
	t.Helper()
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(b)
}

// give makes a set that is given copies of another's sockets, as a service manager's next process is.
func give(t *testing.T, from *sockets.Set) *sockets.Set {
	t.Helper()
	to := new(sockets.Set)
	require.NoError(t, from.Lend(func(descriptors []uintptr, _ int) error {
		for _, fd := range descriptors {
			require.NoError(t, to.Give(duplicate(t, fd)))
		}
		return nil
	}))
	return to
}

// succeed makes a set that has another's sockets, as the process that takes its process's place has.
func succeed(t *testing.T, from *sockets.Set) *sockets.Set {
	t.Helper()
	to := new(sockets.Set)
	require.NoError(t, from.Lend(func(descriptors []uintptr, given int) error {
		for i, fd := range descriptors {
			take := to.Inherit
			if i < given {
				take = to.Give
			}
			require.NoError(t, take(duplicate(t, fd)))
		}
		return nil
	}))
	return to
}

// TestInheritedSocketsAreNotKept: what a process bound itself is its successor's only while that listens there; what a
// service manager gave it stays.
func TestInheritedSocketsAreNotKept(t *testing.T) {
	t.Parallel()
	var manager sockets.Set
	kept := listen(t, &manager, "127.0.0.1:0")
	old := give(t, &manager)
	given := listen(t, old, kept.Addr().String())
	used, left, moved := listen(t, old, "127.0.0.1:0"), listen(t, old, "127.0.0.1:0"), listen(t, old, "127.0.0.1:0")
	next := succeed(t, old)
	require.Len(t, next.Unused(), 1, "none of those that are its predecessor's")
	early := listen(t, next, moved.Addr().String())
	require.NoError(t, early.Close()) // a configuration that failed
	after := listen(t, next, used.Addr().String())
	late := listen(t, next, moved.Addr().String())
	for _, ln := range []net.Listener{given, used, left, moved} {
		require.NoError(t, ln.Close())
	}
	next.Settle()
	_, err := net.Dial("tcp", left.Addr().String()) //nolint:noctx // it fails at once
	require.Error(t, err, "nobody listens any more")
	for _, ln := range []net.Listener{after, late} {
		client := dial(t, ln.Addr())
		accept(t, ln, "taken")
		require.Equal(t, "taken", read(t, client))
		require.NoError(t, ln.Close())
		_, err := net.Dial("tcp", ln.Addr().String()) //nolint:noctx // it fails at once
		require.Error(t, err, "nobody listens any more")
	}
	require.True(t, next.HasGiven())
	require.Len(t, next.Unused(), 1)
	_ = dial(t, kept.Addr())
}

// TestReloadLosesNoConnection: a connection that waits in the queue when one configuration's listener closes is taken
// by the next one's.
func TestReloadLosesNoConnection(t *testing.T) {
	t.Parallel()
	var s sockets.Set
	before := listen(t, &s, "127.0.0.1:0")
	client := dial(t, before.Addr())
	after := listen(t, &s, before.Addr().String())
	require.NoError(t, before.Close())
	accept(t, after, "taken")
	require.Equal(t, "taken", read(t, client))

	require.NoError(t, after.Close())
	_, err := net.Dial("tcp", before.Addr().String()) //nolint:noctx // it fails at once
	require.Error(t, err, "nobody listens any more")
}

// TestNextProcessTakesWhatWaits: what comes while a process pauses, and what waits when it ends, is taken by the one
// that has its sockets.
func TestNextProcessTakesWhatWaits(t *testing.T) {
	t.Parallel()
	var old sockets.Set
	before := listen(t, &old, "127.0.0.1:0")
	refused := make(chan error, 1)
	old.Pause()
	go func() {
		_, err := before.Accept()
		refused <- err
	}()
	client := dial(t, before.Addr())
	next := give(t, &old)
	require.NoError(t, before.Close())
	require.ErrorIs(t, <-refused, net.ErrClosed)

	require.Len(t, next.Unused(), 1)
	after := listen(t, next, before.Addr().String())
	require.Empty(t, next.Unused())
	accept(t, after, "taken")
	require.Equal(t, "taken", read(t, client))

	require.NoError(t, after.Close())
	require.Len(t, next.Unused(), 1, "who gave it has it, and may want it served again")
}

// TestPauseGiven: a process that ends leaves connections in the queues of sockets that outlive it, and takes those of
// its own.
func TestPauseGiven(t *testing.T) {
	t.Parallel()
	var manager sockets.Set
	kept := listen(t, &manager, "127.0.0.1:0")
	s := give(t, &manager)
	given, own := listen(t, s, kept.Addr().String()), listen(t, s, "127.0.0.1:0")
	s.PauseGiven()
	client := dial(t, given.Addr())
	dial(t, own.Addr())
	c, err := own.Accept()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	taken := make(chan error, 1)
	go func() {
		_, err := given.Accept()
		taken <- err
	}()
	require.NoError(t, given.Close())
	require.ErrorIs(t, <-taken, net.ErrClosed)
	accept(t, kept, "taken")
	require.Equal(t, "taken", read(t, client))
}

// TestResume: a process whose successor failed takes what has waited meanwhile.
func TestResume(t *testing.T) {
	t.Parallel()
	var s sockets.Set
	s.Pause()
	ln := listen(t, &s, "127.0.0.1:0")
	client := dial(t, ln.Addr())
	took := make(chan struct{})
	go func() {
		defer close(took)
		accept(t, ln, "taken")
	}()
	s.Resume()
	require.Equal(t, "taken", read(t, client))
	<-took
}

// TestWildcards: a service manager's socket for all addresses is that of a site without a host.
func TestWildcards(t *testing.T) {
	t.Parallel()
	var manager sockets.Set
	given := listen(t, &manager, "[::]:0")
	_, port, err := net.SplitHostPort(given.Addr().String())
	require.NoError(t, err)
	for _, address := range []string{":" + port, "0.0.0.0:" + port, "[::]:" + port} {
		s := give(t, &manager)
		ln := listen(t, s, address)
		require.Equal(t, given.Addr().String(), ln.Addr().String())
		require.Empty(t, s.Unused())
	}
	s := give(t, &manager)
	_, err = s.Listen(t.Context(), "tcp", "192.0.2.1:"+port, net.ListenConfig{}) // nobody's address
	require.ErrorContains(t, err, "other sockets, at which no site is: tcp [::]:"+port)
}

// TestGatePackets: the process that gave a UDP socket gets its packets until it has ended, and the next one those
// after.
func TestGatePackets(t *testing.T) {
	t.Parallel()
	var old sockets.Set
	before, err := old.ListenPacket(t.Context(), "udp", "127.0.0.1:0", net.ListenConfig{})
	require.NoError(t, err)
	next := give(t, &old)
	open := make(chan struct{})
	next.GatePackets(open)
	after, err := next.ListenPacket(t.Context(), "udp", before.LocalAddr().String(), net.ListenConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = after.Close() })
	got := make(chan string, 2)
	go func() {
		b := make([]byte, 16)
		for range 2 {
			n, _, err := after.ReadFrom(b)
			if err != nil {
				return
			}
			got <- string(b[:n])
		}
	}()

	client := dial(t, before.LocalAddr())
	send := func(word string) {
		_, err := io.WriteString(client, word)
		require.NoError(t, err)
	}
	b := make([]byte, 16)
	for _, word := range []string{"one", "two", "three"} {
		send(word)
		require.NoError(t, before.SetReadDeadline(time.Now().Add(time.Minute)))
		n, _, err := before.ReadFrom(b)
		require.NoError(t, err)
		require.Equal(t, word, string(b[:n]))
	}
	require.NoError(t, before.Close())
	send("four")
	close(open)
	require.Equal(t, "four", <-got)

	gated := give(t, next)
	gated.GatePackets(make(chan struct{}))
	waits, err := gated.ListenPacket(t.Context(), "udp", after.LocalAddr().String(), net.ListenConfig{})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, _, err := waits.ReadFrom(b)
		ended <- err
	}()
	require.NoError(t, waits.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
}

// TestDivertPackets: of packets that come to a process while the next one has the socket, too, each gets its own.
func TestDivertPackets(t *testing.T) {
	t.Parallel()
	var old sockets.Set
	before, err := old.ListenPacket(t.Context(), "udp", "127.0.0.1:0", net.ListenConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = before.Close() })
	next := give(t, &old)
	next.GatePackets(make(chan struct{})) // the old one lives on
	after, err := next.ListenPacket(t.Context(), "udp", before.LocalAddr().String(), net.ListenConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = after.Close() })
	dialled := 0
	old.DivertPackets(func(packet []byte) bool { return packet[0] == 'o' }, func() (io.WriteCloser, error) {
		from, to := net.Pipe()
		if dialled++; dialled == 1 {
			_ = from.Close() // a process that has ended
		} else {
			go next.ReceivePackets(from)
		}
		return to, nil
	})
	client := dial(t, before.LocalAddr())
	for _, word := range []string{"lost", "new", "old"} {
		_, err := io.WriteString(client, word)
		require.NoError(t, err)
	}
	for conn, want := range map[net.PacketConn]string{before: "old", after: "new"} {
		b := make([]byte, 16)
		n, from, err := conn.ReadFrom(b)
		require.NoError(t, err)
		require.Equal(t, want, string(b[:n]))
		require.Equal(t, client.LocalAddr().String(), from.String())
	}
}

// TestOtherSockets: a given socket that is neither of TCP nor of UDP keeps its place.
func TestOtherSockets(t *testing.T) {
	t.Parallel()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", t.TempDir()+"/s")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	f, err := ln.(*net.UnixListener).File()
	require.NoError(t, err)
	var s sockets.Set
	require.NoError(t, s.Give(f))
	mine := listen(t, &s, "127.0.0.1:0")
	require.NoError(t, s.Lend(func(descriptors []uintptr, given int) error {
		require.Len(t, descriptors, 2)
		require.Equal(t, 1, given)
		require.Equal(t, ln.Addr().String(), nameOf(t, descriptors[0]))
		return nil
	}))
	require.NoError(t, mine.Close())

	notASocket, err := os.Open(os.DevNull)
	require.NoError(t, err)
	require.ErrorContains(t, s.Give(notASocket), "taking the socket /dev/null that was given to this process")
}
