package people

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// issuerTimeout is how long an issuer may take to answer.
const issuerTimeout = 10 * time.Second

// issuers are those that were asked for what they are.
type issuers struct {
	mu    sync.Mutex
	known map[string]*issuer // by the Digest of their blocks
}

// issuer is one of them.
type issuer struct {
	provider *oidc.Provider
	client   *http.Client
}

// Issuers are the names of the oidc blocks, in file order.
func (s *Service) Issuers() (names []string) {
	for _, o := range s.o.Config().OIDC {
		names = append(names, o.Name)
	}
	return names
}

func (s *Service) issuerBlock(name string) (config.OIDC, error) {
	blocks := s.o.Config().OIDC
	i := slices.IndexFunc(blocks, func(o config.OIDC) bool { return o.Name == name })
	if i < 0 {
		return config.OIDC{}, fmt.Errorf("%w: there is no oidc block %q", ErrNotFound, cut(name, maxName))
	}
	return blocks[i], nil
}

// issuerOf asks an issuer for what it is, once.
func (s *Service) issuerOf(ctx context.Context, at config.OIDC) (*issuer, error) {
	digest := at.Digest()
	s.issuers.mu.Lock()
	known := s.issuers.known[digest]
	s.issuers.mu.Unlock()
	if known != nil {
		return known, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if at.CA != "" {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(at.CA)) // config has looked at it
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	found := &issuer{client: &http.Client{Transport: transport, Timeout: issuerTimeout}}
	// Its keys are asked for later, too, so this context is no request's.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), found.client), at.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w %q does not say what it is: %w", ErrIssuer, at.Name, err)
	}
	found.provider = provider
	s.issuers.mu.Lock()
	defer s.issuers.mu.Unlock()
	if s.issuers.known == nil || len(s.issuers.known) > 100 { // of blocks that were changed
		s.issuers.known = make(map[string]*issuer)
	}
	s.issuers.known[digest] = found
	return found, nil
}

// asked is what was asked of an issuer.
type asked struct {
	Name     string
	State    string
	Nonce    string
	Verifier string
	Redirect string
}

// BeginOIDC begins a sign-in by an issuer: the browser goes to url, and comes back to redirect. Only who has the
// challenge then can go on.
func (s *Service) BeginOIDC(ctx context.Context, name, redirect string, c Client) (to, token string, err error) {
	if err := s.admitChallenge(ctx, c); err != nil {
		return "", "", err
	}
	s.purge(ctx)
	return s.beginOIDC(ctx, name, redirect, challenge{kind: issuerChallenge}, c)
}

// BeginLinkOIDC begins to have a person sign in by an issuer from now on, too. FinishLinkOIDC ends it. ErrConfirm: who
// asks has to prove once more who it is.
func (s *Service) BeginLinkOIDC(ctx context.Context, v Session, name, redirect string) (to, token string, err error) {
	if err := s.CheckVerified(v); err != nil {
		return "", "", err
	}
	return s.beginOIDC(ctx, name, redirect, challenge{kind: issuerChallenge, person: v.Person, session: v.ID}, v.Client)
}

func (s *Service) beginOIDC(ctx context.Context, name, redirect string, v challenge, c Client) (to, token string,
	err error) {
	at, err := s.issuerBlock(name)
	if err != nil {
		return "", "", err
	}
	found, err := s.issuerOf(ctx, at)
	if err != nil {
		return "", "", err
	}
	state, _ := newToken()
	nonce, _ := newToken()
	a := asked{Name: name, State: state, Nonce: nonce, Verifier: oauth2.GenerateVerifier(), Redirect: redirect}
	v.data = a
	if token, err = s.challenge(ctx, v, c, issuerFor); err != nil {
		return "", "", err
	}
	to = oauth2Of(&at, found, redirect).AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(a.Verifier))
	return to, token, nil
}

// oauth2Of is what a code is asked and paid for with.
func oauth2Of(at *config.OIDC, i *issuer, redirect string) *oauth2.Config {
	scopes := slices.Clone(at.Scopes)
	if !slices.Contains(scopes, oidc.ScopeOpenID) {
		scopes = append([]string{oidc.ScopeOpenID}, scopes...)
	}
	return &oauth2.Config{ClientID: at.ClientID, ClientSecret: at.ClientSecret, Endpoint: i.provider.Endpoint(),
		RedirectURL: redirect, Scopes: scopes}
}

