package people

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/fareway/fareway/modules/internal/ratelimit"
)

const (
	// addressFailures is how often in a minute sign-ins from an address may fail.
	addressFailures = 10
	// addressChallenges is how many ceremonies an address begins in a minute.
	addressChallenges = 60
	// personLetters is how many links a person has mailed in a minute.
	personLetters = 5
	// freeFailures is how often sign-ins of a name may fail before who asks has to wait: firstWait, and twice as long
	// after each further one, to mostWait. So there are about ten in the first quarter of an hour, and four in each hour
	// after.
	freeFailures = 5
	firstWait    = 20 * time.Second
	mostWait     = 15 * time.Minute
	// failuresFor is how long they are remembered after the last.
	failuresFor = time.Hour
)

// throttle is what one attempt to sign in is counted under.
type throttle struct {
	s       *Service
	address string // the network that it comes from
	// name is the hash of whose attempt it is. From where somebody has a session they are counted apart: who tries
	// elsewhere does not keep them out. "": only the network counts, for what nobody guesses.
	name string
}

// networkOf is what counts as one address.
func networkOf(c Client) string {
	a, err := netip.ParseAddr(c.Address)
	if err != nil {
		return "unknown"
	}
	return ratelimit.NetworkOf(a).String()
}

// throttleOf is for an attempt with an e-mail, whether there is such a person or not.
func (s *Service) throttleOf(r *reader, email string, c Client) (throttle, error) {
	t := throttle{s, networkOf(c), hashToken("email\n" + email)}
	addresses, err := list(r, func(row scanner) (address string, err error) {
		err = row.Scan(&address)
		return address, err
	}, `SELECT DISTINCT s.address FROM portal_sessions s JOIN portal_people p ON p.id = s.person WHERE p.email = $1
		LIMIT 1000`, email)
	for _, a := range addresses {
		if networkOf(Client{Address: a}) == t.address {
			t.name = hashToken("email\n" + email + "\n" + t.address)
		}
	}
	return t, err
}

// throttleOfSession is for an attempt within a session, which none from elsewhere keeps out.
func (s *Service) throttleOfSession(v Session, c Client) throttle {
	return throttle{s, networkOf(c), hashToken("session\n" + v.ID)}
}

func (t *throttle) ask() []ratelimit.Ask {
	return []ratelimit.Ask{{Subject: ratelimit.Subject{Kind: ratelimit.SignIns, Name: "address " + t.address},
		Limit: addressFailures}}
}

// check is a ThrottledError where it is too early for another attempt.
func (t *throttle) check(r *reader) error {
	if err := t.checkAddress(r.ctx); err != nil || t.name == "" {
		return err
	}
	return t.checkName(r)
}

func (t *throttle) checkAddress(ctx context.Context) error {
	// A limiter that is away counts for itself, and the store counts as well.
	if refused, err := t.s.o.Limiter.Check(ctx, t.ask()); err == nil && refused != nil {
		return &ThrottledError{Wait: refused.Wait}
	}
	return nil
}

func (t *throttle) checkName(r *reader) error {
	var failures, last int64
	if _, err := r.find(`SELECT failures, last FROM portal_failures WHERE name = $1`, []any{t.name}, &failures,
		&last); err != nil {
		return err
	}
	now := t.s.now()
	since := now.Sub(moment(last))
	if last == 0 || since >= failuresFor || failures < freeFailures {
		return nil
	}
	wait := firstWait << min(failures-freeFailures, 16)
	if left := min(wait, mostWait) - since; left > 0 {
		return &ThrottledError{Wait: left}
	}
	return nil
}

// claim is check, and counts the attempt as one that has failed before anybody knows: of many at once no more are
// looked at than one after the other. It is followed by forget or failClaimed.
func (t *throttle) claim(ctx context.Context) error {
	if err := t.checkAddress(ctx); err != nil {
		return err
	}
	return t.s.store.transact(ctx, func(x *tx) error {
		if err := t.checkName(&x.reader); err != nil {
			return err
		}
		return t.count(&x.reader)
	})
}

// failClaimed is fail for an attempt that was claimed.
func (t *throttle) failClaimed(ctx context.Context) error {
	_, _, _ = t.s.o.Limiter.Acquire(ctx, t.ask()) // its name is counted already
	return ErrWrong
}

// fail counts an attempt that was wrong, and is what it is answered.
func (t *throttle) fail(r *reader) error {
	_, _, limited := t.s.o.Limiter.Acquire(r.ctx, t.ask())
	if t.name == "" {
		return ErrWrong
	}
	if err := t.count(r); err != nil {
		return errors.Join(err, limited) // nobody guesses while nothing counts
	}
	return ErrWrong
}

func (t *throttle) count(r *reader) error {
	now := nanos(t.s.now())
	_, err := r.exec(`INSERT INTO portal_failures (name, failures, last) VALUES ($1, 1, $2) ON CONFLICT (name) DO UPDATE
		SET failures = CASE WHEN portal_failures.last < $3 THEN 1 ELSE portal_failures.failures + 1 END, last = $2`, t.name,
		now, now-int64(failuresFor))
	return err
}

// forget is for an attempt that was right.
func (t *throttle) forget(r *reader) error {
	_, err := r.exec(`DELETE FROM portal_failures WHERE name = $1`, t.name)
	return err
}

// admitChallenge keeps an address from filling the store with ceremonies that it begins.
func (s *Service) admitChallenge(ctx context.Context, c Client) error {
	return s.acquire(ctx, []ratelimit.Ask{{
		Subject: ratelimit.Subject{Kind: ratelimit.SignIns, Name: "challenge " + networkOf(c)}, Limit: addressChallenges}})
}

// acquire counts something that somebody does. A limiter that is away counts for itself.
func (s *Service) acquire(ctx context.Context, ask []ratelimit.Ask) error {
	_, refused, err := s.o.Limiter.Acquire(ctx, ask)
	if err == nil && refused != nil {
		return &ThrottledError{Wait: refused.Wait}
	}
	return nil
}
