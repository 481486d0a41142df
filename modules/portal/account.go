package portal

import (
	"cmp"
	"context"
	"encoding/csv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/human"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/portal/views"
)

// account is what pages may ask about one account, and do in it: whoever asks for something of another one is told
// that there is nothing.
type account struct {
	*admin.Client
	id string
}

// ofAccount is the account that the viewer looks at.
func (v *visit) ofAccount() account {
	return account{v.api(v.engine, v.actor()), v.viewer.Account.ID}
}

func readAccount(ctx context.Context, api *admin.Client, id string) (a admin.Account, err error) {
	err = api.Call(ctx, http.MethodGet, "/fareway/accounts/"+url.PathEscape(id), nil, &a)
	return a, err
}

// read reads the account itself.
func (a account) read(ctx context.Context) (admin.Account, error) {
	return readAccount(ctx, a.Client, a.id)
}

// shownKeys is how many keys a page has.
const shownKeys = 50

// keys are a page of its keys: the newest, or those before the one with the id after; of the page, those that work
// first. next is what the page behind it comes after, "" where there is none.
func (a account) keys(ctx context.Context, after string) (keys []admin.Key, next string, err error) {
	q := url.Values{"account": {a.id}, "newest": {"1"}, "limit": {strconv.Itoa(shownKeys + 1)}}
	if after != "" {
		if _, err := a.key(ctx, after); err != nil { // it may be of another account
			return nil, "", err
		}
		q.Set("after", after)
	}
	err = admin.ReadList(ctx, a.Client, "/fareway/keys", q, func(k admin.Key) error {
		keys = append(keys, k)
		return nil
	})
	if len(keys) > shownKeys {
		keys = keys[:shownKeys]
		next = keys[shownKeys-1].ID
	}
	slices.SortStableFunc(keys, func(x, y admin.Key) int {
		return ended(x) - ended(y)
	})
	return keys, next, err
}

func ended(k admin.Key) int {
	if k.State == admin.KeyActive {
		return 0
	}
	return 1
}

// key is one of its keys.
func (a account) key(ctx context.Context, id string) (k admin.Key, err error) {
	err = a.Call(ctx, http.MethodGet, "/fareway/keys/"+url.PathEscape(id)+"?account="+url.QueryEscape(a.id), nil, &k)
	if admin.StatusOf(err) == http.StatusNotFound {
		err = errNotFound
	}
	return k, err
}

// usage are its sums, or those of some of its keys.
func (a account) usage(ctx context.Context, since time.Time, by string, keys ...string) ([]admin.Usage, error) {
	q := url.Values{"account": {a.id}, "since": {since.UTC().Format(time.RFC3339)}, "key": keys}
	if by != "" {
		q.Set("by", by)
	}
	return readUsage(ctx, a.Client, q)
}

// usageOfKeys are the sums of keys, by their ids.
func (a account) usageOfKeys(ctx context.Context, since time.Time, keys []admin.Key) (map[string]admin.Usage, error) {
	used := make(map[string]admin.Usage, len(keys))
	if len(keys) == 0 {
		return used, nil
	}
	ids := make([]string, len(keys))
	for i := range keys {
		ids[i] = keys[i].ID
	}
	rows, err := a.usage(ctx, since, "key", ids...)
	for i := range rows {
		used[rows[i].KeyID] = rows[i]
	}
	return used, err
}

// readUsage reads sums of settled requests.
func readUsage(ctx context.Context, api *admin.Client, q url.Values) (rows []admin.Usage, err error) {
	err = admin.ReadList(ctx, api, "/fareway/usage", q, func(u admin.Usage) error {
		rows = append(rows, u)
		return nil
	})
	return rows, err
}

// request is one of its requests.
func (a account) request(ctx context.Context, id string) (r admin.Request, err error) {
	err = a.Call(ctx, http.MethodGet, "/fareway/usage/"+url.PathEscape(id), nil, &r)
	if err == nil && r.AccountID != a.id {
		err = errNotFound
	}
	return r, err
}

