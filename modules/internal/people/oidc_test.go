package people_test

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
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/people"
)

const callback = "https://portal.example/portal/oidc/company/callback"

// issuer is zitadel's server of OpenID Connect, over TLS, with users that the test changes.
type issuer struct {
	*storage.Storage
	server *httptest.Server
	ca     string

	mu     sync.Mutex
	users  map[string]*storage.User
	groups map[string][]string
}

func (i *issuer) GetUserByID(id string) *storage.User {
	i.mu.Lock()
	defer i.mu.Unlock()
	if u := i.users[id]; u != nil {
		is := *u
		return &is
	}
	return nil
}

func (i *issuer) GetUserByUsername(name string) *storage.User { return i.GetUserByID(name) }
func (i *issuer) ExampleClientID() string                     { return "service" }

// SetUserinfoFromToken tells groups, too.
func (i *issuer) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, id, subject, origin string) error {
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

// add has somebody at the issuer.
func (i *issuer) add(id, email string, verified bool, groups ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.users[id] = &storage.User{ID: id, Username: id, Password: "pw", FirstName: "Ann", LastName: "Smith", Email: email,
		EmailVerified: verified}
	i.groups[id] = groups
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{users: make(map[string]*storage.User), groups: make(map[string][]string)}
	var handler http.Handler
	i.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(i.server.Close)
	i.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw}))
	i.Storage = storage.NewStorageWithClients(i, map[string]*storage.Client{
		"fareway": storage.WebClient("fareway", "the secret", callback)})
	handler = exampleop.SetupServer(i.server.URL, i, nil, true)
	return i
}

var (
	_ op.Storage                   = (*issuer)(nil)
	_ op.CanSetUserinfoFromRequest = (*issuer)(nil)
)

// withIssuer has people sign in by it.
func (f *fixture) withIssuer(i *issuer) {
	f.config = config.Portal{OIDC: []config.OIDC{{Name: "company", Issuer: i.server.URL, ClientID: "fareway",
		ClientSecret: "the secret", Scopes: []string{"email", "profile"}, GroupsClaim: "groups",
		Operators: map[string]string{"gw-admins": "admin", "helpdesk": "support"}, CA: i.ca}}}
	// Its tokens are of the time that it is.
	f.mu.Lock()
	f.time = time.Now().UTC()
	f.mu.Unlock()
}

var authRequest = regexp.MustCompile(`name="id" value="([^"]+)"`)

// visit is a browser that signs in at the issuer, and what it comes back with.
func (i *issuer) visit(f *fixture, to, user string) url.Values {
	f.Helper()
	browser := *i.server.Client()
	browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), callback) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	page, err := browser.Get(to)
	require.NoError(f, err)
	text, err := io.ReadAll(page.Body)
	require.NoError(f, err)
	require.NoError(f, page.Body.Close())
	id := authRequest.FindSubmatch(text)
	require.NotNil(f, id, "%s", text)
	back, err := browser.PostForm(i.server.URL+"/login/username", url.Values{"id": {string(id[1])}, "username": {user},
		"password": {"pw"}})
	require.NoError(f, err)
	require.NoError(f, back.Body.Close())
	at, err := back.Location()
	require.NoError(f, err)
	return at.Query()
}

