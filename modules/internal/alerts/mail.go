package alerts

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"slices"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/fareway/fareway/config"
)

const (
	// perMail is how many messages are in one mail at most, and mailEvery the least time between two mails.
	perMail   = 50
	mailEvery = time.Minute
)

// mailer mails messages, all that wait in one mail. It does so by go-mail: net/smtp is frozen, knows no SCRAM, and
// leaves headers and their encoding to its callers.
type mailer struct{ *config.Mail }

func (m *mailer) batch() int           { return perMail }
func (m *mailer) pause() time.Duration { return mailEvery }

func (m *mailer) send(ctx context.Context, messages []*Message, now time.Time) (out Outcome) {
	start := time.Now()
	defer func() { out.Took = time.Since(start) }()
	text, err := m.write(messages, now, m.To...)
	if err != nil {
		return Outcome{Error: plain(err.Error(), maxError), Refused: true}
	}
	client, err := m.client(ctx)
	if err != nil {
		return Outcome{Error: plain(err.Error(), maxError)}
	}
	conn, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return m.failed(ctx, err)
	}
	// It has the mail, however it takes leave.
	defer func() { _ = client.CloseWithSMTPClient(conn) }()
	secured := versionOf(conn)
	if err := client.SendWithSMTPClient(conn, text); err != nil {
		out = m.failed(ctx, err)
		if sent, ok := errors.AsType[*gomail.SendError](err); ok && sent.Reason == gomail.ErrSMTPRcptTo && len(m.To) > 1 {
			out = m.sendToEach(ctx, client, conn, messages, now)
		}
		out.TLS = secured
		return out
	}
	return Outcome{Delivered: true, Status: 250, TLS: secured}
}

// versionOf is which version of TLS a connection has, "" for none.
func versionOf(conn *smtp.Client) string {
	state, err := conn.GetTLSConnectionState()
	if err != nil {
		return ""
	}
	return tls.VersionName(state.Version)
}

// sendToEach sends the mail to each recipient by itself, after the server has refused one of them: the others get it.
// Whoever was refused is in the error, and is not tried again when somebody has got it.
func (m *mailer) sendToEach(ctx context.Context, client *gomail.Client, conn *smtp.Client, messages []*Message,
	now time.Time) (out Outcome) {
	var refused []string
	for _, to := range m.To {
		text, err := m.write(messages, now, to)
		if err == nil {
			err = client.SendWithSMTPClient(conn, text)
		}
		if err == nil {
			out.Delivered = true
			continue
		}
		failed := m.failed(ctx, err)
		refused = append(refused, to+": "+failed.Error)
		out.Status, out.Refused = failed.Status, failed.Refused
	}
	if out.Delivered {
		out.Status, out.Refused = 250, false
	}
	out.Error = plain(strings.Join(refused, "; "), maxError)
	return out
}

// failed is what an error means, without the password.
func (m *mailer) failed(ctx context.Context, err error) Outcome {
	out := Outcome{}
	if sent, ok := errors.AsType[*gomail.SendError](err); ok {
		out.Status = sent.ErrorCode()
		switch sent.Reason {
		case gomail.ErrSMTPData, gomail.ErrSMTPDataClose, gomail.ErrWriteContent:
			out.Refused = out.Status >= 500 // of the text, the sender and the recipients being as they should
		}
	}
	out.Error = whyUnsent(ctx, err)
	if m.Password != "" {
		out.Error = strings.ReplaceAll(out.Error, m.Password, "***")
	}
	return out
}

