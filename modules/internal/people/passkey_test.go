package people_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/ratelimit"
)

// device is one that has passkeys, as a browser shows it.
type device struct {
	rp            virtualwebauthn.RelyingParty
	authenticator virtualwebauthn.Authenticator
	credential    virtualwebauthn.Credential
}

func newDevice() *device {
	return &device{rp: virtualwebauthn.RelyingParty{Name: "Fareway", ID: "portal.example",
		Origin: "https://portal.example"},
		authenticator: virtualwebauthn.NewAuthenticator(),
		credential:    newCredential()}
}

// newCredential makes a key. The library writes its coordinates without the zeros that they begin with, which of 128
// keys one does, and no server takes that.
func newCredential() virtualwebauthn.Credential {
	for {
		c := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		key, err := x509.ParsePKCS8PrivateKey(c.Key.Data)
		if err != nil {
			panic(err)
		}
		if point, err := key.(*ecdsa.PrivateKey).PublicKey.Bytes(); err != nil {
			panic(err)
		} else if point[1] != 0 && point[33] != 0 { // 4, X, Y
			return c
		}
	}
}

// makes is what the device says to be given a passkey.
func (d *device) makes(f *fixture, options json.RawMessage) []byte {
	f.Helper()
	parsed, err := virtualwebauthn.ParseAttestationOptions(string(options))
	require.NoError(f, err)
	return []byte(virtualwebauthn.CreateAttestationResponse(d.rp, d.authenticator, d.credential, *parsed))
}

// signs is what the device says to sign in.
func (d *device) signs(f *fixture, options json.RawMessage) []byte {
	f.Helper()
	parsed, err := virtualwebauthn.ParseAssertionOptions(string(options))
	require.NoError(f, err)
	return []byte(virtualwebauthn.CreateAssertionResponse(d.rp, d.authenticator, d.credential, *parsed))
}

// add gives a person the device's passkey.
func (d *device) add(f *fixture, v people.Session) {
	f.Helper()
	token, options, err := f.BeginAddPasskey(f.Context(), v)
	require.NoError(f, err)
	d.authenticator.Options.UserHandle = []byte(v.Person)
	require.NoError(f, f.FinishAddPasskey(f.Context(), v, token, " phone ", d.makes(f, options)))
}

func (d *device) signIn(f *fixture, c people.Client) (people.SignedIn, error) {
	f.Helper()
	token, options, err := f.BeginPasskey(f.Context(), c)
	require.NoError(f, err)
	return f.FinishPasskey(f.Context(), token, d.signs(f, options), c)
}

func TestPasskeys(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v := f.join("ann@example.com", people.RoleOwner)
		other, err := f.SignIn(ctx, "ann@example.com", password, away)
		require.NoError(f, err)
		d := newDevice()
		d.add(f, v)
		require.Empty(f, f.opens(other.Token))
		require.NotEmpty(f, f.opens(token))
		keys, err := f.Passkeys(ctx, v.Person)
		require.NoError(f, err)
		require.Len(f, keys, 1)
		require.Equal(f, "phone", keys[0].Name)
		p, err := f.Person(ctx, v.Person)
		require.NoError(f, err)
		require.Equal(f, 1, p.Passkeys)

		d.credential.Counter = 7
		in, err := d.signIn(f, home)
		require.NoError(f, err)
		require.Equal(f, "passkey", in.Session.Method)
		require.Equal(f, "ann@example.com", f.opens(in.Token))
		_, err = d.signIn(f, home)
		require.ErrorIs(f, err, people.ErrWrong, "a counter that has not gone up")
		d.credential.Counter = 6
		_, err = d.signIn(f, home)
		require.ErrorIs(f, err, people.ErrWrong)
		d.credential.Counter = 8
		_, err = d.signIn(f, home)
		require.NoError(f, err)

		// A session is confirmed by it.
		f.pass(time.Hour)
		in, err = f.SignIn(ctx, "ann@example.com", password, home)
		require.NoError(f, err)
		f.pass(11 * time.Minute)
		require.ErrorIs(f, f.CheckVerified(in.Session), people.ErrConfirm)
		asked, options, err := f.BeginConfirmPasskey(ctx, in.Session)
		require.NoError(f, err)
		d.credential.Counter = 9
		require.NoError(f, f.FinishConfirmPasskey(ctx, in.Session, asked, d.signs(f, options)))
		confirmed, _, err := f.Session(ctx, in.Token, home)
		require.NoError(f, err)
		require.NoError(f, f.CheckVerified(confirmed))

		_, eve := f.join("eve@example.com", people.RoleOwner)
		require.ErrorIs(f, f.RemovePasskey(ctx, eve, keys[0].ID), people.ErrNotFound)
		asked, options, err = f.BeginConfirmPasskey(ctx, eve)
		require.NoError(f, err)
		d.credential.Counter = 10
		require.ErrorIs(f, f.FinishConfirmPasskey(ctx, eve, asked, d.signs(f, options)), people.ErrWrong,
			"somebody else's passkey confirms")

		require.ErrorIs(f, f.RemovePasskey(ctx, in.Session, keys[0].ID), people.ErrConfirm)
		require.NoError(f, f.RemovePasskey(ctx, confirmed, keys[0].ID))
		_, err = d.signIn(f, home)
		require.ErrorIs(f, err, people.ErrWrong)
	})
}

