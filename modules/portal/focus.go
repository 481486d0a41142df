package portal

import (
	"net/http"
	"net/url"
	"time"

	"github.com/fareway/fareway/modules/admin"
)

// downloadFocus writes the account's usage of the days that the page of usage shows.
func downloadFocus(v *visit) error {
	days, _ := v.usageAsked()
	until := v.engine.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	since := until.AddDate(0, 0, -days)
	return v.writeFocus(v.ofAccount(), since, until, "usage-focus-"+since.Format(time.DateOnly))
}

// downloadFocusOfMonth writes that of a statement's month.
func downloadFocusOfMonth(v *visit) error {
	s, err := v.readStatement()
	if err != nil {
		return err
	}
	return v.writeFocus(account{v.api(v.engine, v.actor()), s.AccountID}, s.From, s.Until, "usage-focus-"+s.Month)
}

// writeFocus streams an account's usage as FOCUS has it, with the site as who sells it. The browser is told of an
// error behind the first rows by an answer that breaks off: a file that lacks some would look whole.
func (v *visit) writeFocus(a account, since, until time.Time, name string) error {
	out := &statusWriter{ResponseWriter: v.w}
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	query := url.Values{"account": {a.id}, "by": {admin.FocusBy}, "since": {since.Format(time.RFC3339)},
		"until": {until.Format(time.RFC3339)}}
	err := admin.WriteFocus(out, v.r.Host, func(each func(admin.Usage) error) error {
		return admin.ReadList(v.r.Context(), a.Client, "/fareway/usage", query, each)
	})
	switch {
	case err == nil:
		return nil
	case out.status == 0:
		v.w.Header().Del("Content-Disposition")
		return err
	}
	v.log.Warn("writing usage for a download", "error", err)
	panic(http.ErrAbortHandler)
}
