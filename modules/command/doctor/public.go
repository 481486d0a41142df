package doctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"

	"github.com/fareway/fareway/modules/internal/human"
)

var publicChecks = []Check{
	{Name: "exposure", About: "public", Worst: Error, needs: sited,
		Looks: "what strangers reach: the gateway without TLS, administration, health and metrics on public addresses",
		Why:   "keys and prompts go over the network in clear, or others see what is not for them",
		Next:  "give the site your domain's name in the Caddyfile: TLS comes by itself",
		run:   checkExposure},
	{Name: "ports", About: "public", Worst: Error, needs: sited,
		Looks: "whether the gateway listens where the Caddyfile says, who else does, ports below 1024, UDP for HTTP/3",
		Why:   "clients reach nobody, or another program",
		Next:  "sudo ss -ltnup",
		run:   checkPorts},
	{Name: "udp-buffers", About: "public", Worst: Note, needs: sited,
		Looks: "the kernel's bounds on UDP buffers, which HTTP/3 needs",
		Why:   "HTTP/3 is slower than it could be under load",
		Next:  "sudo sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000",
		run:   checkBuffers},
	{Name: "dns", About: "public", Worst: Error,
		Looks: "the names of the sites: whether they have addresses, and each of those (AAAA as well) leads to this gateway",
		Why:   "clients reach nobody or another machine, and no certificate can be had",
		Next:  "dig +short A NAME; dig +short AAAA NAME",
		run:   checkDNS},
	{Name: "certificates", About: "public", Worst: Error,
		Looks: "certificates as clients see them: expired, soon to be, for another name, chain incomplete, self-signed",
		Why:   "clients refuse the connection",
		Next:  "journalctl -u fareway | grep -i certificate",
		run:   checkCertificates},
}

func checkExposure(_ context.Context, s *Subject, r *result) {
	apps := s.Site.apps()
	for _, name := range slices.Sorted(maps.Keys(apps.HTTP.Servers)) {
		server := apps.HTTP.Servers[name]
		for _, a := range server.addresses() {
			if a.IsUnixNetwork() || isLocal(a.Host) {
				continue
			}
			at := a.JoinHostPort(0)
			if server.has("metrics") {
				r.found("metrics are served at %s, which others reach", at).as(Warning).
					because("they say who your customers' upstreams are and what you earn").
					then("bind 127.0.0.1   # in that site of %s", s.Caddyfile)
			}
			s.exposed(r, server, a, apps.HTTP.HTTPPort)
		}
	}
	if host := hostOf(s.Site.Admin); s.Site.Admin != "" && !strings.HasPrefix(s.Site.Admin, "unix/") && !isPrivate(host) {
		r.found("the admin API listens at %s, which is no private address", s.Site.Admin).as(Warning).
			because("everybody on the internet can try tokens there").
			then("admin 127.0.0.1:2020   # in the option fareway of %s, and reach it by ssh -L 2020:127.0.0.1:2020",
				s.Caddyfile)
	}
	if health := s.Site.Health; health != "" && !strings.HasPrefix(health, "unix/") && !isPrivate(hostOf(health)) {
		r.found("health checks are answered at %s, which is no private address", health).as(Warning).
			because("the reason why the gateway is not ready is for you alone").
			then("health 127.0.0.1:2021   # in the option fareway of %s", s.Caddyfile)
	}
	for _, text := range s.URLs {
		if u, err := url.Parse(text); err == nil && u.Scheme == "http" && !isPrivate(u.Hostname()) {
			r.found("%s has no TLS", text)
		}
	}
}

// exposed looks at one public address with the gateway on it.
func (s *Subject) exposed(r *result, server *caddyServer, a caddy.NetworkAddress, httpPort int) {
	if !server.hasGateway() {
		return
	}
	at := a.JoinHostPort(0)
	plainPort := uint(80)
	if httpPort != 0 {
		plainPort = uint(httpPort)
	}
	named := slices.ContainsFunc(server.hosts(), isName)
	if len(server.TLS) > 0 || named && a.StartPort != plainPort {
		return
	}
	f := r.found("the gateway is served without TLS at %s", at)
	switch {
	case server.Trusted != nil:
		f.as(Note).because("a proxy that has TLS stands before it, as trusted_proxies says: only it may reach this address")
	case isPrivate(a.Host):
		f.as(Warning).because("keys and prompts go over your network in clear")
	}
}

