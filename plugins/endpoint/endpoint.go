// Package endpoint makes one call of an upstream in a dialect that Fareway knows, whoever makes it: the gateway, for a
// provider that says where calls go instead of carrying them, or a provider in its own process. A Client keeps the
// connections, a Source the endpoint of each model until it expires, and a Call is one request with its reply, which
// is read by whoever wants it: nothing is read ahead.
//
// Nothing of an upstream's text, of a header or of an address with its query is in an error: they reach logs.
package endpoint

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Endpoint is where the calls of one upstream model go, and how. It is not changed once it is handed out.
type Endpoint struct {
	// Dialect is the wire format: Chat, Responses, Messages or Gemini; "" where the provider makes the calls itself, see
	// Client.Do.
	Dialect Dialect
	// URL is the whole address that requests are posted to, http or https.
	URL string
	// Headers are sent with each call, such as Authorization. They are secrets.
	Headers []Header
	// TLS is for https; the zero value trusts what the system trusts.
	TLS TLS
	// HTTP2 speaks HTTP/2 with prior knowledge also where the address has no TLS (RFC 9113, section 3.3). With TLS both
	// sides agree by themselves.
	HTTP2 bool
	// Proxy is the URL of an HTTP or SOCKS5 proxy, "" for none. It may hold a password. The environment's is never used.
	Proxy string
	// Expires is until when calls may begin with it, zero for ever.
	Expires time.Time

	// Timeouts bound what the network does.
	Timeouts Timeouts

	// Refuses are names of what the upstream refuses, beside what all of its dialect do, see llm.Restrictions.
	Refuses []string
	// CacheControl is how long the upstream is to keep the beginning of a prompt, "5m" or "1h", where requests of the
	// dialect mark it (Messages); "" marks nothing.
	CacheControl string
	// ThinkingBudget is how many tokens a model may think for, where requests of the dialect say so (Gemini, Messages): 0
	// for none, -1 for as many as it wants; nil leaves it to the model. ThinkingLevel is how much effort it makes, one of
	// ThinkingLevels, "" for the model's own; Gemini takes one of the two.
	ThinkingBudget *int64
	ThinkingLevel  string
	// ReturnReasoning sends what the model thought before its calls back with their results, where the service demands it
	// (Chat: reasoning_content).
	ReturnReasoning bool
	// LostCall is an object of JSON whose members the first call of a past reply has where those that it came with are
	// not there any more, as after another route's reply, and the service documents some for that (Chat); "" for none.
	LostCall string
	// StrictTools sends the wish that arguments are held to a tool's schema, where the service knows it (Chat).
	StrictTools bool
	// References says that the upstream is asked for receipts by the id of its reply, which is then sent as an
	// llm.EventReference. ReferenceHeader is a header of the reply's head that has that id already, "" for none.
	References      bool
	ReferenceHeader string
	// Timings says that the upstream is a llama.cpp server: it is asked to say with each chunk what it has done so far
	// (Chat: timings_per_token), and always for a stream. Usage is proven then when a call is stopped or breaks off.
	Timings bool
	// AlwaysStream asks for a stream also where the reply is wanted in one piece.
	AlwaysStream bool

	// Settings name what the operator can set, for errors that say what to look at.
	Settings Settings
}

// ThinkingLevels are what a ThinkingLevel can be. Gemini has the first four, Messages all but the first.
func ThinkingLevels() []string { return []string{"minimal", "low", "medium", "high", "xhigh", "max"} }

// Header is a header of a request.
type Header struct{ Name, Value string }

// TLS is how connections to an upstream are secured.
type TLS struct {
	CA          string // PEM of the authorities to trust in place of the system's
	Certificate string // PEM of the client's certificate with its chain, and Key of its key
	Key         string
	ServerName  string // the name to expect in place of the address's
}

// Timeouts bound waiting. Zero is connectTimeout for Connect, and no limit for the others: a model may think for
// minutes, and how long an attempt may take is the gateway's to say, by the context.
type Timeouts struct {
	Connect   time.Duration // for TCP, and again for TLS
	FirstByte time.Duration // from the call to the head of a reply that streams, connecting included
	Whole     time.Duration // from the call to the end of a reply in one piece
	Idle      time.Duration // between two pieces of the reply, while somebody waits for one
}

// Settings are the names that the operator's settings have.
type Settings struct {
	Address string // of the address; "" is base_url
	Key     string // of the credential; "" is api_key
	// Signs says that the provider has a credential that is in no header of the endpoint's.
	Signs bool
}

func (s Settings) address() string { return cmp.Or(s.Address, "base_url") }
func (s Settings) key() string     { return cmp.Or(s.Key, "api_key") }

// reserved are headers that belong to the connection or to the call.
var reserved = []string{"Connection", "Content-Length", "Content-Type", "Host", "Keep-Alive", "Proxy-Connection", "Te",
	"Trailer", "Transfer-Encoding", "Upgrade"}