func (f *fixture) signInBy(i *issuer, user string) (people.SignedIn, error) {
	f.Helper()
	to, token, err := f.BeginOIDC(f.Context(), "company", callback, home)
	require.NoError(f, err)
	return f.FinishOIDC(f.Context(), token, i.visit(f, to, user), home)
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		i := newIssuer(f.T)
		f.withIssuer(i)
		require.Equal(f, []string{"company"}, f.Issuers())
		i.add("u1", "ann@example.com", true)
		_, err := f.signInBy(i, "u1")
		require.ErrorIs(f, err, people.ErrNotInvited)
		f.invited("ann@example.com", people.RoleMember)
		i.add("u1", "ann@example.com", false)
		_, err = f.signInBy(i, "u1")
		require.ErrorIs(f, err, people.ErrNotInvited, "an e-mail that the issuer has not verified")
		i.add("u1", "ann@example.com", true)
		in, err := f.signInBy(i, "u1")
		require.NoError(f, err)
		require.Equal(f, "oidc:company", in.Session.Method)
		require.Equal(f, "ann@example.com", f.opens(in.Token))
		p, err := f.FindPerson(ctx, "ann@example.com")
		require.NoError(f, err)
		require.Equal(f, "Ann Smith", p.Name)
		m, err := f.Membership(ctx, account, p.ID)
		require.NoError(f, err)
		require.Equal(f, people.RoleMember, m.Role)
		open, err := f.Invitations(ctx, "*", "", 10)
		require.NoError(f, err)
		require.Empty(f, open, "an invitation is used twice")

		// Who they are the issuer's name says, not the e-mail.
		i.add("u1", "changed@example.com", true)
		in, err = f.signInBy(i, "u1")
		require.NoError(f, err)
		require.Equal(f, p.ID, in.Session.Person)
		i.add("u2", "ann@example.com", true, "gw-admins")
		_, err = f.signInBy(i, "u2")
		require.ErrorIs(f, err, people.ErrSignInFirst, "an e-mail takes a person over")
		linked, err := f.Linked(ctx, p.ID)
		require.NoError(f, err)
		require.Equal(f, []string{"company"}, linked)

		require.NoError(f, f.SetDisabled(ctx, p.ID, true))
		_, err = f.signInBy(i, "u1")
		require.ErrorIs(f, err, people.ErrWrong)
	})
}

func TestOIDCGroups(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	i := newIssuer(t)
	f.withIssuer(i)
	operator := func(token string) people.Operator {
		_, p, err := f.Session(ctx, token, home)
		require.NoError(t, err)
		return p.Operator
	}
	i.add("u1", "ann@example.com", true, "helpdesk", "gw-admins", "lunch")
	in, err := f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Equal(t, people.Admin, operator(in.Token))
	link, _, err := f.FirstLink(ctx)
	require.NoError(t, err)
	require.Empty(t, link)

	i.add("u1", "ann@example.com", true, "helpdesk")
	before := in.Token
	in, err = f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Equal(t, people.Support, operator(in.Token))
	require.Empty(t, f.opens(before), "a session outlives what its person was")

	// What groups give holds in sessions that the issuer has begun, and as long as the configuration says so.
	reset, _, err := f.InviteReset(ctx, in.Session.Person, "")
	require.NoError(t, err)
	byLink, _, err := f.Accept(ctx, reset, people.Acceptance{Password: password}, home)
	require.NoError(t, err)
	require.Empty(t, operator(byLink))
	byLinkSession, _, err := f.Session(ctx, byLink, home)
	require.NoError(t, err)
	require.ErrorIs(t, f.SelectAccount(ctx, byLinkSession, account), people.ErrNotFound)
	in, err = f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Equal(t, people.Support, operator(in.Token))
	f.config.OIDC[0].Operators = nil
	require.Empty(t, operator(in.Token))
	f.withIssuer(i)

	i.add("u1", "ann@example.com", true)
	in, err = f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Empty(t, operator(in.Token))
	// What somebody has given, groups do not take.
	require.NoError(t, f.SetOperator(ctx, in.Session.Person, people.ReadOnly))
	in, err = f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Equal(t, people.ReadOnly, operator(in.Token))
	// Nor does it need them any more, if it is the same: that is an act of its own.
	require.NoError(t, f.SetOperator(ctx, in.Session.Person, ""))
	i.add("u1", "ann@example.com", true, "helpdesk")
	in, err = f.signInBy(i, "u1")
	require.NoError(t, err)
	f.takeActs()
	require.NoError(t, f.SetOperator(ctx, in.Session.Person, people.Support))
	require.Equal(t, []string{"portal.set_operator "}, f.takeActs())
	require.Empty(t, f.opens(in.Token))
	in, err = f.SignIn(ctx, "ann@example.com", password, home)
	require.NoError(t, err)
	require.Equal(t, people.Support, operator(in.Token))
}

