package people_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/people"
)

func TestSessionsAreBound(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, _ := f.join("ann@example.com", people.RoleOwner)
		for _, c := range []people.Client{{Host: "evil.example"}, {Host: ""}, {Host: home.Host + ":8443"}} {
			_, _, err := f.Session(ctx, token, c)
			require.ErrorIs(f, err, people.ErrNoSession, c.Host)
		}
		_, _, err := f.Session(ctx, token, people.Client{Host: "PORTAL.example", Address: "198.51.100.3"})
		require.NoError(f, err, "who moves is signed out")
		for _, none := range []string{"", "x", token[:63], token + "0"} {
			require.Empty(f, f.opens(none))
		}
	})
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		member, _ := f.join("ann@example.com", people.RoleOwner)
		operator, _ := f.admin("root@example.com")
		f.pass(29 * time.Minute)
		require.NotEmpty(f, f.opens(operator))
		f.pass(29 * time.Minute)
		require.NotEmpty(f, f.opens(operator), "a session that is used ends")
		f.pass(30 * time.Minute)
		require.Empty(f, f.opens(operator))
		require.NotEmpty(f, f.opens(member))
		f.pass(12 * time.Hour)
		require.Empty(f, f.opens(member))

		in, err := f.SignIn(ctx, "root@example.com", password, home)
		require.NoError(f, err)
		for range 35 {
			f.pass(20 * time.Minute)
			require.NotEmpty(f, f.opens(in.Token))
		}
		f.pass(20 * time.Minute)
		require.Empty(f, f.opens(in.Token), "a session is used for more than 12 hours")
	})
}

func TestSeenIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		token, v := f.join("ann@example.com", people.RoleOwner)
		f.pass(59 * time.Second)
		got, _, err := f.Session(f.Context(), token, home)
		require.NoError(f, err)
		require.Equal(f, v.Seen, got.Seen)
		f.pass(time.Second)
		got, _, err = f.Session(f.Context(), token, home)
		require.NoError(f, err)
		require.Equal(f, f.now(), got.Seen)
		all, err := f.Sessions(f.Context(), v.Person)
		require.NoError(f, err)
		require.Equal(f, []people.Session{got}, all)
	})
}

func TestRevokedSessions(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		first, v := f.join("ann@example.com", people.RoleOwner)
		second, err := f.SignIn(ctx, "ann@example.com", password, away)
		require.NoError(f, err)
		third, err := f.SignIn(ctx, "ann@example.com", password, away)
		require.NoError(f, err)
		_, eve := f.join("eve@example.com", people.RoleOwner)
		require.ErrorIs(f, f.Revoke(ctx, eve.Person, second.Session.ID), people.ErrNotFound, "somebody else's is ended")
		require.NoError(f, f.Revoke(ctx, v.Person, second.Session.ID))
		require.Empty(f, f.opens(second.Token))
		require.NoError(f, f.RevokeOthers(ctx, v))
		require.NotEmpty(f, f.opens(first))
		require.Empty(f, f.opens(third.Token))
		require.NoError(f, f.SignOut(ctx, first))
		require.Empty(f, f.opens(first))
		require.ErrorIs(f, f.RevokeOthers(ctx, v), people.ErrNoSession)
	})
}

func TestAnOperatorHasToSignInAnew(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v := f.join("ann@example.com", people.RoleOwner)
		require.NoError(f, f.SetOperator(ctx, v.Person, people.Support))
		require.Empty(f, f.opens(token))
	})
}

func TestSelectAccount(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v := f.join("ann@example.com", people.RoleOwner)
		require.NoError(f, f.SelectAccount(ctx, v, account))
		got, _, err := f.Session(ctx, token, home)
		require.NoError(f, err)
		require.Equal(f, account, got.Account)
		require.ErrorIs(f, f.SelectAccount(ctx, v, "acct_other"), people.ErrNotFound)
		_, root := f.admin("root@example.com")
		require.NoError(f, f.SelectAccount(ctx, root, "acct_other"))
		f.join("bob@example.com", people.RoleOwner)
		require.NoError(f, f.RemoveMember(ctx, account, v.Person))
		got, _, err = f.Session(ctx, token, home)
		require.NoError(f, err)
		require.Empty(f, got.Account)
	})
}

