package people_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/people/issuertest"
)

const callback = "https://portal.example/portal/oidc/company/callback"

// withIssuer has people sign in by it.
func (f *fixture) withIssuer(i *issuertest.Issuer) {
	f.config = config.Portal{OIDC: []config.OIDC{i.Block()}}
	// Its tokens are of the time that it is.
	f.mu.Lock()
	f.time = time.Now().UTC()
	f.mu.Unlock()
}

func (f *fixture) signInBy(i *issuertest.Issuer, user string) (people.SignedIn, error) {
	f.Helper()
	to, token, err := f.BeginOIDC(f.Context(), "company", callback, home)
	require.NoError(f, err)
	return f.FinishOIDC(f.Context(), token, "company", i.SignIn(f.T, to, user).Query(), home)
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		i := issuertest.Start(f.T, callback)
		f.withIssuer(i)
		require.Equal(f, []string{"company"}, f.Issuers())
		i.Add("u1", "ann@example.com", true)
		_, err := f.signInBy(i, "u1")
		require.ErrorIs(f, err, people.ErrNotInvited)
		f.invited("ann@example.com", people.RoleMember)
		i.Add("u1", "ann@example.com", false)
		_, err = f.signInBy(i, "u1")
		require.ErrorIs(f, err, people.ErrNotInvited, "an e-mail that the issuer has not verified")
		i.Add("u1", "ann@example.com", true)
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
		i.Add("u1", "changed@example.com", true)
		in, err = f.signInBy(i, "u1")
		require.NoError(f, err)
		require.Equal(f, p.ID, in.Session.Person)
		i.Add("u2", "ann@example.com", true, "gw-admins")
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
	i := issuertest.Start(t, callback)
	f.withIssuer(i)
	operator := func(token string) people.Operator {
		_, p, err := f.Session(ctx, token, home)
		require.NoError(t, err)
		return p.Operator
	}
	i.Add("u1", "ann@example.com", true, "helpdesk", "gw-admins", "lunch")
	in, err := f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Equal(t, people.Admin, operator(in.Token))
	link, _, err := f.FirstLink(ctx)
	require.NoError(t, err)
	require.Empty(t, link)
	// Once groups make no admins any more, nobody is one.
	require.ErrorIs(t, f.SetDisabled(ctx, in.Session.Person, true), people.ErrLastAdmin)
	f.config.OIDC[0].Operators = map[string]string{"helpdesk": "support"}
	link, _, err = f.FirstLink(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, link, "who was an admin by groups keeps the first one from coming in")
	f.withIssuer(i)

	i.Add("u1", "ann@example.com", true, "helpdesk")
	before := in.Token
	in, err = f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Equal(t, people.Support, operator(in.Token))
	require.Empty(t, f.opens(before), "a session outlives what its person was")

	// What groups give holds in sessions that the issuer has begun, and as long as the configuration says so.
	reset, _, err := f.InviteReset(ctx, in.Session.Person, "")
	require.NoError(t, err)
	_, byLink, err := f.Accept(ctx, reset, people.Acceptance{Password: password}, home)
	require.NoError(t, err)
	p, err := f.Person(ctx, byLink.Person)
	require.NoError(t, err)
	require.Empty(t, p.Operator, "what groups gave outlives the reset that took the issuer away")
	_, err = f.signInBy(i, "u1")
	require.ErrorIs(t, err, people.ErrSignInFirst, "an issuer opens what a reset has closed")
	to, asked, err := f.BeginLinkOIDC(ctx, byLink, "company", callback)
	require.NoError(t, err)
	require.NoError(t, f.FinishLinkOIDC(ctx, byLink, asked, "company", i.SignIn(f.T, to, "u1").Query()))
	in, err = f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Equal(t, people.Support, operator(in.Token))
	byPassword, err := f.SignIn(ctx, "ann@example.com", password, home)
	require.NoError(t, err)
	require.Empty(t, operator(byPassword.Token))
	require.ErrorIs(t, f.SelectAccount(ctx, byPassword.Session, account), people.ErrNotFound)
	f.config.OIDC[0].Operators = nil
	require.Empty(t, operator(in.Token))
	f.withIssuer(i)

	i.Add("u1", "ann@example.com", true)
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
	i.Add("u1", "ann@example.com", true, "helpdesk")
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
	i := issuertest.Start(t, callback)
	f.withIssuer(i)
	i.Add("u1", "ann@example.com", true, "helpdesk")
	begin := func() (query url.Values, token string) {
		to, token, err := f.BeginOIDC(ctx, "company", callback, home)
		require.NoError(t, err)
		require.Contains(t, to, "code_challenge_method=S256")
		return i.SignIn(f.T, to, "u1").Query(), token
	}
	victim, _ := begin()
	_, attacker := begin()
	_, err := f.FinishOIDC(ctx, attacker, "company", victim, home)
	require.ErrorIs(t, err, people.ErrExpired, "the answer to somebody else's question")
	query, token := begin()
	_, err = f.FinishOIDC(ctx, token, "company", query, people.Client{Host: "evil.example"})
	require.ErrorIs(t, err, people.ErrExpired)
	_, err = f.FinishOIDC(ctx, token, "company", query, home)
	require.NoError(t, err)
	_, err = f.FinishOIDC(ctx, token, "company", query, home)
	require.ErrorIs(t, err, people.ErrExpired)
	query, token = begin()
	query.Set("code", "another")
	_, err = f.FinishOIDC(ctx, token, "company", query, home)
	require.ErrorIs(t, err, people.ErrIssuer)
	query, token = begin()
	_, err = f.FinishOIDC(ctx, token, "company", url.Values{"state": query["state"], "error": {"access_denied"}}, home)
	require.ErrorIs(t, err, people.ErrIssuer)
	require.ErrorContains(t, err, "access_denied")
	// A code of one sign-in is no good in another: the nonce of its token and PKCE's verifier are not that one's.
	stolen, _ := begin()
	query, token = begin()
	query.Set("code", stolen.Get("code"))
	_, err = f.FinishOIDC(ctx, token, "company", query, home)
	require.ErrorIs(t, err, people.ErrIssuer)
	// An answer is for the issuer that was asked (RFC 9207).
	query, token = begin()
	_, err = f.FinishOIDC(ctx, token, "another", query, home)
	require.ErrorIs(t, err, people.ErrExpired, "what is for one issuer's address comes to another's")
	query, token = begin()
	query.Set("iss", "https://evil.example")
	_, err = f.FinishOIDC(ctx, token, "company", query, home)
	require.ErrorIs(t, err, people.ErrIssuer)
	query, token = begin()
	query.Set("iss", i.Server.URL)
	_, err = f.FinishOIDC(ctx, token, "company", query, home)
	require.NoError(t, err)
	_, _, err = f.BeginOIDC(ctx, "nobody", callback, home)
	require.ErrorIs(t, err, people.ErrNotFound)
}

