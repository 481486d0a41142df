package people_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/modules/internal/people"
)

func TestInvitationMakesAPerson(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v, err := f.Invite(ctx, people.Invitation{Email: " Ann@Example.com", Account: account, Role: people.RoleOwner,
			By: "bob"})
		require.NoError(f, err)
		require.Equal(f, "ann@example.com", v.Email)
		require.Equal(f, f.now().Add(7*24*time.Hour), v.Expires)
		read, err := f.ReadInvitation(ctx, token)
		require.NoError(f, err)
		require.Equal(f, v, read)
		open, err := f.Invitations(ctx, account, "", 10)
		require.NoError(f, err)
		require.Equal(f, []people.Invitation{v}, open)

		session, in, err := f.Accept(ctx, token, people.Acceptance{Name: "Ann", Password: password}, home)
		require.NoError(f, err)
		got, p, err := f.Session(ctx, session, home)
		require.NoError(f, err)
		require.Equal(f, in, got)
		require.Equal(f, home, got.Client)
		require.Equal(f, people.Person{ID: p.ID, Email: "ann@example.com", Name: "Ann", Created: f.now(), SignedIn: f.now(),
			HasPassword: true}, p)
		members, err := f.Members(ctx, account, "", 10)
		require.NoError(f, err)
		require.Equal(f, []people.Member{{Person: p, Membership: people.Membership{Account: account, Role: people.RoleOwner,
			Since: f.now()}}}, members)
		memberships, err := f.Memberships(ctx, p.ID)
		require.NoError(f, err)
		require.Equal(f, []people.Membership{members[0].Membership}, memberships)

		_, _, err = f.Accept(ctx, token, people.Acceptance{Name: "Eve", Password: password}, away)
		require.ErrorIs(f, err, people.ErrExpired)
		require.Equal(f, []string{"portal.invite " + account, "portal.accept " + account}, f.takeActs())
	})
}

func TestInvitationsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		for name, v := range map[string]people.Invitation{
			"no e-mail":       {Account: account, Role: people.RoleOwner},
			"two e-mails":     {Email: "a@example.com, b@example.com", Account: account, Role: people.RoleOwner},
			"a name before":   {Email: "Ann <ann@example.com>", Account: account, Role: people.RoleOwner},
			"a line":          {Email: "ann@example.com\nBcc: b@example.com", Account: account, Role: people.RoleOwner},
			"to nothing":      {Email: "ann@example.com"},
			"no account":      {Email: "ann@example.com", Role: people.RoleOwner},
			"no role":         {Email: "ann@example.com", Account: account},
			"another role":    {Email: "ann@example.com", Account: account, Role: "root"},
			"what is nothing": {Email: "ann@example.com", Operator: "root"},
			"for years": {Email: "ann@example.com", Operator: people.Support,
				Expires: f.now().Add(365 * 24 * time.Hour)},
			"over": {Email: "ann@example.com", Operator: people.Support, Expires: f.now().Add(-time.Hour)},
		} {
			_, _, err := f.Invite(f.Context(), v)
			require.ErrorIs(f, err, people.ErrInvalid, name)
		}
		require.Empty(f, f.takeActs())
	})
}

func TestWhoeverInvitesDoesNotBecomeSomebodyElse(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v := f.join("ann@example.com", people.RoleViewer)
		link := f.invited("ann@example.com", people.RoleOwner)
		_, _, err := f.Accept(ctx, link, people.Acceptance{Name: "Eve", Password: "another long password"}, away)
		require.ErrorIs(f, err, people.ErrSignInFirst)
		eve, other := f.join("eve@example.com", people.RoleViewer)
		_, _, err = f.AcceptAs(ctx, other, link, away)
		require.ErrorIs(f, err, people.ErrNotInvited)

		renewed, _, err := f.AcceptAs(ctx, v, link, home)
		require.NoError(f, err)
		require.Equal(f, "ann@example.com", f.opens(renewed))
		require.Empty(f, f.opens(token), "what a session may do has changed, and its token has not")
		require.Equal(f, "eve@example.com", f.opens(eve))
		m, err := f.Membership(ctx, account, v.Person)
		require.NoError(f, err)
		require.Equal(f, people.RoleOwner, m.Role)
		_, _, err = f.AcceptAs(ctx, v, f.invited("ann@example.com", people.RoleOwner), home)
		require.ErrorIs(f, err, people.ErrNoSession)
	})
}

func TestAnInvitationTakesNothingAway(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		_, v := f.join("ann@example.com", people.RoleOwner)
		_, _, err := f.AcceptAs(f.Context(), v, f.invited("ann@example.com", people.RoleViewer), home)
		require.NoError(f, err)
		m, err := f.Membership(f.Context(), account, v.Person)
		require.NoError(f, err)
		require.Equal(f, people.RoleOwner, m.Role)
	})
}

func TestTwoAcceptAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		link, _, err := f.FirstLink(f.Context())
		require.NoError(f, err)
		other := f.open() // another node
		var (
			wait sync.WaitGroup
			mu   sync.Mutex
			in   int
		)
		for i := range 6 {
			s := []*people.Service{f.Service, other}[i%2]
			wait.Go(func() {
				_, _, err := s.Accept(f.Context(), link, people.Acceptance{Email: fmt.Sprintf("p%d@example.com", i),
					Password: password}, home)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					in++
				} else if !errors.Is(err, people.ErrExpired) {
					f.Errorf("accepting: %v", err)
				}
			})
		}
		wait.Wait()
		require.Equal(f, 1, in)
		all, err := f.People(f.Context(), "", 10)
		require.NoError(f, err)
		require.Len(f, all, 1)
	})
}

func TestFirstLink(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		before, _, err := f.FirstLink(ctx)
		require.NoError(f, err)
		link, v, err := f.FirstLink(ctx)
		require.NoError(f, err)
		require.Equal(f, f.now().Add(24*time.Hour), v.Expires)
		_, err = f.ReadInvitation(ctx, before)
		require.ErrorIs(f, err, people.ErrExpired)
		_, _, err = f.Accept(ctx, link, people.Acceptance{Password: password}, home)
		require.ErrorIs(f, err, people.ErrInvalid, "nobody has said the e-mail")
		f.pass(24 * time.Hour)
		_, _, err = f.Accept(ctx, link, people.Acceptance{Email: "ann@example.com", Password: password}, home)
		require.ErrorIs(f, err, people.ErrExpired)

		_, in := f.admin("ann@example.com")
		p, err := f.Person(ctx, in.Person)
		require.NoError(f, err)
		require.Equal(f, people.Admin, p.Operator)
		link, _, err = f.FirstLink(ctx)
		require.NoError(f, err)
		require.Empty(f, link)
	})
}

func TestFirstLinkIsNoneOnceThereIsAnAdmin(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		_, v := f.join("bob@example.com", people.RoleViewer)
		link, _, err := f.FirstLink(ctx)
		require.NoError(f, err)
		require.NoError(f, f.SetOperator(ctx, v.Person, people.Admin))
		_, _, err = f.Accept(ctx, link, people.Acceptance{Email: "eve@example.com", Password: password}, away)
		require.ErrorIs(f, err, people.ErrExpired)
		_, err = f.FindPerson(ctx, "eve@example.com")
		require.ErrorIs(f, err, people.ErrNotFound)
	})
}

func TestTheLastOwnerAndAdminStay(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		_, ann := f.join("ann@example.com", people.RoleOwner)
		_, bob := f.join("bob@example.com", people.RoleMember)
		require.ErrorIs(f, f.SetRole(ctx, account, ann.Person, people.RoleViewer), people.ErrLastOwner)
		require.ErrorIs(f, f.RemoveMember(ctx, account, ann.Person), people.ErrLastOwner)
		require.NoError(f, f.SetRole(ctx, account, bob.Person, people.RoleOwner))
		require.NoError(f, f.SetDisabled(ctx, bob.Person, true))
		require.ErrorIs(f, f.RemoveMember(ctx, account, ann.Person), people.ErrLastOwner, "who cannot sign in is no owner")
		require.NoError(f, f.SetDisabled(ctx, bob.Person, false))
		require.NoError(f, f.RemoveMember(ctx, account, ann.Person))
		require.ErrorIs(f, f.RemoveMember(ctx, account, ann.Person), people.ErrNotFound)

		_, root := f.admin("root@example.com")
		require.ErrorIs(f, f.SetOperator(ctx, root.Person, people.Support), people.ErrLastAdmin)
		require.ErrorIs(f, f.SetDisabled(ctx, root.Person, true), people.ErrLastAdmin)
		require.NoError(f, f.SetOperator(ctx, bob.Person, people.Admin))
		require.NoError(f, f.SetOperator(ctx, root.Person, ""))
		require.ErrorIs(f, f.SetOperator(ctx, "person_none", people.Admin), people.ErrNotFound)
		require.ErrorIs(f, f.SetOperator(ctx, bob.Person, "root"), people.ErrInvalid)
		require.ErrorIs(f, f.SetRole(ctx, account, bob.Person, "root"), people.ErrInvalid)
	})
}

func TestTwoAdminsDoNotRemoveEachOther(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		_, ann := f.admin("ann@example.com")
		_, bob := f.join("bob@example.com", people.RoleViewer)
		require.NoError(f, f.SetOperator(ctx, bob.Person, people.Admin))
		other := f.open()
		var wait sync.WaitGroup
		errs := make([]error, 2)
		wait.Go(func() { errs[0] = f.SetOperator(ctx, ann.Person, "") })
		wait.Go(func() { errs[1] = other.SetOperator(ctx, bob.Person, "") })
		wait.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				require.ErrorIs(f, err, people.ErrLastAdmin)
				refused++
			}
		}
		require.Equal(f, 1, refused)
	})
}

