package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

const (
	// invitedFor, firstFor and resetFor are how long links open something.
	invitedFor = 7 * 24 * time.Hour
	firstFor   = 24 * time.Hour
	resetFor   = 24 * time.Hour
	// maxInvitedFor is the longest that somebody can ask for.
	maxInvitedFor = 30 * 24 * time.Hour
	// keepExpired is how long an invitation that is over is still listed.
	keepExpired = 7 * 24 * time.Hour
	// maxInvitations is how many an account has at a time.
	maxInvitations = 500
)

const invitationColumns = `i.id, i.email, i.account, i.role, i.operator, i.reset, i.person, i.made_by, i.maker,
	i.created, i.expires`

// bareInvitationColumns are for RETURNING.
var bareInvitationColumns = strings.ReplaceAll(invitationColumns, "i.", "")

func readInvitation(row scanner) (v Invitation, err error) {
	var reset, created, expires int64
	err = row.Scan(&v.ID, &v.Email, &v.Account, &v.Role, &v.Operator, &reset, &v.Person, &v.By, &v.Maker, &created,
		&expires)
	v.Reset, v.KeepsFactors, v.first = reset != noReset, reset == resetKeeping, v.Email == ""
	v.Created, v.Expires = moment(created), moment(expires)
	return v, err
}

// What the column reset has.
const (
	noReset int64 = iota
	resetAll
	resetKeeping
)

func (v *Invitation) resets() int64 {
	switch {
	case v.KeepsFactors:
		return resetKeeping
	case v.Reset:
		return resetAll
	}
	return noReset
}

func (t *tx) insertInvitation(v *Invitation, hash string) error {
	_, err := t.exec(`INSERT INTO portal_invitations (id, hash, email, account, role, operator, reset, person, made_by,
		maker, created, expires) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`, v.ID, hash, v.Email, v.Account,
		string(v.Role), string(v.Operator), v.resets(), v.Person, v.By, v.Maker, nanos(v.Created),
		nanos(v.Expires))
	return err
}

// Invite makes a link by which somebody becomes a member of an account, an operator, or both. Who has it may use it,
// once, until it expires (7 days, unless v says another time within 30). Where there is a person of this e-mail, they
// have to sign in first. It ends with the right of its Maker.
func (s *Service) Invite(ctx context.Context, v Invitation) (token string, _ Invitation, err error) {
	if v.Email, err = CleanEmail(v.Email); err != nil {
		return "", v, err
	}
	if err := checkGift(&v); err != nil {
		return "", v, err
	}
	now := s.now()
	v = Invitation{ID: newID("invitation"), Email: v.Email, Account: v.Account, Role: v.Role, Operator: v.Operator,
		By: cmp.Or(v.By, ledger.ActorOf(ctx)), Maker: v.Maker, Created: now, Expires: v.Expires}
	switch {
	case v.Expires.IsZero():
		v.Expires = now.Add(invitedFor)
	case !v.Expires.After(now), v.Expires.After(now.Add(maxInvitedFor)):
		return "", v, fmt.Errorf("%w: an invitation lasts until a time within the next 30 days", ErrInvalid)
	}
	v.Expires = v.Expires.UTC()
	s.purge(ctx)
	token, hash := newToken()
	err = s.store.transact(ctx, func(t *tx) error {
		if err := t.checkMaker(v.Maker); err != nil {
			return err
		}
		var n int64
		if _, err := t.find(`SELECT count(*) FROM portal_invitations WHERE account = $1 AND reset = 0`,
			[]any{v.Account}, &n); err != nil {
			return err
		}
		if n >= maxInvitations {
			return fmt.Errorf("%w: there are %d invitations already: withdraw some first", ErrInvalid, n)
		}
		t.note("portal.invite", v.Account, v.ID, v.gift())
		return t.insertInvitation(&v, hash)
	})
	if err != nil {
		return "", v, err
	}
	return token, v, nil
}

// gift is what the audit trail is told that an invitation is to.
func (v *Invitation) gift() map[string]any {
	to := map[string]any{"email": v.Email}
	if v.Role != "" {
		to["role"] = v.Role
	}
	if v.Operator != "" {
		to["operator"] = v.Operator
	}
	return to
}