// recent are its requests that have ended last on this node, the newest first.
func (v *visit) recent(after uint64, account string) (list []admin.EndedRequest, last uint64) {
	r := admin.ReadRecent(v.engine, after)
	return slices.DeleteFunc(r.Requests, func(e admin.EndedRequest) bool { return e.AccountID != account }), r.Last
}

func showHome(v *visit) error {
	if v.viewer.Account == nil {
		if v.viewer.Operator != "" {
			v.redirect("/portal/operator/overview")
			return nil
		}
		return v.show(views.MessagePage(v.page("Home"), v.language.Text("You are in no account. Ask its owner, or who "+
			"runs this service, for an invitation.")))
	}
	a := v.ofAccount()
	is, err := a.read(v.r.Context())
	if err != nil {
		return err
	}
	view := views.Home{Account: is, DaysLeft: -1}
	now := v.engine.Now()
	// Whole days of UTC, which are sums already, and today's part of one.
	begin := now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -6)
	week, err := a.usage(v.r.Context(), begin, "")
	if err != nil {
		return err
	}
	if len(week) > 0 {
		days := max(now.Sub(maxTime(begin, is.Created)).Hours()/24, 1)
		view.Burn = int64(float64(week[0].Microcents) / days)
	}
	if view.Burn > 0 {
		view.DaysLeft = max(0, is.AvailableCredits) * ledger.MicrocentsPerCredit / view.Burn
	}
	view.Attention = v.attention(is, view)
	if view.Models, err = v.modelsState(); err != nil {
		return err
	}
	page, err := v.requestsPage(url.Values{"limit": {"10"}})
	if err != nil {
		return err
	}
	view.Recent = page.List[:min(len(page.List), 10)]
	return v.show(views.HomePage(v.page("Home"), view))
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// attention is what somebody should do about an account.
func (v *visit) attention(a admin.Account, h views.Home) (list []views.Attention) {
	t := v.language
	switch a.State {
	case string(ledger.Suspended):
		list = append(list, views.Attention{Text: t.Text("The account is suspended: every request is refused. Ask who " +
			"runs this service.")})
	case string(ledger.Inactive):
		list = append(list, views.Attention{Text: t.Text("The account is inactive: every request is refused.")})
	}
	switch {
	case a.AvailableCredits < 1:
		list = append(list, views.Attention{Text: t.Text("Nothing is available: requests are refused with 402 until " +
			"credits are added."), Link: "/portal/credits", Act: t.Text("Credits")})
	case h.DaysLeft >= 0 && h.DaysLeft < 3:
		list = append(list, views.Attention{Text: t.Text("At the rate of the last week, credits last for less than three " +
			"days."), Link: "/portal/credits", Act: t.Text("Credits")})
	}
	if a.Limits != nil && a.Limits.SpendCapCredits > 0 {
		if limit := a.Limits.SpendCapCredits * ledger.MicrocentsPerCredit; a.Period.SpentMicrocents*10 >= limit*9 {
			list = append(list, views.Attention{Text: t.Text("%s of the cap of %s credits are spent in this period: requests "+
				"beyond it are refused, whatever the balance is.", v.credits(a.Period.SpentMicrocents), v.credits(limit))})
		}
	}
	if v.engine.Ready() != nil {
		list = append(list, views.Attention{Text: t.Text("The service takes no requests at the moment. Who runs it can " +
			"see why.")})
	}
	return list
}

func showKeys(v *visit) error { return v.keysPage(nil, "") }

// keysPage shows the keys, with one that was just made.
func (v *visit) keysPage(made *admin.Key, name string) error {
	a := v.ofAccount()
	keys, next, err := a.keys(v.r.Context(), v.r.URL.Query().Get("after"))
	if err != nil {
		return err
	}
	used, err := a.usageOfKeys(v.r.Context(), v.engine.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -29), keys)
	if err != nil {
		return err
	}
	return v.show(views.KeysPage(v.page("Keys"), views.Keys{Keys: keys, Next: next, Used: used, Made: made,
		Name: name}))
}

