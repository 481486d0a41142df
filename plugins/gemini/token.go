package gemini

import (
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"github.com/fareway/fareway/plugins/llm"
)

const (
	// tokenServer is what the key files of Google's service accounts name.
	tokenServer = "https://oauth2.googleapis.com/token"
	// scope is what Vertex AI asks for.
	scope = "https://www.googleapis.com/auth/cloud-platform"
	// tokenTimeout bounds fetching a token; an endpoint may take 30 seconds.
	tokenTimeout = 25 * time.Second
	// spare is how long before its end a token is no longer used, for clocks differ and calls take a while to arrive;
	// and how much longer than that one lasts that is handed out, for the gateway asks for another before an endpoint
	// expires.
	spare = time.Minute
)

// account is what the key file of a service account says.
type account struct {
	Type    string `json:"type"`
	Project string `json:"project_id"`
	Email   string `json:"client_email"`
	KeyID   string `json:"private_key_id"`
	Key     string `json:"private_key"`
	Server  string `json:"token_uri"`
}

// readAccount reads the key file of a service account. Its errors show nothing of it.
func readAccount(file string) (a account, err error) {
	const download = "; use the file that Google Cloud makes for a key of a service account"
	if json.Unmarshal([]byte(file), &a) != nil {
		return a, errors.New("setting service_account is not a JSON object" + download)
	}
	a.Server = cmp.Or(a.Server, tokenServer)
	server, err := url.Parse(a.Server)
	switch {
	case a.Type != "service_account":
		return a, errors.New("setting service_account is not the key of a service account (its type is another)" + download)
	case a.Email == "" || !isKey(a.Key):
		return a, errors.New("setting service_account has no client_email or no private_key that is an RSA key in PEM" +
			download)
	case err != nil || server.Hostname() == "" || server.Scheme != "https" && server.Scheme != "http":
		return a, errors.New("setting service_account has a token_uri that is not a URL" + download)
	}
	return a, nil
}

// isKey reports whether a text is an RSA key in PEM, as PKCS 8 or PKCS 1 have it.
func isKey(text string) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return false
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		_, isRSA := key.(*rsa.PrivateKey)
		return isRSA
	}
	_, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	return err == nil
}

// tokens fetches the tokens of a service account (RFC 7523), one for all models while it lasts.
type tokens struct {
	account account
	now     func() time.Time

	mu   sync.Mutex // held while one is fetched: others wait for it
	last *oauth2.Token
}

// get returns a token that lasts. refused says that the service did not take the last one.
func (t *tokens) get(ctx context.Context, client *http.Client, refused bool) (*oauth2.Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.last; last != nil && !refused && t.now().Add(spare).Before(last.Expiry) {
		return last, nil
	}
	t.last = nil
	client.Timeout = tokenTimeout
	config := jwt.Config{Email: t.account.Email, PrivateKey: []byte(t.account.Key), PrivateKeyID: t.account.KeyID,
		Scopes: []string{scope}, TokenURL: t.account.Server}
	asked := t.now()
	token, err := config.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
	if err != nil {
		return nil, notGiven(err)
	}
	seconds, _ := token.Extra("expires_in").(float64)
	token.Expiry = asked.Add(time.Duration(seconds)*time.Second - spare)
	if token.AccessToken == "" || !asked.Before(token.Expiry) {
		return nil, llm.Errorf(llm.ErrUpstream, "the server of tokens gave none that lasts longer than %s", spare)
	}
	t.last = token
	return token, nil
}

// notGiven says why there is no token, in our words: what the server says may repeat what was sent.
func notGiven(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return llm.Errorf(llm.ErrUpstream, "fetching a token: %v; check that the token_uri of service_account can be reached",
			err)
	}
	status := refused.Response.StatusCode
	e := llm.Errorf(llm.ErrUpstream, "the server of tokens failed")
	if 400 <= status && status < 500 && status != http.StatusTooManyRequests {
		e = llm.Errorf(llm.ErrCredentials, "the server of tokens refused the key; check service_account, and "+
			"this machine's clock")
	}
	e.Status = status
	return e
}
