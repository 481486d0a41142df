// Package people is who may sign in to the portal, and how: people, what they are in accounts and for the gateway,
// how they prove who they are, and their sessions. It knows nothing of pages; what an account is, the ledger knows. How
// far their payments are is kept here, too, which package payments makes.
//
// All of it lies in a store of its own (see store), never in the ledger's tables. Of what opens something (tokens of
// sessions, links of invitations, recovery codes, challenges) only the SHA-256 is kept, of passwords argon2id.
//
// What is hard to change later:
//
//   - An e-mail is what whoever invited has written, and proves nothing. Who has the link of an invitation becomes
//     somebody new; a person who is there signs in to accept one (AcceptAs). By OpenID Connect a person is known by
//     issuer and subject.
//   - A link to set a new password takes every other proof away, for whoever needs one may have lost them all.
//   - A link ends with the right of the person who has made it, and a link for a new password with each change of what
//     its person is for the gateway. Those of the command line are nobody's, and stay.
//   - What groups of an issuer make somebody counts in sessions that this issuer has begun (operatorIn).
//   - Copies and moves leave sessions behind.
//
// What each method may be used for by whom is for who calls it to decide, as the admin API and the portal do. What
// changes a right is an act of the audit trail, which is written before it takes effect.
package people

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// Role is what a person is in an account.
type Role string

// The roles: an owner invites others and sets caps, a member makes keys, a viewer looks.
const (
	RoleOwner  Role = "owner"
	RoleMember Role = "member"
	RoleViewer Role = "viewer"
)

// Roles are all of them.
var Roles = []Role{RoleOwner, RoleMember, RoleViewer}

// Operator is what a person is for the gateway; "" is nothing.
type Operator string

// What operators are: an admin does everything, support helps accounts, and read-only looks.
const (
	Admin    Operator = "admin"
	Support  Operator = "support"
	ReadOnly Operator = "read-only"
)

// Operators are all of them.
var Operators = []Operator{Admin, Support, ReadOnly}

// What methods return, wrapped.
var (
	// ErrWrong: e-mail, password, code, or whatever proves who asks, is not right. It never says which.
	ErrWrong = errors.New("not right")
	// ErrThrottled is what every ThrottledError is.
	ErrThrottled = errors.New("too many attempts")
	// ErrNoSession: there is none of this token, any more or here.
	ErrNoSession = errors.New("no session")
	// ErrExpired: the invitation or challenge is used, withdrawn, over, or never was.
	ErrExpired = errors.New("used or expired")
	// ErrWeak is what every WeakError is.
	ErrWeak = errors.New("weak password")
	// ErrLastOwner: the account would have no owner.
	ErrLastOwner = errors.New("the last owner of the account")
	// ErrLastAdmin: the gateway would have no admin.
	ErrLastAdmin = errors.New("the last admin of the gateway")
	// ErrAbove: the person is more for the gateway than who asks may help.
	ErrAbove = errors.New("more for the gateway than who asks may help")
	// ErrConfirm: it is too long ago that this session has proven who it is: see Confirm.
	ErrConfirm = errors.New("to be confirmed first")
	// ErrSignInFirst: there is a person of this e-mail, who has to sign in before.
	ErrSignInFirst = errors.New("there is a person of this e-mail: sign in first")
	// ErrNotInvited: an issuer of OpenID Connect has vouched for somebody whom nobody has let in.
	ErrNotInvited = errors.New("not invited")
	// ErrIssuer: the issuer cannot be reached, or says what it must not.
	ErrIssuer = errors.New("the issuer of OpenID Connect")

	ErrExists      = ledger.ErrExists
	ErrNotFound    = ledger.ErrNotFound
	ErrInvalid     = ledger.ErrInvalid
	ErrUnavailable = ledger.ErrUnavailable // of the store of people, whatever the ledger does
)

// ThrottledError says when to try again.
type ThrottledError struct{ Wait time.Duration }

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many attempts: try again in %s", e.Wait.Round(time.Second))
}

// Is makes it an ErrThrottled.
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }

// Weakness is what is wrong with a new password.
type Weakness string

// The weaknesses.
const (
	TooShort Weakness = "short"  // under MinPassword characters
	TooLong  Weakness = "long"   // over MaxPassword characters
	Common   Weakness = "common" // among those that everybody tries first
	Personal Weakness = "email"  // it has the e-mail in it
)

// WeakError says what is wrong with a new password.
type WeakError struct{ Weakness Weakness }

func (e *WeakError) Error() string {
	switch e.Weakness {
	case TooShort:
		return fmt.Sprintf("the password has fewer than %d characters: take a longer one", MinPassword)
	case TooLong:
		return fmt.Sprintf("the password has more than %d characters: take a shorter one", MaxPassword)
	case Personal:
		return "the password has the e-mail in it: take another one"
	}
	return "the password is among those that are tried first: take another one"
}

// Is makes it an ErrWeak.
func (e *WeakError) Is(target error) bool { return target == ErrWeak }

// Person is somebody who can sign in.
type Person struct {
	ID       string    `json:"id"`    // "person_" and 24 lower-case hex characters
	Email    string    `json:"email"` // in lower case; what whoever invited has written
	Name     string    `json:"name"`
	Operator Operator  `json:"operator,omitempty"`
	Disabled bool      `json:"disabled"`
	Created  time.Time `json:"created"`
	SignedIn time.Time `json:"signed_in,omitzero"` // the last time

	HasPassword bool   `json:"has_password"`
	HasTOTP     bool   `json:"has_totp"`
	Passkeys    int    `json:"passkeys"`
	Language    string `json:"language,omitempty"` // BCP 47; "": the browser's
	Zone        string `json:"zone,omitempty"`     // IANA's; "": UTC
}

