package people

import (
	"context"
	"errors"
	"strings"
)

// SignIn lets somebody in with a password, or asks for a code (EnterCode). ErrWrong says nothing of what is wrong, and
// takes the same work whatever that is.
func (s *Service) SignIn(ctx context.Context, email, password string, c Client) (SignedIn, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return SignedIn{}, err
	}
	email = cut(strings.ToLower(strings.TrimSpace(email)), maxEmail)
	t, err := s.throttleOf(r, email, c)
	if err != nil {
		return SignedIn{}, err
	}
	p, right, err := s.checkPassword(r, &t, `p.email = $1`, email, password)
	if err != nil {
		return SignedIn{}, err
	}
	if !right || p.Disabled {
		return SignedIn{}, t.fail(r)
	}
	if p.HasTOTP {
		challenge, err := s.challenge(ctx, challenge{kind: codeChallenge, person: p.ID}, c, challengeFor)
		return SignedIn{Challenge: challenge}, err
	}
	if err := t.forget(r); err != nil {
		return SignedIn{}, err
	}
	return s.enter(ctx, p.ID, p.password, c, "password")
}

// checkPassword reports whether a password is that of a person, who need not be there. It computes once in any case,
// if it is not too early, and the person is read when it is its turn.
func (s *Service) checkPassword(r *reader, t *throttle, where, value, password string) (p personRow, right bool,
	err error) {
	if err := t.check(r); err != nil { // so that nobody waits for their turn in vain
		return p, false, err
	}
	end, err := s.hashing.begin(r.ctx)
	if err != nil {
		return p, false, err
	}
	defer end()
	if err := t.check(r); err != nil {
		return p, false, err
	}
	if p, _, err = r.findPerson(where, value); err != nil {
		return p, false, err
	}
	return p, s.hashing.matches(p.password, password), nil
}

// enter starts the session of a person whose password is still the one that was seen.
func (s *Service) enter(ctx context.Context, person, password string, c Client, method string) (in SignedIn,
	err error) {
	s.purge(ctx)
	err = s.store.transact(ctx, func(t *tx) error {
		p, err := t.personOf(person)
		if err != nil {
			return err
		}
		if p.Disabled || p.password != password {
			return ErrWrong
		}
		in.Token, in.Session, err = t.startSession(&p, c, method, s.now())
		return err
	})
	if errors.Is(err, ErrNotFound) {
		err = ErrWrong
	}
	if err != nil {
		return SignedIn{}, err
	}
	return in, nil
}

// prove checks what somebody says within a session: the password, if they have one, and a code, if they need one.
// ErrConfirm: there is nothing but to sign in anew.
func (s *Service) prove(r *reader, v Session, password, code string, c Client) (personRow, error) {
	t := s.throttleOfSession(v, c)
	p, right, err := s.checkPassword(r, &t, `p.id = $1`, v.Person, password)
	switch {
	case err != nil:
		return p, err
	case p.password == "":
		return p, ErrConfirm
	case !right:
		return p, t.fail(r)
	}
	if p.HasTOTP {
		right, err := s.useCode(r.ctx, p.ID, code)
		if err != nil {
			return p, err
		}
		if !right {
			return p, t.fail(r)
		}
	}
	return p, t.forget(r)
}

// Confirm proves once more who a session is, with what its person signs in with. ErrConfirm: they have no password,
// and confirm by a passkey, or sign in anew.
func (s *Service) Confirm(ctx context.Context, v Session, password, code string) error {
	r, err := s.store.read(ctx)
	if err != nil {
		return err
	}
	if _, err := s.prove(r, v, password, code, v.Client); err != nil {
		return err
	}
	return s.verified(ctx, v)
}

// verified notes that a session has just proven who it is.
func (s *Service) verified(ctx context.Context, v Session) error {
	return s.store.transact(ctx, func(t *tx) error {
		return t.changeSession(v, `verified = $2`, nanos(s.now()))
	})
}

// ChangePassword changes a person's password, and ends their other sessions. Who has none sets one without an old one,
// if they have proven who they are (ErrConfirm).
func (s *Service) ChangePassword(ctx context.Context, v Session, old, password string) error {
	r, err := s.store.read(ctx)
	if err != nil {
		return err
	}
	p, err := r.personOf(v.Person)
	if err != nil {
		return err
	}
	if p.password == "" {
		if err := s.CheckVerified(v); err != nil {
			return err
		}
	} else {
		t := s.throttleOfSession(v, v.Client)
		var right bool
		if p, right, err = s.checkPassword(r, &t, `p.id = $1`, v.Person, old); err != nil {
			return err
		}
		if !right {
			return t.fail(r)
		}
		if err := t.forget(r); err != nil {
			return err
		}
	}
	if err := CheckPassword(p.Email, password); err != nil {
		return err
	}
	hash, err := s.hashing.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.store.transact(ctx, func(t *tx) error {
		is, err := t.personOf(v.Person)
		if err != nil {
			return err
		}
		if err := t.checkSession(v); err != nil {
			return err
		}
		if is.password != p.password {
			return ErrWrong // somebody was faster
		}
		t.note("portal.change_password", "", p.ID, map[string]any{"email": p.Email})
		return t.setPassword(&p, hash, v.ID)
	})
}