func TestAPersonHasSoManySessions(t *testing.T) {
	t.Parallel()
	f := onFile(t)
	ctx := f.Context()
	first, v := f.join("ann@example.com", people.RoleOwner)
	for range 50 {
		f.pass(time.Second)
		_, err := f.SignIn(ctx, "ann@example.com", password, home)
		require.NoError(t, err)
	}
	all, err := f.Sessions(ctx, v.Person)
	require.NoError(t, err)
	require.Len(t, all, 50)
	require.Empty(t, f.opens(first))
}

// TestTokensThatAreOver: in whatever order things happen, a token that was used up, revoked, or is over opens nothing,
// and the others do.
func TestTokensThatAreOver(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		f := newFixture(t, filepath.Join(folder, "portal"+string(rune('a'+run%20))+".db"), "")
		defer f.Close()
		f.HashCheaply()
		email := "p" + time.Duration(run).String() + "@example.com" // the file may have others
		ctx := t.Context()
		var person string
		type link struct {
			token string
			until time.Time
			over  bool
		}
		type session struct {
			people.Session
			token       string
			seen, until time.Time
			over        bool
		}
		var links []*link
		var sessions []*session
		endAll := func(but *session) {
			for _, s := range sessions {
				s.over = s.over || s != but
			}
		}
		open := func(token string, v people.Session) {
			sessions = append(sessions, &session{v, token, f.now(), f.now().Add(7 * 24 * time.Hour), false})
		}
		live := func(s *session) bool {
			return !s.over && f.now().Before(s.until) && f.now().Before(s.seen.Add(12*time.Hour))
		}
		pick := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, what) }
		token, v := f.join(email, people.RoleOwner)
		person = v.Person
		open(token, v)
		rt.Repeat(map[string]func(*rapid.T){
			"time passes": func(rt *rapid.T) {
				f.pass(time.Duration(rapid.IntRange(1, 30*60).Draw(rt, "minutes")) * time.Minute)
			},
			"a reset is made": func(*rapid.T) {
				token, _, err := f.InviteReset(ctx, person, "")
				require.NoError(t, err)
				for _, l := range links {
					l.over = true
				}
				links = append(links, &link{token: token, until: f.now().Add(24 * time.Hour)})
			},
			"a reset is used": func(rt *rapid.T) {
				if len(links) == 0 {
					rt.Skip()
				}
				l := links[pick("link", len(links))]
				token, v, err := f.Accept(ctx, l.token, people.Acceptance{Password: password}, home)
				if l.over || !f.now().Before(l.until) {
					require.ErrorIs(t, err, people.ErrExpired)
					return
				}
				require.NoError(t, err)
				l.over = true
				endAll(nil)
				open(token, v)
			},
			"somebody signs in": func(*rapid.T) {
				in, err := f.SignIn(ctx, email, password, home)
				require.NoError(t, err)
				open(in.Token, in.Session)
			},
			"a session is used": func(rt *rapid.T) {
				s := sessions[pick("session", len(sessions))]
				if is := f.opens(s.token) != ""; is {
					require.True(t, live(s))
					s.seen = f.now()
				} else {
					require.False(t, live(s))
				}
			},
			"a session is revoked": func(rt *rapid.T) {
				s := sessions[pick("session", len(sessions))]
				_ = f.Revoke(ctx, person, s.ID) // it may be over
				s.over = true
			},
			"somebody signs out": func(rt *rapid.T) {
				s := sessions[pick("session", len(sessions))]
				require.NoError(t, f.SignOut(ctx, s.token))
				s.over = true
			},
			"the others are revoked": func(rt *rapid.T) {
				if s := sessions[pick("session", len(sessions))]; live(s) {
					require.NoError(t, f.RevokeOthers(ctx, s.Session))
					endAll(s)
				}
			},
			"the person is disabled and enabled": func(*rapid.T) {
				require.NoError(t, f.SetDisabled(ctx, person, true))
				require.NoError(t, f.SetDisabled(ctx, person, false))
				for _, l := range links {
					l.over = true
				}
				endAll(nil)
			},
			"": func(*rapid.T) {
				all, err := f.Sessions(ctx, person)
				require.NoError(t, err)
				var want, got []string
				for _, s := range sessions {
					if live(s) {
						want = append(want, s.ID)
					}
				}
				for _, s := range all {
					got = append(got, s.ID)
				}
				slices.Sort(want)
				slices.Sort(got)
				require.Equal(t, want, got)
			},
		})
	})
}
