package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/fareway/fareway/plugins/internal/proto"
	"github.com/fareway/fareway/plugins/internal/wire"
)

// identity is what the gateway shows to a provider.
type identity struct {
	certificate tls.Certificate
	pem         string
}

// newIdentity makes a certificate of the kind that go-plugin makes for a host: P-521, signed by itself.
func newIdentity() (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:      pkix.Name{CommonName: "localhost"},
		DNSNames:     []string{"localhost"},
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		SerialNumber: big.NewInt(time.Now().UnixNano()), BasicConstraintsValid: true, IsCA: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return &identity{
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem:         string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	}, nil
}

// offer is what a handshake says.
type offer struct {
	version string
	address string
	roots   *x509.CertPool
}

// parse reads a handshake. Its errors quote the line's part that is wrong.
func parse(line, dir string) (offer, error) {
	parts := strings.Split(line, "|")
	if len(parts) < 4 || parts[0] != "1" {
		return offer{}, fmt.Errorf("it printed %q on stdout before the handshake", short(line))
	}
	o := offer{version: parts[1], address: parts[3]}
	switch {
	case parts[2] != "unix":
		return o, fmt.Errorf("it listens on %q; the third part must be unix", parts[2])
	case len(parts) < 5 || parts[4] != "grpc":
		return o, errors.New("the fifth part must be grpc")
	case len(parts) < 6 || parts[5] == "":
		return o, errors.New("the sixth part, its certificate, is missing")
	}
	der, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		return o, fmt.Errorf("its certificate is not base64 without padding: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return o, fmt.Errorf("its certificate is not the base64 of a DER certificate: %w", err)
	}
	if err := certificate.VerifyHostname("localhost"); err != nil {
		return o, fmt.Errorf("its certificate is not for the DNS name localhost: %w", err)
	}
	o.roots = x509.NewCertPool()
	o.roots.AddCert(certificate)
	// A temporary folder may be behind a link.
	at, err := filepath.EvalSymlinks(filepath.Dir(o.address))
	if err != nil {
		return o, fmt.Errorf("there is no socket at %s: %w", o.address, err)
	}
	if in, err := filepath.EvalSymlinks(dir); err == nil && at != in {
		return o, fmt.Errorf("its socket %s is not in the folder that PLUGIN_UNIX_SOCKET_DIR names, which is the one that "+
			"the gateway removes", o.address)
	}
	if info, err := os.Stat(o.address); err != nil || info.Mode().Type() != os.ModeSocket {
		return o, fmt.Errorf("there is no socket at %s", o.address)
	}
	return o, nil
}

// short cuts what a program printed for a sentence.
func short(line string) string {
	if len(line) > 200 {
		return strings.ToValidUTF8(line[:200], "") + "..."
	}
	return line
}

// dial connects as the gateway does. id is nil for somebody without a certificate.
func (o offer) dial(id *identity) (*grpc.ClientConn, error) {
	config := &tls.Config{RootCAs: o.roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	if id != nil {
		config.Certificates = []tls.Certificate{id.certificate}
	}
	return grpc.NewClient("passthrough:provider",
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", o.address)
		}),
		grpc.WithInitialWindowSize(wire.Window), grpc.WithInitialConnWindowSize(4*wire.Window),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(wire.MaxResponse), grpc.MaxCallSendMsgSize(wire.MaxRequest),
		),
	)
}

// launch starts the program under test and connects to it.
func (s *suite) launch(ctx context.Context, env ...string) (*peer, error) {
	id, err := newIdentity()
	if err != nil {
		return nil, err
	}
	process, err := s.launched(s.o.Command, nil, id, env...)
	if err != nil {
		return nil, err
	}
	p, err := process.connect(ctx, id)
	if err != nil {
		process.kill()
		return nil, err
	}
	return p, nil
}

// connect takes the handshake of a process that has just started.
func (p *process) connect(ctx context.Context, id *identity) (*peer, error) {
	line, err := p.firstLine(ctx)
	if err != nil {
		return nil, err
	}
	offer, err := parse(line, p.dir)
	if err != nil {
		return nil, err
	}
	if offer.version != fmt.Sprint(wire.Version) {
		return nil, fmt.Errorf("it speaks version %s of the protocol, and this gateway version %d", offer.version,
			wire.Version)
	}
	conn, err := offer.dial(id)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return &peer{ProviderClient: proto.NewProviderClient(conn), conn: conn, process: p, offer: offer, id: id,
		stop: func() error {
			err := conn.Close()
			p.kill()
			return err
		}}, nil
}