// client is one for a single attempt, which ends with ctx.
func (m *mailer) client(ctx context.Context) (*gomail.Client, error) {
	trusted, err := trust(m.CA)
	if err != nil {
		return nil, err
	}
	secure := &tls.Config{ServerName: m.Host, MinVersion: tls.VersionTLS12, RootCAs: trusted}
	// The library's time-outs begin anew with each step; a server that trickles is not to make use of that.
	dial := func(dialing context.Context, network, address string) (conn net.Conn, err error) {
		if m.TLS == config.MailImplicit {
			conn, err = (&tls.Dialer{Config: secure}).DialContext(dialing, network, address)
		} else {
			conn, err = new(net.Dialer).DialContext(dialing, network, address)
		}
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	o := []gomail.Option{gomail.WithPort(int(m.Port)), gomail.WithTimeout(m.Timeout), gomail.WithoutNoop(),
		gomail.WithoutRset(), gomail.WithTLSConfig(secure), gomail.WithDialContextFunc(dial)}
	switch m.TLS {
	case config.MailImplicit:
		o = append(o, gomail.WithSSL())
	case config.MailPlain:
		o = append(o, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		o = append(o, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if m.Username != "" {
		kinds := []gomail.SMTPAuthType{gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthSCRAMSHA1, gomail.SMTPAuthCramMD5}
		if m.TLS == config.MailPlain { // who listens gets the password: the operator has said so
			kinds = append(kinds, gomail.SMTPAuthPlainNoEnc, gomail.SMTPAuthLoginNoEnc)
		} else {
			kinds = append(kinds, gomail.SMTPAuthPlain, gomail.SMTPAuthLogin)
		}
		o = append(o, gomail.WithOpportunisticSMTPAuth(kinds...), gomail.WithUsername(m.Username),
			gomail.WithPassword(m.Password))
	}
	return gomail.NewClient(m.Host, o...)
}

// write makes the mail. Nothing in it is anything but text: what comes from elsewhere has neither line breaks nor
// other signs that are not letters (plain).
func (m *mailer) write(messages []*Message, now time.Time, to ...string) (*gomail.Msg, error) {
	var (
		all     []Data
		events  []string
		count   int
		gateway string
		page    bool
	)
	for _, message := range messages {
		d, err := message.data()
		if err != nil {
			return nil, fmt.Errorf("reading a message: %w", err)
		}
		all, gateway, count = append(all, d), d.Gateway, count+d.Count
		if !slices.Contains(events, d.Event) {
			events = append(events, d.Event)
		}
		page = page || d.Severity == string(config.AlertPage) && d.State != Resolved
	}
	return m.compose(subjectOf(gateway, all, events, count, page), textOf(gateway, all), m.messageID(messages), now, to...)
}

// compose makes a mail of a text.
func (m *mailer) compose(subject, text, id string, now time.Time, to ...string) (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithCharset(gomail.CharsetUTF8), gomail.WithNoDefaultUserAgent())
	if err := msg.From(m.From); err != nil {
		return nil, fmt.Errorf("writing whom the mail is from: %w", err)
	}
	if err := msg.To(to...); err != nil {
		return nil, fmt.Errorf("writing whom the mail is for: %w", err)
	}
	msg.Subject(plain(subject, 200))
	msg.SetDateWithValue(now)
	msg.SetMessageIDWithValue(id)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader("X-Auto-Response-Suppress", "All")
	msg.SetBodyString(gomail.TypeTextPlain, text)
	return msg, nil
}

// messageID is the same for the same messages.
func (m *mailer) messageID(messages []*Message) string {
	id := messages[0].ID
	if len(messages) > 1 {
		sum := sha256.New()
		for _, message := range messages {
			fmt.Fprintln(sum, message.ID)
		}
		id = idOf(sum.Sum(nil))
	}
	domain := "fareway.invalid"
	if a, err := mail.ParseAddress(m.From); err == nil {
		domain = a.Address[strings.LastIndex(a.Address, "@")+1:]
	}
	return id + "@" + domain
}

func subjectOf(gateway string, all []Data, events []string, count int, page bool) string {
	text := "[fareway " + gateway + "] "
	if page {
		text += "PAGE: "
	}
	if len(all) > 1 || count > 1 {
		return text + fmt.Sprintf("%d alerts: %s", count, strings.Join(events, ", "))
	}
	if d := all[0]; d.State == "" {
		text += d.Event
	} else {
		text += fmt.Sprintf("%s %s: %s", d.Event, d.State, d.Alerts[0].label())
	}
	return text
}

// textOf is the text of a mail.
func textOf(gateway string, all []Data) string {
	var b strings.Builder
	for _, d := range all {
		title := fmt.Sprintf("%s (%s)", d.Event, d.Severity)
		if d.State != "" {
			title += ": " + string(d.State)
		}
		fmt.Fprintf(&b, "%s\n", title)
		next := ""
		for i := range d.Alerts {
			item, since := &d.Alerts[i], "Since"
			if d.State == Resolved {
				since = "It is over, and was so since"
			}
			fmt.Fprintf(&b, "\n  %s\n  %s\n  %s %s.\n", item.label(), item.Text, since,
				item.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
			if item.Name != "" && item.Subject != item.Name {
				fmt.Fprintf(&b, "  Id %s.\n", item.Subject)
			}
			if item.Next != "" && item.Next != next {
				fmt.Fprintf(&b, "  Next: %s\n", item.Next)
			}
			next = item.Next
		}
		if more := d.Count - len(d.Alerts); more > 0 {
			fmt.Fprintf(&b, "\n  ... and %d more.\n", more)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "-- \nThe gateway %s wrote this. `fareway gateway alert list` has what is raised now.\n", gateway)
	return b.String()
}

var (
	_ sender = (*webhook)(nil)
	_ sender = (*mailer)(nil)
	_ sender = (*ownerMailer)(nil)
)
