package alerts

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/fareway/fareway/config"
)

const (
	// maxAnswer is how much of a receiver's answer is read, in bytes. Nothing of it is kept.
	maxAnswer     = 4 << 10
	maxHeaders    = 16 << 10
	dialTimeout   = 5 * time.Second
	userAgent     = "fareway"
	webhookPrefix = "webhook "
	mailPrefix    = "mail "
)

// destinationsOf are those of a configuration. owners are the addresses of an account's.
func destinationsOf(a config.Alerts, owners func(context.Context, string) ([]string, error)) (all []destination) {
	for i := range a.Webhooks {
		w := &a.Webhooks[i]
		all = append(all, destination{key: webhookPrefix + w.Name, kind: "webhook", name: w.Name, address: w.Address(),
			digest: w.Digest(), events: w.Events, hears: w.Hears, timeout: w.Timeout, sender: &webhook{w}})
	}
	for i := range a.Mails {
		m := &a.Mails[i]
		if len(m.To) > 0 {
			all = append(all, destination{key: mailPrefix + m.Name, kind: "mail", name: m.Name,
				address: strings.Join(m.To, ", ") + " by " + m.Server(), digest: m.Digest(), events: m.Events, hears: m.Hears,
				timeout: m.Timeout, sender: &mailer{m}})
		}
		if d, ok := hearingOwners(m, owners); ok {
			all = append(all, d)
		}
	}
	return all
}

// webhook posts messages as Standard Webhooks has it.
type webhook struct{ *config.Webhook }

func (w *webhook) batch() int           { return 1 }
func (w *webhook) pause() time.Duration { return 0 }

func (w *webhook) send(ctx context.Context, messages []*Message, now time.Time) (out Outcome) {
	start := time.Now()
	defer func() { out.Took = time.Since(start) }()
	m := messages[0]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(m.Body))
	if err != nil {
		return Outcome{Error: "its url cannot be used"} // the error shows it
	}
	if err := w.sign(req.Header, m, now); err != nil {
		return Outcome{Error: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	client, err := w.client()
	if err != nil {
		return Outcome{Error: err.Error()}
	}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return Outcome{Error: whyUnsent(ctx, err)}
	}
	defer resp.Body.Close()
	// What it says beside its status nobody needs; read, the connection ends in order.
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	return judge(resp, now)
}

// sign sets the headers by which a receiver knows whom a message is from. Each secret signs.
func (w *webhook) sign(h http.Header, m *Message, now time.Time) error {
	signatures := make([]string, 0, len(w.Secrets))
	for _, secret := range w.Secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return errors.New("a secret cannot be used") // the error shows it
		}
		signature, err := signer.Sign(m.ID, now, m.Body)
		if err != nil {
			return errors.New("the message cannot be signed")
		}
		signatures = append(signatures, signature)
	}
	h.Set(standardwebhooks.HeaderWebhookID, m.ID)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return nil
}

// client follows no redirect: the operator has named whom messages go to.
func (w *webhook) client() (*http.Client, error) {
	trusted, err := trust(w.CA)
	if err != nil {
		return nil, err
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted},
			TLSHandshakeTimeout:    dialTimeout,
			MaxResponseHeaderBytes: maxHeaders,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
		},
	}, nil
}

// trust are the certificates that are trusted, nil for those that the system trusts.
func trust(pem string) (*x509.CertPool, error) {
	if pem == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, errors.New("ca has no certificate in PEM")
	}
	return pool, nil
}

// judge is what an answer means.
func judge(resp *http.Response, now time.Time) Outcome {
	out := Outcome{Status: resp.StatusCode}
	if resp.TLS != nil {
		out.TLS = tls.VersionName(resp.TLS.Version)
	}
	status := fmt.Sprintf("it answered %d", resp.StatusCode)
	if text := http.StatusText(resp.StatusCode); text != "" {
		status += " " + text
	}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		out.Delivered = true
	case code >= 300 && code < 400:
		out.Error = status + ": redirects are not followed; name the address that it leads to"
	case code == http.StatusGone:
		out.Gone, out.Error = true, status
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		out.Error = status + ": does the receiver have this secret, and a clock that is right?"
	case code == http.StatusTooManyRequests, code >= 500:
		out.Error, out.After = status, retryAfter(resp.Header.Get("Retry-After"), now)
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity,
		code == http.StatusUnsupportedMediaType, code == http.StatusConflict:
		out.Error, out.Refused = status, true
	default:
		out.Error = status
	}
	return out
}

// retryAfter reads seconds, or a date; 0 for neither.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32); err == nil {
		return max(time.Duration(seconds)*time.Second, 0)
	}
	if t, err := http.ParseTime(text); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

// whyUnsent is why no answer came, without the url, which may be a secret.
func whyUnsent(ctx context.Context, err error) string {
	switch ctx.Err() {
	case context.DeadlineExceeded:
		return "no answer came in time"
	case context.Canceled:
		return "the gateway ended before an answer came"
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return plain(err.Error(), maxError)
}
