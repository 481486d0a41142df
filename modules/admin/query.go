package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
)

// query reads what narrows a list: account (a name or id), since and until (RFC 3339, from the first on and before
// the second), and of entries checkpoint (a number): those that it covers.
func (b *booksAPI) query(r *http.Request) (q ledger.Query, err error) {
	values := r.URL.Query()
	if name := values.Get("account"); name != "" {
		account, err := b.account(r.Context(), name)
		if err != nil {
			return q, err
		}
		q.Account = account.ID
	}
	if q.Since, err = queryTime(r, "since"); err != nil {
		return q, err
	}
	if q.Until, err = queryTime(r, "until"); err != nil {
		return q, err
	}
	if text := r.URL.Query().Get("checkpoint"); text != "" {
		if q.Checkpoint, err = strconv.ParseInt(text, 10, 64); err != nil || q.Checkpoint < 1 {
			return q, problem(http.StatusBadRequest, "checkpoint %q: write a checkpoint's number, as in 3", text)
		}
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return q, problem(http.StatusBadRequest, "since %s is not before until %s: nothing is in between",
			q.Since.Format(time.RFC3339), q.Until.Format(time.RFC3339))
	}
	return q, nil
}

func queryTime(r *http.Request, name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, problem(http.StatusBadRequest, "%s %q: write a time as RFC 3339 has it, as in 2026-11-20T18:00:00Z", name,
			text)
	}
	return t.UTC(), nil
}

// dimensions are what usage can be grouped by, in the order of its columns.
var dimensions = []ledger.Dimension{ledger.ByDay, ledger.ByAccount, ledger.ByKey, ledger.ByRoute, ledger.ByProfile}

// mostKeys is of how many keys, one by one, usage is asked for at once.
const mostKeys = 200

// usageQuery reads query's, and key (an id, or a name with account; several: of any of them), route, profile, and by
// (dimensions with commas; without it there is one sum of everything).
func (b *booksAPI) usageQuery(r *http.Request) (ledger.UsageQuery, error) {
	var q ledger.UsageQuery
	var err error
	if q.Query, err = b.query(r); err != nil {
		return q, err
	}
	values := r.URL.Query()
	if n := len(values["key"]); n > mostKeys {
		return q, problem(http.StatusBadRequest, "%d keys: ask for %d at most, or for all by leaving key out", n, mostKeys)
	}
	for _, name := range values["key"] {
		if name == "" {
			continue
		}
		key, err := b.key(r.Context(), q.Account, name)
		if err != nil {
			return q, err
		}
		q.Keys = append(q.Keys, key.ID)
	}
	q.Route = values.Get("route")
	q.Profile = values.Get("profile")
	if q.Profile != "" && !slices.Contains(config.ProfileNames(), q.Profile) {
		return q, problem(http.StatusBadRequest, "profile %q: a profile is one of %s", q.Profile,
			strings.Join(config.ProfileNames(), ", "))
	}
	q.By, err = ParseDimensions(values.Get("by"))
	return q, err
}

// ParseDimensions reads what usage is summed up by.
func ParseDimensions(text string) ([]ledger.Dimension, error) {
	var by []ledger.Dimension
	for name := range strings.SplitSeq(text, ",") {
		if name == "" {
			continue
		}
		d := ledger.Dimension(name)
		switch {
		case !slices.Contains(dimensions, d):
			return nil, problem(http.StatusBadRequest, "by %q: usage is grouped by account, key, route, profile or day, or "+
				"by several with commas", name)
		case slices.Contains(by, d):
			return nil, problem(http.StatusBadRequest, "by %q is there twice", name)
		}
		by = append(by, d)
	}
	return by, nil
}
