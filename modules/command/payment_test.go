package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/payments"
	"github.com/fareway/fareway/modules/internal/payments/stripetest"
	"github.com/fareway/fareway/modules/internal/stores"
)

// TestPaymentCommands: an operator looks at payments, has Stripe asked for one that it has said nothing of, and sets
// how an account tops itself up.
func TestPaymentCommands(t *testing.T) {
	t.Parallel()
	stripe := stripetest.New(t)
	e := enginetest.Start(t, &config.Config{Portal: &config.Portal{Stripe: &config.Stripe{SecretKey: stripetest.Key,
		WebhookSecret: stripetest.Secret, Currency: "eur", UnitAmount: 95, UnitCredits: 100, Minimum: 500, Maximum: 10_000}}},
		engine.Options{OpenPeople: stores.OpenPeople, Stripe: stripe.Transport()})
	serve(t, e)
	data := e.DataDir()
	ann := enginetest.NewCustomer(t, e, "ann")
	do := func(args ...string) string {
		t.Helper()
		out, err := run(t, append(args, "--data", data)...)
		require.NoError(t, err)
		return out
	}
	fails := func(message string, args ...string) {
		t.Helper()
		_, err := run(t, append(args, "--data", data)...)
		require.ErrorContains(t, err, message)
	}
	require.Contains(t, do("payment", "list"), "There are none.")
	fails("pay_none", "payment", "check", "pay_none")
	fails(`there is no account "bob"`, "payment", "list", "--account", "bob")
	fails("there is nothing to pay with", "account", "set-top-up", "ann", "--below", "100", "--buy", "500", "--monthly",
		"1000")

	p, _, err := e.Payments().Begin(t.Context(), payments.Checkout{Account: ann.Account.ID, Name: "ann", Credits: 500,
		Return: "https://ai.example.com/portal/credits", Keep: true})
	require.NoError(t, err)
	require.Regexp(t, p.ID+` +acct_\w+ +500 +EUR 4\.75 +open `, do("payment", "list", "--account", "ann"))
	require.Contains(t, do("payment", "list", "--waiting"), "There are none.")
	require.Contains(t, do("payment", "check", p.ID), "is open.")
	fails("waits for nobody", "payment", "close", p.ID, "--reason", "none")
	fails("reason", "payment", "close", p.ID)
	stripe.Pay(p.Session)
	require.Contains(t, do("payment", "check", p.ID), "Payment "+p.ID+" of 500 credits (US$5.00) (EUR 4.75) is credited.")
	require.Contains(t, do("account", "show", "ann"), "1,500 credits")
	require.Len(t, runJSON[admin.Payments](t, "payment", "list", "--data", data).Payments, 1)

	set := []string{"account", "set-top-up", "ann", "--below", "100", "--buy", "500", "--monthly", "1000"}
	require.Equal(t, "Account ann buys 500 credits (US$5.00) with visa 4242 when its balance is below 100 credits "+
		"(US$1.00), 1,000 credits (US$10.00) in a month at most.\n", do(set...))
	require.Equal(t, true, runJSON[map[string]any](t, append(set, "--data", data)...)["active"])
	fails("multiples of 100", "account", "set-top-up", "ann", "--below", "100", "--buy", "550", "--monthly", "1000")
	fails("at least one of the flags", "account", "set-top-up", "ann")
	fails("none of the others can be", "account", "set-top-up", "ann", "--off", "--forget")
	require.Equal(t, "Account ann buys nothing by itself.\n", do("account", "set-top-up", "ann", "--off"))
	do(set...)
	require.Equal(t, "Account ann buys nothing by itself.\n", do("account", "set-top-up", "ann", "--forget"))
	fails("there is nothing to pay with", set...)
}
