package provider

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/plugins/endpoint"
)

// Connection are the settings of every provider whose calls go by an Endpoint. Embed it in your settings, and Apply it
// to the endpoint.
type Connection struct {
	ConnectTimeout    time.Duration     `hcl:"connect_timeout,optional"`
	FirstByteTimeout  time.Duration     `hcl:"first_byte_timeout,optional"`
	WholeReplyTimeout time.Duration     `hcl:"whole_reply_timeout,optional"`
	IdleTimeout       time.Duration     `hcl:"idle_timeout,optional"`
	HTTP2             bool              `hcl:"http2,optional"`
	Proxy             string            `hcl:"proxy,optional"`
	ProxyCredentials  string            `hcl:"proxy_credentials,optional" secret:"true"`
	CA                string            `hcl:"ca,optional"`
	ClientCertificate string            `hcl:"client_certificate,optional"`
	ClientKey         string            `hcl:"client_key,optional" secret:"true"`
	ServerName        string            `hcl:"server_name,optional"`
	Headers           map[string]string `hcl:"headers,optional"`
	AlwaysStream      bool              `hcl:"always_stream,optional"`
}

// Docs implements Documented.
func (Connection) Docs() map[string]string {
	return map[string]string{
		"connect_timeout": "How long connecting to the service may take: for TCP, and again for TLS. \"0s\" is the " +
			"default: \"10s\".",
		"first_byte_timeout": "How long the service may take until the head of a reply that streams, connecting " +
			"included; then the next route is tried. Services send it at once, when it is the request's turn, or with the " +
			"first token. Replies in one piece have whole_reply_timeout. \"0s\" is the default: none but the route's timeout.",
		"whole_reply_timeout": "How long the service may take for a reply in one piece, which begins when it is whole: as " +
			"long as the longest takes to write, thinking included, and not less than first_byte_timeout; then the next route " +
			"is tried. A service that is silent is told from one that writes only with always_stream = true, where " +
			"first_byte_timeout holds for every reply. \"0s\" is the default: none but the route's timeout.",
		"idle_timeout": "How long a reply may be silent once it has begun; then it has failed. Models that think before " +
			"they answer are silent for minutes on services that do not stream their thoughts. \"0s\" is the default: none " +
			"but the route's timeout.",
		"http2": "Speak HTTP/2 to an address with http:// as well, as servers that know nothing else want it (h2c). With " +
			"https:// it leaves HTTP/1.1 out; without it both sides agree by themselves. Default: false.",
		"proxy": "The HTTP or SOCKS5 proxy to the service, as \"http://host:port\", \"https://host:port\" or " +
			"\"socks5://host:port\". The environment's (HTTPS_PROXY) is never used. Default: none.",
		"proxy_credentials": "What the proxy wants to see, as USER:PASSWORD. Default: nothing.",
		"ca": "The authorities that may have signed the service's certificate, in place of those that the system trusts: " +
			"PEM, as of file(\"ca.pem\"). Default: those of the system.",
		"client_certificate": "The certificate, with its chain, to show to a service that asks for one: PEM, as of " +
			"file(\"client.pem\"). Needs client_key. Default: none.",
		"client_key":  "The key of client_certificate: PEM, as of file(\"client.key\"). Default: none.",
		"server_name": "The name that the service's certificate must have. Default: the host of its address.",
		"headers": "More headers to send with each call, by name: { \"X-Title\" = \"Example\" }. They are kept out of logs " +
			"as credentials are. Default: none.",
		"always_stream": "Ask for a stream also where the client waits for the reply in one piece. Set it when something " +
			"between the gateway and the service drops connections that are silent for a minute or so; it costs more " +
			"CPU time. Default: false.",
	}
}

// longestTimeout is far longer than any reply takes: a longer one is a slip.
const longestTimeout = 24 * time.Hour

