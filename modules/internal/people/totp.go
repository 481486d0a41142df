package people

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"
)

const (
	// codePeriod and codeDigits are what all apps take (RFC 6238), and codeSkew how many steps a clock may be off.
	codePeriod = 30 * time.Second
	codeDigits = otp.DigitsSix
	codeSkew   = 1
	// recoveryCodes is how many there are, of 80 bits each.
	recoveryCodes = 10
	recoveryBytes = 10
)

// EnterCode lets somebody in who has given the right password before, with a code of their app or a recovery code.
// Each works once.
func (s *Service) EnterCode(ctx context.Context, token, code string, c Client) (SignedIn, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return SignedIn{}, err
	}
	var person string
	found, err := r.find(`UPDATE portal_challenges SET tries = tries + 1 WHERE hash = $1 AND kind = $2 AND host = $3
		AND expires > $4 AND tries < $5 RETURNING person`, []any{hashToken(token), string(codeChallenge),
		strings.ToLower(c.Host), nanos(s.now()), maxTries}, &person)
	if err != nil {
		return SignedIn{}, err
	}
	if !found {
		return SignedIn{}, fmt.Errorf("%w: begin again", ErrExpired)
	}
	p, err := r.personOf(person)
	if err != nil {
		return SignedIn{}, ErrWrong
	}
	t, err := s.throttleOf(r, p.Email, c)
	if err != nil {
		return SignedIn{}, err
	}
	if err := t.check(r); err != nil {
		return SignedIn{}, err
	}
	right, err := s.useCode(ctx, person, code)
	if err != nil {
		return SignedIn{}, err
	}
	if !right {
		return SignedIn{}, t.fail(r)
	}
	// What has ended the person's challenges meanwhile has ended this one.
	n, err := r.exec(`DELETE FROM portal_challenges WHERE hash = $1`, hashToken(token))
	if err != nil {
		return SignedIn{}, err
	}
	if n == 0 {
		return SignedIn{}, fmt.Errorf("%w: begin again", ErrExpired)
	}
	if err := t.forget(r); err != nil {
		return SignedIn{}, err
	}
	return s.enter(ctx, person, p.password, c, "password+code")
}

// stepOf is the step whose code this is, of those around now; 0 where it is none's.
func stepOf(secret, code string, now time.Time) (step int64) {
	middle := now.Unix() / int64(codePeriod/time.Second)
	for n := middle - codeSkew; n <= middle+codeSkew; n++ {
		is, err := hotp.GenerateCodeCustom(secret, uint64(n), hotp.ValidateOpts{Digits: codeDigits,
			Algorithm: otp.AlgorithmSHA1})
		if err == nil && subtle.ConstantTimeCompare([]byte(is), []byte(code)) == 1 {
			step = n
		}
	}
	return step
}

// useCode uses a code up: of two who have it one gets in. A step before the last one that was used is used, too.
func (s *Service) useCode(ctx context.Context, person, code string) (right bool, err error) {
	code = strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(cut(code, maxName)))
	err = s.store.transact(ctx, func(t *tx) error {
		right = false
		p, err := t.personOf(person)
		if err != nil {
			return err
		}
		if p.totp == "" {
			return nil // it was taken away meanwhile: begin again
		}
		if step := stepOf(p.totp, code, s.now()); step > p.totpStep {
			n, err := t.exec(`UPDATE portal_people SET totp_step = $1 WHERE id = $2 AND totp_step < $1`, step, person)
			right = n == 1
			return err
		}
		n, err := t.exec(`DELETE FROM portal_recovery WHERE person = $1 AND hash = $2`, person, hashToken(code))
		if right = n == 1; right {
			t.note("portal.use_recovery_code", "", person, map[string]any{"email": p.Email})
		}
		return err
	})
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return right && err == nil, err
}