// Check says what is wrong with an endpoint, nil when a call can be made with it. Its errors show no value.
func (e *Endpoint) Check(now time.Time) error {
	if e == nil {
		return errors.New("there is none")
	}
	if dialects[e.Dialect] == nil {
		return fmt.Errorf("its dialect is not one of %s", strings.Join(Dialects(), ", "))
	}
	return e.CheckConnection(now)
}

// CheckConnection is Check for an endpoint in whatever dialect, or in none.
func (e *Endpoint) CheckConnection(now time.Time) error {
	u, err := url.Parse(e.URL)
	switch {
	case !slices.Contains([]string{"", "5m", "1h"}, e.CacheControl):
		return errors.New("its cache control is neither 5m nor 1h")
	case e.ThinkingLevel != "" && !slices.Contains(ThinkingLevels(), e.ThinkingLevel):
		return fmt.Errorf("its thinking level is not one of %s", strings.Join(ThinkingLevels(), ", "))
	case e.LostCall != "" && !isObject(e.LostCall):
		return errors.New("what stands in for a lost call is not an object of JSON")
	case err != nil:
		return errors.New("its address is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("its address does not begin with http:// or https://")
	case u.Hostname() == "":
		return errors.New("its address names no host")
	case u.User != nil:
		return errors.New("its address holds a user name; send credentials in a header")
	case u.Fragment != "":
		return errors.New("its address has a fragment (#)")
	}
	if e.ReferenceHeader != "" && !httpguts.ValidHeaderFieldName(e.ReferenceHeader) {
		return errors.New("the name of the header with the id of its replies is not legal")
	}
	for _, h := range e.Headers {
		switch name := http.CanonicalHeaderKey(h.Name); {
		case !httpguts.ValidHeaderFieldName(h.Name):
			return errors.New("the name of one of its headers is not legal")
		case !httpguts.ValidHeaderFieldValue(h.Value):
			return fmt.Errorf("the value of its header %s is not legal", name)
		case slices.Contains(reserved, name):
			return fmt.Errorf("it sets the header %s, which belongs to the connection", name)
		}
	}
	if !e.Expires.IsZero() && !now.Before(e.Expires) {
		return errors.New("it has expired already")
	}
	if t := e.Timeouts; min(t.Connect, t.FirstByte, t.Whole, t.Idle) < 0 {
		return errors.New("one of its timeouts is negative")
	}
	proxy, err := e.proxy()
	switch {
	case err != nil:
		return err
	case e.HTTP2 && u.Scheme == "http" && proxy != nil && strings.HasPrefix(proxy.Scheme, "http"):
		return errors.New("HTTP/2 without TLS does not go through an HTTP proxy; take https://, a SOCKS5 proxy, or leave " +
			"http2 out")
	}
	_, err = e.TLS.Config()
	return err
}

// isObject reports whether a text is an object of JSON, without blanks around it.
func isObject(text string) bool {
	return strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}") && json.Valid([]byte(text))
}

// proxy is nil for none.
func (e *Endpoint) proxy() (*url.URL, error) {
	if e.Proxy == "" {
		return nil, nil
	}
	u, err := url.Parse(e.Proxy)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return nil, errors.New("its proxy is not a URL with http://, https:// or socks5://")
	}
	return u, nil
}

// Config is nil for what the system trusts.
func (t TLS) Config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("its authorities (CA) hold no certificate in PEM")
		}
	}
	if t.Certificate != "" || t.Key != "" {
		pair, err := tls.X509KeyPair([]byte(t.Certificate), []byte(t.Key))
		if err != nil {
			return nil, errors.New("its client certificate and key are no pair in PEM")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Join makes the URL of a dialect at the address of an API, such as "https://api.openai.com/v1": slashes at its end do
// not count, and an address without a path gets /v1, where nearly every service has its API. Errors name the setting
// that the address comes from, and do not repeat it: it may hold a password that does not belong there.
func Join(setting, base string, d Dialect) (string, error) {
	u, err := Base(setting, base)
	if err != nil {
		return "", err
	}
	path := dialects[d].path
	if strings.HasSuffix(u.Path, path) {
		return "", fmt.Errorf("setting %s must end before %s, which is added by itself", setting, path)
	}
	if u.Path == "" {
		u.Path = "/v1"
	}
	return u.String() + path, nil
}

// Base reads the address of an API, without slashes at its end. Its errors are those of Join.
func Base(setting, base string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	example := `like "http://127.0.0.1:11434/v1"`
	switch {
	case err != nil:
		return nil, fmt.Errorf("setting %s is not a URL; write it %s", setting, example)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("setting %s must begin with http:// or https://, %s", setting, example)
	case u.Hostname() == "":
		return nil, fmt.Errorf("setting %s names no host; write it %s", setting, example)
	case u.User != nil:
		return nil, fmt.Errorf("setting %s must not hold a user name or password; use api_key for the key", setting)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("setting %s must not have a query (?) or a fragment (#); end it before them", setting)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}
