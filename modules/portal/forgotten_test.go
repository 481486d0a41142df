package portal

import (
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/alerts/mailtest"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/stores"
)

// mailingSite is one that mails links, which lead to https://ai.example.test.
func mailingSite(t *testing.T, server string) *site {
	t.Helper()
	host, port, err := net.SplitHostPort(server)
	require.NoError(t, err)
	n, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	cfg := &config.Config{Gateway: config.Gateway{DefaultProfile: config.ProfileBalanced},
		Portal: &config.Portal{URL: "https://ai.example.test"}, Plans: []config.Plan{{Name: "starter"}},
		Profiles: config.DefaultProfiles(), Routes: []config.Route{{Name: "small", Provider: "up", Model: "small-1",
			Quality: 0.6, ContextWindow: 128_000, MaxOutput: 4096, Price: enginetest.ExampleCost, Cost: enginetest.ExampleCost}},
		Alerts: config.Alerts{Mails: []config.Mail{{Name: "links", Host: host, Port: uint16(n), TLS: config.MailPlain,
			From: "Fareway <fareway@example.test>", Links: true, Timeout: 10 * time.Second}}}}
	cfg.Path = filepath.Join(t.TempDir(), "gateway.hcl")
	return siteOf(t, enginetest.Start(t, cfg, engine.Options{OpenPeople: stores.OpenPeople}))
}

// textOf is the text of a mail.
func textOf(t *testing.T, l mailtest.Letter) string {
	t.Helper()
	_, body, ok := strings.Cut(l.Text, "\r\n\r\n")
	require.True(t, ok)
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	require.NoError(t, err)
	return string(text)
}

var mailedLink = regexp.MustCompile(`https://ai\.example\.test(/portal/invitation/\S+)`)

// TestForgotten: who asks is mailed a link that leads where the configuration says, and who is not there learns
// nothing.
func TestForgotten(t *testing.T) {
	t.Parallel()
	mails := mailtest.Start(t)
	s := mailingSite(t, mails.Address)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	s.operator("root@example.com", people.Admin)
	b := s.browser()
	require.Contains(t, b.get("/portal/sign-in").body, `href="/portal/forgotten"`)
	page := b.get("/portal/forgotten")
	requireSafe(t, page)
	var answers []string
	for _, email := range []string{"nobody@example.com", "root@example.com", "no e-mail", "", "ann@example.com"} {
		a := b.post("/portal/forgotten", "email", email)
		require.Equal(t, http.StatusOK, a.StatusCode)
		answers = append(answers, regexp.MustCompile(`nonce="[^"]*"`).ReplaceAllString(a.body, ""))
	}
	for _, a := range answers {
		require.Equal(t, answers[0], a, "it tells whom there is")
	}
	letter := mails.Next(t)
	require.Equal(t, []string{"ann@example.com"}, letter.To)
	link := mailedLink.FindStringSubmatch(textOf(t, letter))
	require.Len(t, link, 2, letter.Text)
	require.NotContains(t, letter.Text, s.url, "a link leads nowhere that a visitor says")
	const another = "quite another long one"
	a := b.post(link[1], "password", another)
	require.Equal(t, "/portal/", a.Request.URL.Path)
	b = s.browser()
	require.Equal(t, http.StatusUnauthorized, b.post("/portal/sign-in", "email", "ann@example.com", "password",
		password).StatusCode)
	a = b.post("/portal/sign-in", "email", "ann@example.com", "password", another)
	require.Equal(t, "/portal/", a.Request.URL.Path)
	require.True(t, mails.HasNone())
	require.NotContains(t, s.log.String(), link[1])

	stranger := s.browser()
	for range 20 {
		if a = stranger.post("/portal/forgotten", "email", "nobody@example.com"); a.StatusCode != http.StatusOK {
			break
		}
	}
	require.Equal(t, http.StatusTooManyRequests, a.StatusCode)
}