func TestAnEmailIsVerifiedByTheAnswerThatSaysIt(t *testing.T) {
	t.Parallel()
	type answer = map[string]json.RawMessage
	ann, eve := json.RawMessage(`"ann@example.com"`), json.RawMessage(`"eve@example.com"`)
	yes, no := json.RawMessage(`true`), json.RawMessage(`false`)
	for name, c := range map[string]struct{ said, more, want answer }{
		"only the token's":  {answer{"email": ann, "email_verified": no}, answer{"email": eve, "email_verified": yes}, nil},
		"none in the token": {answer{"sub": ann}, answer{"email": ann}, answer{"sub": ann, "email": ann}},
		"of another answer": {answer{"email": ann}, answer{"email_verified": yes}, answer{"email_verified": yes}},
		"both of the second": {answer{"email": ann, "name": eve}, answer{"email": eve, "email_verified": yes},
			answer{"email": eve, "email_verified": yes, "name": eve}},
		"verified before": {answer{"email_verified": yes}, answer{"email": eve}, answer{"email": eve}},
	} {
		if c.want == nil {
			c.want = maps.Clone(c.said)
		}
		people.AddClaims(c.said, c.more)
		require.Equal(t, c.want, c.said, name)
	}
}

func TestLinkingAnIssuer(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	i := issuertest.Start(t, callback)
	f.withIssuer(i)
	token, v := f.join("ann@example.com", people.RoleOwner)
	i.Add("u1", "ann@example.com", true)
	_, err := f.signInBy(i, "u1")
	require.ErrorIs(t, err, people.ErrSignInFirst)
	to, asked, err := f.BeginLinkOIDC(ctx, v, "company", callback)
	require.NoError(t, err)
	query := i.SignIn(f.T, to, "u1").Query()
	_, err = f.FinishOIDC(ctx, asked, "company", query, home)
	require.ErrorIs(t, err, people.ErrExpired, "a question of a session is answered without it")
	require.NoError(t, f.SignOut(ctx, token))
	in, err := f.SignIn(ctx, "ann@example.com", password, home)
	require.NoError(t, err)
	to, asked, err = f.BeginLinkOIDC(ctx, in.Session, "company", callback)
	require.NoError(t, err)
	require.NoError(t, f.FinishLinkOIDC(ctx, in.Session, asked, "company", i.SignIn(f.T, to, "u1").Query()))
	by, err := f.signInBy(i, "u1")
	require.NoError(t, err)
	require.Equal(t, v.Person, by.Session.Person)
	late := in.Session
	late.Verified = late.Verified.Add(-time.Hour)
	require.ErrorIs(t, f.Unlink(ctx, late, "company"), people.ErrConfirm)
	require.ErrorIs(t, f.Unlink(ctx, v, "company"), people.ErrNoSession, "a session that has ended unlinks")
	require.NoError(t, f.Unlink(ctx, in.Session, "company"))
	_, err = f.signInBy(i, "u1")
	require.ErrorIs(t, err, people.ErrSignInFirst)
}

func TestAnIssuerThatIsAway(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	i := issuertest.Start(t, callback)
	f.withIssuer(i)
	f.config.OIDC[0].CA = ""
	_, _, err := f.BeginOIDC(f.Context(), "company", callback, home)
	require.ErrorIs(t, err, people.ErrIssuer, "a certificate that nobody trusts")
	f.withIssuer(i)
	i.Server.Close()
	_, _, err = f.BeginOIDC(f.Context(), "company", callback, home)
	require.ErrorIs(t, err, people.ErrIssuer)
}
