package portal

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/payments/stripetest"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/internal/stores"
)

// TestPay: an owner buys credits, Stripe says so to the webhook, and the page shows it; what others send moves nothing.
func TestPay(t *testing.T) {
	t.Parallel()
	stripe := stripetest.New(t)
	s := newSiteOf(t, &config.Portal{Stripe: &config.Stripe{SecretKey: stripetest.Key, WebhookSecret: stripetest.Secret,
		Currency: "eur", UnitAmount: 95, UnitCredits: 100, Minimum: 500, Maximum: 10_000}},
		engine.Options{OpenPeople: stores.OpenPeople, Stripe: stripe.Transport()})
	ann, bob := enginetest.NewCustomer(t, s.engine, "ann"), enginetest.NewCustomer(t, s.engine, "bob")
	b := s.member("ann@example.com", ann.Account.ID, people.RoleOwner)
	page := b.get("/portal/credits")
	require.Contains(t, page.body, "100 credits cost EUR 0.95")
	require.Contains(t, page.body, "1,000 credits for EUR 9.50")
	requireSafe(t, page)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	require.Equal(t, http.StatusBadRequest, b.post("/portal/credits", "act", "buy", "credits", "550").StatusCode)
	require.Equal(t, http.StatusBadRequest, b.post("/portal/credits", "act", "buy", "credits", "x").StatusCode)
	sent := b.post("/portal/credits", "act", "buy", "credits", "1000", "account", ann.Account.ID)
	require.Equal(t, http.StatusSeeOther, sent.StatusCode, sent.body)
	require.Equal(t, "https://checkout.stripe.com/c/pay/cs_test_1", sent.Header.Get("Location"))
	list, err := s.engine.People().Payments(t.Context(), ann.Account.ID, "", false, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	back := "/portal/credits?payment=" + list[0].ID
	require.Contains(t, b.get(back).body, "Nothing is paid yet")
	post := func(secret string) int {
		body, signature := stripetest.Sign(stripe.Pay("cs_test_1"), secret, time.Now())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/portal/stripe", bytes.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Stripe-Signature", signature)
		resp, err := s.server.Client().Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusBadRequest, post("whsec_another"))
	require.Equal(t, http.StatusOK, post(stripetest.Secret))
	require.Equal(t, http.StatusOK, post(stripetest.Secret))
	require.Contains(t, b.get(back).body, "1,000 credits are added")
	require.Contains(t, b.get("/portal/").body, ">2,000.00<")
	other := s.member("bob@example.com", bob.Account.ID, people.RoleOwner)
	require.Equal(t, http.StatusNotFound, other.get(back).StatusCode, "of another account")
	viewer := s.member("viewer@example.com", ann.Account.ID, people.RoleViewer)
	require.Equal(t, http.StatusForbidden, viewer.post("/portal/credits", "act", "buy", "credits", "500").StatusCode)
	require.NotContains(t, viewer.get("/portal/credits").body, "Go to the payment")
	require.NotContains(t, s.log.String(), stripetest.Secret)
}