func TestOIDCIsBoundToTheBrowser(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	i := newIssuer(t)
	f.withIssuer(i)
	i.add("u1", "ann@example.com", true, "helpdesk")
	begin := func() (query url.Values, token string) {
		to, token, err := f.BeginOIDC(ctx, "company", callback, home)
		require.NoError(t, err)
		require.Contains(t, to, "code_challenge_method=S256")
		return i.visit(f, to, "u1"), token
	}
	victim, _ := begin()
	_, attacker := begin()
	_, err := f.FinishOIDC(ctx, attacker, victim, home)
	require.ErrorIs(t, err, people.ErrExpired, "the answer to somebody else's question")
	query, token := begin()
	_, err = f.FinishOIDC(ctx, token, query, people.Client{Host: "evil.example"})
	require.ErrorIs(t, err, people.ErrExpired)
	_, err = f.FinishOIDC(ctx, token, query, home)
	require.NoError(t, err)
	_, err = f.FinishOIDC(ctx, token, query, home)
	require.ErrorIs(t, err, people.ErrExpired)
	query, token = begin()
	query.Set("code", "another")
	_, err = f.FinishOIDC(ctx, token, query, home)
	require.ErrorIs(t, err, people.ErrIssuer)
	query, token = begin()
	_, err = f.FinishOIDC(ctx, token, url.Values{"state": query["state"], "error": {"access_denied"}}, home)
	require.ErrorIs(t, err, people.ErrIssuer)
	require.ErrorContains(t, err, "access_denied")
	// A code of one sign-in is no good in another: the nonce of its token and PKCE's verifier are not that one's.
	stolen, _ := begin()
	query, token = begin()
	query.Set("code", stolen.Get("code"))
	_, err = f.FinishOIDC(ctx, token, query, home)
	require.ErrorIs(t, err, people.ErrIssuer)
	_, _, err = f.BeginOIDC(ctx, "nobody", callback, home)
	require.ErrorIs(t, err, people.ErrNotFound)
}

func TestLinkingAnIssuer(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	i := newIssuer(t)
	f.withIssuer(i)
	token, v := f.join("ann@example.com", people.RoleOwner)
	i.add("u1", "ann@example.com", true)
	_, err := f.signInBy(i, "u1")
	require.ErrorIs(t, err, people.ErrSignInFirst)
	to, asked, err := f.BeginLinkOIDC(ctx, v, "company", callback)
	require.NoError(t, err)
	query := i.visit(f, to, "u1")
	_, err = f.FinishOIDC(ctx, asked, query, home)
	require.ErrorIs(t, err, people.ErrExpired, "a question of a session is answered without it")
	require.NoError(t, f.SignOut(ctx, token))
	in, err := f.SignIn(ctx, "ann@example.com", password, home)
	require.NoError(t, err)
	to, asked, err = f.BeginLinkOIDC(ctx, in.Session, "company", callback)
	require.NoError(t, err)
	require.NoError(t, f.FinishLinkOIDC(ctx, in.Session, asked, i.visit(f, to, "u1")))
	by, err := f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Equal(t, v.Person, by.Session.Person)
	require.NoError(t, f.Unlink(ctx, v.Person, "company"))
	_, err = f.signInBy(i, "u1")
	require.ErrorIs(t, err, people.ErrSignInFirst)
}

func TestAnIssuerThatIsAway(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	i := newIssuer(t)
	f.withIssuer(i)
	f.config.OIDC[0].CA = ""
	_, _, err := f.BeginOIDC(f.Context(), "company", callback, home)
	require.ErrorIs(t, err, people.ErrIssuer, "a certificate that nobody trusts")
	f.withIssuer(i)
	i.server.Close()
	_, _, err = f.BeginOIDC(f.Context(), "company", callback, home)
	require.ErrorIs(t, err, people.ErrIssuer)
}
