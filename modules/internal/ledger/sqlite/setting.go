package sqlite

import (
	"context"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/ledger/book"
)

// settingColumns are what was set for accounts AS a: a column for each of ledger.AllLimits, in their order, and the
// rest. A new one has its limit's name (TestLimitColumns).
const settingColumns = `a.spend_cap, a.token_budget, a.fair_use, a.concurrent_requests, a.key_requests, ` +
	`a.account_requests, a.address_requests, a.own_spend_cap_microcents, ` +
	`a.profile, a.requires_region, a.requires_retention, a.mail`

// limitColumns are the first of settingColumns.
var limitColumns = [len(ledger.AllLimits)]string(strings.Split(settingColumns[len("a."):], ", a."))

// settingsWidth is how many columns settingColumns names.
const settingsWidth = len(ledger.AllLimits) + 4

// scanSettings reads settingColumns from col on.
func scanSettings(row *sqlite.Stmt, col int) (s book.Settings) {
	for i := range s.Limits {
		if !row.ColumnIsNull(col + i) {
			s.Limits[i] = new(row.ColumnInt64(col + i))
		}
	}
	col += len(s.Limits)
	s.Profile = row.ColumnText(col)
	s.Requires = parseRequires(row.ColumnText(col+1), row.ColumnText(col+2))
	s.Mail = book.MailOf(row.ColumnText(col + 3))
	return s
}

// parseRequires reads what book.RequiredTexts made. What that did not make is required of no route: a floor that
// cannot be read is none that everything passes.
func parseRequires(regions, retention string) config.Requires {
	var list []string
	if regions != "" {
		list = strings.Split(regions, ",")
	}
	q, err := config.ParseRequires(list, retention)
	if err != nil {
		return config.Requires{Regions: []string{regions + " (not readable)"}, Retention: new(time.Duration)}
	}
	return q
}

// SetLimit implements ledger.Store.
func (s *Store) SetLimit(ctx context.Context, id string, limit ledger.Limit, value *int64) (ledger.Account, error) {
	v, _, err := s.changeAccount(ctx, "set_limit", byID(id), func(_ *tx, a *account, by book.By) (book.Change, error) {
		return book.SetLimit(a.Account, limit, value, by)
	})
	return wrapResult(v, err, "setting a limit of account %q", id)
}

// SetProfile implements ledger.Store.
func (s *Store) SetProfile(ctx context.Context, id, profile string) (ledger.Account, error) {
	v, _, err := s.changeAccount(ctx, "set_profile", byID(id), func(_ *tx, a *account, by book.By) (book.Change, error) {
		return book.SetProfile(a.Account, profile, by)
	})
	return wrapResult(v, err, "setting the profile of account %q", id)
}

// SetRequires implements ledger.Store.
func (s *Store) SetRequires(ctx context.Context, id string, change ledger.RequiresChange) (ledger.Account, error) {
	v, _, err := s.changeAccount(ctx, "set_requires", byID(id), func(_ *tx, a *account, by book.By) (book.Change, error) {
		return book.SetRequires(a.Account, change, by)
	})
	return wrapResult(v, err, "setting what account %q requires", id)
}

// SetMail implements ledger.Store.
func (s *Store) SetMail(ctx context.Context, id string, addresses []string) (ledger.Account, error) {
	v, _, err := s.changeAccount(ctx, "set_mail", byID(id), func(_ *tx, a *account, by book.By) (book.Change, error) {
		return book.SetMail(a.Account, addresses, by)
	})
	return wrapResult(v, err, "setting the mail addresses of account %q", id)
}