// claims are what an issuer says of somebody.
type claims map[string]json.RawMessage

// text is a claim that is one text; "" for another one.
func (c claims) text(name string) (text string) {
	_ = json.Unmarshal(c[name], &text)
	return text
}

// isTrue reports whether a claim is true, also where it is written as a text, as some issuers do.
func (c claims) isTrue(name string) bool {
	text := string(c[name])
	return text == `true` || text == `"true"`
}

// vouchesForEmail reports whether one answer says an e-mail, and whether it is verified.
func (c claims) vouchesForEmail() bool {
	_, email := c["email"]
	_, verified := c["email_verified"]
	return email && verified
}

// add takes what another answer says besides. That one has verified an e-mail says nothing of that in another, so both
// are taken from one of them.
func (c claims) add(more claims) {
	if !c.vouchesForEmail() {
		delete(c, "email")
		delete(c, "email_verified")
	}
	for name, value := range more {
		if _, is := c[name]; !is {
			c[name] = value
		}
	}
}

// texts is a claim that is a list of texts, or one.
func (c claims) texts(name string) (all []string) {
	if json.Unmarshal(c[name], &all) == nil {
		return all
	}
	if text := c.text(name); text != "" {
		return []string{text}
	}
	return nil
}

// FinishOIDC lets in for whom an issuer vouches: query is what the browser has come back with, to the address that is
// for the oidc block of this name. A person is known by
// the issuer's name for them, never by their e-mail. Somebody new comes in by an invitation that there is for their
// e-mail, if the issuer has verified that, or by a group that makes operators. ErrNotInvited: by none of these.
// ErrSignInFirst: there is a person of this e-mail already, who signs in as before and links the issuer then.
func (s *Service) FinishOIDC(ctx context.Context, token, name string, query url.Values, c Client) (in SignedIn,
	err error) {
	at, who, said, _, err := s.askIssuer(ctx, token, name, query, Session{Client: c})
	if err != nil {
		return SignedIn{}, err
	}
	email := ""
	if said.isTrue("email_verified") {
		if email, err = CleanEmail(said.text("email")); err != nil {
			email = "" // it is no use as one
		}
	}
	role := operatorOf(&at, said)
	s.purge(ctx)
	ctx = ledger.WithActor(ctx, cut(cmp.Or(email, who), maxEmail)+" via "+at.Name)
	id := newID("person")
	err = s.store.transact(ctx, func(t *tx) error {
		p, found, err := t.linked(at.Issuer, who)
		if err != nil {
			return err
		}
		now := s.now()
		if !found {
			if p, err = t.welcomeLinked(&at, who, role, now, Person{ID: id, Email: email,
				Name: cut(said.text("name"), maxName), Created: now}); err != nil {
				return err
			}
		}
		if p.Disabled {
			return ErrWrong
		}
		if err := t.setByGroups(&p, &at, role); err != nil {
			return err
		}
		in.Token, in.Session, err = t.startSession(&p, c, "oidc:"+at.Name, now)
		return err
	})
	if err != nil {
		return SignedIn{}, err
	}
	return in, nil
}

// linked is the person whom an issuer knows by a name.
func (r *reader) linked(issuer, subject string) (p personRow, found bool, err error) {
	var id string
	found, err = r.find(`SELECT person FROM portal_identities WHERE issuer = $1 AND subject = $2`, []any{issuer, subject},
		&id)
	if err != nil || !found {
		return p, false, err
	}
	p, err = r.personOf(id)
	return p, err == nil, err
}

// welcomeLinked makes a person of somebody for whom an issuer vouches.
func (t *tx) welcomeLinked(at *config.OIDC, subject string, role Operator, now time.Time, who Person) (p personRow,
	err error) {
	email := who.Email
	if email == "" {
		return p, fmt.Errorf("%w: %q has not verified an e-mail of theirs", ErrNotInvited, at.Name)
	}
	if _, found, err := t.findPerson(`p.email = $1`, email); err != nil || found {
		return p, cmp.Or(err, fmt.Errorf("%w, and link %q in the profile then", ErrSignInFirst, at.Name))
	}
	invited, err := list(&t.reader, readInvitation, `SELECT `+invitationColumns+` FROM portal_invitations i
		WHERE i.email = $1 AND i.reset = 0 AND i.expires > $2 ORDER BY i.id LIMIT 100`, email, nanos(now))
	if err != nil {
		return p, err
	}
	if len(invited) == 0 && role == "" {
		return p, fmt.Errorf("%w: nobody has invited %s", ErrNotInvited, email)
	}
	for i := range invited {
		if err := t.take(&invited[i], now); err != nil {
			return p, err
		}
	}
	p = personRow{Person: who}
	if err := t.welcome(&p, now, invited...); err != nil {
		return p, err
	}
	return p, t.link(at, subject, &p, now)
}

