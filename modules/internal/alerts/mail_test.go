package alerts

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
)

// post is a mail server in this process.
type post struct {
	server *smtp.Server
	port   uint16
	ca     string

	mu       sync.Mutex
	mails    []letter
	refuse   error  // of recipients
	nobody   string // the recipient who is refused; "": each
	minds    string // of what no mail may be
	login    bool   // needed
	loggedIn int
}

type letter struct {
	from string
	to   []string
	text string
	tls  bool
}

// quiet is a server's log that nobody reads.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

func (p *post) NewSession(c *smtp.Conn) (smtp.Session, error) {
	_, secure := c.TLSConnectionState()
	return &session{post: p, letter: letter{tls: secure}}, nil
}

type session struct {
	post   *post
	letter letter
	known  bool
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "fareway" || password != "pass-hunter2" {
			return &smtp.SMTPError{Code: 535, Message: "no: " + password}
		}
		s.post.mu.Lock()
		defer s.post.mu.Unlock()
		s.post.loggedIn++
		s.known = true
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.post.login && !s.known {
		return smtp.ErrAuthRequired
	}
	s.letter.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.post.mu.Lock()
	defer s.post.mu.Unlock()
	if s.post.refuse != nil && (s.post.nobody == "" || s.post.nobody == to) {
		return s.post.refuse
	}
	s.letter.to = append(s.letter.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.letter.text = string(text)
	s.post.mu.Lock()
	defer s.post.mu.Unlock()
	if s.post.minds != "" && strings.Contains(s.letter.text, s.post.minds) {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "spam"}
	}
	s.post.mails = append(s.post.mails, s.letter)
	return nil
}

func (s *session) Reset()        { s.letter.to = nil }
func (s *session) Logout() error { return nil }

// openPost starts one. way: "starttls", "implicit", or "none".
func openPost(t *testing.T, way config.MailTLS) *post {
	t.Helper()
	pair, ca := certify(t)
	p := &post{ca: ca}
	p.server = smtp.NewServer(p)
	p.server.Domain, p.server.AllowInsecureAuth = "mail.test", way == config.MailPlain
	p.server.ErrorLog = quiet{}
	tlsConfig := &tls.Config{Certificates: []tls.Certificate{pair}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.port = uint16(l.Addr().(*net.TCPAddr).Port)
	switch way {
	case config.MailStartTLS:
		p.server.TLSConfig = tlsConfig
	case config.MailImplicit:
		l = tls.NewListener(l, tlsConfig)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = p.server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = p.server.Close()
		_ = l.Close() // it may not have begun to serve, and would then for ever
		<-served
	})
	return p
}

func (p *post) received() []letter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]letter(nil), p.mails...)
}

// block is one that mails to it.
func (p *post) block(way config.MailTLS) config.Mail {
	return config.Mail{Name: "ops", Host: "127.0.0.1", Port: p.port, TLS: way, From: "Fareway <fareway@example.test>",
		To: []string{"ann@example.test", "bob@example.test"}, Timeout: 3 * time.Second, CA: p.ca}
}

// certify returns the certificate that servers of httptest have, for 127.0.0.1, and who has signed it: itself.
func certify(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates[0], string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// TestMail goes each way to a real server, and says what it is.
func TestMail(t *testing.T) {
	t.Parallel()
	for _, way := range []config.MailTLS{config.MailStartTLS, config.MailImplicit, config.MailPlain} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			p := openPost(t, way)
			p.login = true
			block := p.block(way)
			block.Username, block.Password = "fareway", "pass-hunter2"
			m := message(t, "msg_1")
			now := time.Now()
			out := (&mailer{&block}).send(t.Context(), []*Message{m}, now)
			require.True(t, out.Delivered, out.Error)
			require.Equal(t, way != config.MailPlain, out.TLS != "", out.TLS)
			mails := p.received()
			require.Len(t, mails, 1)
			require.Equal(t, way != config.MailPlain, mails[0].tls)
			require.Equal(t, "fareway@example.test", mails[0].from)
			require.Equal(t, block.To, mails[0].to)
			read, err := mail.ReadMessage(strings.NewReader(mails[0].text))
			require.NoError(t, err)
			require.Equal(t, "[fareway desk] PAGE: disk_full raised: data", read.Header.Get("Subject"))
			require.Equal(t, "<msg_1@example.test>", read.Header.Get("Message-Id"))
			require.Equal(t, "auto-generated", read.Header.Get("Auto-Submitted"))
			date, err := read.Header.Date()
			require.NoError(t, err)
			require.WithinDuration(t, now, date, time.Second)
			kind, params, err := mime.ParseMediaType(read.Header.Get("Content-Type"))
			require.NoError(t, err)
			require.Equal(t, "text/plain", kind)
			require.Equal(t, "UTF-8", params["charset"])
			body, err := io.ReadAll(quotedprintable.NewReader(read.Body))
			require.NoError(t, err)
			require.Contains(t, string(body), "disk_full (page): raised\r\n")
			require.Contains(t, string(body), "1 MB is left.")
			require.Contains(t, string(body), "Next: Make room.")
		})
	}
}

