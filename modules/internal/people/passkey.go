package people

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
)

const (
	// maxPasskeys is how many a person has, and maxResponse the most that a browser says in a ceremony, in bytes.
	maxPasskeys = 20
	maxResponse = 64 << 10
)

// passkeyOwner is a person as go-webauthn sees one.
type passkeyOwner struct {
	Person
	credentials []webauthn.Credential
}

func (o *passkeyOwner) WebAuthnID() []byte                         { return []byte(o.ID) }
func (o *passkeyOwner) WebAuthnName() string                       { return o.Email }
func (o *passkeyOwner) WebAuthnDisplayName() string                { return o.Email }
func (o *passkeyOwner) WebAuthnCredentials() []webauthn.Credential { return o.credentials }

// relyingParty is the gateway as the browser of a client knows it: passkeys are of its host, at this origin.
func relyingParty(c Client) (*webauthn.WebAuthn, error) {
	host, scheme := strings.ToLower(c.Host), "http"
	if c.Secure {
		scheme = "https"
	}
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	rp, err := webauthn.New(&webauthn.Config{RPID: name, RPDisplayName: "Fareway",
		RPOrigins: []string{scheme + "://" + host}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{ResidentKey: protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired}})
	if err != nil {
		return nil, fmt.Errorf("%w: passkeys need a name for a host: %w", ErrInvalid, err)
	}
	return rp, nil
}

// Passkeys lists a person's, the oldest first.
func (s *Service) Passkeys(ctx context.Context, person string) ([]Passkey, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	return list(r, func(row scanner) (v Passkey, err error) {
		var created, used int64
		var data string
		if err := row.Scan(&v.ID, &v.Name, &created, &used, &data); err != nil {
			return v, err
		}
		var credential webauthn.Credential
		err = json.Unmarshal([]byte(data), &credential)
		v.Created, v.Used, v.Synced = moment(created), moment(used), credential.Flags.BackupState
		return v, err
	}, `SELECT id, name, created, used, data FROM portal_passkeys WHERE person = $1 ORDER BY created, id LIMIT 100`,
		person)
}

// owner is a person with all of their passkeys.
func (r *reader) owner(person string) (*passkeyOwner, error) {
	p, err := r.personOf(person)
	if err != nil {
		return nil, err
	}
	o := &passkeyOwner{Person: p.Person}
	o.credentials, err = list(r, func(row scanner) (v webauthn.Credential, err error) {
		var data string
		if err := row.Scan(&data); err != nil {
			return v, err
		}
		return v, json.Unmarshal([]byte(data), &v)
	}, `SELECT data FROM portal_passkeys WHERE person = $1 ORDER BY created, id LIMIT 100`, person)
	return o, err
}

// BeginAddPasskey begins to give a person another passkey: options are for navigator.credentials.create. ErrConfirm:
// who asks has to prove once more who it is.
func (s *Service) BeginAddPasskey(ctx context.Context, v Session) (token string, options json.RawMessage, err error) {
	if err := s.CheckVerified(v); err != nil {
		return "", nil, err
	}
	rp, err := relyingParty(v.Client)
	if err != nil {
		return "", nil, err
	}
	r, err := s.store.read(ctx)
	if err != nil {
		return "", nil, err
	}
	o, err := r.owner(v.Person)
	if err != nil {
		return "", nil, err
	}
	if len(o.credentials) >= maxPasskeys {
		return "", nil, fmt.Errorf("%w: there are %d passkeys already: remove one first", ErrInvalid, len(o.credentials))
	}
	asked, data, err := rp.BeginRegistration(o,
		webauthn.WithExclusions(webauthn.Credentials(o.credentials).CredentialDescriptors()))
	if err != nil {
		return "", nil, fmt.Errorf("asking for a passkey: %w", err)
	}
	if options, err = json.Marshal(asked); err != nil {
		return "", nil, fmt.Errorf("asking for a passkey: %w", err)
	}
	token, err = s.challenge(ctx, challenge{kind: addChallenge, person: v.Person, session: v.ID, data: data}, v.Client,
		challengeFor)
	return token, options, err
}

// FinishAddPasskey takes the passkey that a browser has made.
func (s *Service) FinishAddPasskey(ctx context.Context, v Session, token, name string, response []byte) error {
	if err := s.CheckVerified(v); err != nil {
		return err
	}
	rp, err := relyingParty(v.Client)
	if err != nil {
		return err
	}
	r, err := s.store.read(ctx)
	if err != nil {
		return err
	}
	var data webauthn.SessionData
	if _, err := s.take(r, addChallenge, token, v.ID, v.Host, &data); err != nil {
		return err
	}
	if len(response) > maxResponse {
		return ErrWrong
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(response)
	if err != nil {
		return s.refused("adding a passkey", err)
	}
	return s.store.transact(ctx, func(t *tx) error {
		if err := t.checkSession(v); err != nil {
			return err
		}
		o, err := t.owner(v.Person)
		if err != nil {
			return err
		}
		if len(o.credentials) >= maxPasskeys {
			return fmt.Errorf("%w: there are %d passkeys already: remove one first", ErrInvalid, len(o.credentials))
		}
		credential, err := rp.CreateCredential(o, data, parsed)
		if err != nil {
			return s.refused("adding a passkey", err)
		}
		text, err := json.Marshal(credential)
		if err != nil {
			return fmt.Errorf("keeping a passkey: %w", err)
		}
		id := base64.RawURLEncoding.EncodeToString(credential.ID)
		n, err := t.exec(`INSERT INTO portal_passkeys (id, person, name, created, used, data) VALUES ($1, $2, $3, $4, 0, $5)
			ON CONFLICT DO NOTHING`, id, v.Person, cut(strings.TrimSpace(name), maxName), nanos(s.now()), string(text))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%w: this passkey is there already", ErrExists)
		}
		t.note("portal.add_passkey", "", v.Person, map[string]any{"email": o.Email, "passkey": id})
		return t.endSessions(v.Person, v.ID)
	})
}

