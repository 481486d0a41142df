//go:build linux

package main_test

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/plugins/providertest/upstream"
)

// listener is who hears of alerts: a receiver of webhooks, which checks them as the specification's own library does,
// and a mail server with STARTTLS.
type listener struct {
	secret, url, mail, ca string

	mu      sync.Mutex
	away    bool
	refused []string // ids that were refused, for it was away
	got     []string // "id type"
	texts   []string
	mails   []string
	owners  []string // those of owner@example.test
}

func openListener(t *testing.T) *listener {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	l := &listener{secret: "whsec_" + base64.StdEncoding.EncodeToString(key)}
	verifier, err := standardwebhooks.NewWebhook(l.secret)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		var message struct{ Type string }
		if err == nil {
			err = json.Unmarshal(body, &message)
		}
		if err != nil {
			t.Errorf("a message cannot be verified: %v", err)
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		id := r.Header.Get("webhook-id")
		if l.away {
			l.refused = append(l.refused, id)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		l.got, l.texts = append(l.got, id+" "+message.Type), append(l.texts, string(body))
	}))
	t.Cleanup(server.Close)
	l.url = server.URL

	pair, ca := mailCertificate(t)
	l.ca = ca
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &mailSession{listener: l}, nil
	}))
	s.Domain, s.TLSConfig = "localhost", &tls.Config{Certificates: []tls.Certificate{pair}}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.mail = socket.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(socket)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
	})
	return l
}

// mailSession takes every mail.
type mailSession struct {
	*listener
	to string
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *mailSession) Reset()                               {}
func (s *mailSession) Logout() error                        { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to == "owner@example.test" {
		s.owners = append(s.owners, string(text))
	} else {
		s.mails = append(s.mails, string(text))
	}
	return err
}

// mailCertificate returns the certificate that servers of httptest have, for 127.0.0.1, and who has signed it: itself.
func mailCertificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates[0], string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func (l *listener) isAway(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

// await waits for a message of a type, and returns its id and its body.
func (l *listener) await(t *testing.T, kind string) (id, body string) {
	t.Helper()
	eventually(t, func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		i := slices.IndexFunc(l.got, func(got string) bool { return strings.HasSuffix(got, " "+kind) })
		if i >= 0 {
			id, body = strings.TrimSuffix(l.got[i], " "+kind), l.texts[i]
		}
		return i >= 0, fmt.Sprint(l.got)
	})
	return id, body
}

// awaitMail waits for a mail with a text in it.
func (l *listener) awaitMail(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.ContainsFunc(l.mails, func(mail string) bool { return strings.Contains(mail, text) }),
			strings.Join(l.mails, "\n")
	})
}

// block is the configuration that tells it, with thresholds.
func (l *listener) block(thresholds string) string {
	return fmt.Sprintf(`
alerts {
  %s
  webhook "ops" {
    url    = "%s/hook"
    secret = env("HOOK_SECRET")
  }
  mail "ops" {
    server = %q
    from   = "fareway@example.test"
    to     = ["ops@example.test"]
    ca     = file("mail.pem")
  }
  mail "accounts" {
    server   = %q
    from     = "billing@example.test"
    accounts = true
    ca       = file("mail.pem")
  }
}
`, thresholds, l.url, l.mail, l.mail)
}

// TestAlerts: a test reaches webhook and mail; an account that runs low is told of, and its owner in words of their
// own, once; and what could not be delivered when the gateway was killed is delivered by the next one, under the same
// id and once.
func TestAlerts(t *testing.T) {
	t.Parallel()
	up := upstream.Start(t, upstream.Options{})
	l := openListener(t)
	dir := t.TempDir()
	files{"gateway.hcl": hcl(up) + l.block("balance_low_credits = 100000"), "mail.pem": l.ca}.write(t, dir)
	start := func() *gateway {
		g := &gateway{Dir: dir, Env: []string{"HOOK_SECRET=" + l.secret}, ended: make(chan struct{})}
		g.launch(t, "")
		g.awaitStart(t)
		return g
	}
	g := start()
	g.cli(t, "account", "set-mail", "trial", "owner@example.test")
	require.Regexp(t, `(?m)^owners accounts \(each account's own by 127\.0\.0\.1:\d+\): delivered after \d+ ms, `+
		`status 250, TLS 1\.3$`, string(g.cli(t, "hook", "test", "--account", "trial")))
	out := string(g.cli(t, "hook", "test"))
	require.Regexp(t, `(?m)^webhook ops \(http://127\.0\.0\.1:\d+/hook\): delivered after \d+ ms, status 200, `+
		`without TLS$`, out)
	require.Regexp(t, `(?m)^mail ops \(ops@example\.test by 127\.0\.0\.1:\d+\): delivered after \d+ ms, status 250, `+
		`TLS 1\.3$`, out)
	l.await(t, "test")
	l.awaitMail(t, "This is a test")

	g.ask(t, g.Key)
	_, body := l.await(t, "balance_low.raised")
	require.Contains(t, body, `"name":"trial"`)
	require.Contains(t, body, `"about":"account"`)
	l.awaitMail(t, "balance_low")
	eventually(t, func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.owners) == 2, strings.Join(l.owners, "\n")
	})
	listed := string(g.cli(t, "alert", "list"))
	require.Regexp(t, `(?m)^balance_low +trial +\d{4}-.* and its owner +The balance`, listed)
	require.Regexp(t, `(?m)^owners accounts +each account's own by 127\.0\.0\.1:\d+ +0 +nothing waits$`, listed)

	l.isAway(true)
	failed, err := fareway(dir, "gateway", "backup", "run", "--into", "/dev/null/nowhere", "--data", dir).CombinedOutput()
	require.Error(t, err, "%s", failed)
	eventually(t, func() (bool, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.refused) > 0, "nothing is tried"
	})
	eventually(t, func() (bool, string) {
		listed := string(g.cli(t, "alert", "list"))
		return strings.Contains(listed, "FAILING since") && strings.Contains(listed, "it answered 503"), listed
	})
	g.kill()
	l.isAway(false)
	g = start()
	id, _ := l.await(t, "backup_failed.raised")
	l.mu.Lock()
	require.Contains(t, l.refused, id)
	counts := make(map[string]int)
	for _, got := range l.got {
		counts[got[strings.Index(got, " ")+1:]]++
	}
	l.mu.Unlock()
	require.Equal(t, 1, counts["backup_failed.raised"])
	require.Equal(t, 1, counts["balance_low.raised"], "what was told is not told again")
	for _, name := range []string{"alerts.json", "fareway.log"} {
		text, err := os.ReadFile(dir + "/" + name)
		require.NoError(t, err)
		require.NotContains(t, string(text), l.secret[len("whsec_"):], name)
		require.NotContains(t, string(text), "owner@example.test", name)
	}
	l.mu.Lock()
	require.Len(t, l.owners, 2, "the test, and one mail of the balance, also after a restart")
	require.Contains(t, l.owners[0], "Subject: A test for your account trial")
	require.Contains(t, l.owners[1], "Subject: The balance of your account trial is low")
	require.Contains(t, l.owners[1], "From: <billing@example.test>")
	require.NotContains(t, l.owners[1], "ops@example.test")
	l.mu.Unlock()
	acts := string(g.cli(t, "ledger", "audit"))
	require.Contains(t, acts, "hook.test")
	require.Contains(t, acts, "o***@example.test")
	require.NotContains(t, acts, "owner@example.test")
	require.NotContains(t, string(g.cli(t, "status", "--json")), l.secret[len("whsec_"):])
	g.stop(t)
}
