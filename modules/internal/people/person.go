package people

import (
	"context"
	"fmt"
	"net/mail"
	"strings"
	"time"

	"golang.org/x/text/language"
)

// personRow is a person as the store has one.
type personRow struct {
	Person
	operatorFrom   string // the oidc block whose groups made them one; "": somebody did
	password       string // argon2id; "": none
	totp, totpNext string // secrets in base32; "": none
	totpStep       int64  // the last that was used
}

// personColumns are what readPerson reads, of portal_people p.
const personColumns = `p.id, p.email, p.name, p.operator, p.operator_from, p.disabled, p.created, p.signed_in,
	p.language, p.zone, p.password, p.totp, p.totp_next, p.totp_step,
	(SELECT count(*) FROM portal_passkeys k WHERE k.person = p.id)`

// columns are where to read one to, and what to do then.
func (p *personRow) columns() (to []any, done func()) {
	var disabled, created, signedIn int64
	return []any{&p.ID, &p.Email, &p.Name, &p.Operator, &p.operatorFrom, &disabled, &created, &signedIn, &p.Language,
			&p.Zone, &p.password, &p.totp, &p.totpNext, &p.totpStep, &p.Passkeys}, func() {
			p.Disabled, p.Created, p.SignedIn = disabled != 0, moment(created), moment(signedIn)
			p.HasPassword, p.HasTOTP = p.password != "", p.totp != ""
		}
}

// findPerson reads the person of a condition with one value.
func (r *reader) findPerson(where string, value any) (p personRow, found bool, err error) {
	to, done := p.columns()
	found, err = r.find(`SELECT `+personColumns+` FROM portal_people p WHERE `+where, []any{value}, to...)
	done()
	return p, found, err
}

// personOf is one by id, or an ErrNotFound.
func (r *reader) personOf(id string) (personRow, error) {
	p, found, err := r.findPerson(`p.id = $1`, id)
	if err == nil && !found {
		err = fmt.Errorf("%w: there is no person %s", ErrNotFound, id)
	}
	return p, err
}

func (r *reader) insertPerson(p *personRow) (made bool, err error) {
	n, err := r.exec(`INSERT INTO portal_people (id, email, name, operator, operator_from, disabled, created, signed_in,
		language, zone, password, totp, totp_next, totp_step)
		VALUES ($1, $2, $3, $4, $5, 0, $6, 0, '', '', $7, '', '', 0) ON CONFLICT DO NOTHING`,
		p.ID, p.Email, p.Name, string(p.Operator), p.operatorFrom, nanos(p.Created), p.password)
	return n == 1, err
}

// CleanEmail is an e-mail as it is kept, or an ErrInvalid.
func CleanEmail(email string) (string, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	a, err := mail.ParseAddress(email)
	if err != nil || a.Address != email || len(email) > maxEmail || strings.ContainsAny(email, " \t\"<>,;\\()") {
		return "", fmt.Errorf("%w: %q is no e-mail address, such as ann@example.com", ErrInvalid, cut(email, maxEmail))
	}
	return email, nil
}

// cleanLimit is how many rows of a list there are at most.
func cleanLimit(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, 1000)
}

// Person reads one by id.
func (s *Service) Person(ctx context.Context, id string) (Person, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return Person{}, err
	}
	p, err := r.personOf(id)
	return p.Person, err
}

// FindPerson reads one by e-mail.
func (s *Service) FindPerson(ctx context.Context, email string) (Person, error) {
	email, err := CleanEmail(email)
	if err != nil {
		return Person{}, err
	}
	r, err := s.store.read(ctx)
	if err != nil {
		return Person{}, err
	}
	p, found, err := r.findPerson(`p.email = $1`, email)
	if err == nil && !found {
		err = fmt.Errorf("%w: there is no person %s", ErrNotFound, email)
	}
	return p.Person, err
}

// People lists them by e-mail, those after one.
func (s *Service) People(ctx context.Context, after string, limit int) ([]Person, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	return list(r, func(row scanner) (Person, error) {
		var p personRow
		to, done := p.columns()
		err := row.Scan(to...)
		done()
		return p.Person, err
	}, `SELECT `+personColumns+` FROM portal_people p WHERE p.email > $1 ORDER BY p.email LIMIT $2`,
		strings.ToLower(after), cleanLimit(limit))
}

