package admin

import (
	"bytes"
	"encoding/csv"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fareway/fareway/modules/internal/engine/enginetest"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/plugins/llm"
)

// focusRule is what FOCUS 1.2 says of a column.
type focusRule struct {
	mandatory bool // it has to be there
	nullable  bool // in rows of usage
	format    *regexp.Regexp
	allowed   []string
}

var (
	focusDecimal  = regexp.MustCompile(`^-?\d+(\.\d+)?$`)
	focusPrice    = regexp.MustCompile(`^\d+(\.\d+)?$`)
	focusMoment   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
	focusText     = regexp.MustCompile(`\S`)
	focusCurrency = regexp.MustCompile(`^[A-Z]{3}$`)
	focusUnit     = regexp.MustCompile(`^[A-Z][a-z]+s$`)
)

// focusRules are by the columns of the specification that we have. Its own text of each is at
// https://focus.finops.org/focus-specification/v1-2/.
var focusRules = map[string]focusRule{
	"BilledCost":         {mandatory: true, format: focusDecimal},
	"BillingAccountId":   {mandatory: true, format: focusText},
	"BillingAccountName": {mandatory: true, format: focusText},
	"BillingCurrency":    {mandatory: true, format: focusCurrency},
	"BillingPeriodEnd":   {mandatory: true, format: focusMoment},
	"BillingPeriodStart": {mandatory: true, format: focusMoment},
	"ChargeCategory": {mandatory: true,
		allowed: []string{"Usage", "Purchase", "Tax", "Credit", "Adjustment"}},
	"ChargeClass":                        {mandatory: true, nullable: true, allowed: []string{"Correction"}},
	"ChargeDescription":                  {mandatory: true, format: focusText},
	"ChargeFrequency":                    {allowed: []string{"One-Time", "Recurring", "Usage-Based"}},
	"ChargePeriodEnd":                    {mandatory: true, format: focusMoment},
	"ChargePeriodStart":                  {mandatory: true, format: focusMoment},
	"ConsumedQuantity":                   {format: focusDecimal},
	"ConsumedUnit":                       {format: focusUnit},
	"ContractedCost":                     {mandatory: true, format: focusDecimal},
	"ContractedUnitPrice":                {format: focusPrice},
	"EffectiveCost":                      {mandatory: true, format: focusDecimal},
	"InvoiceId":                          {nullable: true, format: focusText},
	"InvoiceIssuerName":                  {mandatory: true, format: focusText},
	"ListCost":                           {mandatory: true, format: focusDecimal},
	"ListUnitPrice":                      {format: focusPrice},
	"PricingCategory":                    {allowed: []string{"Standard", "Dynamic", "Committed", "Other"}},
	"PricingCurrency":                    {format: focusText},
	"PricingCurrencyContractedUnitPrice": {format: focusPrice},
	"PricingCurrencyEffectiveCost":       {format: focusDecimal},
	"PricingCurrencyListUnitPrice":       {format: focusPrice},
	"PricingQuantity":                    {mandatory: true, format: focusDecimal},
	"PricingUnit":                        {mandatory: true, format: focusUnit},
	"ProviderName":                       {mandatory: true, format: focusText},
	"PublisherName":                      {mandatory: true, format: focusText},
	"ResourceId":                         {nullable: true, format: focusText},
	"ResourceName":                       {nullable: true, format: focusText},
	"ResourceType":                       {nullable: true, format: focusText},
	"ServiceCategory":                    {mandatory: true, allowed: []string{"AI and Machine Learning"}},
	"ServiceName":                        {mandatory: true, format: focusText},
	"ServiceSubcategory":                 {allowed: []string{"Generative AI"}}, // of that category
	"SkuId":                              {format: focusText},
	"SkuMeter":                           {format: focusText},
	"SkuPriceDetails":                    {nullable: true},
	"SkuPriceId":                         {format: focusText},
	"SubAccountId":                       {format: focusText},
	"SubAccountName":                     {format: focusText},
	"Tags":                               {nullable: true},
}

// focusMandatory are the columns that each dataset has to have.
const focusMandatory = 21

