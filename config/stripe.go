package config

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"

	"golang.org/x/text/currency"
)

// Stripe is how accounts pay for credits in the portal. It holds secrets: it prints without them.
type Stripe struct {
	SecretKey     string // of the API, "sk_..." or a restricted one, "rk_..."
	WebhookSecret string // "whsec_...", by which what Stripe sends is told from what others do
	Currency      string // ISO 4217, in lower case, as Stripe has it
	// UnitAmount is what UnitCredits cost, in the smallest unit of the currency: a price in whole numbers, so that
	// nothing is rounded. Credits are bought in multiples of UnitCredits.
	UnitAmount, UnitCredits int64
	// Minimum and Maximum are the credits of one payment, multiples of UnitCredits.
	Minimum, Maximum int64
}

const (
	usualMinimumPayment = 500
	usualMaximumPayment = 100_000
	// maxAmount is the largest amount that Stripe takes, in the smallest unit of a currency.
	maxAmount = 99_999_999
)

// currencyDecimals are those of the currencies that Stripe counts otherwise than in hundredths
// (docs.stripe.com/currencies, "Zero-decimal currencies" and "Three-decimal currencies"). It is not ISO's table: Stripe
// counts ISK and UGX in hundredths.
var currencyDecimals = map[string]int{
	"bif": 0, "clp": 0, "djf": 0, "gnf": 0, "jpy": 0, "kmf": 0, "krw": 0, "mga": 0, "pyg": 0, "rwf": 0, "vnd": 0,
	"vuv": 0, "xaf": 0, "xof": 0, "xpf": 0, "bhd": 3, "jod": 3, "kwd": 3, "omr": 3, "tnd": 3,
}

// IsLive reports whether the key moves real money.
func (s *Stripe) IsLive() bool { return strings.Contains(s.SecretKey, "_live_") }

// Price is what credits cost, in the smallest unit of the currency; ok is false for credits that cannot be bought.
func (s *Stripe) Price(credits int64) (amount int64, ok bool) {
	if credits < s.Minimum || credits > s.Maximum || credits%s.UnitCredits != 0 {
		return 0, false
	}
	return credits / s.UnitCredits * s.UnitAmount, true
}

// FormatAmount writes an amount of a currency of Stripe's, as in "EUR 12.50".
func FormatAmount(amount int64, currency string) string {
	decimals, ok := currencyDecimals[currency]
	if !ok {
		decimals = 2
	}
	sign := ""
	if amount < 0 && amount > math.MinInt64 {
		sign, amount = "-", -amount
	}
	text := fmt.Sprintf("%0*d", decimals+1, amount)
	if whole := len(text) - decimals; decimals > 0 {
		text = text[:whole] + "." + text[whole:]
	}
	return strings.ToUpper(currency) + " " + sign + text
}

// printedStripe is what is printed of it.
type printedStripe struct {
	SecretKey     string `json:"secret_key"`
	WebhookSecret string `json:"webhook_secret"`
	Currency      string `json:"currency"`
	UnitAmount    int64  `json:"unit_amount"`
	UnitCredits   int64  `json:"unit_credits"`
	Minimum       int64  `json:"minimum_credits"`
	Maximum       int64  `json:"maximum_credits"`
}

// MarshalJSON prints it without its secrets.
func (s Stripe) MarshalJSON() ([]byte, error) {
	return json.Marshal(printedStripe{hidden, hidden, s.Currency, s.UnitAmount, s.UnitCredits, s.Minimum, s.Maximum})
}

// Format prints it without its secrets under every verb.
func (s Stripe) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.text()) }

// LogValue keeps its secrets out of logs.
func (s Stripe) LogValue() slog.Value { return slog.StringValue(s.text()) }

func (s Stripe) text() string {
	return fmt.Sprintf("stripe %d credits for %s", s.UnitCredits, FormatAmount(s.UnitAmount, s.Currency))
}

const stripeExample = `stripe {
  secret_key     = env("STRIPE_SECRET_KEY")
  webhook_secret = env("STRIPE_WEBHOOK_SECRET")
  currency       = "eur"
  unit_amount    = 95
  unit_credits   = 100
}`

