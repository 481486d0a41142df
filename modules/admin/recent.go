package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/requestlog"
)

// Recent are the requests that have ended last.
type Recent struct {
	Since time.Time `json:"since"` // when counting began: with the process
	Last  uint64    `json:"last"`  // how many have ended since: the number of the newest
	// Missed is how many ended after the number that was asked for, and are kept no more.
	Missed   uint64         `json:"missed"`
	Requests []EndedRequest `json:"requests"` // the newest first
}

// EndedRequest is a request that has ended, as the access line tells of it. Durations are in milliseconds.
type EndedRequest struct {
	N          uint64    `json:"n"`
	ID         string    `json:"id"`
	Time       time.Time `json:"time"` // of its end
	Endpoint   string    `json:"endpoint"`
	Status     int       `json:"status"` // 0: the client left before there was one
	Took       float64   `json:"milliseconds"`
	First      float64   `json:"first_byte_milliseconds,omitempty"`
	Account    string    `json:"account,omitempty"` // name; absent where nobody was authenticated
	AccountID  string    `json:"account_id,omitempty"`
	Last4      string    `json:"key_last4,omitempty"`
	Stream     bool      `json:"stream,omitempty"`
	Profile    string    `json:"profile,omitempty"`
	Route      string    `json:"route,omitempty"` // that answered, or was tried last
	Attempts   int       `json:"attempts"`
	Input      int64     `json:"input_tokens"`
	Output     int64     `json:"output_tokens"`
	Microcents int64     `json:"microcents"`
	Pending    bool      `json:"pending,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Aborted    bool      `json:"aborted,omitempty"`
	// Refused is the arithmetic where it was refused for money or a rate.
	Refused *requestlog.Refused `json:"refused,omitempty"`
}

// recent lists what has ended last. It costs the same whatever the gateway has to do.
func (a *API) recent(r *http.Request) (any, error) {
	var after uint64
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, problem(http.StatusBadRequest, "after %q: write the number of a request, as \"last\" has it", text)
		}
	}
	return ReadRecent(a.engine, after), nil
}

// ReadRecent is what has ended last on this node, after number n.
func ReadRecent(e *engine.Engine, n uint64) Recent {
	list, last := e.Recent(n)
	v := Recent{Since: e.Opened(), Last: last, Requests: make([]EndedRequest, len(list))}
	if last > n {
		v.Missed = max(last-n, uint64(len(list))) - uint64(len(list))
	}
	for i := range list {
		v.Requests[i] = viewEnded(&list[i])
	}
	return v
}

func viewEnded(e *engine.Ended) EndedRequest {
	return EndedRequest{N: e.N, ID: e.ID, Time: e.At.UTC(), Endpoint: e.Endpoint, Status: e.Status,
		Took: milliseconds(e.Took), First: milliseconds(e.First), Account: e.Account, AccountID: e.AccountID,
		Last4: e.Last4, Stream: e.Stream, Profile: e.Profile, Route: e.Route, Attempts: e.Attempts, Input: e.Input,
		Output: e.Output, Microcents: e.Charged, Pending: e.Pending, Reason: e.Reason, Aborted: e.Aborted,
		Refused: e.Refused}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
