package upstream

import (
	"encoding/json"
	"net/http"
	"time"
)

// Outcome says how a request ended on the fake's side.
type Outcome string

const (
	OutcomeWhole   Outcome = "whole"   // everything was written, end marker or whole body included
	OutcomeCut     Outcome = "cut"     // the script ended it early, or without an end marker
	OutcomeFailed  Outcome = "failed"  // the script ended it with an error
	OutcomeRefused Outcome = "refused" // the request was not a good one: no script was run
	OutcomeLeft    Outcome = "left"    // the client went away before the end
)

// Record is what the fake wrote down of one request. It has no credentials.
type Record struct {
	N      int64           `json:"n"`
	ID     string          `json:"id"`
	Family string          `json:"family"`
	Start  time.Time       `json:"start"`
	End    time.Time       `json:"end"`
	Model  string          `json:"model"`
	Stream bool            `json:"stream"`
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body"` // the request's body; a JSON string when it was not JSON

	Status  int     `json:"status"` // of the reply, 0 when no header was sent
	Outcome Outcome `json:"outcome"`
	// Bytes is how much of the reply's body was handed to the operating system.
	Bytes int64 `json:"bytes"`
	// Used is what the work done so far comes to by the fake's own count; Reported is the last usage that
	// was written to the client, nil if none was.
	Used     Usage  `json:"used"`
	Reported *Usage `json:"reported"`
}

// redacted is a copy of a header without credentials.
func redacted(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "X-Amz-Security-Token",
		"Cookie"} {
		if h.Get(name) != "" {
			h.Set(name, "[redacted]")
		}
	}
	return h
}

// jsonOf keeps a body that is JSON, and makes a JSON string of any other.
func jsonOf(body []byte) json.RawMessage {
	if json.Valid(body) {
		return body
	}
	return mustMarshal(string(body))
}