// TestInvitationsAreMailed: from the page in the language of who invites, from the command line in English; and where
// that fails the link is there to hand over.
func TestInvitationsAreMailed(t *testing.T) {
	t.Parallel()
	mails := mailtest.Start(t)
	s := mailingSite(t, mails.Address)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	owner := s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	owner.header.Set("Accept-Language", "de")
	a := owner.post("/portal/members", "act", "invite", "email", "Bob@example.com", "role", "member")
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Contains(t, a.body, "Er wurde ihnen gemailt.")
	letter := mails.Next(t)
	require.Equal(t, []string{"bob@example.com"}, letter.To)
	text := textOf(t, letter)
	require.Contains(t, text, "Sie sind eingeladen")
	link := mailedLink.FindStringSubmatch(text)
	require.Len(t, link, 2)
	require.Contains(t, a.body, "https://ai.example.test"+link[1])
	require.Equal(t, "/portal/", s.browser().post(link[1], "name", "Bob", "password", password).Request.URL.Path)

	api := admin.NewLocal(s.engine).As("the operator")
	var made admin.PortalLink
	require.NoError(t, api.Call(t.Context(), http.MethodPost, "/fareway/portal/invitations",
		admin.NewInvitation{Email: "carol@example.com", Account: "ann", Role: people.RoleViewer, Mail: true}, &made))
	require.True(t, made.Mailed)
	require.Contains(t, textOf(t, mails.Next(t)), made.URL+made.Path)
	require.NoError(t, api.Call(t.Context(), http.MethodPost, "/fareway/portal/people/bob@example.com/reset",
		admin.NewReset{Mail: true}, &made))
	require.Contains(t, textOf(t, mails.Next(t)), "It takes your second factor and your passkeys away")
	made = admin.PortalLink{}
	require.NoError(t, api.Call(t.Context(), http.MethodPost, "/fareway/portal/people/bob@example.com/reset", nil, &made))
	require.False(t, made.Mailed)
	require.True(t, mails.HasNone())

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	s = mailingSite(t, closed.Addr().String())
	ann = enginetest.NewCustomer(t, s.engine, "ann")
	owner = s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	a = owner.post("/portal/members", "act", "invite", "email", "bob@example.com", "role", "member")
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Contains(t, a.body, "It could not be mailed: the mail server did not take it")
	require.NotContains(t, a.body, closed.Addr().String(), "what is behind the gateway is the operator's")
	require.Contains(t, s.log.String(), "mailing a link")
	require.Contains(t, a.body, "https://ai.example.test/portal/invitation/")
}

// TestLinksAreHandedOver: without a mail block that mails links there is no page to ask on, and no mail to ask for.
func TestLinksAreHandedOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.browser()
	require.Contains(t, b.get("/portal/sign-in").body, "can give you a link")
	require.Equal(t, http.StatusNotFound, b.get("/portal/forgotten").StatusCode)
	require.Equal(t, http.StatusNotFound, b.post("/portal/forgotten", "email", "ann@example.com").StatusCode)
	enginetest.NewCustomer(t, s.engine, "ann")
	api := admin.NewLocal(s.engine).As("the operator")
	err := api.Call(t.Context(), http.MethodPost, "/fareway/portal/invitations",
		admin.NewInvitation{Email: "carol@example.com", Account: "ann", Role: people.RoleViewer, Mail: true}, nil)
	require.ErrorContains(t, err, "links = true")
	list, err := s.engine.People().Invitations(t.Context(), "*", "", 10)
	require.NoError(t, err)
	require.Empty(t, list, "it was refused before anything was made")
}

// TestFewLettersAMinute: an owner's invitations do not fill mailboxes; what is not mailed is handed over.
func TestFewLettersAMinute(t *testing.T) {
	t.Parallel()
	mails := mailtest.Start(t)
	s := mailingSite(t, mails.Address)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	owner := s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	mailed := 0
	for range 20 {
		a := owner.post("/portal/members", "act", "invite", "email", "bob@example.com", "role", "member")
		require.Equal(t, http.StatusOK, a.StatusCode)
		if strings.Contains(a.body, "It could not be mailed: you have mailed many just now") {
			break
		}
		mails.Next(t)
		mailed++
	}
	require.GreaterOrEqual(t, mailed, 5)
	require.Less(t, mailed, 20)
}

// TestForgottenAtOnce: the answer is the same where as many mails are on their way as may be.
func TestForgottenAtOnce(t *testing.T) {
	t.Parallel()
	mails := mailtest.Start(t)
	s := mailingSite(t, mails.Address)
	ann := enginetest.NewCustomer(t, s.engine, "ann")
	s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	for range maxLetters {
		s.letters <- struct{}{}
	}
	a := s.browser().post("/portal/forgotten", "email", "ann@example.com")
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Contains(t, a.body, "is on its way to them")
	require.Contains(t, s.log.String(), "too many are being mailed")
	require.True(t, mails.HasNone())
}