// checkGift is an ErrInvalid where an invitation is to nothing, or to what there is not.
func checkGift(v *Invitation) error {
	if err := CheckOperator(v.Operator); err != nil {
		return err
	}
	if v.Account != "" || v.Role != "" {
		if v.Account == "" {
			return fmt.Errorf("%w: a role is one in an account: say which", ErrInvalid)
		}
		return CheckRole(v.Role)
	}
	if v.Operator == "" {
		return fmt.Errorf("%w: an invitation is to an account, to be an operator, or both", ErrInvalid)
	}
	return nil
}

// InviteReset makes a link by which a person sets a new password. It takes what else they prove themselves with away
// (code, recovery codes, passkeys, issuers), once it is used, and ends their sessions. A link before it opens nothing
// any more.
func (s *Service) InviteReset(ctx context.Context, person, by string) (token string, v Invitation, err error) {
	return s.inviteReset(ctx, person, Person{Email: by}, Admin)
}

// InviteResetBelow is InviteReset by a person who may help only those who are most for the gateway, or less. ErrAbove:
// they are more, when the link is made. It ends with the right of who has made it.
func (s *Service) InviteResetBelow(ctx context.Context, person string, by Person, most Operator) (token string,
	v Invitation, err error) {
	return s.inviteReset(ctx, person, by, most)
}

func (s *Service) inviteReset(ctx context.Context, person string, by Person, most Operator) (token string,
	v Invitation, err error) {
	now := s.now()
	s.purge(ctx)
	id := newID("invitation")
	token, hash := newToken()
	err = s.store.transact(ctx, func(t *tx) error {
		p, err := t.personOf(person)
		if err != nil {
			return err
		}
		if p.Disabled {
			return fmt.Errorf("%w: %s is disabled: enable them first", ErrInvalid, p.Email)
		}
		if operatorRank[p.Operator] > operatorRank[most] {
			return fmt.Errorf("%w: %s is %s", ErrAbove, p.Email, p.Operator)
		}
		if err := t.checkMaker(by.ID); err != nil {
			return err
		}
		v = Invitation{ID: id, Email: p.Email, Reset: true, Person: person,
			By: cmp.Or(by.Email, ledger.ActorOf(ctx)), Maker: by.ID, Created: now, Expires: now.Add(resetFor)}
		if err := t.withdrawResets(person); err != nil {
			return err
		}
		t.note("portal.invite_reset", "", person, map[string]any{"email": p.Email})
		return t.insertInvitation(&v, hash)
	})
	if err != nil {
		return "", v, err
	}
	return token, v, nil
}

const (
	// forgottenFor is how long the link is good that somebody has asked for, forgottenEvery the least time between two of
	// one person, and forgottenDaily how many there are at a time. None ends the one before: else who asks in somebody's
	// place would keep them from using any.
	forgottenFor   = 24 * time.Hour
	forgottenEvery = 5 * time.Minute
	forgottenDaily = 5
)

// ForgetPassword makes the link by which a person who has a password sets a new one, for who has asked for that; it has
// to go to the person's e-mail and nowhere else. The token is "" where there is no link to be had: nobody has this
// e-mail, or signs in by a password with it, they run the gateway (others help those), are disabled, or got one just
// now. Who asks isn't told which, and not by how long it takes either. The second factor stays, what
// lets in by itself goes: whoever had the person's place before may have added it.
func (s *Service) ForgetPassword(ctx context.Context, email string) (token string, v Invitation, err error) {
	if email, err = CleanEmail(email); err != nil {
		return "", v, nil //nolint:nilerr // nobody has it
	}
	s.purge(ctx)
	now, id := s.now(), newID("invitation")
	fresh, hash := newToken()
	ctx = ledger.WithActor(ctx, "anybody via portal") // nobody has proven who they are
	err = s.store.transact(ctx, func(t *tx) error {
		token = ""
		p, found, err := t.findPerson(`p.email = $1`, email)
		if err != nil || !found || p.password == "" || p.Disabled || p.Operator != "" {
			return err
		}
		var today, last int64
		if _, err := t.find(`SELECT count(*), coalesce(max(created), 0) FROM portal_invitations WHERE person = $1
			AND reset = $2 AND created > $3`, []any{p.ID, resetKeeping, nanos(now.Add(-forgottenFor))}, &today,
			&last); err != nil || today >= forgottenDaily || last > nanos(now.Add(-forgottenEvery)) {
			return err
		}
		token = fresh
		v = Invitation{ID: id, Email: p.Email, Reset: true, KeepsFactors: true, Person: p.ID, By: ledger.ActorOf(ctx),
			Created: now, Expires: now.Add(forgottenFor)}
		t.note("portal.forget_password", "", p.ID, map[string]any{"email": p.Email})
		return t.insertInvitation(&v, hash)
	})
	if err != nil {
		return "", v, err
	}
	return token, v, nil
}

