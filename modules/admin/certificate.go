package admin

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/fareway/fareway/modules/internal/files"
)

// The files in the data folder of the certificate that the gateway makes for its admin address. Clients trust exactly
// the first; the second never leaves the folder.
const (
	adminCertificateFile = "admin.crt"
	adminCertificateKey  = "admin.key"
)

// adminCertificateLife is for clients that look at it; our commands compare the certificate itself.
const adminCertificateLife = 10 * 365 * 24 * time.Hour

// makeAdminCertificate returns the files of the data folder's own certificate, and makes them when there are none.
func makeAdminCertificate(data string) (certificate, key string, err error) {
	certificate, key = filepath.Join(data, adminCertificateFile), filepath.Join(data, adminCertificateKey)
	if _, err := os.Lstat(certificate); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return certificate, key, err
	}
	certPEM, keyPEM, err := newAdminCertificate(time.Now())
	if err == nil {
		// The certificate comes last: where there is one, its key is there.
		err = files.ReplaceFile(key, keyPEM)
	}
	if err == nil {
		err = files.CreateFile(certificate, certPEM, 0o600)
	}
	if err != nil {
		return "", "", fmt.Errorf("making a certificate for the admin address: %w", err)
	}
	return certificate, key, nil
}

func newAdminCertificate(now time.Time) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "fareway admin"},
		NotBefore:    now.Add(-time.Hour), // clocks differ
		NotAfter:     now.Add(adminCertificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if host, err := os.Hostname(); err == nil && host != "localhost" {
		template.DNSNames = append(template.DNSNames, host)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// trust is how a client knows the gateway at a TLS address: by the certificate in the data folder, or by one that this
// machine trusts for the address's name.
func trust(data, host string) (*tls.Config, error) {
	var pinned []byte
	path := filepath.Join(data, adminCertificateFile)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the certificate of the admin address: %w", err)
	}
	if err == nil {
		block, _ := pem.Decode(b)
		if block == nil {
			return nil, fmt.Errorf("reading the certificate of the admin address: %s is no PEM file", path)
		}
		pinned = block.Bytes
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: host,
		// Instead of the usual verification, and never nothing: the own certificate need not have the name by which the
		// gateway is reached from here.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			leaf := state.PeerCertificates[0]
			if bytes.Equal(leaf.Raw, pinned) {
				return nil
			}
			rest := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				rest.AddCert(c)
			}
			_, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Intermediates: rest})
			if err != nil {
				return &strangerError{path: path, err: err}
			}
			return nil
		},
	}, nil
}

// strangerError: what answers is not known to be the gateway.
type strangerError struct {
	path string
	err  error
}

func (e *strangerError) Error() string {
	return fmt.Sprintf("its certificate is not the one in %s: copy that file, and %s, from the gateway's data folder, "+
		"and name theirs with --data (%v)", e.path, adminTokenFile, e.err)
}

func (e *strangerError) Unwrap() error { return e.err }
