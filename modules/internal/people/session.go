package people

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// How long sessions last: unused, and at most.
const (
	memberIdle, memberMost     = 12 * time.Hour, 7 * 24 * time.Hour
	operatorIdle, operatorMost = 30 * time.Minute, 12 * time.Hour
	// seenEvery is how often it is written that a session is used.
	seenEvery = time.Minute
	// verifiedFor is how long who it is counts as proven, for what asks for that: see Confirm.
	verifiedFor = 10 * time.Minute
	// maxSessions is how many a person has: the oldest goes.
	maxSessions = 50
)

const sessionColumns = `s.id, s.person, s.created, s.seen, s.ends, s.idle, s.verified, s.address, s.agent, s.host,
	s.secure, s.method, s.account`

// columns are where to read one to, and what to do then.
func (v *Session) columns() (to []any, done func()) {
	var created, seen, ends, idle, verified, secure int64
	return []any{&v.ID, &v.Person, &created, &seen, &ends, &idle, &verified, &v.Address, &v.Agent, &v.Host, &secure,
			&v.Method, &v.Account}, func() {
			v.Created, v.Seen, v.Verified, v.Secure = moment(created), moment(seen), moment(verified), secure != 0
			v.Expires = moment(min(ends, seen+idle))
		}
}

func readSession(row scanner) (v Session, err error) {
	to, done := v.columns()
	err = row.Scan(to...)
	done()
	return v, err
}

// startSession lets a person in: always with a new token, so that one that somebody has planted is none.
func (t *tx) startSession(p *personRow, c Client, method string, now time.Time) (token string, v Session, err error) {
	idle, most := memberIdle, memberMost
	if p.Operator != "" {
		idle, most = operatorIdle, operatorMost
	}
	token, hash := newToken()
	c.Host, c.Agent, c.Address = strings.ToLower(c.Host), cut(c.Agent, maxAgent), cut(c.Address, maxName)
	v = Session{ID: newID("session"), Person: p.ID, Created: now, Seen: now, Expires: now.Add(idle), Verified: now,
		Client: c, Method: method}
	if _, err := t.exec(`DELETE FROM portal_sessions WHERE hash IN (SELECT hash FROM portal_sessions WHERE person = $1
		ORDER BY created DESC LIMIT 1000 OFFSET $2)`, p.ID, maxSessions-1); err != nil {
		return "", v, err
	}
	if _, err := t.exec(`INSERT INTO portal_sessions (hash, id, person, created, seen, ends, idle, verified, address,
		agent, host, secure, method, account) VALUES ($1, $2, $3, $4, $4, $5, $6, $4, $7, $8, $9, $10, $11, '')`, hash, v.ID,
		p.ID, nanos(now), nanos(now.Add(most)), int64(idle), c.Address, c.Agent, c.Host, flag(c.Secure),
		method); err != nil {
		return "", v, err
	}
	_, err = t.exec(`UPDATE portal_people SET signed_in = $1 WHERE id = $2`, nanos(now), p.ID)
	return token, v, err
}

// renewSession puts a new session in the place of one, whose rights have changed, and ends all others.
func (t *tx) renewSession(p *personRow, was Session, c Client, now time.Time) (string, Session, error) {
	if err := t.endSessions(p.ID, ""); err != nil {
		return "", Session{}, err
	}
	token, v, err := t.startSession(p, c, was.Method, now)
	if err != nil {
		return "", v, err
	}
	v.Verified = was.Verified
	return token, v, t.changeSession(v, `verified = $2`, nanos(was.Verified))
}

// endSessions ends those of a person, but for one.
func (t *tx) endSessions(person, but string) error {
	if _, err := t.exec(`DELETE FROM portal_sessions WHERE person = $1 AND id <> $2`, person, but); err != nil {
		return err
	}
	// What somebody has begun with an old password is over with it.
	_, err := t.exec(`DELETE FROM portal_challenges WHERE person = $1 AND session <> $2`, person, but)
	return err
}

// Session is that of a token, with whose it is. It is read anew each time: what was revoked elsewhere is over here.
// ErrNoSession: there is none, it is over, or it is of another host.
func (s *Service) Session(ctx context.Context, token string, c Client) (Session, Person, error) {
	var (
		v Session
		p personRow
	)
	r, err := s.store.read(ctx)
	if err != nil {
		return v, Person{}, err
	}
	to, done := v.columns()
	personTo, personDone := p.columns()
	hash, now := hashToken(token), s.now()
	found, err := r.find(`SELECT `+sessionColumns+`, `+personColumns+` FROM portal_sessions s
		JOIN portal_people p ON p.id = s.person WHERE s.hash = $1`, []any{hash}, append(to, personTo...)...)
	done()
	personDone()
	switch {
	case err != nil:
		return Session{}, Person{}, err
	case !found || p.Disabled || !now.Before(v.Expires) || v.Host != strings.ToLower(c.Host):
		return Session{}, Person{}, ErrNoSession
	}
	p.Operator = s.operatorIn(&v, &p)
	if now.Sub(v.Seen) >= seenEvery {
		// That it cannot be written is no reason to send somebody away.
		if _, err := r.exec(`UPDATE portal_sessions SET seen = $1 WHERE hash = $2 AND seen < $1`, nanos(now),
			hash); err == nil {
			v.Expires, v.Seen = v.Expires.Add(now.Sub(v.Seen)), now
		}
	}
	return v, p.Person, nil
}