func TestPasskeysThatAreNone(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	_, v := f.join("ann@example.com", people.RoleOwner)
	d := newDevice()
	d.add(f, v)
	for name, change := range map[string]func(*device){
		"of another host":   func(d *device) { d.rp.ID = "evil.example" },
		"at another origin": func(d *device) { d.rp.Origin = "https://evil.example" },
		"without TLS":       func(d *device) { d.rp.Origin = "http://portal.example" },
		"of who did not say that it is them": func(d *device) {
			d.authenticator.Options.UserNotVerified = true
		},
		"of somebody else": func(d *device) { d.authenticator.Options.UserHandle = []byte("person_none") },
		"of nobody": func(d *device) {
			d.authenticator.Options.UserHandle = []byte("person_0123456789abcdef01234567")
		},
		"of what is no text": func(d *device) { d.authenticator.Options.UserHandle = []byte("person_\x00\xff") },
		"with another key": func(d *device) {
			id := d.credential.ID
			d.credential = newCredential()
			d.credential.ID = id
		},
	} {
		bad := *d
		change(&bad)
		_, err := bad.signIn(f, people.Client{Address: "192.0.2.99", Host: home.Host, Secure: true})
		require.ErrorIs(t, err, people.ErrWrong, name)
		f.pass(time.Minute)
	}
	token, options, err := f.BeginPasskey(ctx, home)
	require.NoError(t, err)
	signed := d.signs(f, options)
	_, err = f.FinishPasskey(ctx, token, signed, people.Client{Host: "evil.example", Secure: true})
	require.ErrorIs(t, err, people.ErrExpired)
	_, err = f.FinishPasskey(ctx, token, signed, home)
	require.NoError(t, err)
	_, err = f.FinishPasskey(ctx, token, signed, home)
	require.ErrorIs(t, err, people.ErrExpired, "a challenge works twice")
	token, options, err = f.BeginPasskey(ctx, home)
	require.NoError(t, err)
	signed = d.signs(f, options)
	f.pass(5*time.Minute + time.Second)
	_, err = f.FinishPasskey(ctx, token, signed, home)
	require.ErrorIs(t, err, people.ErrExpired)
	// One that is for adding opens nothing, and one that somebody else has asked for adds nothing.
	v, _, err = f.Session(ctx, f.fresh(), home)
	require.NoError(t, err)
	token, options, err = f.BeginAddPasskey(ctx, v)
	require.NoError(t, err)
	_, err = f.FinishPasskey(ctx, token, d.signs(f, options), home)
	require.ErrorIs(t, err, people.ErrExpired)
	_, eve := f.join("eve@example.com", people.RoleOwner)
	other := newDevice()
	require.ErrorIs(t, f.FinishAddPasskey(ctx, eve, token, "", other.makes(f, options)), people.ErrExpired)
	require.NoError(t, f.SetDisabled(ctx, v.Person, true))
	_, err = d.signIn(f, home)
	require.ErrorIs(t, err, people.ErrWrong)
}

// fresh is the token of a session of Ann's that has just begun.
func (f *fixture) fresh() string {
	f.Helper()
	in, err := f.SignIn(f.Context(), "ann@example.com", password, home)
	require.NoError(f, err)
	return in.Token
}

// FuzzPasskey: nothing that a browser can send makes a session, or anything but an ErrWrong.
func FuzzPasskey(f *testing.F) {
	d := newDevice()
	d.authenticator.Options.UserHandle = []byte("person_none")
	options := virtualwebauthn.AssertionOptions{Challenge: []byte("0123456789abcdef0123456789abcdef"),
		RelyingPartyID: d.rp.ID}
	f.Add([]byte(virtualwebauthn.CreateAssertionResponse(d.rp, d.authenticator, d.credential, options)))
	f.Add([]byte(virtualwebauthn.CreateAttestationResponse(d.rp, d.authenticator, d.credential,
		virtualwebauthn.AttestationOptions{Challenge: options.Challenge, RelyingPartyID: d.rp.ID})))
	f.Add([]byte(`{}`))
	f.Add(bytes.Repeat([]byte("["), 100000))
	s := people.New(people.Options{Path: filepath.Join(f.TempDir(), "portal.db"), Log: slog.New(slog.DiscardHandler),
		Config:  func() config.Portal { return config.Portal{} },
		Limiter: ratelimit.NewMemory(ratelimit.Options{})})
	f.Cleanup(func() { require.NoError(f, s.Close()) })
	s.HashCheaply()
	link, _, err := s.FirstLink(f.Context())
	require.NoError(f, err)
	_, v, err := s.Accept(f.Context(), link, people.Acceptance{Email: "ann@example.com", Password: password}, home)
	require.NoError(f, err)
	var n atomic.Uint32
	f.Fuzz(func(t *testing.T, response []byte) {
		from, v := home, v
		a := n.Add(1)
		from.Address = netip.AddrFrom4([4]byte{10, byte(a >> 16), byte(a >> 8), byte(a)}).String() // none is throttled
		v.Client, v.Verified = from, time.Now()
		token, _, err := s.BeginPasskey(t.Context(), from)
		require.NoError(t, err)
		_, err = s.FinishPasskey(t.Context(), token, response, from)
		require.ErrorIs(t, err, people.ErrWrong)
		token, _, err = s.BeginAddPasskey(t.Context(), v)
		require.NoError(t, err)
		require.ErrorIs(t, s.FinishAddPasskey(t.Context(), v, token, "", response), people.ErrWrong)
	})
}
