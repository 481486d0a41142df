package admin

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/plugins/llm"
)

// This file writes usage as FOCUS 1.2, the FinOps Open Cost and Usage Specification, has it
// (https://focus.finops.org/focus-specification/v1-2/). What of the gateway is what there, and why:
//
//   - A credit is US$0.01, so that what is billed is in USD. Credits are the virtual currency that use is priced in,
//     and the unit of the price: a route's tokens have four prices, which may change within a day, and a request is
//     rounded once. So only credits times US$0.01 are exactly the cost, as FOCUS asks for.
//   - BilledCost is what use has taken from the balance, on the day of its request: what comes later changes that.
//     Top-ups are in no row, or all would be billed twice: who sells credits bills those by themselves.
//   - An account is the billing account, a key a sub account, a route the resource and the SKU.
//   - A discount is of a whole row (DiscountHandling): what fair use left free, and what went beyond what was held,
//     are rows of their own, which are priced and not billed. Refunds are rows of their own, too, in the days of the
//     requests that they are of. Tokens are in the row of what was charged, so that they are there once.

// FocusBy is what usage has to be grouped by for WriteFocus.
const FocusBy = "day,key,route"

// focusRow is a row: a part of what a group of requests has come to.
type focusRow struct {
	usage    *Usage
	day      time.Time
	provider string // who sells and bills it
	part     *focusPart
	priced   int64 // microcents, before discounts; below zero for what was given back
}

// focusPart is what one row has of a group.
type focusPart struct {
	what   string // for people
	priced func(*Usage) int64
	billed bool // false: a discount of all of it
	used   bool // the tokens are in this row, which is there also where nothing was priced
}

var focusParts = []focusPart{
	{"Tokens used", func(u *Usage) int64 { return u.Microcents }, true, true},
	{"Left free by fair use", func(u *Usage) int64 { return u.Waived }, false, false},
	{"Beyond what was held, not charged", func(u *Usage) int64 { return u.Over }, false, false},
	{"Refund", func(u *Usage) int64 { return -u.Refunded }, true, false},
}

// focusColumn is a column, with what a row has there: "" is null.
type focusColumn struct {
	name string
	read func(*focusRow) string
}

// focusColumns are those of FOCUS that say something of a gateway, all mandatory ones with them, and behind them our
// own.
var focusColumns = []focusColumn{
	{"BilledCost", (*focusRow).billedDollars},
	{"BillingAccountId", func(r *focusRow) string { return r.usage.AccountID }},
	{"BillingAccountName", func(r *focusRow) string { return human.PlainCell(r.usage.Account) }},
	{"BillingCurrency", always("USD")},
	{"BillingPeriodEnd", func(r *focusRow) string { return focusTime(r.month().AddDate(0, 1, 0)) }},
	{"BillingPeriodStart", func(r *focusRow) string { return focusTime(r.month()) }},
	{"ChargeCategory", always("Usage")}, // its refunds, too
	{"ChargeClass", always("")},         // a refund is in the period of its request
	{"ChargeDescription", func(r *focusRow) string { return r.part.what + ", " + cmp.Or(r.usage.Route, "no route") }},
	{"ChargeFrequency", always("Usage-Based")},
	{"ChargePeriodEnd", func(r *focusRow) string { return focusTime(r.day.AddDate(0, 0, 1)) }},
	{"ChargePeriodStart", func(r *focusRow) string { return focusTime(r.day) }},
	{"ConsumedQuantity", (*focusRow).tokens},
	{"ConsumedUnit", always("Tokens")},
	{"ContractedCost", (*focusRow).pricedDollars},
	{"ContractedUnitPrice", always("0.01")},
	{"EffectiveCost", (*focusRow).billedDollars},
	{"InvoiceId", always("")},
	{"InvoiceIssuerName", (*focusRow).providerCell},
	{"ListCost", (*focusRow).pricedDollars},
	{"ListUnitPrice", always("0.01")},
	{"PricingCategory", always("Standard")},
	{"PricingCurrency", always("Credits")},
	{"PricingCurrencyContractedUnitPrice", always("1")},
	{"PricingCurrencyEffectiveCost", func(r *focusRow) string { return decimal(r.billed(), creditPlaces) }},
	{"PricingCurrencyListUnitPrice", always("1")},
	{"PricingQuantity", func(r *focusRow) string { return decimal(r.priced, creditPlaces) }},
	{"PricingUnit", always("Credits")},
	{"ProviderName", (*focusRow).providerCell},
	{"PublisherName", (*focusRow).providerCell},
	{"ResourceId", func(r *focusRow) string { return human.PlainCell(r.usage.Route) }},
	{"ResourceName", always("")}, // it would be the same
	{"ResourceType", func(r *focusRow) string { return ifAny(r.usage.Route, "Route") }},
	{"ServiceCategory", always("AI and Machine Learning")},
	{"ServiceName", always("Language Models")},
	{"ServiceSubcategory", always("Generative AI")},
	{"SkuId", (*focusRow).sku},
	{"SkuMeter", always("Language Model Usage")},
	{"SkuPriceDetails", always("")},
	{"SkuPriceId", (*focusRow).sku},
	{"SubAccountId", func(r *focusRow) string { return r.usage.KeyID }},
	{"SubAccountName", func(r *focusRow) string { return human.PlainCell(r.usage.Key) }},
	{"Tags", always("")},
	{"x_AttemptCount", ofUse(func(u *Usage) *int64 { return &u.Attempts })},
	{"x_CacheReadTokens", ofUse(func(u *Usage) *int64 { return u.Tokens.CacheRead })},
	{"x_CacheWriteTokens", ofUse(func(u *Usage) *int64 { return u.Tokens.CacheWrite })},
	{"x_InputTokens", ofUse(func(u *Usage) *int64 { return u.Tokens.Input })},
	{"x_OutputTokens", ofUse(func(u *Usage) *int64 { return u.Tokens.Output })},
	{"x_Part", func(r *focusRow) string { return r.part.what }},
	{"x_ReasoningTokens", ofUse(func(u *Usage) *int64 { return u.Tokens.Reasoning })},
	{"x_RequestCount", ofUse(func(u *Usage) *int64 { return &u.Requests })},
}