// TestMailIsRefused where it would go in clear, to somebody else, or without what the server wants; and no password is
// in what is said of that.
func TestMailIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		way    config.MailTLS // of the server
		change func(p *post, b *config.Mail)
		want   string
		status int
	}{
		"a server without STARTTLS": {config.MailPlain, func(_ *post, b *config.Mail) {
			b.TLS = config.MailStartTLS
		}, "STARTTLS", 0},
		"an unknown authority": {config.MailStartTLS, func(_ *post, b *config.Mail) { b.CA = "" }, "certificate", 0},
		"another host's certificate": {config.MailImplicit, func(_ *post, b *config.Mail) {
			b.Host = "localhost"
		}, "certificate", 0},
		"a wrong password": {config.MailStartTLS, func(_ *post, b *config.Mail) {
			b.Username, b.Password = "fareway", "wrong-hunter2"
		}, "535", 0},
		"no login": {config.MailStartTLS, func(p *post, _ *config.Mail) { p.login = true }, "502", 502},
		"a refused recipient": {config.MailStartTLS, func(p *post, _ *config.Mail) {
			p.refuse = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "who?\x1b[2J"}
		}, "who?", 550},
		"nobody": {config.MailStartTLS, func(_ *post, b *config.Mail) { b.Port = 1 }, "refused", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openPost(t, tc.way)
			block := p.block(tc.way)
			tc.change(p, &block)
			out := (&mailer{&block}).send(t.Context(), []*Message{message(t, "msg_1")}, time.Now())
			require.False(t, out.Delivered)
			require.Contains(t, out.Error, tc.want)
			require.Equal(t, tc.status, out.Status)
			require.NotContains(t, out.Error, "hunter2")
			require.NotContains(t, out.Error, "\x1b")
			require.Empty(t, p.received())
		})
	}
}

// TestMailCannotBeInjected: what comes from elsewhere, an account's name for example, is text and nothing else.
func TestMailCannotBeInjected(t *testing.T) {
	t.Parallel()
	p := openPost(t, config.MailStartTLS)
	block := p.block(config.MailStartTLS)
	const evil = "ann\r\nBcc: eve@example.test\r\n\r\n.\r\nMAIL FROM:<eve@example.test>\r\n\u202Ename\x00\xff"
	w := newWatch()
	w.take(begin, map[string]Seen{"balance_low": {Findings: []Finding{{Subject: "acct_1", Name: evil, Text: evil,
		Next: evil}}}})
	notes := w.tell(begin, everybody)
	require.Len(t, notes, 1)
	m, err := notes[0].write(evil, begin)
	require.NoError(t, err)
	out := (&mailer{&block}).send(t.Context(), []*Message{m}, time.Now())
	require.True(t, out.Delivered, out.Error)
	mails := p.received()
	require.Len(t, mails, 1)
	require.Equal(t, block.To, mails[0].to)
	read, err := mail.ReadMessage(strings.NewReader(mails[0].text))
	require.NoError(t, err)
	require.Empty(t, read.Header.Get("Bcc"))
	body, err := io.ReadAll(quotedprintable.NewReader(read.Body))
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(body), "\r\n") {
		require.False(t, strings.HasPrefix(line, "Bcc:") || strings.HasPrefix(line, "MAIL") || line == ".", line)
	}
	require.NotContains(t, string(body), "\u202E")
	subject, err := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
	require.NoError(t, err)
	require.NotContains(t, subject, "\u202E")
	require.LessOrEqual(t, len(subject), 204)
}