// link has an issuer's name for somebody be that of a person from now on.
func (t *tx) link(at *config.OIDC, subject string, p *personRow, now time.Time) error {
	n, err := t.exec(`INSERT INTO portal_identities (issuer, subject, person, created) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, at.Issuer, subject, p.ID, nanos(now))
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("%w: %q has this somebody linked to a person already", ErrExists, at.Name)
	}
	t.note("portal.link_oidc", "", p.ID, map[string]any{"email": p.Email, "oidc": at.Name})
	return nil
}

// operatorOf is what the groups of somebody make them: the most of it.
func operatorOf(at *config.OIDC, said claims) (most Operator) {
	for _, group := range said.texts(at.GroupsClaim) {
		if o := Operator(at.Operators[group]); operatorRank[o] > operatorRank[most] {
			most = o
		}
	}
	return most
}

// setByGroups makes a person the operator that their groups say, or none any more. What somebody has made them stays,
// until somebody takes it away.
func (t *tx) setByGroups(p *personRow, at *config.OIDC, role Operator) error {
	if p.Operator != "" && p.operatorFrom == "" || role == "" && p.operatorFrom != at.Name {
		return nil
	}
	from := at.Name
	if role == "" {
		from = ""
	}
	if p.Operator == role && p.operatorFrom == from {
		return nil
	}
	return t.setOperator(p, role, from)
}

// operatorIn is what a person is in a session. What groups have given counts where the issuer has just been asked, and
// only as long as the configuration says that they give it: who has left the group keeps nothing of it by a password.
func (s *Service) operatorIn(v *Session, p *personRow) Operator {
	if p.operatorFrom == "" {
		return p.Operator
	}
	if v.Method != "oidc:"+p.operatorFrom || !s.gives(p.operatorFrom, p.Operator) {
		return ""
	}
	return p.Operator
}

// gives reports whether the oidc block of a name has groups that make such an operator. "" is somebody, who has.
func (s *Service) gives(name string, o Operator) bool {
	if name == "" {
		return true
	}
	at, err := s.issuerBlock(name)
	return err == nil && slices.Contains(slices.Collect(maps.Values(at.Operators)), string(o))
}

// FinishLinkOIDC has the person of a session sign in by an issuer from now on, too, and ends the other sessions.
func (s *Service) FinishLinkOIDC(ctx context.Context, v Session, token, name string, query url.Values) error {
	if err := s.CheckVerified(v); err != nil {
		return err
	}
	at, who, _, person, err := s.askIssuer(ctx, token, name, query, v)
	if err != nil {
		return err
	}
	return s.store.transact(ctx, func(t *tx) error {
		if err := t.checkSession(v); err != nil {
			return err
		}
		p, err := t.personOf(person)
		if err != nil {
			return err
		}
		if err := t.link(&at, who, &p, s.now()); err != nil {
			return err
		}
		return t.endSessions(p.ID, v.ID)
	})
}

// Linked lists the names of the oidc blocks by which a person can sign in.
func (s *Service) Linked(ctx context.Context, person string) (names []string, err error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	linked, err := list(r, func(row scanner) (issuer string, err error) {
		err = row.Scan(&issuer)
		return issuer, err
	}, `SELECT DISTINCT issuer FROM portal_identities WHERE person = $1`, person)
	for _, o := range s.o.Config().OIDC {
		if slices.Contains(linked, o.Issuer) {
			names = append(names, o.Name)
		}
	}
	return names, err
}

// Unlink has the person of a session not sign in by an issuer any more. ErrConfirm: who asks has to prove once more
// who it is. ErrInvalid: they would have no way in.
func (s *Service) Unlink(ctx context.Context, v Session, name string) error {
	if err := s.CheckVerified(v); err != nil {
		return err
	}
	at, err := s.issuerBlock(name)
	if err != nil {
		return err
	}
	return s.store.transact(ctx, func(t *tx) error {
		if err := t.checkSession(v); err != nil {
			return err
		}
		p, err := t.personOf(v.Person)
		if err != nil {
			return err
		}
		var others int64
		if _, err := t.find(`SELECT COUNT(*) FROM portal_identities WHERE person = $1 AND issuer <> $2`,
			[]any{p.ID, at.Issuer}, &others); err != nil {
			return err
		}
		if !p.HasPassword && p.Passkeys == 0 && others == 0 {
			return fmt.Errorf("%w: there is no other way in: set a password first", ErrInvalid)
		}
		n, err := t.exec(`DELETE FROM portal_identities WHERE person = $1 AND issuer = $2`, p.ID, at.Issuer)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%w: %q is not linked", ErrNotFound, at.Name)
		}
		t.note("portal.unlink_oidc", "", p.ID, map[string]any{"email": p.Email, "oidc": at.Name})
		return nil
	})
}

// askIssuer checks what a browser has come back with, and is what the issuer says then, and its name for who it is
// about.
func (s *Service) askIssuer(ctx context.Context, token, name string, query url.Values, v Session) (at config.OIDC,
	subject string, said claims, person string, err error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return at, "", nil, "", err
	}
	var a asked
	if person, err = s.take(r, issuerChallenge, token, v.ID, v.Host, &a); err != nil {
		return at, "", nil, "", err
	}
	// What one issuer answers is not for another one, whose code and secret it would get (RFC 9700, 4.4).
	if a.Name != name || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(a.State)) != 1 {
		return at, "", nil, "", fmt.Errorf("%w: begin again", ErrExpired)
	}
	if at, err = s.issuerBlock(a.Name); err != nil {
		return at, "", nil, "", err
	}
	if says := query.Get("iss"); says != "" && says != at.Issuer { // RFC 9207
		return at, "", nil, "", fmt.Errorf("%w %q: the answer is of %q", ErrIssuer, at.Name, cut(says, maxName))
	}
	if code := query.Get("error"); code != "" {
		return at, "", nil, "", fmt.Errorf("%w %q says %q (%s)", ErrIssuer, at.Name, cut(code, maxName),
			cut(query.Get("error_description"), maxName))
	}
	found, err := s.issuerOf(ctx, at)
	if err != nil {
		return at, "", nil, "", err
	}
	subject, said, err = s.redeem(oidc.ClientContext(ctx, found.client), &at, found, &a, query.Get("code"))
	if err != nil {
		err = fmt.Errorf("%w %q: %w", ErrIssuer, at.Name, err)
	}
	return at, subject, said, person, err
}

// redeem gives a code for what it stands for.
func (s *Service) redeem(ctx context.Context, at *config.OIDC, i *issuer, a *asked, code string) (subject string,
	said claims, err error) {
	if code == "" {
		return "", nil, errors.New("it has sent the browser back without a code")
	}
	tokens, err := oauth2Of(at, i, a.Redirect).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return "", nil, fmt.Errorf("giving it the code: %w", err)
	}
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return "", nil, errors.New("it has given no id_token: is this a client for OpenID Connect?")
	}
	verified, err := i.provider.Verifier(&oidc.Config{ClientID: at.ClientID, Now: s.o.Now}).Verify(ctx, raw)
	if err != nil {
		return "", nil, fmt.Errorf("reading its id_token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(a.Nonce)) != 1 {
		return "", nil, errors.New("its id_token is for another sign-in")
	}
	if err := verified.Claims(&said); err != nil {
		return "", nil, fmt.Errorf("reading its id_token: %w", err)
	}
	_, groups := said[at.GroupsClaim]
	if i.provider.UserInfoEndpoint() == "" || said.vouchesForEmail() && (groups || len(at.Operators) == 0) {
		return verified.Subject, said, nil
	}
	info, err := i.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return "", nil, fmt.Errorf("asking it for more: %w", err)
	}
	var more claims
	if err := info.Claims(&more); err != nil {
		return "", nil, fmt.Errorf("reading what more it says: %w", err)
	}
	if info.Subject != verified.Subject {
		return "", nil, errors.New("what more it says is of somebody else")
	}
	said.add(more)
	return verified.Subject, said, nil
}