// Apply sets the endpoint's connection and adds the headers; a header that it has already is replaced. Its error names
// the setting, and shows no value.
func (c *Connection) Apply(e *endpoint.Endpoint) error {
	for _, t := range []struct {
		name string
		d    time.Duration
	}{{"connect_timeout", c.ConnectTimeout}, {"first_byte_timeout", c.FirstByteTimeout},
		{"whole_reply_timeout", c.WholeReplyTimeout}, {"idle_timeout", c.IdleTimeout}} {
		if t.d != 0 && t.d < time.Millisecond {
			return fmt.Errorf("setting %s must be at least \"1ms\"", t.name)
		}
		if t.d > longestTimeout {
			return fmt.Errorf("setting %s must be at most \"24h\"", t.name)
		}
	}
	for _, pem := range []struct{ name, text string }{
		{"ca", c.CA}, {"client_certificate", c.ClientCertificate}, {"client_key", c.ClientKey},
	} {
		if strings.ContainsAny(pem.text, "./") && !strings.ContainsAny(pem.text, " \n") { // a path
			return fmt.Errorf("setting %s must be PEM, which begins with -----BEGIN; for what is in a file write %s = "+
				"file(\"path\")", pem.name, pem.name)
		}
	}
	proxy, err := c.proxy()
	switch {
	case err != nil:
		return err
	case c.WholeReplyTimeout != 0 && (c.AlwaysStream || e.AlwaysStream || e.Timings):
		return errors.New("setting whole_reply_timeout has no use where every reply is asked for as a stream, as with " +
			"always_stream: leave it out, first_byte_timeout holds for all of them")
	case c.WholeReplyTimeout != 0 && c.WholeReplyTimeout < c.FirstByteTimeout:
		return errors.New("setting whole_reply_timeout must be at least first_byte_timeout: a reply in one piece begins " +
			"when it is whole, and a stream before")
	case (c.ClientCertificate == "") != (c.ClientKey == ""):
		return errors.New("settings client_certificate and client_key belong together: set both, or none")
	}
	e.Timeouts = endpoint.Timeouts{Connect: c.ConnectTimeout, FirstByte: c.FirstByteTimeout,
		Whole: c.WholeReplyTimeout, Idle: c.IdleTimeout}
	e.Proxy, e.HTTP2, e.AlwaysStream = proxy, c.HTTP2, c.AlwaysStream || e.AlwaysStream
	e.TLS = endpoint.TLS{CA: c.CA, Certificate: c.ClientCertificate, Key: c.ClientKey, ServerName: c.ServerName}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		name, value := http.CanonicalHeaderKey(name), c.Headers[name]
		e.Headers = slices.DeleteFunc(e.Headers, func(h endpoint.Header) bool {
			return http.CanonicalHeaderKey(h.Name) == name
		})
		e.Headers = append(e.Headers, endpoint.Header{Name: name, Value: value})
	}
	check := e.Check
	if e.Dialect == "" {
		check = e.CheckConnection
	}
	if err := check(time.Time{}); err != nil {
		return fmt.Errorf("the settings make no endpoint: %w; check ca, client_certificate, client_key and headers", err)
	}
	return nil
}

// proxy is the proxy's URL with the credentials, "" for none.
func (c *Connection) proxy() (string, error) {
	if c.Proxy == "" {
		if c.ProxyCredentials != "" {
			return "", errors.New("setting proxy_credentials needs proxy")
		}
		return "", nil
	}
	u, err := url.Parse(strings.TrimSpace(c.Proxy))
	switch {
	case err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme):
		return "", errors.New("setting proxy must be a URL such as \"http://proxy.example.com:3128\"; " +
			"http, https and socks5 are known")
	case u.User != nil:
		return "", errors.New("setting proxy must not hold a user name or password; use proxy_credentials")
	}
	if credentials := strings.TrimSpace(c.ProxyCredentials); credentials != "" {
		user, password, ok := strings.Cut(credentials, ":")
		if !ok {
			return "", errors.New("setting proxy_credentials must be USER:PASSWORD")
		}
		u.User = url.UserPassword(user, password)
	}
	return u.String(), nil
}

// Secret is a credential as a header can carry it: without the white space around it that files end with. The error
// names the setting.
func Secret(setting, value string) (string, error) {
	value = strings.TrimSpace(value)
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("setting %s must be one line of visible ASCII characters; check the file or variable it comes "+
			"from", setting)
	}
	return value, nil
}