// refused logs why a response was none. Whoever sent it hears nothing of it.
func (s *Service) refused(what string, err error) error {
	var e *protocol.Error
	if errors.As(err, &e) {
		err = fmt.Errorf("%w: %s", err, cut(e.DevInfo, maxAgent))
	}
	s.o.Log.Debug(what+" was refused", "error", err)
	return ErrWrong
}

// RemovePasskey takes a passkey from a person. It ends no session: what a lost one has opened, Revoke ends.
func (s *Service) RemovePasskey(ctx context.Context, person, id string) error {
	return s.store.transact(ctx, func(t *tx) error {
		p, err := t.personOf(person)
		if err != nil {
			return err
		}
		n, err := t.exec(`DELETE FROM portal_passkeys WHERE person = $1 AND id = $2`, person, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%w: there is no such passkey", ErrNotFound)
		}
		t.note("portal.remove_passkey", "", person, map[string]any{"email": p.Email, "passkey": id})
		return nil
	})
}

// BeginPasskey begins a sign-in by a passkey, whoever it may be: options are for navigator.credentials.get.
func (s *Service) BeginPasskey(ctx context.Context, c Client) (token string, options json.RawMessage, err error) {
	if err := s.admitChallenge(ctx, c); err != nil {
		return "", nil, err
	}
	s.purge(ctx)
	return s.beginPasskey(ctx, challenge{kind: passkeyChallenge}, c)
}

// BeginConfirmPasskey begins to confirm a session by a passkey of its person.
func (s *Service) BeginConfirmPasskey(ctx context.Context, v Session) (token string, options json.RawMessage,
	err error) {
	return s.beginPasskey(ctx, challenge{kind: confirmChallenge, person: v.Person, session: v.ID}, v.Client)
}

func (s *Service) beginPasskey(ctx context.Context, v challenge, c Client) (token string, options json.RawMessage,
	err error) {
	rp, err := relyingParty(c)
	if err != nil {
		return "", nil, err
	}
	asked, data, err := rp.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return "", nil, fmt.Errorf("asking for a passkey: %w", err)
	}
	if options, err = json.Marshal(asked); err != nil {
		return "", nil, fmt.Errorf("asking for a passkey: %w", err)
	}
	v.data = data
	token, err = s.challenge(ctx, v, c, challengeFor)
	return token, options, err
}

// FinishPasskey lets somebody in by what their passkey has signed.
func (s *Service) FinishPasskey(ctx context.Context, token string, response []byte, c Client) (in SignedIn,
	err error) {
	s.purge(ctx)
	err = s.usePasskey(ctx, passkeyChallenge, token, Session{Client: c}, response, func(t *tx, p *personRow) error {
		in.Token, in.Session, err = t.startSession(p, c, "passkey", s.now())
		return err
	})
	if err != nil {
		return SignedIn{}, err
	}
	return in, nil
}

// FinishConfirmPasskey proves once more who a session is, by a passkey of its person.
func (s *Service) FinishConfirmPasskey(ctx context.Context, v Session, token string, response []byte) error {
	return s.usePasskey(ctx, confirmChallenge, token, v, response, func(t *tx, p *personRow) error {
		if p.ID != v.Person {
			return ErrWrong
		}
		return t.changeSession(v, `verified = $2`, nanos(s.now()))
	})
}

// usePasskey has then done for whose passkey has signed a challenge. One whose counter does not go up was copied, and
// opens nothing.
func (s *Service) usePasskey(ctx context.Context, kind challengeKind, token string, v Session, response []byte,
	then func(*tx, *personRow) error) error {
	rp, err := relyingParty(v.Client)
	if err != nil {
		return err
	}
	r, err := s.store.read(ctx)
	if err != nil {
		return err
	}
	attempt := throttle{s: s, address: networkOf(v.Client)}
	if err := attempt.check(r); err != nil {
		return err
	}
	var data webauthn.SessionData
	if _, err := s.take(r, kind, token, v.ID, v.Host, &data); err != nil {
		return err
	}
	if len(response) > maxResponse {
		return attempt.fail(r)
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(response)
	if err != nil {
		_ = s.refused("a passkey", err)
		return attempt.fail(r)
	}
	err = s.store.transact(ctx, func(t *tx) error {
		var o *passkeyOwner
		_, credential, err := rp.ValidatePasskeyLogin(func(_, handle []byte) (webauthn.User, error) {
			found, err := t.owner(string(bytes.ToValidUTF8(handle, nil)))
			if err != nil {
				return nil, err
			}
			o = found
			return found, nil
		}, data, parsed)
		switch {
		case errors.Is(err, ErrUnavailable):
			return err
		case err != nil:
			return s.refused("a passkey", err)
		case credential.Authenticator.CloneWarning:
			s.o.Log.Warn("a passkey was refused: its counter has not gone up, so there may be a copy of it; remove it, and "+
				"have its owner add another one", "person", o.ID)
			return ErrWrong
		}
		p, err := t.personOf(o.ID)
		if err != nil || p.Disabled {
			return ErrWrong
		}
		text, err := json.Marshal(credential)
		if err != nil {
			return fmt.Errorf("keeping a passkey: %w", err)
		}
		if _, err := t.exec(`UPDATE portal_passkeys SET used = $1, data = $2 WHERE id = $3`, nanos(s.now()), string(text),
			base64.RawURLEncoding.EncodeToString(credential.ID)); err != nil {
			return err
		}
		return then(t, &p)
	})
	if errors.Is(err, ErrWrong) {
		return attempt.fail(r)
	}
	return err
}
