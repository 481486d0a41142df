package redisconn_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/redisconn"
	"github.com/fareway/fareway/modules/internal/redisconn/redistest"
)

const password = "hunter2"

// ask puts a question that writes, and returns what is said of its error.
func ask(t *testing.T, o redisconn.Options) string {
	t.Helper()
	c := redisconn.New(o)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := redisconn.Explain(c.Eval(ctx, "return redis.call('RPUSH', KEYS[1], 'x')", []string{c.Key("a", "b")}).Err())
	if err == nil {
		return ""
	}
	require.NotContains(t, err.Error(), password)
	require.NotContains(t, c.Address(), password)
	return err.Error()
}

// TestExplain: what goes wrong is said with what to do about it, and without the password.
func TestExplain(t *testing.T) {
	t.Parallel()
	with := func(change func(*redisconn.Options), args ...string) func(*testing.T) redisconn.Options {
		return func(t *testing.T) redisconn.Options {
			o := redistest.Start(t, args...).Options()
			if change != nil {
				change(&o)
			}
			return o
		}
	}
	secret := func(o *redisconn.Options) { o.Password = password }
	for name, c := range map[string]struct {
		at   func(*testing.T) redisconn.Options
		says string
	}{
		"no password":    {with(nil, "--requirepass", "other"), "the server wants a password"},
		"wrong password": {with(secret, "--requirepass", "other"), "is not what the server has"},
		"right password": {with(secret, "--requirepass", password), ""},
		"wrong user": {with(func(o *redisconn.Options) { o.User, o.Password = "me", password }),
			"is not what the server has"},
		"rights":            {with(nil, "--user", "default", "on", "nopass", "~other:*", "+@all"), "ACL SETUSER"},
		"replica":           {with(nil, "--replicaof", "127.0.0.1 1"), "is a replica"},
		"full":              {with(nil, "--maxmemory", "1"), "memory is full"},
		"no writes":         {with(nil, "--min-replicas-to-write", "1"), "min-replicas-to-write"},
		"node of a Cluster": {with(nil, "--cluster-enabled", "yes"), "is not served"},
		"no Cluster":        {with(func(o *redisconn.Options) { o.Mode = redisconn.Cluster }), "the server is no Cluster"},
		"no Sentinels": {with(func(o *redisconn.Options) { o.Mode, o.Master = redisconn.Sentinel, "m" }),
			"no Sentinel answered"},
		"no such host":      {hosts("no-such-host.invalid:6379"), "correct the url"},
		"nothing there":     {hosts("127.0.0.1:1"), "nothing listens there"},
		"no socket":         {hosts("/nowhere/redis.sock"), "nothing listens there"},
		"no such database":  {with(func(o *redisconn.Options) { o.DB = 99 }), "DB index is out of range"},
		"somebody else's":   {foreign, "choose another prefix"},
		"TLS where none is": {tlsTo(plainServer), "where the url says rediss://"},
		"no TLS where it is": {func(t *testing.T) redisconn.Options { return newTLS(t).server("no").Options() },
			"rediss://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := ask(t, c.at(t))
			if c.says == "" {
				require.Empty(t, text)
			} else {
				require.Contains(t, text, c.says)
			}
		})
	}
}

func hosts(addr string) func(*testing.T) redisconn.Options {
	return func(*testing.T) redisconn.Options {
		return redisconn.Options{Addrs: []string{addr}, Password: password}
	}
}

func foreign(t *testing.T) redisconn.Options {
	s := redistest.Start(t)
	s.Do("SET", "fareway:{a}b", "x")
	return s.Options()
}

func plainServer(t *testing.T) *redistest.Server { return redistest.StartTCP(t) }

func tlsTo(server func(*testing.T) *redistest.Server) func(*testing.T) redisconn.Options {
	return func(t *testing.T) redisconn.Options {
		o := server(t).Options()
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		return o
	}
}

// authority signs certificates, in a folder.
type authority struct {
	t    *testing.T
	dir  string
	pool *x509.CertPool
	pair tls.Certificate // for clients
}

func newTLS(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, "cert"), cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, "key"), text, 0o600))
	require.True(t, a.pool.AppendCertsFromPEM(cert))
	a.pair, err = tls.X509KeyPair(cert, text)
	require.NoError(t, err)
	return a
}

// server starts one that speaks TLS; clients says whether it wants certificates of its clients.
func (a *authority) server(clients string) *redistest.Server {
	return redistest.StartTLS(a.t, "--tls-cert-file", filepath.Join(a.dir, "cert"), "--tls-key-file",
		filepath.Join(a.dir, "key"), "--tls-ca-cert-file", filepath.Join(a.dir, "cert"), "--tls-auth-clients", clients)
}

// TestTLS: with the right certificates it answers, and with others it says which is wrong.
func TestTLS(t *testing.T) {
	t.Parallel()
	a, other := newTLS(t), newTLS(t)
	s := a.server("yes")
	for name, c := range map[string]struct {
		tls  *tls.Config
		says string
	}{
		"right":             {&tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{a.pair}}, ""},
		"unknown authority": {&tls.Config{Certificates: []tls.Certificate{a.pair}}, "ca = file("},
		"another authority": {&tls.Config{RootCAs: other.pool, Certificates: []tls.Certificate{a.pair}}, "ca = file("},
		"another name": {&tls.Config{RootCAs: a.pool, ServerName: "x.test", Certificates: []tls.Certificate{a.pair}},
			"as its certificate does"},
		"no certificate":        {&tls.Config{RootCAs: a.pool}, "certificate and private_key"},
		"certificate of others": {&tls.Config{RootCAs: a.pool, Certificates: []tls.Certificate{other.pair}}, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := s.Options()
			o.TLS = c.tls.Clone()
			text := ask(t, o)
			if c.says == "" {
				require.Empty(t, text)
			} else {
				require.Contains(t, text, c.says)
			}
		})
	}
}

// TestServer: what a server says of itself, and which versions there is enough in.
func TestServer(t *testing.T) {
	t.Parallel()
	c := redisconn.New(redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Options())
	defer c.Close()
	s, err := c.Inspect(t.Context())
	require.NoError(t, err)
	require.Equal(t, "allkeys-lru", s.Eviction)
	require.NotEmpty(t, s.Version)
	require.True(t, s.Suffices())
	for version, enough := range map[string]bool{"": true, "5.0.9": false, "6.0.16": false, "6.2.0": true, "7.2.4": true,
		"8.0": true, "255.255.255": true, "unknown": true} {
		require.Equal(t, enough, redisconn.Server{Version: version}.Suffices(), version)
	}
}
