package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// hints are what to do about what a server says, by the beginning of what it says or a part of it.
var hints = []struct{ part, step string }{
	{"all sentinels specified in configuration are unreachable",
		"no Sentinel answered for this master: check the addresses, the name in master, and sentinel_password"},
	{"WRONGPASS", "the user or the password in the url is not what the server has: correct it, and restart the gateway"},
	{"NOAUTH", "the server wants a password: write it into the url, redis://:PASSWORD@host or with USER before the colon"},
	{"without any password configured", "the server has no password: take it out of the url, or set requirepass there"},
	{"NOPERM", "the server's user may not do this: it needs `+@all -@admin -@dangerous +info ~PREFIX*` (ACL SETUSER)"},
	{"READONLY", "the server is a replica: name the primary, or let Sentinels find it (mode = \"sentinel\")"},
	{"CROSSSLOT", "the server is part of a Cluster: write mode = \"cluster\""},
	{"MOVED", "the server is part of a Cluster: write mode = \"cluster\""},
	{"ASK ", "the server is part of a Cluster: write mode = \"cluster\""},
	{"cluster support disabled", "the server is no Cluster: write mode = \"single\", or leave it out"},
	{"CLUSTERDOWN", "part of the Cluster is not served: `redis-cli --cluster check` tells which"},
	{"MASTERDOWN", "the replica has lost its primary: a failover should follow"},
	{"OOM", "the server's memory is full: raise its maxmemory, or give the limiter a server of its own"},
	{"LOADING", "the server reads its data from the disk: it answers when it has"},
	{"BUSY", "a script holds the server up: `redis-cli SCRIPT KILL` ends one that has not written"},
	{"MISCONF", "the server cannot write its data to the disk, and refuses writes: see its log"},
	{"NOREPLICAS", "the server refuses writes without replicas (min-replicas-to-write): see to them"},
	{"WRONGTYPE", "the key belongs to another program: choose another prefix in the block"},
	{"unknown command", "the server is too old, or has renamed the command: Redis 6.2 or Valkey 7.2 at least is needed"},
	{"no such host", "there is no host of this name: correct the url"},
	{"server misbehaving", "the name of the host could not be looked up: check the url and the resolver"},
	{"certificate required", "the server wants a client's certificate: write certificate and private_key into the block"},
}

// Explain adds to an error what can be done about it. It never shows a password: none is in an error of the client.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, h := range hints {
		if strings.Contains(text, h.part) {
			return fmt.Errorf("%w: %s", err, h.step)
		}
	}
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		record    tls.RecordHeaderError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &authority):
		return fmt.Errorf("%w: the server's certificate is of an authority that is not known here: write its certificate "+
			"into the block, ca = file(\"ca.pem\")", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: name the server in the url as its certificate does", err)
	case errors.As(err, &record):
		return fmt.Errorf("%w: the server does not speak TLS here: write redis:// in the url, or its TLS port", err)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w: nothing listens there: start the server, or correct the url", err)
	case IsTimeout(err):
		return fmt.Errorf("%w: no answer in time: is the server overloaded or far away (`timeout` in the block is how long "+
			"a question waits), or does it not speak TLS there, where the url says rediss://", err)
	case errors.As(err, &op), errors.Is(err, syscall.ECONNRESET), strings.Contains(text, "EOF"),
		strings.Contains(text, "connection reset"):
		return fmt.Errorf("%w: the server closes connections: does it speak TLS (rediss://), does it want a client's "+
			"certificate (certificate and private_key in the block), and is this its port?", err)
	}
	return err
}