// BeginTOTP makes a secret for an app, which counts once a code of it was given (ConfirmTOTP). uri is that for a QR
// code. ErrConfirm: who asks has to prove once more who it is.
func (s *Service) BeginTOTP(ctx context.Context, v Session) (secret, uri string, err error) {
	if err := s.CheckVerified(v); err != nil {
		return "", "", err
	}
	r, err := s.store.read(ctx)
	if err != nil {
		return "", "", err
	}
	p, err := r.personOf(v.Person)
	if err != nil {
		return "", "", err
	}
	if p.HasTOTP {
		return "", "", fmt.Errorf("%w: remove the app that makes codes now first", ErrExists)
	}
	key, err := totp.Generate(totp.GenerateOpts{Issuer: "Fareway " + v.Host, AccountName: p.Email, SecretSize: 20,
		Digits: codeDigits, Algorithm: otp.AlgorithmSHA1, Period: uint(codePeriod / time.Second)})
	if err != nil {
		return "", "", fmt.Errorf("making a secret for codes: %w", err)
	}
	_, err = r.exec(`UPDATE portal_people SET totp_next = $1 WHERE id = $2`, key.Secret(), v.Person)
	return key.Secret(), key.URL(), err
}

// ConfirmTOTP has codes asked for from now on, ends the other sessions, and is the recovery codes, this once.
func (s *Service) ConfirmTOTP(ctx context.Context, v Session, code string) (recovery []string, err error) {
	if err := s.CheckVerified(v); err != nil {
		return nil, err
	}
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	limit := s.throttleOfSession(v, v.Client)
	if err := limit.check(r); err != nil {
		return nil, err
	}
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "")
	err = s.store.transact(ctx, func(t *tx) error {
		if err := t.checkSession(v); err != nil {
			return err
		}
		p, err := t.personOf(v.Person)
		if err != nil {
			return err
		}
		if p.totpNext == "" {
			return fmt.Errorf("%w: begin again", ErrExpired)
		}
		step := stepOf(p.totpNext, code, s.now())
		if step == 0 {
			return ErrWrong
		}
		if _, err := t.exec(`UPDATE portal_people SET totp = totp_next, totp_next = '', totp_step = $1 WHERE id = $2`, step,
			p.ID); err != nil {
			return err
		}
		if recovery, err = t.makeRecovery(p.ID); err != nil {
			return err
		}
		t.note("portal.add_totp", "", p.ID, map[string]any{"email": p.Email})
		return t.endSessions(p.ID, v.ID)
	})
	if errors.Is(err, ErrWrong) {
		err = limit.fail(r)
	}
	if err != nil {
		return nil, err
	}
	return recovery, nil
}

// makeRecovery makes new recovery codes in the place of those that there are.
func (t *tx) makeRecovery(person string) (codes []string, err error) {
	if _, err := t.exec(`DELETE FROM portal_recovery WHERE person = $1`, person); err != nil {
		return nil, err
	}
	for range recoveryCodes {
		var b [recoveryBytes]byte
		_, _ = rand.Read(b[:]) // never fails
		code := strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
		if _, err := t.exec(`INSERT INTO portal_recovery (person, hash) VALUES ($1, $2)`, person,
			hashToken(code)); err != nil {
			return nil, err
		}
		codes = append(codes, code[:4]+"-"+code[4:8]+"-"+code[8:12]+"-"+code[12:])
	}
	return codes, nil
}

// RemoveTOTP has no codes asked for any more, and ends the other sessions.
func (s *Service) RemoveTOTP(ctx context.Context, v Session) error {
	if err := s.CheckVerified(v); err != nil {
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
		if !p.HasTOTP {
			return fmt.Errorf("%w: no app makes codes", ErrNotFound)
		}
		if _, err := t.exec(`UPDATE portal_people SET totp = '', totp_next = '' WHERE id = $1`, p.ID); err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM portal_recovery WHERE person = $1`, p.ID); err != nil {
			return err
		}
		t.note("portal.remove_totp", "", p.ID, map[string]any{"email": p.Email})
		return t.endSessions(p.ID, v.ID)
	})
}