func TestDisabledPeopleAreOut(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v := f.join("ann@example.com", people.RoleOwner)
		link, _, err := f.InviteReset(ctx, v.Person, "bob")
		require.NoError(f, err)
		other := f.open() // another node
		require.NoError(f, other.SetDisabled(ctx, v.Person, true))
		require.Empty(f, f.opens(token))
		_, err = f.SignIn(ctx, "ann@example.com", password, home)
		require.ErrorIs(f, err, people.ErrWrong)
		_, _, err = f.Accept(ctx, link, people.Acceptance{Password: "another long password"}, home)
		require.ErrorIs(f, err, people.ErrExpired)
		_, _, err = f.InviteReset(ctx, v.Person, "bob")
		require.ErrorIs(f, err, people.ErrInvalid)
		require.NoError(f, other.SetDisabled(ctx, v.Person, false))
		in, err := f.SignIn(ctx, "ann@example.com", password, home)
		require.NoError(f, err)
		require.Equal(f, "ann@example.com", f.opens(in.Token))
	})
}

func TestListsArePaged(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		var want []string
		for i := range 5 {
			email := fmt.Sprintf("p%d@example.com", i)
			f.join(email, people.RoleMember)
			want = append(want, email)
		}
		var all, members []string
		for after := ""; ; {
			page, err := f.People(ctx, after, 2)
			require.NoError(f, err)
			if len(page) == 0 {
				break
			}
			for _, p := range page {
				all = append(all, p.Email)
			}
			after = page[len(page)-1].Email
		}
		for after := ""; ; {
			page, err := f.Members(ctx, account, after, 3)
			require.NoError(f, err)
			if len(page) == 0 {
				break
			}
			for _, p := range page {
				members = append(members, p.Email)
			}
			after = page[len(page)-1].Email
		}
		require.Equal(f, want, all)
		require.Equal(f, want, members)
	})
}

func TestNothingChangesWithoutItsAct(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		_, v := f.join("ann@example.com", people.RoleMember)
		f.fails = people.ErrUnavailable
		require.ErrorIs(f, f.SetRole(ctx, account, v.Person, people.RoleOwner), people.ErrUnavailable)
		require.ErrorIs(f, f.SetOperator(ctx, v.Person, people.Admin), people.ErrUnavailable)
		_, _, err := f.Invite(ctx, people.Invitation{Email: "b@example.com", Account: account, Role: people.RoleMember})
		require.ErrorIs(f, err, people.ErrUnavailable)
		f.fails = nil
		m, err := f.Membership(ctx, account, v.Person)
		require.NoError(f, err)
		require.Equal(f, people.RoleMember, m.Role)
		open, err := f.Invitations(ctx, "*", "", 10)
		require.NoError(f, err)
		require.Empty(f, open)
	})
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		_, v := f.join("ann@example.com", people.RoleMember)
		require.NoError(f, f.ChangeProfile(ctx, v.Person, people.Profile{Name: " Änn\x00\n ", Language: "de",
			Zone: "Europe/Berlin"}))
		p, err := f.Person(ctx, v.Person)
		require.NoError(f, err)
		require.Equal(f, [3]string{"Änn", "de", "Europe/Berlin"}, [3]string{p.Name, p.Language, p.Zone})
		for _, bad := range []people.Profile{{Zone: "Mars/Base"}, {Zone: "Local"}, {Zone: "../../etc/passwd"},
			{Language: "<script>"}, {Language: strings.Repeat("a", 100)}} {
			require.ErrorIs(f, f.ChangeProfile(ctx, v.Person, bad), people.ErrInvalid)
		}
		require.ErrorIs(f, f.ChangeProfile(ctx, "person_none", people.Profile{}), people.ErrNotFound)
	})
}

func TestWithdrawnInvitations(t *testing.T) {
	t.Parallel()
	onBoth(t, func(f *fixture) {
		ctx := f.Context()
		token, v, err := f.Invite(ctx, people.Invitation{Email: "a@example.com", Account: account, Role: people.RoleMember})
		require.NoError(f, err)
		require.ErrorIs(f, f.WithdrawInvitation(ctx, "acct_other", v.ID), people.ErrNotFound)
		require.NoError(f, f.WithdrawInvitation(ctx, account, v.ID))
		require.ErrorIs(f, f.WithdrawInvitation(ctx, account, v.ID), people.ErrNotFound)
		_, _, err = f.Accept(ctx, token, people.Acceptance{Password: password}, home)
		require.ErrorIs(f, err, people.ErrExpired)
	})
}
