// Package sqlite keeps the ledger in one SQLite file, for one gateway process. It is for the engine, and for
// the command that verifies a ledger while no gateway runs.
//
// # Writing
//
// One goroutine writes, on one connection. It takes every operation that waits, runs them in one transaction
// and commits once, in WAL mode with synchronous=FULL; then it answers them. So an answer means that the
// operation is on the disk, and a busy gateway pays for one sync where it has many callers. Operations decide
// before they write: one that is refused leaves its neighbours alone, and one that fails while writing makes
// the whole batch run again, each operation in a transaction of its own. When a commit fails, everyone in it
// is told ErrUnavailable, also those that changed nothing, because what they saw was taken back.
//
// # Why no money is lost or doubled
//
// A hold (request, first attempt, account), a raised hold and a settlement (attempts, request, entry, account)
// are each one transaction: a crash leaves all of it or nothing. Before the commit of a settlement the request
// is held; after it, it is settled, and there is nothing between. A caller that was not answered may repeat:
//
//   - a settlement finds the request settled and returns what was charged the first time;
//   - a hold finds the request running and changes nothing; once it is settled, ErrExists;
//   - a top-up with a reference finds its entry. One without a reference is the only operation that must not
//     be repeated blindly.
//
// The schema says it once more: one charge entry for a request, one entry for an account's reference, no
// entry is updated or deleted.
//
// A crash between hold and settlement leaves a held request. The next Open has PATH.lock, which the system
// takes from a process only when that process is gone, so it may settle every request of another owner: at
// nothing, as pending, its attempts unproven. Money that no settlement recorded is not charged, and a receipt
// may add it later. A settlement that comes after recovery (the lock file was removed by hand, say, and the
// old process was only slow) finds the request settled and charges nothing; the account's row is read and
// written inside a transaction that excludes every other writer, so two processes cannot overwrite each other.
//
// # What makes an entry
//
// Movements of money only: top-ups and charges above zero. A settlement at zero ends its request in the
// requests table and leaves the journal alone. Entries are chained by hash for each account, and the account's
// row keeps the last hash, so an entry that was changed, removed or put in shows, unless everything after it
// and the account's row were rewritten too.
package sqlite