func readMembership(row scanner) (m Membership, err error) {
	var since int64
	err = row.Scan(&m.Account, &m.Role, &since)
	m.Since = moment(since)
	return m, err
}

// Memberships lists a person's, by account.
func (s *Service) Memberships(ctx context.Context, person string) ([]Membership, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	return list(r, readMembership, `SELECT account, role, since FROM portal_memberships WHERE person = $1
		ORDER BY account LIMIT 1000`, person)
}

// Membership is what a person is in an account, or an ErrNotFound.
func (s *Service) Membership(ctx context.Context, account, person string) (Membership, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return Membership{}, err
	}
	return r.membershipOf(account, person)
}

func (r *reader) membershipOf(account, person string) (m Membership, err error) {
	var since int64
	found, err := r.find(`SELECT account, role, since FROM portal_memberships WHERE account = $1 AND person = $2`,
		[]any{account, person}, &m.Account, &m.Role, &since)
	if err == nil && !found {
		err = fmt.Errorf("%w: the person is no member of the account", ErrNotFound)
	}
	m.Since = moment(since)
	return m, err
}

// Members lists those of an account by e-mail, those after one.
func (s *Service) Members(ctx context.Context, account, after string, limit int) ([]Member, error) {
	r, err := s.store.read(ctx)
	if err != nil {
		return nil, err
	}
	return list(r, func(row scanner) (m Member, err error) {
		var p personRow
		var since int64
		to, done := p.columns()
		err = row.Scan(append(to, &m.Account, &m.Role, &since)...)
		done()
		m.Person, m.Since = p.Person, moment(since)
		return m, err
	}, `SELECT `+personColumns+`, m.account, m.role, m.since FROM portal_memberships m
		JOIN portal_people p ON p.id = m.person WHERE m.account = $1 AND p.email > $2 ORDER BY p.email LIMIT $3`,
		account, strings.ToLower(after), cleanLimit(limit))
}

// hasOtherOwner reports whether an account has an owner besides a person, who can sign in.
func (t *tx) hasOtherOwner(account, person string) (has bool, err error) {
	var n int64
	_, err = t.find(`SELECT count(*) FROM portal_memberships m JOIN portal_people p ON p.id = m.person
		WHERE m.account = $1 AND m.role = 'owner' AND m.person <> $2 AND p.disabled = 0`, []any{account, person}, &n)
	return n > 0, err
}

// hasAdmin reports whether there is an admin besides a person, who can sign in.
func (t *tx) hasAdmin(besides string) (has bool, err error) {
	var n int64
	_, err = t.find(`SELECT count(*) FROM portal_people WHERE operator = 'admin' AND disabled = 0 AND id <> $1`,
		[]any{besides}, &n)
	return n > 0, err
}

// setRole makes a person a member of an account, or another kind of one.
func (t *tx) setRole(account, person string, role Role, now time.Time) error {
	_, err := t.exec(`INSERT INTO portal_memberships (account, person, role, since) VALUES ($1, $2, $3, $4)
		ON CONFLICT (account, person) DO UPDATE SET role = excluded.role`, account, person, string(role), nanos(now))
	return err
}

// SetRole makes a person a member of an account, or another kind of one.
func (s *Service) SetRole(ctx context.Context, account, person string, role Role) error {
	if err := CheckRole(role); err != nil {
		return err
	}
	return s.store.transact(ctx, func(t *tx) error {
		p, err := t.personOf(person)
		if err != nil {
			return err
		}
		was, err := t.membershipOf(account, person)
		if is := err == nil; is && was.Role == role {
			return nil
		}
		if was.Role == RoleOwner {
			if err := t.checkOwners(account, person); err != nil {
				return err
			}
		}
		t.note("portal.set_role", account, person, map[string]any{"email": p.Email, "role": role})
		return t.setRole(account, person, role, s.now())
	})
}

// checkOwners is an ErrLastOwner where an account has no owner but a person.
func (t *tx) checkOwners(account, person string) error {
	has, err := t.hasOtherOwner(account, person)
	if err == nil && !has {
		err = fmt.Errorf("%w: make somebody else an owner first", ErrLastOwner)
	}
	return err
}

