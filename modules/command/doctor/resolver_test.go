//go:build linux

package doctor

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// resolver asks a DNS server of the test's, which knows these names.
func resolver(t *testing.T, names map[string][]string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		asked := q.Question[0]
		addresses, known := names[strings.ToLower(asked.Name)]
		if !known {
			m.Rcode = dns.RcodeNameError
		}
		for _, a := range addresses {
			ip := net.ParseIP(a)
			head := dns.RR_Header{Name: asked.Name, Class: dns.ClassINET, Ttl: 1}
			switch v4 := ip.To4(); {
			case v4 != nil && asked.Qtype == dns.TypeA:
				head.Rrtype = dns.TypeA
				m.Answer = append(m.Answer, &dns.A{Hdr: head, A: v4})
			case v4 == nil && asked.Qtype == dns.TypeAAAA:
				head.Rrtype = dns.TypeAAAA
				m.Answer = append(m.Answer, &dns.AAAA{Hdr: head, AAAA: ip})
			}
		}
		_ = w.WriteMsg(m) // who asked may have left
	})}
	served := make(chan struct{})
	server.NotifyStartedFunc = func() { close(served) }
	go func() { _ = server.ActivateAndServe() }() // until Shutdown
	<-served
	t.Cleanup(func() { require.NoError(t, server.Shutdown()) })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}
