package sqlite

import "zombiezen.com/go/sqlite"

// advice is the next step for whoever starts a gateway and cannot have the ledger for this error; "" when its text
// says it, or nothing is known.
func advice(err error) string {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return "; another program has the file locked: end it, or let it finish, and start again"
	case sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultCantOpen, sqlite.ResultAuth:
		return "; the file, those that begin with its name, and their folder have to be writable for the user that runs " +
			"the gateway"
	case sqlite.ResultFull:
		return "; make room on its disk and start again"
	case sqlite.ResultCorrupt:
		return "; the file is damaged: keep a copy of all files that begin with its name, and restore the backup"
	}
	return ""
}