// AdmitForgotten is a ThrottledError where too many such links were asked for from somewhere: each is counted as a
// sign-in that has failed.
func (s *Service) AdmitForgotten(ctx context.Context, c Client) error {
	from := throttle{s: s, address: networkOf(c)}
	if err := from.checkAddress(ctx); err != nil {
		return err
	}
	return s.acquire(ctx, from.ask())
}

// AdmitLetter is a ThrottledError where somebody has mailed too many links in the last minute.
func (s *Service) AdmitLetter(ctx context.Context, person string) error {
	return s.acquire(ctx, []ratelimit.Ask{{Subject: ratelimit.Subject{Kind: ratelimit.SignIns, Name: "letters " + person},
		Limit: personLetters}})
}

func (t *tx) withdrawResets(person string) error {
	_, err := t.exec(`DELETE FROM portal_invitations WHERE person = $1 AND reset <> 0`, person)
	return err
}

// checkMaker is an ErrNoSession where who makes a link was let out meanwhile: what they have made then is gone.
func (t *tx) checkMaker(maker string) error {
	if maker == "" {
		return nil
	}
	p, err := t.personOf(maker)
	if err == nil && p.Disabled {
		err = ErrNoSession
	}
	return err
}

// withdrawOf has the links open nothing any more that a person has made: to an account, or with "*" all of them.
func (t *tx) withdrawOf(maker, account string) error {
	gone, err := list(&t.reader, readInvitation, `DELETE FROM portal_invitations WHERE maker = $1 AND maker <> ''
		AND (account = $2 OR $2 = '*') RETURNING `+bareInvitationColumns, maker, account)
	if err != nil {
		return err
	}
	slices.SortFunc(gone, func(a, b Invitation) int { return cmp.Compare(a.ID, b.ID) })
	for i := range gone {
		t.note("portal.withdraw_invitation", gone[i].Account, gone[i].ID, map[string]any{"email": gone[i].Email,
			"maker": maker})
	}
	return nil
}

// FirstLink makes the link by which the first operator comes in, where there is no admin who can; the token is ""
// where there is one. A link before it opens nothing any more.
func (s *Service) FirstLink(ctx context.Context) (token string, v Invitation, err error) {
	now, id := s.now(), newID("invitation")
	fresh, hash := newToken()
	err = s.store.transact(ctx, func(t *tx) error {
		token = ""
		has, err := t.hasAdmin("")
		if err != nil || has {
			return err
		}
		if _, err := t.exec(`DELETE FROM portal_invitations WHERE email = ''`); err != nil {
			return err
		}
		token = fresh
		v = Invitation{ID: id, Operator: Admin, By: ledger.ActorOf(ctx), Created: now,
			Expires: now.Add(firstFor)}
		t.note("portal.first_link", "", v.ID, nil)
		return t.insertInvitation(&v, hash)
	})
	if err != nil {
		return "", v, err
	}
	return token, v, nil
}

// Invitations lists those of an account by id, those after one; with account "" all that are to no account, and with
// "*" all.
func (s *Service) Invitations(ctx context.Context, account, after string, limit int) ([]Invitation, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	return list(r, readInvitation, `SELECT `+invitationColumns+` FROM portal_invitations i
		WHERE (i.account = $1 OR $1 = '*') AND i.id > $2 ORDER BY i.id LIMIT $3`, account, after, cleanLimit(limit))
}

// WithdrawInvitation has a link open nothing any more. account is whose it is, "*" for anybody's.
func (s *Service) WithdrawInvitation(ctx context.Context, account, id string) error {
	return s.store.transact(ctx, func(t *tx) error {
		all, err := list(&t.reader, readInvitation, `DELETE FROM portal_invitations AS i WHERE i.id = $1
			AND (i.account = $2 OR $2 = '*') RETURNING `+bareInvitationColumns, id, account)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fmt.Errorf("%w: there is no invitation %s: it is used, withdrawn, or long over", ErrNotFound,
				cut(id, maxName))
		}
		t.note("portal.withdraw_invitation", all[0].Account, id, map[string]any{"email": all[0].Email})
		return nil
	})
}