// readFocus reads what WriteFocus has written.
func readFocus(t require.TestingT, text string) (rows []map[string]string) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	for _, record := range records[1:] {
		row := map[string]string{}
		for i, name := range records[0] {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// requireFocus holds a row to the rules.
func requireFocus(t require.TestingT, row map[string]string) {
	for name, value := range row {
		rule, known := focusRules[name]
		switch {
		case strings.HasPrefix(name, "x_"):
			require.Regexp(t, `^x_[A-Z][A-Za-z]+$`, name)
			continue
		case value == "":
			require.True(t, rule.nullable, "%s is null", name)
			continue
		case rule.allowed != nil:
			require.Contains(t, rule.allowed, value, name)
		case rule.format != nil:
			require.Regexp(t, rule.format, value, name)
		}
		require.True(t, known, "%s is no column of FOCUS", name)
	}
	times := make([]time.Time, 4)
	for i, name := range []string{"BillingPeriodStart", "ChargePeriodStart", "ChargePeriodEnd", "BillingPeriodEnd"} {
		var err error
		times[i], err = time.Parse(time.RFC3339, row[name])
		require.NoError(t, err)
	}
	require.False(t, times[1].Before(times[0]), "the charge is in its billing period")
	require.False(t, times[2].After(times[3]))
	require.Equal(t, times[1].AddDate(0, 0, 1), times[2], "it is of a day")
	require.Equal(t, times[0].AddDate(0, 1, 0), times[3], "bounds are exclusive at the end")
	for price, cost := range map[string]string{"ListUnitPrice": "ListCost", "ContractedUnitPrice": "ContractedCost"} {
		product := new(big.Rat).Mul(rational(t, row[price]), rational(t, row["PricingQuantity"]))
		require.Zero(t, product.Cmp(rational(t, row[cost])), "%s times PricingQuantity is %s", price, cost)
	}
	require.Equal(t, row["ResourceId"] == "", row["ResourceType"] == "")
	require.True(t, row["ResourceName"] == "" || row["ResourceName"] != row["ResourceId"])
	require.Equal(t, row["BilledCost"], row["EffectiveCost"], "nothing is amortized")
}

func rational(t require.TestingT, text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	require.True(t, ok, text)
	return r
}

// focusSum is what a column comes to, in microcents.
func focusSum(t require.TestingT, rows []map[string]string, column string) int64 {
	sum := new(big.Rat)
	for _, row := range rows {
		sum.Add(sum, rational(t, row[column]))
	}
	sum.Mul(sum, big.NewRat(100*ledger.MicrocentsPerCredit, 1))
	require.True(t, sum.IsInt(), "%s has parts of microcents", column)
	return sum.Num().Int64()
}

// TestFocusHasItsColumns: those that FOCUS asks for are there, in its order, and ours behind them.
func TestFocusHasItsColumns(t *testing.T) {
	t.Parallel()
	var names []string
	mandatory := 0
	for _, c := range focusColumns {
		names = append(names, c.name)
		rule, known := focusRules[c.name]
		require.Equal(t, known, !strings.HasPrefix(c.name, "x_"), c.name)
		if rule.mandatory {
			mandatory++
		}
	}
	require.Equal(t, focusMandatory, mandatory)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(names))), len(names))
	first := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "x_") })
	require.True(t, slices.IsSorted(names[:first]))
	require.True(t, slices.IsSorted(names[first:]))
}

// TestFocusIsExact: whatever was used, each row is as FOCUS asks for, and the rows come to what usage says, to the
// microcent.
func TestFocusIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, 1_000_000_000_000))
		count := rapid.Ptr(rapid.Int64Range(0, 1_000_000_000), true)
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Usage {
			day := time.Date(2024, 2, 27, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 800).Draw(t, "day"))
			tokens := Tokens{Input: count.Draw(t, "input"), CacheRead: count.Draw(t, "read"),
				CacheWrite: count.Draw(t, "write"), Output: count.Draw(t, "output"), Reasoning: count.Draw(t, "reasoning")}
			return Usage{Day: day.Format(time.DateOnly), AccountID: "acct_1", KeyID: "key_1", Tokens: tokens,
				Account:  rapid.StringMatching(`[-@A-Za-z0-9_.]{1,8}`).Draw(t, "account"),
				Key:      rapid.StringMatching(`[-@A-Za-z0-9_.]{1,8}`).Draw(t, "key"),
				Route:    rapid.SampledFrom([]string{"", "deep", "-1+2", "a,b\"c"}).Draw(t, "route"),
				Requests: rapid.Int64Range(0, 1000).Draw(t, "requests"), Microcents: amount.Draw(t, "charged"),
				Waived: amount.Draw(t, "waived"), Over: amount.Draw(t, "over"), Refunded: amount.Draw(t, "refunded")}
		}), 0, 20).Draw(t, "usage")
		var out bytes.Buffer
		require.NoError(t, WriteFocus(&out, "gw.example", func(each func(Usage) error) error {
			for _, u := range list {
				if err := each(u); err != nil {
					return err
				}
			}
			return nil
		}))
		rows := readFocus(t, out.String())
		var billed, listed, tokens, requests int64
		for _, u := range list {
			billed += u.Microcents - u.Refunded
			listed += u.Microcents + u.Waived + u.Over - u.Refunded
			tokens += llm.Tokens(u.Tokens.Input) + llm.Tokens(u.Tokens.CacheRead) + llm.Tokens(u.Tokens.CacheWrite) +
				llm.Tokens(u.Tokens.Output)
			requests += u.Requests
		}
		require.Equal(t, billed, focusSum(t, rows, "BilledCost"))
		require.Equal(t, listed, focusSum(t, rows, "ListCost"))
		consumed, counted := new(big.Rat), new(big.Rat)
		for _, row := range rows {
			requireFocus(t, row)
			consumed.Add(consumed, rational(t, row["ConsumedQuantity"]))
			if n := row["x_RequestCount"]; n != "" {
				counted.Add(counted, rational(t, n))
			}
			for name, value := range row {
				if _, err := strconv.ParseFloat(value, 64); err != nil {
					require.NotRegexp(t, "^[=+@\t\r-]", value, "%s would be a formula", name)
				}
			}
		}
		require.Zero(t, consumed.Cmp(big.NewRat(tokens, 1)), "tokens are there once")
		require.Zero(t, counted.Cmp(big.NewRat(requests, 1)), "requests are there once")
	})
}