func checkPorts(ctx context.Context, s *Subject, r *result) {
	listen := slices.Clone(s.Site.Listen)
	slices.Sort(listen)
	listen = slices.Compact(listen)
	if s.Status == nil {
		for _, address := range s.tcpAddresses(listen) {
			s.tryPort(ctx, r, address)
		}
		for _, port := range s.servesHTTP3() {
			s.tryPacketPort(ctx, r, port)
		}
		return
	}
	for _, address := range listen {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
			host = "127.0.0.1"
		}
		dialer := net.Dialer{Timeout: 3 * time.Second}
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
		if err != nil {
			r.found("the gateway does not listen at %s, where %s says: %v", address, s.Caddyfile, err).
				then("fareway reload --config %s --force", s.Caddyfile)
			continue
		}
		_ = conn.Close()
		s.whoListens(r, address, port)
	}
	s.checkUDP(r)
}

// tcpAddresses are those at which a gateway will listen: of the sites, at port 80 where Caddy redirects from it (for no
// site of the gateway's), and of its own listeners.
func (s *Subject) tcpAddresses(listen []string) []string {
	apps := s.Site.apps()
	for _, server := range apps.HTTP.Servers {
		secure := len(server.TLS) > 0 || slices.ContainsFunc(server.hosts(), isName)
		if secure && !server.hasGateway() && !server.Automatic.Disable && !server.Automatic.NoRedirects {
			listen = append(listen, fmt.Sprintf(":%d", cmp.Or(apps.HTTP.HTTPPort, 80)))
		}
	}
	for _, address := range []string{s.Site.Health, s.Site.Admin} {
		if address != "" && !strings.HasPrefix(address, "unix/") {
			listen = append(listen, address)
		}
	}
	slices.Sort(listen)
	return slices.Compact(listen)
}

// tryPacketPort listens at a UDP port for a moment, as HTTP/3 would.
func (s *Subject) tryPacketPort(ctx context.Context, r *result, port string) {
	conn, err := net.ListenPacket("udp", ":"+port)
	if err == nil {
		_ = conn.Close()
		return
	}
	if errors.Is(err, syscall.EADDRINUSE) && !s.isHeldBySystemd(ctx, s.inodesAt("udp", ":"+port)) {
		r.found("UDP port %s is taken by %s", port, s.listener("udp", ":"+port)).because("the gateway cannot start").
			then("sudo ss -lunp 'sport = :%s'", port)
	}
}

// isHeldBySystemd reports whether sockets are systemd's, which gives them to the gateway when a connection comes. Only
// root sees who has them; others have to believe the unit.
func (s *Subject) isHeldBySystemd(ctx context.Context, inodes []string) bool {
	pids := s.holders(inodes)
	if len(pids) > 0 {
		return slices.Contains(pids, 1)
	}
	for _, name := range []string{"fareway.socket", "fareway-http.socket", "fareway-https.socket"} {
		if u, err := s.showUnit(ctx, name); err == nil && u["LoadState"] == "loaded" && u["ActiveState"] == "active" {
			return true
		}
	}
	return false
}

// tryPort listens at an address for a moment, as the gateway would.
func (s *Subject) tryPort(ctx context.Context, r *result, address string) {
	ln, err := net.Listen("tcp", address)
	port := address[strings.LastIndexByte(address, ':')+1:]
	switch {
	case err == nil:
		_ = ln.Close()
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, fs.ErrPermission) && len(s.inodesAt("tcp", address)) > 0:
		if s.isHeldBySystemd(ctx, s.inodesAt("tcp", address)) {
			return
		}
		r.found("%s is taken by %s", address, s.listener("tcp", address)).because("the gateway cannot start").
			then("sudo ss -ltnp 'sport = :%s'", port)
	case errors.Is(err, fs.ErrPermission):
		if s.User != s.owner() {
			return // it is not this user that the gateway runs as
		}
		r.found("this user may not listen at %s", address).as(Warning).
			because("ports below 1024 are for root, and for programs that are given the right").
			then("sudo setcap cap_net_bind_service=+ep $(command -v fareway)   # or have systemd give it the socket")
	default:
		r.found("nobody can listen at %s: %v", address, err).because("the gateway cannot start").
			then("ip address; then correct the address in %s", s.Caddyfile)
	}
}

