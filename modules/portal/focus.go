package portal

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/fareway/fareway/modules/admin"
)

// downloadFocus writes the account's usage of the days that the page of usage shows.
func downloadFocus(v *visit) error {
	days, since, _ := v.usageAsked()
	return v.writeFocus(v.ofAccount(), since, since.AddDate(0, 0, days), "usage-focus-"+since.Format(time.DateOnly))
}

// downloadFocusOfMonth writes that of a statement's month.
func downloadFocusOfMonth(v *visit) error {
	s, err := v.readStatement()
	if err != nil {
		return err
	}
	return v.writeFocus(account{v.api(v.engine, v.actor()), s.AccountID}, s.From, s.Until, "usage-focus-"+s.Month)
}

// writeFocus writes an account's usage as FOCUS has it, with the site as who sells it. It is in a file before any of it
// is sent: a browser that reads slowly would keep a list open, which others wait for, and one that was told of an error
// behind the first rows would have a file that lacks some.
func (v *visit) writeFocus(a account, since, until time.Time, name string) error {
	file, err := os.CreateTemp("", "fareway-focus-*")
	if err != nil {
		return fmt.Errorf("making a file for a download: %w", err)
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }() // nothing of it is needed any more
	query := url.Values{"account": {a.id}, "by": {admin.FocusBy}, "since": {since.Format(time.RFC3339)},
		"until": {until.Format(time.RFC3339)}}
	if err := admin.WriteFocus(file, v.r.Host, func(each func(admin.Usage) error) error {
		return admin.ReadList(v.r.Context(), a.Client, "/fareway/usage", query, each)
	}); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading a file for a download: %w", err)
	}
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	_, _ = io.Copy(v.w, file) // the browser may be gone
	return nil
}
