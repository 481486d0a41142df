// Package issuertest is an issuer of OpenID Connect for tests: zitadel's own server, over TLS, with users that the test
// changes. It is no part of a gateway.
package issuertest

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/fareway/fareway/config"
)

// Password is everybody's there, and ClientID and Secret are the portal's.
const (
	Password = "pw"
	ClientID = "fareway"
	Secret   = "the secret"
)

// Issuer is one that runs until the test ends.
type Issuer struct {
	*storage.Storage
	*httptest.Server
	CA string // PEM

	mu     sync.Mutex
	users  map[string]*storage.User
	groups map[string][]string
}

// Start starts one that sends browsers back to these addresses.
func Start(t testing.TB, callbacks ...string) *Issuer {
	i := &Issuer{users: make(map[string]*storage.User), groups: make(map[string][]string)}
	var handler http.Handler
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Server.Close)
	i.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Server.Certificate().Raw}))
	i.Storage = storage.NewStorageWithClients(i, map[string]*storage.Client{
		ClientID: storage.WebClient(ClientID, Secret, callbacks...)})
	handler = exampleop.SetupServer(i.Server.URL, i, nil, true)
	return i
}

// Block is the oidc block of the configuration for it, with groups that make operators.
func (i *Issuer) Block() config.OIDC {
	return config.OIDC{Name: "company", Issuer: i.Server.URL, ClientID: ClientID, ClientSecret: Secret,
		Scopes: []string{"email", "profile"}, GroupsClaim: "groups",
		Operators: map[string]string{"gw-admins": "admin", "helpdesk": "support"}, CA: i.CA}
}

// Add has somebody at the issuer, who signs in there with their id as the name, and Password.
func (i *Issuer) Add(id, email string, verified bool, groups ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.users[id] = &storage.User{ID: id, Username: id, Password: Password, FirstName: "Ann", LastName: "Smith",
		Email: email, EmailVerified: verified}
	i.groups[id] = groups
}

var authRequest = regexp.MustCompile(`name="id" value="([^"]+)"`)

// SignIn is a browser that goes to an address of the issuer and signs in there: where it is sent back to.
func (i *Issuer) SignIn(t testing.TB, to, user string) *url.URL {
	t.Helper()
	browser := *i.Server.Client()
	browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), i.Server.URL) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	page, err := browser.Get(to)
	require.NoError(t, err)
	text, err := io.ReadAll(page.Body)
	require.NoError(t, err)
	require.NoError(t, page.Body.Close())
	id := authRequest.FindSubmatch(text)
	require.NotNil(t, id, "%s", text)
	back, err := browser.PostForm(i.Server.URL+"/login/username", url.Values{"id": {string(id[1])}, "username": {user},
		"password": {Password}})
	require.NoError(t, err)
	require.NoError(t, back.Body.Close())
	at, err := back.Location()
	require.NoError(t, err)
	return at
}

// GetUserByID is what the storage asks.
func (i *Issuer) GetUserByID(id string) *storage.User {
	i.mu.Lock()
	defer i.mu.Unlock()
	if u := i.users[id]; u != nil {
		is := *u
		return &is
	}
	return nil
}

// GetUserByUsername is what the storage asks.
func (i *Issuer) GetUserByUsername(name string) *storage.User { return i.GetUserByID(name) }

// ExampleClientID is what the storage asks.
func (*Issuer) ExampleClientID() string { return "service" }

// SetUserinfoFromToken tells groups, too.
func (i *Issuer) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, id, subject, origin string) error {
	if err := i.Storage.SetUserinfoFromToken(ctx, info, id, subject, origin); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if groups := i.groups[subject]; groups != nil {
		info.AppendClaims("groups", groups)
	}
	return nil
}

var (
	_ op.Storage                   = (*Issuer)(nil)
	_ op.CanSetUserinfoFromRequest = (*Issuer)(nil)
)
