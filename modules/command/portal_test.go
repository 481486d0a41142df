package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/stores"
)

// TestPortalCommands: an operator invites, looks, changes and ends, each time by what the line before has printed.
func TestPortalCommands(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t, &config.Config{Portal: &config.Portal{URL: "https://ai.example.com"}},
		engine.Options{OpenPeople: stores.OpenPeople})
	serve(t, e)
	data := e.DataDir()
	enginetest.NewCustomer(t, e, "ann")
	do := func(args ...string) string {
		t.Helper()
		out, err := run(t, append(append([]string{"portal"}, args...), "--data", data)...)
		require.NoError(t, err)
		return out
	}
	fails := func(message string, args ...string) {
		t.Helper()
		_, err := run(t, append(append([]string{"portal"}, args...), "--data", data)...)
		require.ErrorContains(t, err, message)
	}
	require.Contains(t, do("people"), "Nobody may: invite somebody with `fareway gateway portal invite EMAIL --account "+
		"NAME`")
	require.Contains(t, do("invitations"), "There are none.")
	fails("say --account NAME, --operator, or both", "invite", "ann@example.com")
	fails("say --account NAME, too", "invite", "ann@example.com", "--role", "owner", "--operator", "admin")
	fails(`there is no account "bob"`, "invite", "ann@example.com", "--account", "bob")
	fails("EMAIL is missing", "invite")

	out := do("first")
	require.Regexp(t, `^https://ai\.example\.com/portal/invitation/[0-9a-f]{64}\n\nThis makes the first admin\. `, out)
	accept := func(link string, a people.Acceptance) {
		t.Helper()
		token := link[strings.LastIndex(link, "/")+1:]
		a.Password = "a long and rainy afternoon"
		_, _, err := e.People().Accept(t.Context(), token, a, people.Client{Host: "ai.example.com", Address: "192.0.2.1"})
		require.NoError(t, err)
	}
	accept(strings.Split(out, "\n")[0], people.Acceptance{Email: "root@example.com"})
	require.Contains(t, do("first"), "There is an admin already")
	out = do("invite", "Ann@example.com", "--account", "ann")
	require.Contains(t, out, "This invites ann@example.com to account ann as member.")
	var link admin.PortalLink
	require.NoError(t, json.Unmarshal([]byte(do("invite", "bob@example.com", "--operator", "support", "--json")), &link))
	require.Contains(t, do("invitations"), "to be an operator (support)")
	accept(strings.Split(out, "\n")[0], people.Acceptance{Name: "Ann"})
	require.Regexp(t, `(?m)^ann@example\.com +Ann +- +ann \(member\) +password +2`, do("people", "--account", "ann"))
	require.Regexp(t, `(?m)^root@example\.com +- +admin +- +password +2`, do("people"))

	require.Contains(t, do("role", "ann@example.com", "--account", "ann", "--role", "owner"), "accounts ann (owner)")
	fails("the last owner", "role", "ann@example.com", "--account", "ann", "--role", "none")
	fails("nothing is asked for", "role", "ann@example.com")
	fails("the last admin", "disable", "root@example.com")
	require.Regexp(t, `(?m)^session_[0-9a-f]{24} .* 192\.0\.2\.1 +invitation +-$`, do("sessions", "ann@example.com"))
	require.Contains(t, do("revoke", "ann@example.com"), "All sessions of ann@example.com ended.")
	require.Contains(t, do("sessions", "ann@example.com"), "There are none.")
	require.Contains(t, do("disable", "ann@example.com"), "signs in by DISABLED")
	fails("ann@example.com is disabled: enable them first", "reset", "ann@example.com")
	require.Contains(t, do("enable", "ann@example.com"), "signs in by password")
	require.Contains(t, do("reset", "ann@example.com"), "This sets a new password of ann@example.com.")
	var invitations []people.Invitation
	require.NoError(t, json.Unmarshal([]byte(do("invitations", "--json")), &invitations))
	require.Len(t, invitations, 2)
	for _, v := range invitations {
		require.Contains(t, do("withdraw", v.ID), "is withdrawn")
	}
	fails("it is used, withdrawn, or long over", "withdraw", invitations[0].ID)
	fails("there is no person nobody@example.com", "sessions", "nobody@example.com")
}