// socket is one that listens.
type socket struct {
	at    netip.Addr
	inode string
}

// inodesAt are those of the sockets of "tcp" or "udp" that an address is in the way of.
func (s *Subject) inodesAt(kind, address string) (inodes []string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	wanted, _ := netip.ParseAddr(host) // a name, or none: every address
	wanted = wanted.Unmap()
	for _, one := range append(s.sockets(kind)[port], s.sockets(kind + "6")[port]...) {
		if !wanted.IsValid() || wanted.IsUnspecified() || one.at.IsUnspecified() || one.at == wanted {
			inodes = append(inodes, one.inode)
		}
	}
	return inodes
}

// socketAddress reads an address of /proc/net: words of four bytes in this machine's order.
func socketAddress(text string) netip.Addr {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		return netip.Addr{}
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	a, _ := netip.AddrFromSlice(raw)
	return a.Unmap()
}

// sockets are the listening sockets of a kind ("tcp", "tcp6", "udp", "udp6") by their port.
func (s *Subject) sockets(kind string) map[string][]socket {
	list := make(map[string][]socket)
	text, _ := os.ReadFile(filepath.Join(s.Proc, "net", kind))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 10 || strings.HasPrefix(kind, "tcp") && f[3] != "0A" {
			continue
		}
		at := strings.LastIndexByte(f[1], ':')
		port, err := strconv.ParseUint(f[1][at+1:], 16, 16)
		if err != nil {
			continue
		}
		key := strconv.FormatUint(port, 10)
		list[key] = append(list[key], socket{socketAddress(f[1][:at]), f[9]})
	}
	return list
}

// listener names who listens at an address, as far as this user may see it.
func (s *Subject) listener(kind, address string) string {
	if pids := s.holders(s.inodesAt(kind, address)); len(pids) > 0 {
		return s.describe(pids[0])
	}
	return "another program"
}

// describe is a process for people.
func (s *Subject) describe(pid int) string {
	name, _ := os.ReadFile(filepath.Join(s.Proc, strconv.Itoa(pid), "comm"))
	return fmt.Sprintf("process %d (%s)", pid, strings.TrimSpace(string(name)))
}