// limitsOf reads a key's limits from a form. Empty is none, where a key is made; kept says what is left as it is.
func limitsOf(form url.Values) (l admin.KeyLimits, err error) {
	if text := form.Get("cap"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return l, errBadForm
		}
		l.SpendCapCredits = &n
	}
	expires := admin.Never
	if day := form.Get("expires"); day != "" {
		t, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return l, errBadForm
		}
		expires = t.AddDate(0, 0, 1).Format(time.RFC3339) // with the day's end
	}
	l.Expires = &expires
	return l, nil
}

func makeKey(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	a := v.ofAccount()
	limits, err := limitsOf(form)
	if err != nil {
		return err
	}
	var made admin.Key
	err = a.Call(v.r.Context(), http.MethodPost, "/fareway/keys", admin.NewKey{Account: a.id, Name: form.Get("name"),
		KeyLimits: limits}, &made)
	if text, ok := v.refusedText(err); ok {
		v.status, v.fault = http.StatusBadRequest, text
		return v.keysPage(nil, form.Get("name"))
	}
	if err != nil {
		return err
	}
	return v.keysPage(&made, "")
}

func showKey(v *visit) error {
	key, err := v.ofAccount().key(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	return v.keyPage(key)
}

func (v *visit) keyPage(key admin.Key) error {
	page := v.page("Keys")
	page.Title = v.language.Text("The key %s", key.Name)
	return v.show(views.KeyPage(page, key))
}

func changeKey(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	a := v.ofAccount()
	key, err := a.key(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	path := "/fareway/keys/" + url.PathEscape(key.ID)
	switch form.Get("act") {
	case "change":
		is := views.KeyFields(&key)
		if form.Get("was-name") != is.Name || form.Get("was-cap") != is.Cap || form.Get("was-expires") != is.Expires {
			v.status = http.StatusConflict
			v.fault = v.language.Text("Somebody has changed it meanwhile: nothing was done. This is how it is now.")
			return v.keyPage(key)
		}
		limits, lerr := limitsOf(form)
		if lerr != nil {
			return lerr
		}
		// What is as it was is left alone: a moment within a day would become its end.
		change := admin.KeyChange{KeyLimits: limits}
		if name := form.Get("name"); name != is.Name {
			change.Name = &name
		}
		if form.Get("cap") == is.Cap {
			change.SpendCapCredits = nil
		}
		if form.Get("expires") == is.Expires {
			change.Expires = nil
		}
		if change != (admin.KeyChange{}) {
			err = a.Call(v.r.Context(), http.MethodPatch, path, change, &key)
		}
		if err == nil {
			v.done("/portal/keys", "saved")
			return nil
		}
	case "rotate":
		seconds, perr := strconv.ParseInt(form.Get("overlap"), 10, 64)
		if perr != nil {
			return errBadForm
		}
		var rotated admin.Rotated
		if err = a.Call(v.r.Context(), http.MethodPost, path+"/rotate", admin.Rotation{OverlapSeconds: seconds},
			&rotated); err == nil {
			return v.keysPage(&rotated.Key, "")
		}
	case "revoke":
		if form.Get("sure") != "yes" {
			return errBadForm
		}
		if err = a.Call(v.r.Context(), http.MethodDelete, path, nil, &key); err == nil {
			v.done("/portal/keys", "ended")
			return nil
		}
	default:
		return errBadForm
	}
	if text, ok := v.refusedText(err); ok {
		v.status, v.fault = http.StatusBadRequest, text
		return v.keyPage(key)
	}
	return err
}

// Usage is over at most so many days, grouped by one thing.
const maxUsageDays = 366

// usageAsked is over how many days usage is asked for, from when on, and grouped by what.
func (v *visit) usageAsked() (days int, since time.Time, by string) {
	q := v.r.URL.Query()
	days, err := strconv.Atoi(q.Get("days"))
	if err != nil || days < 1 || days > maxUsageDays {
		days = 30
	}
	by = q.Get("by")
	if !slices.Contains(views.UsageBy, by) {
		by = "day"
	}
	return days, v.engine.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days), by
}

func showUsage(v *visit) error {
	days, begin, by := v.usageAsked()
	a := v.ofAccount()
	view := views.Usage{Days: days, By: by, Chart: views.Chart{Title: v.language.Text("Credits charged")}}
	total, err := a.usage(v.r.Context(), begin, "")
	if err != nil {
		return err
	}
	if len(total) > 0 {
		view.Total = total[0]
	}
	if by == "key" {
		view.Rows, view.Next, err = a.pageOfUsage(v.r.Context(), begin, v.r.URL.Query().Get("after"))
	} else {
		view.Rows, err = a.usage(v.r.Context(), begin, by)
	}
	if err != nil {
		return err
	}
	if by == "day" {
		view.Chart.Bars = v.dayBars(begin, view.Rows)
	} else {
		slices.SortStableFunc(view.Rows, func(x, y admin.Usage) int { return cmp.Compare(y.Microcents, x.Microcents) })
	}
	return v.show(views.UsagePage(v.page("Usage"), view))
}

// pageOfUsage are the sums of a page of its keys, also of those that were not used. next is as with keys.
func (a account) pageOfUsage(ctx context.Context, since time.Time, after string) (rows []admin.Usage, next string,
	err error,
) {
	keys, next, err := a.keys(ctx, after)
	if err != nil {
		return nil, "", err
	}
	used, err := a.usageOfKeys(ctx, since, keys)
	for i := range keys {
		row := used[keys[i].ID]
		row.Key, row.KeyID = keys[i].Name, keys[i].ID
		rows = append(rows, row)
	}
	return rows, next, err
}

func downloadUsage(v *visit) error {
	_, since, by := v.usageAsked()
	rows, err := v.ofAccount().usage(v.r.Context(), since, by)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="usage-by-`+by+`.csv"`)
	w := csv.NewWriter(v.w)
	write := func(fields ...string) {
		for i := range fields {
			fields[i] = human.PlainCell(fields[i])
		}
		_ = w.Write(fields) // Error tells below
	}
	write(by, "requests", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens",
		"charged_microcents", "refunded_microcents", "waived_microcents")
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	count := func(n *int64) string {
		if n == nil {
			return ""
		}
		return number(*n)
	}
	for _, r := range rows {
		write(r.Day+r.Key+r.Route+r.Profile, number(r.Requests), count(r.Tokens.Input), count(r.Tokens.CacheRead),
			count(r.Tokens.CacheWrite), count(r.Tokens.Output), number(r.Microcents), number(r.Refunded), number(r.Waived))
	}
	w.Flush()
	return nil // the browser may be gone
}

func showCredits(v *visit) error {
	a := v.ofAccount()
	if id := v.r.URL.Query().Get("payment"); id != "" {
		if err := v.returnFromPayment(a, id); err != nil {
			return err
		}
	}
	is, err := a.read(v.r.Context())
	if err != nil {
		return err
	}
	page, err := a.latest(v.r.Context(), url.Values{"after": v.r.URL.Query()["after"], "limit": {"100"}})
	if err != nil {
		return err
	}
	pay, err := v.payView(a)
	if err != nil {
		return err
	}
	shown := v.page("Credits")
	return v.show(views.CreditsPage(shown, views.Credits{Account: is, Entries: page.Movements, Next: page.Next, Pay: pay,
		Plan: views.OwnPlan{Name: is.Plan, Ends: is.Period.End, Facts: accountFacts(shown, &is)}}))
}

// latest is a page of what moved its money, the newest first.
func (a account) latest(ctx context.Context, q url.Values) (page admin.Latest, err error) {
	q.Set("account", a.id)
	err = a.Call(ctx, http.MethodGet, "/fareway/ledger/latest?"+q.Encode(), nil, &page)
	return page, err
}