// WriteFocus writes usage as CSV of FOCUS 1.2: rows gives it by FocusBy, provider is the name of who sells it. Nothing
// is written before there is some KB of it, or all.
func WriteFocus(w io.Writer, provider string, rows func(each func(Usage) error) error) error {
	out := csv.NewWriter(w)
	cells := make([]string, len(focusColumns))
	for i, c := range focusColumns {
		cells[i] = c.name
	}
	if err := out.Write(cells); err != nil {
		return fmt.Errorf("writing usage: %w", err)
	}
	err := rows(func(u Usage) error {
		day, err := time.Parse(time.DateOnly, u.Day)
		if err != nil {
			return fmt.Errorf("writing usage: a sum has no day: %w", err)
		}
		for i := range focusParts {
			row := focusRow{usage: &u, day: day, provider: provider, part: &focusParts[i]}
			if row.priced = row.part.priced(&u); row.priced == 0 && !row.part.used {
				continue
			}
			for i, c := range focusColumns {
				cells[i] = c.read(&row)
			}
			if err := out.Write(cells); err != nil {
				return fmt.Errorf("writing usage: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if out.Flush(); out.Error() != nil {
		return fmt.Errorf("writing usage: %w", out.Error())
	}
	return nil
}

func always(text string) func(*focusRow) string { return func(*focusRow) string { return text } }

// ifAny is what is said of a thing, null where there is none.
func ifAny(thing, text string) string {
	if thing == "" {
		return ""
	}
	return text
}

// ofUse is a count, which is null where the row has no use in it, or nobody has counted.
func ofUse(count func(*Usage) *int64) func(*focusRow) string {
	return func(r *focusRow) string {
		if n := count(r.usage); n != nil && r.part.used {
			return strconv.FormatInt(*n, 10)
		}
		return ""
	}
}

// billed is in microcents.
func (r *focusRow) billed() int64 {
	if !r.part.billed {
		return 0
	}
	return r.priced
}

func (r *focusRow) billedDollars() string { return decimal(r.billed(), dollarPlaces) }

func (r *focusRow) pricedDollars() string { return decimal(r.priced, dollarPlaces) }

func (r *focusRow) providerCell() string { return human.PlainCell(r.provider) }

// sku is what is priced: a route or, for what was charged without one, a name that no route may have.
func (r *focusRow) sku() string { return human.PlainCell(cmp.Or(r.usage.Route, "(no route)")) }

func (r *focusRow) month() time.Time { return r.day.AddDate(0, 0, 1-r.day.Day()) }

func (r *focusRow) tokens() string {
	if !r.part.used {
		return "0"
	}
	t := &r.usage.Tokens
	return strconv.FormatInt(llm.Tokens(t.Input)+llm.Tokens(t.CacheRead)+llm.Tokens(t.CacheWrite)+
		llm.Tokens(t.Output), 10)
}

func focusTime(t time.Time) string { return t.Format("2006-01-02T15:04:05Z") }

// How many decimals microcents have, as credits and as US dollars.
const creditPlaces, dollarPlaces = 6, 8

// decimal writes a whole number with so many of its digits behind a point, and no zeros at the end.
func decimal(n int64, places int) string {
	sign, digits := "", strconv.FormatInt(n, 10)
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	if missing := places + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, fraction := digits[:len(digits)-places], strings.TrimRight(digits[len(digits)-places:], "0")
	if fraction == "" {
		return sign + whole
	}
	return sign + whole + "." + fraction
}