// holders are the processes that have one of some sockets.
func (s *Subject) holders(inodes []string) (pids []int) {
	entries, _ := os.ReadDir(s.Proc)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		links, _ := filepath.Glob(filepath.Join(s.Proc, e.Name(), "fd", "*"))
		for _, link := range links {
			to, _ := os.Readlink(link)
			inode := strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")
			if inode != to && slices.Contains(inodes, inode) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// whoListens looks whether another program shares a port with the gateway: by SO_REUSEPORT each gets a part of the
// connections.
func (s *Subject) whoListens(r *result, address, port string) {
	for _, pid := range s.holders(s.inodesAt("tcp", address)) {
		if pid != s.pid() && pid != 1 && !s.isSuccessor(pid) {
			r.found("%s listens at the port of %s, too", s.describe(pid), address).as(Warning).
				because("each of the two gets a part of the connections, or the kernel prefers one").
				then("sudo ss -ltnp 'sport = :%s'", port)
		}
	}
}

// isSuccessor reports whether a process is another gateway of the same program, as in an upgrade, or its provider.
func (s *Subject) isSuccessor(pid int) bool {
	ours, err := os.Readlink(s.proc("exe"))
	theirs, other := os.Readlink(filepath.Join(s.Proc, strconv.Itoa(pid), "exe"))
	const gone = " (deleted)"
	return err != nil || other != nil || strings.TrimSuffix(ours, gone) == strings.TrimSuffix(theirs, gone)
}

// servesHTTP3 are the ports of servers with TLS that do not leave HTTP/3 out.
func (s *Subject) servesHTTP3() (ports []string) {
	apps := s.Site.apps()
	for _, server := range apps.HTTP.Servers {
		if len(server.Protocols) > 0 && !slices.Contains(server.Protocols, "h3") ||
			len(server.TLS) == 0 && !slices.ContainsFunc(server.hosts(), isName) {
			continue
		}
		for _, a := range server.addresses() {
			if !a.IsUnixNetwork() && a.StartPort != 80 {
				ports = append(ports, strconv.FormatUint(uint64(a.StartPort), 10))
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

func (s *Subject) checkUDP(r *result) {
	udp, udp6 := s.sockets("udp"), s.sockets("udp6")
	if len(udp)+len(udp6) == 0 {
		if _, err := os.Stat(filepath.Join(s.Proc, "net/udp")); err != nil {
			return
		}
	}
	for _, port := range s.servesHTTP3() {
		if len(udp[port])+len(udp6[port]) == 0 {
			r.found("nobody listens at UDP port %s", port).as(Warning).because("there is no HTTP/3").
				then("fareway reload --config %s --force", s.Caddyfile)
		}
	}
}

func checkBuffers(_ context.Context, s *Subject, r *result) {
	if len(s.servesHTTP3()) == 0 {
		return
	}
	const wanted = 7 << 20 // of quic-go
	for _, name := range []string{"rmem_max", "wmem_max"} {
		n, ok := number(filepath.Join(s.Proc, "sys/net/core", name))
		if !ok {
			r.skip("the system does not say how large they may be")
			return
		}
		if n < wanted {
			r.found("net.core.%s is %s, and HTTP/3 wants %s", name, bytesText(uint64(n)), bytesText(wanted))
		}
	}
}

// names are those of the sites and public addresses, which DNS should know.
func (s *Subject) names() (names []string) {
	for _, text := range s.ways() {
		if u, err := url.Parse(text.url); err == nil && isName(u.Hostname()) {
			names = append(names, u.Hostname())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func checkDNS(ctx context.Context, s *Subject, r *result) {
	if why := s.lacks(sited); why != "" && len(s.URLs) == 0 {
		r.skip("%s", why)
		return
	}
	for _, name := range s.names() {
		addresses, err := s.Resolver.LookupNetIP(ctx, "ip", name)
		if err != nil || len(addresses) == 0 {
			r.found("%s has no address: %v", name, err).then("dig +short A %s; dig +short AAAA %s   # make one where your "+
				"domain's DNS is", name, name)
			continue
		}
		var ours, others []string
		for _, a := range addresses {
			a = a.Unmap()
			way := s.wayTo(name, a)
			answer, err := s.probe(ctx, way, order{})
			switch {
			case errors.Is(err, errNoProbe):
				if !isOwnAddress(a) {
					others = append(others, a.String())
				}
				continue
			case errors.Is(err, errOtherNode):
				r.skip("%s: %v", way.name(), err)
			case err == nil && answer.isOurs():
				ours = append(ours, a.String())
				continue
			case err != nil && a.Is6() && isWithoutIPv6(err):
				r.skip("%s leads to %s as well, and this machine has no IPv6 to look there: %v", name, a, err)
			case err != nil:
				r.found("%s leads to %s, and nobody answers there: %v", name, a, err).because("%s", dnsReason(a)).
					then("nc -vz %s %s", a, way.port())
			default:
				r.found("%s leads to %s, and another server answers there (%s)", name, a, answer.status).
					because("%s", dnsReason(a)).then("dig +short A %s; dig +short AAAA %s", name, name)
			}
		}
		if len(others) > 0 && len(ours) == 0 {
			r.found("%s leads to %s, and this machine has none of these addresses", name, strings.Join(others, ", ")).
				as(Note).because("that is right behind a load balancer or NAT, and wrong otherwise").
				then("start the gateway and look again: then it can be seen who answers there")
		}
	}
}

// isWithoutIPv6 reports whether a connection over IPv6 failed for want of a way from here.
func isWithoutIPv6(err error) bool {
	return errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}

func dnsReason(a netip.Addr) string {
	if a.Is6() {
		return "clients with IPv6, and certificate authorities, try this address first"
	}
	return "clients that take this address do not reach the gateway"
}

// isOwnAddress reports whether this machine has an address.
func isOwnAddress(a netip.Addr) bool {
	own, _ := net.InterfaceAddrs()
	for _, o := range own {
		if p, err := netip.ParsePrefix(o.String()); err == nil && p.Addr() == a {
			return true
		}
	}
	return false
}

func checkCertificates(ctx context.Context, s *Subject, r *result) {
	if s.Status != nil {
		for _, c := range s.Status.Certificates {
			if f := c.Failed; f != nil {
				severity := Warning
				if !c.IsValid(s.Now()) {
					severity = Error
				}
				r.found("getting a certificate for %s failed at %s: %s", c.Host, human.Moment(f.At), f.Text).as(severity).
					because("it is tried again; look at DNS, and whether ports 80 and 443 are open").
					then("%s", s.command("doctor dns ports"))
			}
		}
	}
	if why := s.lacks(sited); why != "" && len(s.URLs) == 0 {
		r.skip("%s", why)
	}
	judged := make(map[string][]byte)
	for _, way := range s.allWays() {
		if !strings.HasPrefix(way.url, "https://") {
			continue
		}
		s.checkCertificate(ctx, r, way, judged)
	}
}

// checkCertificate looks at what one address shows. What the same site has shown on another way is judged already.
func (s *Subject) checkCertificate(ctx context.Context, r *result, way way, judged map[string][]byte) {
	host := urlHost(way.url)
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second, Resolver: s.Resolver},
		Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}} //nolint:gosec // it is looked at below
	conn, err := dialer.DialContext(ctx, "tcp", way.address())
	if err != nil {
		if way.outside {
			r.skip("%s: %v (see the check `dns`)", way.url, err)
		} else if s.Status != nil {
			r.found("%s shows no certificate (%s): %v", way.url, way.address(), err).
				because("clients cannot connect").then("openssl s_client -connect %s -servername %s </dev/null", way.address(),
				host)
		} else {
			r.skip("no gateway runs that would show a certificate")
		}
		return
	}
	defer conn.Close()
	chain := conn.(*tls.Conn).ConnectionState().PeerCertificates
	if bytes.Equal(judged[way.url], chain[0].Raw) {
		return
	}
	judged[way.url] = chain[0].Raw
	judgeCertificate(s, r, way, host, chain, nil)
}

// judgeCertificate says what clients would say of a chain. roots are the system's where they are nil.
func judgeCertificate(s *Subject, r *result, way way, host string, chain []*x509.Certificate, roots *x509.CertPool) {
	now := s.Now()
	leaf := chain[0]
	show := fmt.Sprintf("openssl s_client -connect %s -servername %s </dev/null | openssl x509 -noout -text",
		way.address(), host)
	if now.After(leaf.NotAfter) {
		r.found("the certificate of %s has expired at %s", way.url, human.Moment(leaf.NotAfter)).then("%s", show)
	} else if now.Before(leaf.NotBefore) {
		r.found("the certificate of %s is valid from %s on only", way.url, human.Moment(leaf.NotBefore)).
			because("this machine's clock is behind, or the certificate is not for now").then("timedatectl status")
	} else if left, life := leaf.NotAfter.Sub(now), leaf.NotAfter.Sub(leaf.NotBefore); left < life/6 &&
		left < 21*24*time.Hour {
		r.found("the certificate of %s expires at %s, in %s, and was not renewed", way.url, human.Moment(leaf.NotAfter),
			span(left.Round(time.Hour))).as(Warning).because("clients refuse the connection then").then("%s", show)
	}
	if err := leaf.VerifyHostname(host); err != nil {
		r.found("the certificate of %s is for %s", way.url, namesOf(leaf)).then("%s", show)
		return
	}
	if s.SiteRoots != nil {
		roots = s.SiteRoots
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: leaf.NotBefore.Add(
		leaf.NotAfter.Sub(leaf.NotBefore) / 2)}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := leaf.Verify(options); err != nil {
		seen := fmt.Sprintf("the certificate of %s, from %q, is of nobody that clients know", way.url,
			leaf.Issuer.CommonName)
		severity := Error
		switch {
		case !isName(host) || isInternal(host):
			severity = Note // its owner's clients are told of its authority
		case len(chain) == 1 && leaf.Issuer.String() != leaf.Subject.String():
			seen += ", and no certificate comes with it that leads to one: the chain is incomplete"
		case leaf.Issuer.String() == leaf.Subject.String():
			seen += ": it is self-signed"
		}
		r.found("%s", seen).as(severity).then("%s", show)
	}
}

// isInternal reports whether a name is one that no certificate authority signs.
func isInternal(host string) bool {
	return certmagic.SubjectIsInternal(host) || !strings.Contains(host, ".") ||
		slices.ContainsFunc([]string{".lan", ".test", ".example", ".invalid", ".corp"}, func(end string) bool {
			return strings.HasSuffix(host, end)
		})
}
