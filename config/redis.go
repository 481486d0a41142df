package config

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
)

// What limiter "redis" and cache "redis" have in common: where the server is.

// RedisKind is the label of blocks that keep something in a Redis, or in what speaks its protocol.
const RedisKind = "redis"

// RedisMode is what the addresses of a url are.
type RedisMode string

const (
	RedisSingle   RedisMode = "single"
	RedisSentinel RedisMode = "sentinel"
	RedisCluster  RedisMode = "cluster"
)

var redisModes = []string{string(RedisSingle), string(RedisSentinel), string(RedisCluster)}

// Redis says where a server is. It holds passwords and keys: it prints without them.
type Redis struct {
	URL              string
	Mode             RedisMode
	Master           string // what Sentinels call it
	SentinelPassword string
	Prefix           string // of all keys
	Timeout          time.Duration
	// PEM texts: whose certificates are trusted, "" for those that the system trusts; and the gateway's own.
	CA, Certificate, PrivateKey string
}

const (
	defaultRedisPrefix  = "fareway:"
	defaultRedisTimeout = 50 * time.Millisecond
	maxRedisTimeout     = 5 * time.Second
)

// RedisAddress is what a url says.
type RedisAddress struct {
	Hosts          []string // host:port, or the path of a unix socket
	TLS            bool
	User, Password string
	DB             int
}

// Address reads the url. An error never shows it.
func (r *Redis) Address() (a RedisAddress, err error) {
	scheme, rest, ok := strings.Cut(r.URL, "://")
	if !ok {
		return a, errors.New("must be redis://host:6379, rediss://host:6379 (TLS) or unix:///path/of/socket")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		var errs [2]error
		a.User, errs[0] = url.PathUnescape(user)
		a.Password, errs[1] = url.PathUnescape(password)
		if errors.Join(errs[:]...) != nil {
			return a, errors.New("has a user or password with a % that does not begin two hexadecimal digits: write % as %25")
		}
		rest = rest[at+1:]
	}
	switch scheme {
	case "redis", "rediss":
		a.TLS = scheme == "rediss"
		err = a.readHosts(rest)
		if err == nil && query != "" {
			err = errors.New("must not have a question mark: write %3F where it is part of a password")
		}
		return a, err
	case "unix":
		return a, a.readSocket(rest, query)
	}
	return a, errors.New("must begin with redis://, rediss:// (TLS) or unix://")
}

func (a *RedisAddress) readHosts(rest string) (err error) {
	hosts, db, _ := strings.Cut(rest, "/")
	if db = strings.TrimSuffix(db, "/"); db != "" {
		if a.DB, err = strconv.Atoi(db); err != nil || a.DB < 0 {
			return errors.New("must end with the number of a database, or without one, as in redis://host:6379/0; write / as " +
				"%2F where it is part of a password")
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil { // without a port
			name, port = strings.Trim(host, "[]"), "6379"
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || name == "" {
			return errors.New("must name a host and a port from 1 to 65535, as in redis://host:6379")
		}
		a.Hosts = append(a.Hosts, net.JoinHostPort(name, port))
	}
	return nil
}

func (a *RedisAddress) readSocket(path, query string) (err error) {
	if !strings.HasPrefix(path, "/") {
		return errors.New("must have the whole path of the socket, as in unix:///run/redis/redis.sock")
	}
	a.Hosts = []string{path}
	if query == "" {
		return nil
	}
	db, ok := strings.CutPrefix(query, "db=")
	if a.DB, err = strconv.Atoi(db); err != nil || !ok || a.DB < 0 {
		return errors.New("may have the number of a database, as in unix:///run/redis/redis.sock?db=1, and nothing else")
	}
	return nil
}

// TLS is how the server's connections are secured, nil where they are not.
func (r *Redis) TLS() (*tls.Config, error) {
	a, err := r.Address()
	if err != nil || !a.TLS {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CA != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(r.CA)) {
			return nil, errors.New("ca has no certificate in PEM")
		}
	}
	if r.Certificate != "" {
		pair, err := tls.X509KeyPair([]byte(r.Certificate), []byte(r.PrivateKey))
		if err != nil {
			return nil, errors.New("certificate and private_key are no pair in PEM")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// String is where it is, for people.
func (r Redis) String() string {
	a, err := r.Address()
	if err != nil {
		return hidden
	}
	scheme := "redis://"
	switch {
	case strings.HasPrefix(a.Hosts[0], "/"):
		scheme = "unix://"
	case a.TLS:
		scheme = "rediss://"
	}
	text := scheme + strings.Join(a.Hosts, ",")
	if a.DB != 0 {
		text += "/" + strconv.Itoa(a.DB)
	}
	return text
}

// Format prints it without secrets under every verb.
func (r Redis) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue keeps secrets out of logs.
func (r Redis) LogValue() slog.Value { return slog.StringValue(r.String()) }

// printedRedis is what is printed of one: nothing secret.
type printedRedis struct {
	URL     string    `json:"url"`
	Mode    RedisMode `json:"mode"`
	Master  string    `json:"master,omitempty"`
	Prefix  string    `json:"prefix"`
	Timeout string    `json:"timeout"`
	CA      string    `json:"ca,omitempty"`
	Client  string    `json:"certificate,omitempty"`
}

// printed is nil for a block of another kind.
func (r *Redis) printed() *printedRedis {
	if *r == (Redis{}) {
		return nil
	}
	return &printedRedis{r.String(), r.Mode, r.Master, r.Prefix, r.Timeout.String(), digestOf(r.CA),
		digestOf(r.Certificate)}
}

// MarshalJSON prints it without secrets.
func (r Redis) MarshalJSON() ([]byte, error) { return json.Marshal(r.printed()) }

// MarshalJSON prints the block as it is written, without secrets.
func (l Limiter) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind string `json:"kind"`
		*printedRedis
		Nodes int64 `json:"nodes,omitempty"`
	}{l.Kind, l.Redis.printed(), l.Nodes})
}

// digestOf tells one certificate from another.
func digestOf(pem string) string {
	if pem == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(pem))
	return "sha256:" + hex.EncodeToString(sum[:8])
}

