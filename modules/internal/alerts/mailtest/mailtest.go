// Package mailtest is a mail server for tests, which takes every mail.
package mailtest

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"
)

// Letter is a mail that was taken.
type Letter struct {
	To   []string
	Text string // with its headers
}

// Server speaks SMTP without TLS on an address of this machine.
type Server struct {
	Address string // host:port
	letters chan Letter
}

// Start starts one, which ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{letters: make(chan Letter, 100)}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }))
	server.Domain = "localhost"
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Address = socket.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(socket) // until it is closed
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return s
}

// Next is the next mail, for which it waits.
func (s *Server) Next(t testing.TB) Letter {
	t.Helper()
	select {
	case l := <-s.letters:
		return l
	case <-time.After(time.Minute):
		t.Fatal("there came no mail")
		return Letter{}
	}
}

// HasNone reports whether no mail has come that nobody has taken.
func (s *Server) HasNone() bool { return len(s.letters) == 0 }

type session struct {
	server *Server
	to     []string
}

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }
func (s *session) Reset()                               { s.to = nil }
func (s *session) Logout() error                        { return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err == nil {
		s.server.letters <- Letter{To: s.to, Text: string(text)}
	}
	return err
}