// ReadInvitation is that of a token, or an ErrExpired.
func (s *Service) ReadInvitation(ctx context.Context, token string) (Invitation, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return Invitation{}, err
	}
	return r.invitationOf(token, s.now())
}

func (r *reader) invitationOf(token string, now time.Time) (Invitation, error) {
	all, err := list(r, readInvitation, `SELECT `+invitationColumns+` FROM portal_invitations i WHERE i.hash = $1
		AND i.expires > $2`, hashToken(token), nanos(now))
	if err != nil {
		return Invitation{}, err
	}
	if len(all) == 0 {
		return Invitation{}, fmt.Errorf("%w: ask whoever invited you for another link", ErrExpired)
	}
	return all[0], nil
}

// take uses an invitation up: of two who have its link one gets it.
func (t *tx) take(v *Invitation, now time.Time) error {
	n, err := t.exec(`DELETE FROM portal_invitations WHERE id = $1 AND expires > $2`, v.ID, nanos(now))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: ask whoever invited you for another link", ErrExpired)
	}
	return err
}

// Accept makes a person of who has the link of an invitation, or sets the password of one anew, and lets them in.
// ErrSignInFirst: there is a person of this e-mail, who accepts by AcceptAs. For whoever invites may write any e-mail,
// and has the link, too. The token is "" where somebody has set a new password and has to sign in with that, for they
// have a second factor.
func (s *Service) Accept(ctx context.Context, token string, a Acceptance, c Client) (string, Session, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return "", Session{}, err
	}
	v, err := r.invitationOf(token, s.now())
	if err != nil {
		return "", Session{}, err
	}
	if v.first {
		if v.Email, err = CleanEmail(a.Email); err != nil {
			return "", Session{}, err
		}
	}
	if _, found, err := r.findPerson(`p.email = $1`, v.Email); err != nil || found && !v.Reset {
		return "", Session{}, cmp.Or(err, ErrSignInFirst)
	}
	if err := CheckPassword(v.Email, a.Password); err != nil {
		return "", Session{}, err
	}
	hash, err := s.hashing.hash(ctx, a.Password)
	if err != nil {
		return "", Session{}, err
	}
	ctx = ledger.WithActor(ctx, v.Email+" via portal")
	var in SignedIn
	id := newID("person")
	err = s.store.transact(ctx, func(t *tx) error {
		now := s.now()
		if err := t.take(&v, now); err != nil {
			return err
		}
		if v.Reset {
			return t.reset(&v, hash, c, now, &in)
		}
		p := personRow{Person: Person{ID: id, Email: v.Email, Name: cut(strings.TrimSpace(a.Name), maxName),
			Created: now}, password: hash}
		if err := t.welcome(&p, now, v); err != nil {
			return err
		}
		in.Token, in.Session, err = t.startSession(&p, c, "invitation", now)
		return err
	})
	if err != nil {
		return "", Session{}, err
	}
	return in.Token, in.Session, nil
}

// welcome makes a person of somebody new, with what invitations give.
func (t *tx) welcome(p *personRow, now time.Time, all ...Invitation) error {
	made, err := t.insertPerson(p)
	if err != nil {
		return err
	}
	if !made {
		return ErrSignInFirst
	}
	for i := range all {
		if err := t.give(p, &all[i], now); err != nil {
			return err
		}
	}
	return nil
}

// ranks say which role, and which operator, is more than another.
var (
	roleRank     = map[Role]int{RoleViewer: 1, RoleMember: 2, RoleOwner: 3}
	operatorRank = map[Operator]int{ReadOnly: 1, Support: 2, Admin: 3}
)

