package people

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// challengeFor is how long somebody has for a code or a passkey, issuerFor for what an issuer asks of them.
const (
	challengeFor = 5 * time.Minute
	issuerFor    = 15 * time.Minute
	// maxTries is how many codes one challenge takes.
	maxTries = 5
)

// challengeKind is what a challenge is good for.
type challengeKind string

const (
	codeChallenge    challengeKind = "code"
	passkeyChallenge challengeKind = "passkey"
	addChallenge     challengeKind = "add"     // a passkey
	confirmChallenge challengeKind = "confirm" // by a passkey
	issuerChallenge  challengeKind = "oidc"
)

// challenge is what the gateway has to remember between two requests of one browser, which has the token.
type challenge struct {
	kind            challengeKind
	person, session string // "": nobody has signed in yet
	data            any    // to JSON
}

// challenge keeps one, and is its token.
func (s *Service) challenge(ctx context.Context, v challenge, c Client, lasts time.Duration) (token string,
	err error) {
	data, err := json.Marshal(v.data)
	if err != nil {
		return "", fmt.Errorf("keeping a challenge: %w", err)
	}
	r, err := s.store.read(ctx)
	if err != nil {
		return "", err
	}
	token, hash := newToken()
	_, err = r.exec(`INSERT INTO portal_challenges (hash, kind, person, session, host, data, tries, expires)
		VALUES ($1, $2, $3, $4, $5, $6, 0, $7)`, hash, string(v.kind), v.person, v.session, strings.ToLower(c.Host),
		string(data), nanos(s.now().Add(lasts)))
	return token, err
}

// take uses a challenge up, whatever comes of it: it opens nothing a second time. ErrExpired: there is none of this
// kind any more, of this host and session.
func (s *Service) take(r *reader, kind challengeKind, token, session, host string, data any) (person string,
	err error) {
	var text string
	found, err := r.find(`DELETE FROM portal_challenges WHERE hash = $1 AND kind = $2 AND session = $3 AND host = $4
		AND expires > $5 RETURNING person, data`, []any{hashToken(token), string(kind), session, strings.ToLower(host),
		nanos(s.now())}, &person, &text)
	if err != nil {
		return "", err
	}
	if !found {
		return "", fmt.Errorf("%w: begin again", ErrExpired)
	}
	if err := json.Unmarshal([]byte(text), data); err != nil {
		return "", fmt.Errorf("reading a challenge: %w", err)
	}
	return person, nil
}
