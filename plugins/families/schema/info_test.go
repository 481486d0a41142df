package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	const model = `{"id":"service/auto","object":"model","created":1767225600,"owned_by":"me","context_length":200000}`
	const account = `{"tenant":{"id":"acct_1","name":"acme","key_mode":"managed"},` +
		`"credits":{"balance_credits":-3,"reserved_credits":0,"available_credits":-4,"monthly_allotment_credits":0,` +
		`"current_period_end":null,"accrued_usage_microcents":999999},"key":{"name":"first","last4":"abcd"}}`
	require.NoError(t, Model([]byte(model)))
	require.NoError(t, Models([]byte(`{"object":"list","data":[`+model+`]}`)))
	require.NoError(t, Account([]byte(account)))
	require.NoError(t, Account([]byte(strings.Replace(account, "null", `"2026-01-31T12:00:00Z"`, 1))))
	empty := []byte(`{"object":"list","data":[{}]}`)
	require.ErrorContains(t, Models(empty), "model list.data[0].context_length is missing")
	for _, c := range []struct{ old, new, want string }{
		{`"managed"`, `"own"`, "key_mode is not managed"},
		{`-3`, `-3.5`, "balance_credits is not a whole number"},
		{`-4`, `"-4"`, "available_credits is not a whole number"},
		{`999999`, `1000000`, "accrued_usage_microcents is not a part of a credit"},
		{`null`, `"soon"`, "current_period_end is not null"},
		{`"first"`, `"first","secret":"x"`, "key.secret is not in the schema"},
	} {
		require.ErrorContains(t, Account([]byte(strings.Replace(account, c.old, c.new, 1))), c.want)
	}
}