// SelectAccount keeps which account a session looks at. An operator looks at each, others at their own.
func (s *Service) SelectAccount(ctx context.Context, v Session, account string) error {
	return s.store.transact(ctx, func(t *tx) error {
		p, err := t.personOf(v.Person)
		if err != nil {
			return err
		}
		if s.operatorIn(&v, &p) == "" && account != "" {
			if _, err := t.membershipOf(account, v.Person); err != nil {
				return err
			}
		}
		return t.changeSession(v, `account = $2`, account)
	})
}

// changeSession sets something of a session that is still there.
func (t *tx) changeSession(v Session, what string, value any) error {
	n, err := t.exec(`UPDATE portal_sessions SET `+what+` WHERE id = $1`, v.ID, value)
	if err == nil && n == 0 {
		err = ErrNoSession
	}
	return err
}

// checkSession is an ErrNoSession where it has ended meanwhile.
func (t *tx) checkSession(v Session) error {
	var id string
	found, err := t.find(`SELECT id FROM portal_sessions WHERE id = $1 AND person = $2`, []any{v.ID, v.Person}, &id)
	if err == nil && !found {
		err = ErrNoSession
	}
	return err
}

// CheckVerified is an ErrConfirm where it is too long ago that a session has proven who it is.
func (s *Service) CheckVerified(v Session) error {
	if s.now().Sub(v.Verified) > verifiedFor {
		return fmt.Errorf("%w: who asks has to prove once more who it is", ErrConfirm)
	}
	return nil
}

// Sessions lists those of a person that are not over, the newest first.
func (s *Service) Sessions(ctx context.Context, person string) ([]Session, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	now := nanos(s.now())
	return list(r, readSession, `SELECT `+sessionColumns+` FROM portal_sessions s WHERE s.person = $1 AND s.ends > $2
		AND s.seen + s.idle > $2 ORDER BY s.created DESC, s.id LIMIT 1000`, person, now)
}

// Revoke ends a session of a person, or with "" all of them.
func (s *Service) Revoke(ctx context.Context, person, session string) error {
	return s.store.transact(ctx, func(t *tx) error {
		p, err := t.personOf(person)
		if err != nil {
			return err
		}
		if session == "" {
			t.note("portal.revoke_sessions", "", person, map[string]any{"email": p.Email})
			return t.endSessions(person, "")
		}
		n, err := t.exec(`DELETE FROM portal_sessions WHERE person = $1 AND id = $2`, person, session)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%w: %s has no session %s", ErrNotFound, p.Email, cut(session, maxName))
		}
		t.note("portal.revoke_session", "", person, map[string]any{"email": p.Email, "session": session})
		return nil
	})
}

// RevokeOthers ends all sessions of a person but this one.
func (s *Service) RevokeOthers(ctx context.Context, v Session) error {
	return s.store.transact(ctx, func(t *tx) error {
		if err := t.checkSession(v); err != nil {
			return err
		}
		return t.endSessions(v.Person, v.ID)
	})
}

// SignOut ends the session of a token, if it is one.
func (s *Service) SignOut(ctx context.Context, token string) error {
	r, err := s.store.read(ctx)
	if err != nil {
		return err
	}
	_, err = r.exec(`DELETE FROM portal_sessions WHERE hash = $1`, hashToken(token))
	return err
}

// purge removes what is over. It is called where something of the kind is made.
func (s *Service) purge(ctx context.Context) {
	r, err := s.store.read(ctx)
	if err != nil {
		return
	}
	now := s.now()
	for statement, before := range map[string]time.Time{
		`DELETE FROM portal_sessions WHERE ends < $1`:       now,
		`DELETE FROM portal_challenges WHERE expires < $1`:  now,
		`DELETE FROM portal_invitations WHERE expires < $1`: now.Add(-keepExpired),
		`DELETE FROM portal_failures WHERE last < $1`:       now.Add(-failuresFor),
	} {
		if _, err := r.exec(statement, nanos(before)); err != nil {
			s.o.Log.Debug("removing what is over from the store of people", "error", err)
		}
	}
}
