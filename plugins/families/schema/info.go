package schema

import (
	"encoding/json"
	"strconv"
	"time"
)

// What the endpoints of no family answer: the model list, a model (GAP-05) and the account summary (ACCT-01 to
// ACCT-14).
var (
	modelEntry = Object{
		"id": Text, "object": exactly("model"), "created": Count, "owned_by": Text, "context_length": Count,
	}
	modelList = Object{"object": exactly("list"), "data": List{modelEntry}}
	account   = Object{
		"tenant": Object{"id": Text, "name": Text, "key_mode": exactly("managed")}, // GAP-121
		"credits": Object{
			"balance_credits": integer, "reserved_credits": Count, "available_credits": integer, // GAP-51
			"monthly_allotment_credits": Count, "current_period_end": nullable(moment), "accrued_usage_microcents": accrued,
		},
		"key": Object{"name": Text, "last4": Text},
	}

	integer = scalar{"a whole number", isInteger}
	accrued = scalar{"a part of a credit", func(v any) bool {
		n, err := strconv.ParseInt(numberText(v), 10, 64)
		return err == nil && n >= 0 && n < 1_000_000
	}}
	moment = scalar{"a time as in RFC 3339", func(v any) bool {
		text, ok := v.(string)
		_, err := time.Parse(time.RFC3339, text)
		return ok && err == nil
	}}
)

// Models checks the model list.
func Models(body []byte) error { return check("model list", modelList, body) }

// Model checks one model.
func Model(body []byte) error { return check("model", modelEntry, body) }

// Account checks the account summary.
func Account(body []byte) error { return check("account", account, body) }

func isInteger(v any) bool {
	_, err := strconv.ParseInt(numberText(v), 10, 64)
	return err == nil
}

// numberText is a number as it was written, "" for anything else.
func numberText(v any) string {
	n, _ := v.(json.Number)
	return n.String()
}
