package doctor

import (
	"encoding/json"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// caddyConfig is what of Caddy's configuration is looked at here.
type caddyConfig struct {
	Logging struct {
		Logs map[string]caddyLog `json:"logs"`
	} `json:"logging"`
	Apps caddyApps `json:"apps"`
}

type caddyLog struct {
	Level  string `json:"level"`
	Writer struct {
		Output   string `json:"output"`
		Filename string `json:"filename"`
		Roll     *bool  `json:"roll"`
	} `json:"writer"`
}

type caddyApps struct {
	HTTP struct {
		HTTPPort    int                     `json:"http_port"`
		GracePeriod caddy.Duration          `json:"grace_period"`
		Servers     map[string]*caddyServer `json:"servers"`
	} `json:"http"`
}

type caddyServer struct {
	Listen       []string          `json:"listen"`
	Routes       []json.RawMessage `json:"routes"`
	ReadTimeout  caddy.Duration    `json:"read_timeout"`
	WriteTimeout caddy.Duration    `json:"write_timeout"`
	Protocols    []string          `json:"protocols"`
	TLS          []json.RawMessage `json:"tls_connection_policies"`
	Automatic    struct {
		Disable     bool `json:"disable"`
		NoRedirects bool `json:"disable_redirects"`
	} `json:"automatic_https"`
	TrustedStrict int `json:"trusted_proxies_strict"`
	Trusted       *struct {
		Source string   `json:"source"`
		Ranges []string `json:"ranges"`
	} `json:"trusted_proxies"`
}

func (s *Site) parse() (c caddyConfig) {
	_ = json.Unmarshal(s.JSON, &c) // Caddy's own adapter has written it; what is not as expected is not looked at
	return c
}

func (s *Site) apps() caddyApps { return s.parse().Apps }

func (s *Site) logging() map[string]caddyLog { return s.parse().Logging.Logs }

// handlers gives each handler of a server, however deep.
func (s *caddyServer) handlers(f func(name string, h map[string]any)) {
	for _, raw := range s.Routes {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			eachHandler(v, f)
		}
	}
}

func eachHandler(v any, f func(name string, h map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := v["handler"].(string); ok {
			f(name, v)
		}
		for _, inner := range v {
			eachHandler(inner, f)
		}
	case []any:
		for _, inner := range v {
			eachHandler(inner, f)
		}
	}
}

func (s *caddyServer) has(handler string) (found bool) {
	s.handlers(func(name string, _ map[string]any) { found = found || name == handler })
	return found
}

func (s *caddyServer) hasGateway() bool { return s.has("fareway") }

func (s *caddyServer) encodes() bool { return s.has("encode") }

// bodyLimits are those of request_body.
func (s *caddyServer) bodyLimits() (limits []int64) {
	s.handlers(func(name string, h map[string]any) {
		if n, ok := h["max_size"].(float64); ok && name == "request_body" {
			limits = append(limits, int64(n))
		}
	})
	return limits
}

// hosts are the names that a server's routes match.
func (s *caddyServer) hosts() (hosts []string) {
	for _, raw := range s.Routes {
		var route struct {
			Match []struct {
				Host []string `json:"host"`
			} `json:"match"`
		}
		if json.Unmarshal(raw, &route) != nil {
			continue
		}
		for _, m := range route.Match {
			hosts = append(hosts, m.Host...)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// addresses are what a server listens at: the network, host and port.
func (s *caddyServer) addresses() (list []caddy.NetworkAddress) {
	for _, text := range s.Listen {
		if a, err := caddy.ParseNetworkAddress(text); err == nil {
			list = append(list, a)
		}
	}
	return list
}

// logFiles are the files that a Caddyfile has logs written to.
func logFiles(adapted []byte) (files []string) {
	site := Site{JSON: adapted}
	for _, l := range site.logging() {
		if l.Writer.Filename != "" {
			files = append(files, l.Writer.Filename)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// isName reports whether a host is a name that DNS could know.
func isName(host string) bool {
	return host != "" && net.ParseIP(strings.Trim(host, "[]")) == nil && !isLocal(host) &&
		!strings.ContainsAny(host, "*{")
}