// TestOneMailHasAllThatWaits, and there is one in a minute at most.
func TestOneMailHasAllThatWaits(t *testing.T) {
	t.Parallel()
	p := openPost(t, config.MailStartTLS)
	b := newBench(t, t.TempDir(), config.Alerts{Mails: []config.Mail{p.block(config.MailStartTLS)}})
	b.finds("backup_failed", Finding{Subject: "backup", Text: "It failed."},
		Finding{Subject: "trial", Text: "It failed, too."})
	b.finds("ledger_loss", Finding{Text: "It is gone."})
	b.begin(t)
	require.Eventually(t, func() bool { return len(p.received()) == 1 }, 10*time.Second, 5*time.Millisecond)
	text := p.received()[0].text
	require.Contains(t, text, "PAGE: 3 alerts: ledger_loss, backup_failed")
	require.Contains(t, text, "It failed, too.")
	require.Contains(t, text, "It is gone.")
	// The rest of the minute is waited for.
	sent := b.clock.Now()
	b.finds("backup_failed")
	b.untilTrue(t, time.Second, func() bool { return len(p.received()) == 2 })
	require.GreaterOrEqual(t, b.clock.Now().Sub(sent), mailEvery)
	require.Contains(t, p.received()[1].text, fmt.Sprintf("backup_failed (%s): resolved", config.AlertTicket))
	require.Contains(t, p.received()[1].text, "It is over, and was so since 2026-11-27 01:00:00 UTC.")
}

// TestOneDeadRecipient does not keep the mail from the others, and is said.
func TestOneDeadRecipient(t *testing.T) {
	t.Parallel()
	p := openPost(t, config.MailStartTLS)
	p.refuse, p.nobody = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "who?"},
		"ann@example.test"
	block := p.block(config.MailStartTLS)
	out := (&mailer{&block}).send(t.Context(), []*Message{message(t, "msg_1")}, time.Now())
	require.True(t, out.Delivered)
	require.Contains(t, out.Error, "ann@example.test: ")
	require.Contains(t, out.Error, "who?")
	require.Equal(t, 250, out.Status)
	require.NotEmpty(t, out.TLS)
	mails := p.received()
	require.Len(t, mails, 1)
	require.Equal(t, []string{"bob@example.test"}, mails[0].to)
}

// TestAMailThatIsSpam: what is sent with it is sent without it, and it is given up.
func TestAMailThatIsSpam(t *testing.T) {
	t.Parallel()
	p := openPost(t, config.MailStartTLS)
	p.minds = "trial"
	b := newBench(t, t.TempDir(), config.Alerts{Mails: []config.Mail{p.block(config.MailStartTLS)}})
	b.finds("backup_failed", Finding{Subject: "backup", Text: "It failed."},
		Finding{Subject: "trial", Text: "It failed, too."})
	b.finds("ledger_loss", Finding{Text: "It is gone."})
	b.begin(t)
	b.untilTrue(t, lookEvery, func() bool { return len(b.Standing().GivenUp) == 1 })
	require.Contains(t, b.Standing().GivenUp[0].Why, "554")
	b.untilTrue(t, lookEvery, func() bool { return len(p.received()) == 2 })
	require.Contains(t, p.received()[0].text, "It is gone.")
	require.Less(t, b.clock.Now().Sub(begin), time.Hour)
}

// TestBadMailServers: one that stalls or trickles costs one time-out in all.
func TestBadMailServers(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"stalls": "", "greets and stalls": "220 mail.test\r\n",
		"trickles": "220-"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				_, _ = io.WriteString(c, begin)
				for name == "trickles" {
					if _, err := io.WriteString(c, "more\r\n220-"); err != nil {
						return
					}
					<-time.After(20 * time.Millisecond)
				}
				_, _ = io.Copy(io.Discard, c) // until the client is gone
			}()
			block := config.Mail{Name: "ops", Host: "127.0.0.1", Port: uint16(l.Addr().(*net.TCPAddr).Port),
				TLS: config.MailPlain, From: "a@example.test", To: []string{"b@example.test"}, Timeout: 500 * time.Millisecond}
			b := newBench(t, t.TempDir(), config.Alerts{Mails: []config.Mail{block}})
			start := time.Now()
			tested, err := b.Test(t.Context(), TestOf{})
			require.NoError(t, err)
			require.False(t, tested[0].Delivered)
			require.Less(t, time.Since(start), 10*time.Second)
			require.NoError(t, l.Close())
			<-ended
		})
	}
}

// TestTheEndDoesNotWaitForLong: a receiver that stalls does not keep the process.
func TestTheEndDoesNotWaitForLong(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	asked := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			asked <- c
		}
	}()
	w := hook("ops", "http://"+l.Addr().String())
	w.Timeout = time.Hour
	b := newBench(t, t.TempDir(), config.Alerts{Webhooks: []config.Webhook{w}})
	b.finds("backup_failed", Finding{Subject: "backup"})
	b.Start(t.Context())
	c := <-asked
	defer c.Close()
	start := time.Now()
	b.Close()
	require.Less(t, time.Since(start), time.Minute)
	content, err := os.ReadFile(b.outbox.path)
	require.NoError(t, err)
	require.Contains(t, string(content), "backup_failed.raised", "the next process sends it")
}
