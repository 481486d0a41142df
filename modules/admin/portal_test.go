package admin

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/people"
)

// withPortal has the engine serve a configuration with a portal.
func withPortal(t *testing.T, e *engine.Engine, p config.Portal) {
	t.Helper()
	cfg := *e.Current().Config
	cfg.Portal = &p
	g, err := e.Prepare(t.Context(), &cfg)
	require.NoError(t, err)
	e.Activate(g)
	t.Cleanup(func() { e.Retire(g) })
}

func TestNoPortal(t *testing.T) {
	t.Parallel()
	c, _ := running(t)
	requireRefusals(t, c, map[string]refusal{
		"invite": {"POST", "/fareway/portal/invitations", NewInvitation{Email: "a@example.com", Operator: people.Admin}, 409,
			"write `portal {}`"},
		"list":  {"GET", "/fareway/portal/people", nil, 409, "write `portal {}`"},
		"first": {"POST", "/fareway/portal/first", nil, 409, "write `portal {}`"},
	})
}

func TestPortal(t *testing.T) {
	t.Parallel()
	c, e := running(t)
	ctx := t.Context()
	invite := NewInvitation{Email: "ann@example.com", Account: "ann", Role: people.RoleOwner}
	withPortal(t, e, config.Portal{URL: "https://ai.example.com"})
	require.NoError(t, c.Call(ctx, "POST", "/fareway/accounts", NewAccount{Name: "ann"}, new(Account)))

	var link PortalLink
	require.NoError(t, c.Call(ctx, "POST", "/fareway/portal/invitations", invite, &link))
	require.Equal(t, "https://ai.example.com", link.URL)
	require.Equal(t, "ann@example.com", link.Email)
	token, is := strings.CutPrefix(link.Path, InvitationPath)
	require.True(t, is)
	invitations := listOf[people.Invitation](t, c, "/fareway/portal/invitations?account=ann")
	require.Len(t, invitations, 1)
	require.Equal(t, "ann", invitations[0].Account)
	client := people.Client{Host: "ai.example.com", Secure: true}
	session, v, err := e.People().Accept(ctx, token, people.Acceptance{Name: "Ann",
		Password: "a long and rainy afternoon"}, client)
	require.NoError(t, err)

	all := listOf[PortalPerson](t, c, "/fareway/portal/people")
	require.Len(t, all, 1)
	require.Equal(t, []PortalMembership{{"ann", people.RoleOwner}}, all[0].Accounts)
	require.Equal(t, all, listOf[PortalPerson](t, c, "/fareway/portal/people?account=ann"))
	require.Len(t, listOf[people.Session](t, c, "/fareway/portal/people/ann@example.com/sessions"), 1)

	var p PortalPerson
	path := "/fareway/portal/people/ann@example.com"
	require.NoError(t, c.Call(ctx, "POST", path+"/role", PortalRole{Operator: "admin"}, &p))
	require.Equal(t, people.Admin, p.Operator)
	_, _, err = e.People().Session(ctx, session, client)
	require.ErrorIs(t, err, people.ErrNoSession)
	require.NoError(t, c.Call(ctx, "POST", "/fareway/portal/first", nil, &link))
	require.Empty(t, link.Path, "there is an admin")

	requireRefusals(t, c, map[string]refusal{
		"last owner":      {"POST", path + "/role", PortalRole{Account: "ann", Role: "none"}, 409, "last owner"},
		"last admin":      {"POST", path + "/state", PortalState{Disabled: true}, 409, "last admin"},
		"no such role":    {"POST", path + "/role", PortalRole{Account: "ann", Role: "boss"}, 400, "owner, member or"},
		"no such account": {"POST", path + "/role", PortalRole{Account: "bob", Role: "owner"}, 404, `no account "bob"`},
		"both": {"POST", path + "/role", PortalRole{Account: "ann", Role: "owner", Operator: "admin"}, 400,
			"say an account"},
		"no such person":  {"GET", "/fareway/portal/people/bob@example.com", nil, 404, "portal people` shows all"},
		"no e-mail":       {"GET", "/fareway/portal/people/bob", nil, 400, "no e-mail address"},
		"no such session": {"DELETE", path + "/sessions/session_x", nil, 404, "no session session_x"},
		"no such link":    {"DELETE", "/fareway/portal/invitations/x", nil, 404, "no invitation x"},
		"to nothing": {"POST", "/fareway/portal/invitations", NewInvitation{Email: "b@example.com"}, 400,
			"to an account"},
		"to nobody's account": {"POST", "/fareway/portal/invitations",
			NewInvitation{Email: "b@example.com", Account: "bob", Role: people.RoleOwner}, 404, `no account "bob"`},
		"not of this API": {"POST", path + "/password", nil, 404, "there is no"},
	})
	require.NoError(t, c.Call(ctx, "POST", path+"/reset", nil, &link))
	require.Contains(t, link.Path, InvitationPath)
	id := listOf[people.Invitation](t, c, "/fareway/portal/invitations")[0].ID
	require.NoError(t, c.Call(ctx, "DELETE", "/fareway/portal/invitations/"+id, nil, new(any)))
	require.Empty(t, listOf[people.Invitation](t, c, "/fareway/portal/invitations"))

	in, err := e.People().SignIn(ctx, "ann@example.com", "a long and rainy afternoon", client)
	require.NoError(t, err)
	require.NotEqual(t, v.ID, in.Session.ID)
	require.NoError(t, c.Call(ctx, "DELETE", path+"/sessions", nil, new(PortalRevoked)))
	require.Empty(t, listOf[people.Session](t, c, path+"/sessions"))

	var acts []string
	for _, a := range listOf[Act](t, c, "/fareway/ledger/audit") {
		if strings.HasPrefix(a.Action, "portal.") {
			acts = append(acts, a.Action+" "+a.Account)
		}
	}
	require.ElementsMatch(t, []string{"portal.invite ann", "portal.accept ann", "portal.set_operator ",
		"portal.invite_reset ", "portal.withdraw_invitation ", "portal.revoke_sessions "}, acts)
}