var redisPrefix = regexp.MustCompile(`^[A-Za-z0-9._:-]*$`)

// redis reads what such a block says of its server.
func (s *section) redis() Redis {
	r := Redis{Mode: RedisSingle, Prefix: defaultRedisPrefix, Timeout: defaultRedisTimeout}
	mode := string(r.Mode)
	s.oneOf("mode", &mode)
	r.Mode = RedisMode(mode)
	master, _ := s.text("master", &r.Master)
	s.secretText("sentinel_password", &r.SentinelPassword)
	if v, ok := s.text("prefix", &r.Prefix); ok && !redisPrefix.MatchString(r.Prefix) {
		s.refuse(v, "must have letters, digits and . _ : - only")
	}
	s.duration("timeout", &r.Timeout)
	s.pem("ca", &r.CA)
	s.pem("certificate", &r.Certificate)
	s.secretText("private_key", &r.PrivateKey)
	if !s.redisURL(&r) {
		return r
	}
	switch {
	case r.Mode == RedisSentinel && r.Master == "":
		s.fail(s.anyOf("mode"), "Missing master", "Sentinels know the server by a name, which they were told with "+
			"`sentinel monitor NAME ...`: write it as master = \"NAME\".")
	case r.Mode != RedisSentinel && r.Master != "":
		s.fail(master.at, "Master without Sentinels", "master is for mode = \"sentinel\" only.")
	}
	if (r.Certificate == "") != (r.PrivateKey == "") {
		s.fail(s.anyOf("certificate", "private_key"), "Half a certificate", "certificate and private_key belong together.")
	} else if _, err := r.TLS(); err != nil {
		s.fail(s.anyOf("ca", "certificate"), "Invalid certificate", capital(err.Error())+".")
	}
	return r
}

// redisURL reads the url. It may be written out as long as it has no password.
func (s *section) redisURL(r *Redis) bool {
	v, ok := s.readHidden("url")
	if !ok {
		return false
	}
	var text string
	if !s.asText(v, s.grammar.rule("url").kind.bytes, &text) {
		return false
	}
	if !v.outside && strings.Contains(text, "@") {
		s.fail(v.at, "Secret url written out", "A password does not belong in this file. Put the url into the environment "+
			"and write env(\"REDIS_URL\"), or into a file of its own and write file(\"path\").")
		return false
	}
	r.URL = text
	a, err := r.Address()
	switch {
	case err != nil:
		s.refuse(v, err.Error())
		return false
	case r.Mode == RedisSingle && len(a.Hosts) > 1:
		s.refuse(v, "names several hosts: write mode = \"sentinel\" if they are Sentinels, \"cluster\" if they are nodes "+
			"of one")
		return false
	case r.Mode == RedisCluster && a.DB != 0:
		s.refuse(v, "must not name a database: a Cluster has one")
		return false
	}
	return true
}

// readHidden is read for what may hold a secret: it is not shown.
func (s *section) readHidden(name string) (value, bool) {
	attr := s.attributes[name]
	if attr == nil {
		return value{}, false
	}
	s.showReferences(attr.Expr)
	public := s.public
	s.public = false
	defer func() { s.public = public }()
	return s.read(name)
}

// secretText reads a text that must come from outside.
func (s *section) secretText(name string, target *string) {
	v, ok := s.readHidden(name)
	switch {
	case !ok:
	case !v.outside:
		s.fail(v.at, fmt.Sprintf("Secret %s written out", name),
			"A secret does not belong in this file. Put it into the environment and write env(\"NAME\"), or into a file of "+
				"its own and write file(\"path\").")
	case v.Type() != cty.String || v.AsString() == "":
		s.refuse(v, "must be a text that is not empty")
	default:
		*target = v.AsString()
	}
}

// pem reads certificates.
func (s *section) pem(name string, target *string) {
	v, ok := s.readHidden(name)
	switch {
	case !ok:
	case v.Type() != cty.String || !strings.Contains(v.AsString(), "-----BEGIN CERTIFICATE-----"):
		s.refuse(v, "must be the text of a certificate in PEM, as in file(\"ca.pem\")")
	default:
		*target = v.AsString()
	}
}

var (
	_ json.Marshaler = Redis{}
	_ fmt.Formatter  = Redis{}
	_ slog.LogValuer = Redis{}
)
