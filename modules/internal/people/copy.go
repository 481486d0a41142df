package people

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fareway/fareway/modules/internal/files"
)

// fileName is that of a store in SQLite, beside the ledger's: in a file of its own neither waits for the other's
// writer.
const fileName = "portal.db"

// FileBeside is the store's file beside that of a ledger.
func FileBeside(ledger string) string { return filepath.Join(filepath.Dir(ledger), fileName) }

// Copy copies the store in a file, as it is at one moment, into a new file, which is on the disk when it returns. A
// gateway may have it open. Sessions are not in the copy, nor are links by which somebody comes in who is there: what
// is ended or used later would open something again where the copy is put back.
func Copy(ctx context.Context, from, to string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("copying the store of people %s: %w", from, err)
		}
	}()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600) // SQLite would make it for everybody to read
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := os.Stat(from); err != nil { // SQLite would make it
		return err
	}
	db, err := openFile(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, `VACUUM INTO $1`, to); err != nil {
		return err
	}
	if err := forgetSessions(ctx, to); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return files.SyncFolder(filepath.Dir(to))
}

// forgetSessions takes what opens something, or pays by itself, out of a copy.
func forgetSessions(ctx context.Context, path string) (err error) {
	db, err := openSQLite(path, url.Values{"_pragma": {"secure_delete(on)"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, statement := range []string{`DELETE FROM portal_sessions`, `DELETE FROM portal_challenges`,
		`DELETE FROM portal_invitations WHERE reset <> 0 OR email = ''`,
		// What is put back lacks the payments since then, and where it is a second gateway the first one pays, too.
		`UPDATE portal_top_ups SET active = 0, why = 'put back from a backup' WHERE active = 1`} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Check says what is wrong with a store in a file that nobody has open.
func Check(ctx context.Context, path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("looking at the store of people: %w", err)
		}
	}()
	db, err := openSQLite(path, url.Values{"immutable": {"1"}, "mode": {"ro"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var result string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return fmt.Errorf("it is damaged: %s", result)
	}
	return nil
}

// movedTables are those that a move takes along, in an order in which each refers to those before it. Sessions and
// challenges are not moved: everybody signs in anew at the new place.
var movedTables = []struct{ name, columns string }{
	{"portal_people", "id, email, name, operator, operator_from, disabled, created, signed_in, language, zone, " +
		"password, totp, totp_next, totp_step"},
	{"portal_memberships", "account, person, role, since"},
	{"portal_invitations", "id, hash, email, account, role, operator, reset, person, made_by, maker, created, expires"},
	{"portal_passkeys", "id, person, name, created, used, data"},
	{"portal_recovery", "person, hash"},
	{"portal_identities", "issuer, subject, person, created"},
	{"portal_payments", paymentColumns},
	{"portal_refunds", "payment, refunded, dispute, microcents, reason, booked"},
	{"portal_top_ups", topUpColumns},
}

// checkUnused is an ErrExists where a store has people besides those that are known, or somebody is signed in: it is
// another gateway's.
func (t *tx) checkUnused(known map[string]bool) error {
	ids, err := list(&t.reader, func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return id, err
	}, `SELECT id FROM portal_people UNION ALL SELECT hash FROM portal_sessions`)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !known[id] {
			return fmt.Errorf("%w: that database has people of its own, who sign in there", ErrExists)
		}
	}
	return nil
}

// Move copies what is in a store, but sessions, to another one, which nobody uses, in the place of what is there: an
// earlier move may have brought that. It is one transaction there. It returns how many people the other one has then.
func Move(ctx context.Context, from, to *Service) (people int, err error) {
	source, err := from.store.read(ctx)
	if err != nil {
		return 0, err
	}
	rows := make([][][]any, len(movedTables))
	for i, table := range movedTables {
		n := strings.Count(table.columns, ",") + 1
		rows[i], err = list(source, func(row scanner) ([]any, error) {
			values, places := make([]any, n), make([]any, n)
			for j := range values {
				places[j] = &values[j]
			}
			return values, row.Scan(places...)
		}, `SELECT `+table.columns+` FROM `+table.name)
		if err != nil {
			return 0, err
		}
	}
	known := make(map[string]bool)
	for _, values := range rows[0] {
		id, _ := values[0].(string)
		known[id] = true
	}
	err = to.store.transact(ctx, func(t *tx) error {
		if err := t.checkUnused(known); err != nil {
			return err
		}
		for _, table := range slices.Backward(movedTables) {
			if _, err := t.exec(`DELETE FROM ` + table.name); err != nil {
				return err
			}
		}
		for i, table := range movedTables {
			var places []string
			for j := range strings.Count(table.columns, ",") + 1 {
				places = append(places, fmt.Sprintf("$%d", j+1))
			}
			insert := `INSERT INTO ` + table.name + ` (` + table.columns + `) VALUES (` + strings.Join(places, ", ") +
				`)`
			for _, values := range rows[i] {
				if _, err := t.exec(insert, values...); err != nil {
					return err
				}
			}
		}
		_, err := t.find(`SELECT count(*) FROM portal_people`, nil, &people)
		return err
	})
	return people, err
}