// give gives a person what an invitation is to. It takes nothing away from who is more already.
func (t *tx) give(p *personRow, v *Invitation, now time.Time) error {
	if v.first {
		if has, err := t.hasAdmin(""); err != nil || has {
			return cmp.Or(err, fmt.Errorf("%w: there is an admin by now, who can invite you", ErrExpired))
		}
	}
	if v.Account != "" {
		is, err := t.membershipOf(v.Account, p.ID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if roleRank[v.Role] > roleRank[is.Role] {
			if err := t.setRole(v.Account, p.ID, v.Role, now); err != nil {
				return err
			}
		}
	}
	if operatorRank[v.Operator] > operatorRank[p.Operator] {
		if _, err := t.exec(`UPDATE portal_people SET operator = $1, operator_from = '' WHERE id = $2`, string(v.Operator),
			p.ID); err != nil {
			return err
		}
		p.Operator, p.operatorFrom = v.Operator, ""
		// Who could help a member has a link into an operator otherwise.
		if err := t.withdrawResets(p.ID); err != nil {
			return err
		}
	}
	given := v.gift()
	given["email"], given["invitation"] = p.Email, v.ID
	t.note("portal.accept", v.Account, p.ID, given)
	return nil
}

// AcceptAs accepts an invitation as the person of a session, whose e-mail has to be that of the invitation. What they
// may do is more then, so they get a new session, and all others end.
func (s *Service) AcceptAs(ctx context.Context, as Session, token string, c Client) (string, Session, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return "", Session{}, err
	}
	v, err := r.invitationOf(token, s.now())
	if err != nil {
		return "", Session{}, err
	}
	if v.Reset {
		return "", Session{}, fmt.Errorf("%w: sign out, and open the link again", ErrInvalid)
	}
	var in SignedIn
	err = s.store.transact(ctx, func(t *tx) error {
		if err := t.checkSession(as); err != nil {
			return err
		}
		p, err := t.personOf(as.Person)
		if err != nil {
			return err
		}
		if !v.first && p.Email != v.Email {
			return fmt.Errorf("%w: the invitation is for another e-mail", ErrNotInvited)
		}
		now := s.now()
		if err := t.take(&v, now); err != nil {
			return err
		}
		if err := t.give(&p, &v, now); err != nil {
			return err
		}
		in.Token, in.Session, err = t.renewSession(&p, as, c, now)
		return err
	})
	return in.Token, in.Session, err
}

// reset takes away what a person has proven themselves with, and lets them in with a new password.
func (t *tx) reset(v *Invitation, password string, c Client, now time.Time, in *SignedIn) error {
	p, err := t.personOf(v.Person)
	if err != nil {
		return err
	}
	if p.Disabled {
		return fmt.Errorf("%w: ask whoever gave you the link", ErrExpired)
	}
	if v.KeepsFactors {
		return t.resetPassword(&p, v, password, c, now, in)
	}
	for _, statement := range []string{
		`UPDATE portal_people SET totp = '', totp_next = '' WHERE id = $1`,
		`DELETE FROM portal_recovery WHERE person = $1`,
		`DELETE FROM portal_passkeys WHERE person = $1`,
		`DELETE FROM portal_identities WHERE person = $1`,
	} {
		if _, err := t.exec(statement, p.ID); err != nil {
			return err
		}
	}
	// What groups have given went with the issuer's word: who links it again gets it again.
	if p.operatorFrom != "" {
		if err := t.setOperator(&p, "", ""); err != nil {
			return err
		}
	}
	if err := t.setPassword(&p, password, ""); err != nil {
		return err
	}
	t.note("portal.reset", "", p.ID, map[string]any{"email": p.Email, "invitation": v.ID})
	in.Token, in.Session, err = t.startSession(&p, c, "invitation", now)
	return err
}

// resetPassword is reset where the second factor stays: who is asked for it has to sign in. Passkeys and issuers let in
// by themselves, and the mailbox is all that whoever has the link has proven: they go.
func (t *tx) resetPassword(p *personRow, v *Invitation, password string, c Client, now time.Time, in *SignedIn) error {
	if p.Operator != "" { // by now
		return fmt.Errorf("%w: ask who runs this gateway for a link", ErrExpired)
	}
	for _, table := range [...]string{"portal_passkeys", "portal_identities"} {
		if _, err := t.exec(`DELETE FROM `+table+` WHERE person = $1`, p.ID); err != nil {
			return err
		}
	}
	if err := t.setPassword(p, password, ""); err != nil {
		return err
	}
	t.note("portal.reset_password", "", p.ID, map[string]any{"email": p.Email, "invitation": v.ID})
	if p.HasTOTP {
		return nil
	}
	var err error
	in.Token, in.Session, err = t.startSession(p, c, "invitation", now)
	return err
}