// RemoveMember ends a membership.
func (s *Service) RemoveMember(ctx context.Context, account, person string) error {
	return s.store.transact(ctx, func(t *tx) error {
		p, err := t.personOf(person)
		if err != nil {
			return err
		}
		was, err := t.membershipOf(account, person)
		if err != nil {
			return err
		}
		if was.Role == RoleOwner {
			if err := t.checkOwners(account, person); err != nil {
				return err
			}
		}
		if _, err := t.exec(`DELETE FROM portal_memberships WHERE account = $1 AND person = $2`, account,
			person); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE portal_sessions SET account = '' WHERE person = $1 AND account = $2`, person,
			account); err != nil {
			return err
		}
		t.note("portal.remove_member", account, person, map[string]any{"email": p.Email})
		return nil
	})
}

// checkAdmins is an ErrLastAdmin where there is no admin but a person, who is one.
func (t *tx) checkAdmins(p *personRow) error {
	if p.Operator != Admin || p.Disabled {
		return nil
	}
	has, err := t.hasAdmin(p.ID)
	if err == nil && !has {
		err = fmt.Errorf("%w: make somebody else an admin first", ErrLastAdmin)
	}
	return err
}

// SetOperator makes a person an operator, another kind of one, or none (""). It ends their sessions.
func (s *Service) SetOperator(ctx context.Context, person string, o Operator) error {
	if err := CheckOperator(o); err != nil {
		return err
	}
	return s.store.transact(ctx, func(t *tx) error {
		p, err := t.personOf(person)
		if err != nil || p.Operator == o && p.operatorFrom == "" {
			return err
		}
		if o != Admin {
			if err := t.checkAdmins(&p); err != nil {
				return err
			}
		}
		return t.setOperator(&p, o, "")
	})
}

// setOperator makes one an operator, by somebody or by the groups of an issuer, and ends their sessions: what those
// may do has changed.
func (t *tx) setOperator(p *personRow, o Operator, from string) error {
	if _, err := t.exec(`UPDATE portal_people SET operator = $1, operator_from = $2 WHERE id = $3`, string(o), from,
		p.ID); err != nil {
		return err
	}
	t.note("portal.set_operator", "", p.ID, map[string]any{"email": p.Email, "operator": o, "by_groups": from != ""})
	p.Operator, p.operatorFrom = o, from
	return t.endSessions(p.ID, "")
}

// SetDisabled keeps a person from signing in, and ends their sessions and links; or lets them in again.
func (s *Service) SetDisabled(ctx context.Context, person string, disabled bool) error {
	return s.store.transact(ctx, func(t *tx) error {
		p, err := t.personOf(person)
		if err != nil || p.Disabled == disabled {
			return err
		}
		if err := t.checkAdmins(&p); err != nil && disabled {
			return err
		}
		if _, err := t.exec(`UPDATE portal_people SET disabled = $1 WHERE id = $2`, flag(disabled), person); err != nil {
			return err
		}
		action := "portal.enable"
		if disabled {
			action = "portal.disable"
			if err := t.endSessions(person, ""); err != nil {
				return err
			}
			if err := t.withdrawResets(person); err != nil {
				return err
			}
		}
		t.note(action, "", person, map[string]any{"email": p.Email})
		return nil
	})
}

// ChangeProfile is what people change of themselves.
func (s *Service) ChangeProfile(ctx context.Context, person string, p Profile) error {
	if p.Zone != "" {
		if _, err := time.LoadLocation(p.Zone); err != nil || p.Zone == "Local" || len(p.Zone) > maxName {
			return fmt.Errorf("%w: there is no time zone %q, such as Europe/Berlin", ErrInvalid, cut(p.Zone, maxName))
		}
	}
	if p.Language != "" {
		if _, err := language.Parse(p.Language); err != nil || len(p.Language) > 35 {
			return fmt.Errorf("%w: %q is no language, such as de", ErrInvalid, cut(p.Language, 35))
		}
	}
	r, err := s.store.read(ctx)
	if err != nil {
		return err
	}
	n, err := r.exec(`UPDATE portal_people SET name = $1, language = $2, zone = $3 WHERE id = $4`,
		cut(strings.TrimSpace(p.Name), maxName), p.Language, p.Zone, person)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: there is no person %s", ErrNotFound, person)
	}
	return err
}
