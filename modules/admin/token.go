package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/fareway/fareway/modules/internal/files"
)

const (
	// adminTokenFile is the file in the data folder with the admin API's token.
	adminTokenFile = "admin.token"
	// metricsTokenFile has the token of those who only look at the metrics: it opens nothing else.
	metricsTokenFile = "metrics.token"
)

// adminToken is the SHA-256 of the token that requests over a network must show.
type adminToken [sha256.Size]byte

// loadToken reads a token of the data folder, and makes one of 256 random bits when there is none.
func loadToken(data, file string) (adminToken, error) {
	text, err := readToken(data, file)
	if errors.Is(err, fs.ErrNotExist) {
		var secret [32]byte
		rand.Read(secret[:])
		err = files.CreateFile(filepath.Join(data, file), []byte(hex.EncodeToString(secret[:])+"\n"), 0o600)
		if err == nil || errors.Is(err, fs.ErrExist) {
			text, err = readToken(data, file)
		}
	}
	if err != nil {
		return adminToken{}, err
	}
	return sha256.Sum256([]byte(text)), nil
}

// readAdminToken returns the admin token's text, for a client. fs.ErrNotExist when no gateway has made it yet.
func readAdminToken(data string) (string, error) { return readToken(data, adminTokenFile) }

func readToken(data, file string) (string, error) {
	path := filepath.Join(data, file)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the admin token: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", fmt.Errorf("reading the admin token: %s is empty: remove it, and the gateway makes a new one at its next "+
			"start", path)
	}
	return text, nil
}

// authorize lets pass who came by a unix socket, or was asked for a certificate, and asks all others for the token.
func (t adminToken) authorize(r *http.Request) error {
	if overSocket(r) || byCertificate(r) {
		return nil
	}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(text))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(sum[:], t[:]) != 1 {
		return problem(http.StatusUnauthorized,
			"the admin token is missing or wrong: send `Authorization: Bearer` with the text of %s in the gateway's data folder",
			adminTokenFile)
	}
	return nil
}