// Profile is what people say about themselves.
type Profile struct{ Name, Language, Zone string }

// Membership is what a person is in an account.
type Membership struct {
	Account string    `json:"account"` // its id
	Role    Role      `json:"role"`
	Since   time.Time `json:"since"`
}

// Member is a person in an account.
type Member struct {
	Person
	Membership
}

// Client is who asks, as the handler saw it.
type Client struct {
	Address string `json:"address"` // an IP address
	Agent   string `json:"agent"`
	Host    string `json:"host"`   // of the portal, with the port where it has one
	Secure  bool   `json:"secure"` // over TLS
}

// Session is somebody who has signed in.
type Session struct {
	ID       string    `json:"id"`
	Person   string    `json:"person"`
	Created  time.Time `json:"created"`
	Seen     time.Time `json:"seen"`     // to the minute
	Expires  time.Time `json:"expires"`  // if it is not used any more
	Verified time.Time `json:"verified"` // when who it is was proven the last time
	Client
	Method  string `json:"method"`            // "password", "password+code", "passkey", "oidc:NAME", "invitation"
	Account string `json:"account,omitempty"` // the id of the one that is looked at
}

// Invitation is a link that makes somebody a person, or more of one, or lets one set a password anew (Reset). Who has
// the link may.
type Invitation struct {
	ID       string   `json:"id"`
	Email    string   `json:"email"` // "": whoever accepts says it (FirstLink)
	Account  string   `json:"account,omitempty"`
	Role     Role     `json:"role,omitempty"` // in the account
	Operator Operator `json:"operator,omitempty"`
	Reset    bool     `json:"reset,omitempty"`
	// KeepsFactors: of a reset, only the password is new; who has a second factor is asked for it.
	KeepsFactors bool      `json:"keeps_factors,omitempty"`
	Person       string    `json:"person,omitempty"` // of a reset
	By           string    `json:"by"`               // who has made it
	Maker        string    `json:"maker,omitempty"`  // the person who has, with whose right it ends; "": no person
	Created      time.Time `json:"created"`
	Expires      time.Time `json:"expires"`

	first bool // of the first operator: see FirstLink
}

// Acceptance is what somebody says who accepts an invitation.
type Acceptance struct {
	Name     string
	Password string
	Email    string // where the invitation has none
}

// SignedIn is how far somebody has come. Where a code is needed first, there is a Challenge and nothing else.
type SignedIn struct {
	Token     string
	Session   Session
	Challenge string
}

// Passkey is one of a person's.
type Passkey struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"`
	Synced  bool      `json:"synced"` // it is kept with others of its owner's devices
}

// Options are what a Service is opened with.
type Options struct {
	// Path is the file of a store in SQLite, and DSN leads to one in PostgreSQL. One of them is set.
	Path, DSN string
	// Config is the portal block in force.
	Config func() config.Portal
	// Limiter counts failures to sign in, with other nodes where they share it.
	Limiter ratelimit.Limiter
	// Record writes an act of the audit trail, as ledger.Store has it.
	Record func(ctx context.Context, action, account, subject string, after map[string]any) error
	Log    *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Service is all of it. It is safe for concurrent use, and opens its store when it is asked for the first time.
type Service struct {
	o       Options
	store   store
	hashing hashing
	issuers issuers
	closing sync.Once
}

// New prepares one. Nothing is opened yet, so that a server that is away keeps nobody from starting.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{o: o, store: store{path: o.Path, dsn: o.DSN, log: o.Log, now: o.Now, record: o.Record,
		patience: patience}, hashing: newHashing()}
	s.store.gives = s.gives
	return s
}

// Close closes the store.
func (s *Service) Close() (err error) {
	s.closing.Do(func() { err = s.store.close() })
	return err
}

// Ping is an ErrUnavailable where the store cannot be read.
func (s *Service) Ping(ctx context.Context) error {
	_, err := s.store.ready(ctx)
	return err
}

// now is to the nanosecond that a store keeps, in UTC.
func (s *Service) now() time.Time { return s.o.Now().UTC() }

// newID is a name for a row.
func newID(kind string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return kind + "_" + hex.EncodeToString(b[:])
}

var hexID = regexp.MustCompile(`^[0-9a-f]{24}$`)

// isID reports whether a text looks like a name that newID makes.
func isID(kind, text string) bool {
	id, of := strings.CutPrefix(text, kind+"_")
	return of && hexID.MatchString(id)
}

// newToken is a secret of 256 bits, and what is kept of it.
func newToken() (token, hash string) {
	var b [32]byte
	_, _ = rand.Read(b[:])
	token = hex.EncodeToString(b[:])
	return token, hashToken(token)
}

// hashToken is what is kept of a token: 256 random bits need no slow hash.
func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// maxEmail, maxName and the others bound what is kept, in bytes.
const (
	maxEmail = 254 // RFC 5321
	maxName  = 200
	maxAgent = 300
)

// CheckRole is an ErrInvalid for what is no role.
func CheckRole(r Role) error {
	if !slices.Contains(Roles, r) {
		return fmt.Errorf("%w: there is no role %q: it is owner, member or viewer", ErrInvalid, r)
	}
	return nil
}

// CheckOperator is an ErrInvalid for what operators are not.
func CheckOperator(o Operator) error {
	if o != "" && !slices.Contains(Operators, o) {
		return fmt.Errorf("%w: no operator is %q: it is admin, support or read-only", ErrInvalid, o)
	}
	return nil
}

// cut keeps what is at most n bytes long and printable.
func cut(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	for len(text) > n {
		text = text[:n]
		text = strings.ToValidUTF8(text, "")
	}
	return text
}
