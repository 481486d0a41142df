// Package redisconn connects to a Redis, or to what speaks its protocol (Valkey): one server, one that Sentinels
// watch, or a Cluster. It is for the rooms that keep something there: the counts of a limiter, replies, and where
// conversations are. What they keep is no truth: each of them goes on, in its way, while the server is away.
package redisconn

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Mode says what the addresses are.
type Mode string

// What the addresses can be: one server; Sentinels, which know the server; some nodes of a Cluster.
const (
	Single   Mode = "single"
	Sentinel Mode = "sentinel"
	Cluster  Mode = "cluster"
)

// DefaultTimeout is how long a question waits. DefaultPrefix begins all keys.
const (
	DefaultTimeout = 50 * time.Millisecond
	DefaultPrefix  = "fareway:"
)

// Options say where it is. They hold passwords: never print them.
type Options struct {
	Mode Mode // "": Single
	// Addrs are host:port, or of Single the path of a unix socket, which begins with a slash.
	Addrs            []string
	Master           string // what the Sentinels call the server
	User, Password   string
	SentinelPassword string
	DB               int
	TLS              *tls.Config // nil: without
	Prefix           string      // "": DefaultPrefix
	Timeout          time.Duration
}

// Conn is a connection to it, for many at once. It is made without a word to the server.
type Conn struct {
	redis.UniversalClient
	o Options
}

// setUp is how long a connection takes at most to be made. It is done aside: nobody waits longer than for a question.
const setUp = 2 * time.Second

func init() {
	// The client logs to stderr what its callers are told, and what they say themselves.
	logging.Disable()
}

// New makes one.
func New(o Options) *Conn {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Mode == "" {
		o.Mode = Single
	}
	u := &redis.UniversalOptions{
		Addrs: o.Addrs, Username: o.User, Password: o.Password, DB: o.DB, TLSConfig: o.TLS,
		SentinelPassword: o.SentinelPassword, ClientName: "fareway", Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// Callers have deadlines of their own; these are for what has none.
		ContextTimeoutEnabled: true, DialTimeout: setUp, ReadTimeout: setUp, WriteTimeout: setUp, PoolTimeout: setUp,
		DialerRetries: 1,
		// A connection that was closed meanwhile is no answer: ask on another one, at once.
		MaxRetries: 2, MinRetryBackoff: -1, MaxRetryBackoff: -1,
		MinIdleConns: 2, ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10,
	}
	c := &Conn{o: o}
	switch o.Mode {
	case Cluster:
		u.MinIdleConns = 0 // of each node, replicas too
		cluster := u.Cluster()
		cluster.MaxRedirects = 3
		c.UniversalClient = redis.NewClusterClient(cluster)
	case Sentinel:
		u.MasterName = o.Master
		c.UniversalClient = redis.NewFailoverClient(u.Failover())
	default:
		single := u.Simple()
		if strings.HasPrefix(single.Addr, "/") {
			single.Network = "unix"
		}
		c.UniversalClient = redis.NewClient(single)
	}
	return c
}

// Timeout is how long a question waits.
func (c *Conn) Timeout() time.Duration { return c.o.Timeout }

// Mode is what the addresses are.
func (c *Conn) Mode() Mode { return c.o.Mode }

// Key is the name of a key. Those with the same tag lie on the same node of a Cluster.
func (c *Conn) Key(tag, rest string) string { return c.o.Prefix + "{" + tag + "}" + rest }

// Address says where it is, for people: without a user and passwords.
func (c *Conn) Address() string { return c.o.Address() }

// Address is Conn's.
func (o *Options) Address() string {
	scheme := "redis://"
	switch {
	case len(o.Addrs) == 1 && strings.HasPrefix(o.Addrs[0], "/"):
		scheme = "unix://"
	case o.TLS != nil:
		scheme = "rediss://"
	}
	text := scheme + strings.Join(o.Addrs, ",")
	if o.DB != 0 {
		text += "/" + strconv.Itoa(o.DB)
	}
	switch o.Mode {
	case Cluster:
		text += " (cluster)"
	case Sentinel:
		text += " (sentinel, " + o.Master + ")"
	}
	return text
}

// Secret is one that all processes have that share the server: made of the password, so that it is not in the server,
// nor in a copy of what is. Without a password it is no secret, but then anybody can read all of it anyway.
func (c *Conn) Secret(purpose string) []byte {
	mac := hmac.New(sha256.New, []byte(c.o.Password))
	mac.Write([]byte("fareway\x00" + purpose + "\x00" + c.o.Prefix))
	return mac.Sum(nil)
}

// Server is what a server says of itself.
type Server struct {
	Version  string // of Redis, or that Valkey is compatible with
	Eviction string // what it does when its memory is full: maxmemory_policy
}

// Inspect asks it.
func (c *Conn) Inspect(ctx context.Context) (s Server, err error) {
	text, err := c.Info(ctx, "server", "memory").Result()
	if err != nil && strings.Contains(err.Error(), "ERR") { // before 7.0 it takes one section
		text, err = c.Info(ctx).Result()
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "redis_version":
			s.Version = value
		case "maxmemory_policy":
			s.Eviction = value
		}
	}
	return s, err
}

// IsTimeout reports whether an error says no more than that no answer came in time.
func IsTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// Suffices reports whether it has what is needed: Redis 6.2. One that says no version does.
func (s Server) Suffices() bool {
	major, rest, _ := strings.Cut(s.Version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, err := strconv.Atoi(major)
	if err != nil {
		return true
	}
	n, _ := strconv.Atoi(minor) // of a number: 0
	return m > 6 || m == 6 && n >= 2
}