// TestFocusOfALedger: what a ledger has settled comes to the same in FOCUS, in usage and in the statement.
func TestFocusOfALedger(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	c, e := runningAt(t, func() time.Time { return now })
	ann, bob := enginetest.NewCustomer(t, e, "ann"), enginetest.NewCustomer(t, e, "bob")
	ann.Settle(t, e, "req_1", enginetest.OK(), enginetest.Proven())
	now = now.AddDate(0, 0, 1)
	ann.Settle(t, e, "req_2", enginetest.OK(), enginetest.Proven(), enginetest.Proven())
	bob.Settle(t, e, "req_3", enginetest.OK(), enginetest.Proven())
	limited := enginetest.OK()
	limited.Status, limited.Reason, limited.ServiceLimit = 422, "output_limit", true
	ann.Settle(t, e, "req_4", limited, enginetest.Proven())
	require.NoError(t, c.Call(t.Context(), "POST", "/fareway/refunds",
		NewRefund{Request: "req_1", Microcents: 35_001, Reason: "x"}, new(Correction)))
	write := func(query string) []map[string]string {
		var out bytes.Buffer
		require.NoError(t, WriteFocus(&out, "Fareway", func(each func(Usage) error) error {
			return ReadList(t.Context(), c, "/fareway/usage?by="+FocusBy+query, nil, each)
		}))
		return readFocus(t, out.String())
	}
	const month = "&since=2026-11-01T00:00:00Z&until=2026-12-01T00:00:00Z"
	rows := write(month + "&account=ann")
	var parts []string
	for _, row := range rows {
		requireFocus(t, row)
		require.Equal(t, ann.Account.ID, row["BillingAccountId"])
		require.Equal(t, ann.Key.ID, row["SubAccountId"])
		require.Equal(t, "deep", row["SkuId"])
		parts = append(parts, row["ChargePeriodStart"][8:10]+" "+row["x_Part"])
	}
	require.Equal(t, []string{"20 Tokens used", "20 Refund", "21 Tokens used", "21 Left free by fair use"}, parts)
	require.Equal(t, "0.01335", rows[0]["BilledCost"])
	require.Equal(t, "-0.00035001", rows[1]["BilledCost"])
	require.Equal(t, []string{"0", "0.01335", "1.335"}, []string{rows[3]["BilledCost"], rows[3]["ListCost"],
		rows[3]["PricingQuantity"]})
	usage := listOf[Usage](t, c, "/fareway/usage?account=ann"+month)[0]
	require.Equal(t, usage.Microcents-usage.Refunded, focusSum(t, rows, "BilledCost"))
	var s Statement
	require.NoError(t, c.Call(t.Context(), "GET", "/fareway/accounts/ann/statement?month=2026-11", nil, &s))
	require.Equal(t, s.Charges-s.Moved[string(ledger.Refund)], focusSum(t, rows, "BilledCost"))
	all := write(month)
	whole := listOf[Usage](t, c, "/fareway/usage?"+month[1:])[0]
	require.Equal(t, whole.Microcents-whole.Refunded, focusSum(t, all, "BilledCost"))
	require.Greater(t, focusSum(t, all, "BilledCost"), focusSum(t, rows, "BilledCost"))
}

// TestFocusNeedsDays: a sum that has none is refused, and nothing of it is written.
func TestFocusNeedsDays(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := WriteFocus(&out, "x", func(each func(Usage) error) error { return each(Usage{}) })
	require.ErrorContains(t, err, "has no day")
	require.Zero(t, out.Len())
}