var stripeGrammar = grammar{
	noun: "attribute",
	attributes: []attributeRule{
		{name: "secret_key", kind: aText(512), required: true, secret: true, example: `env("STRIPE_SECRET_KEY")`,
			doc: "The key of Stripe's API: `sk_...` or, better, a restricted one, `rk_...`, that may write Checkout Sessions, " +
				"PaymentIntents and Customers."},
		{name: "webhook_secret", kind: aText(512), required: true, secret: true, example: `env("STRIPE_WEBHOOK_SECRET")`,
			doc: "The signing secret of the webhook endpoint, `whsec_...`."},
		{name: "currency", kind: aText(3), required: true, example: `"eur"`,
			doc: "The currency of payments, by ISO 4217."},
		{name: "unit_amount", kind: anInteger(1, maxAmount), required: true, example: "95",
			doc: "What `unit_credits` cost, in the smallest unit of the currency: cents of a euro, whole yen."},
		{name: "unit_credits", kind: anInteger(1, maxCredits), required: true, example: "100",
			doc: "Credits are bought in multiples of this."},
		{name: "minimum_credits", kind: anInteger(1, maxCredits), instead: "500, or the next multiple of `unit_credits`",
			example: "1000", doc: "The least that one payment buys. Stripe takes no amounts below about half a US dollar."},
		{name: "maximum_credits", kind: anInteger(1, maxCredits),
			instead: "100,000, or the last multiple of `unit_credits` before", example: "50000",
			doc: "The most that one payment buys."},
	},
}

// stripe decodes the block.
func (s *section) stripe() *Stripe {
	p := &Stripe{}
	s.stripeSecret("secret_key", &p.SecretKey, "sk_test_", "sk_live_", "rk_test_", "rk_live_")
	s.stripeSecret("webhook_secret", &p.WebhookSecret, "whsec_")
	if v, ok := s.text("currency", &p.Currency); ok {
		if _, err := currency.ParseISO(p.Currency); err != nil {
			s.refuse(v, "must be a currency by ISO 4217, as in \"eur\"")
		}
		p.Currency = strings.ToLower(p.Currency)
	}
	if v, ok := s.integer("unit_amount", &p.UnitAmount); ok && currencyDecimals[p.Currency] == 3 && p.UnitAmount%10 != 0 {
		s.refuse(v, "must be a multiple of 10: Stripe takes amounts of this currency to two decimals only")
	}
	if _, ok := s.integer("unit_credits", &p.UnitCredits); !ok {
		return p
	}
	unit := p.UnitCredits
	p.Minimum = (usualMinimumPayment + unit - 1) / unit * unit
	p.Maximum = max(usualMaximumPayment/unit*unit, p.Minimum)
	for _, bound := range []struct {
		name string
		to   *int64
	}{{"minimum_credits", &p.Minimum}, {"maximum_credits", &p.Maximum}} {
		if v, ok := s.integer(bound.name, bound.to); ok && *bound.to%unit != 0 {
			s.refuse(v, fmt.Sprintf("must be a multiple of unit_credits, which is %d", unit))
		}
	}
	switch at := s.anyOf("maximum_credits", "minimum_credits", "unit_amount"); {
	case p.Maximum < p.Minimum:
		s.fail(at, "Invalid maximum_credits", fmt.Sprintf("maximum_credits (%d) is less than minimum_credits (%d).",
			p.Maximum, p.Minimum))
	case p.UnitAmount > 0 && p.Maximum/unit > maxAmount/p.UnitAmount:
		s.fail(at, "Payments too large", fmt.Sprintf("%s credits would cost more than Stripe takes at once (%s of the "+
			"smallest unit of the currency). Set a lower maximum_credits.", grouped(p.Maximum), grouped(maxAmount)))
	}
	return p
}

// stripeSecret reads a secret that begins as Stripe's do.
func (s *section) stripeSecret(name string, target *string, prefixes ...string) {
	var text string
	if s.secretText(name, &text); text == "" {
		return
	}
	text = strings.TrimSpace(text)
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(text, prefix); ok && rest != "" {
			*target = text
			return
		}
	}
	s.fail(s.attributes[name].Expr.Range(), "Invalid "+name, fmt.Sprintf("%s begins with %s, and this does not. The "+
		"value came from env or file and is not shown.", name, strings.Join(prefixes, " or ")))
}

var (
	_ json.Marshaler = Stripe{}
	_ fmt.Formatter  = Stripe{}
	_ slog.LogValuer = Stripe{}
)
