// Package sqlite keeps the ledger in one SQLite file, for one gateway process. It is for the engine, and for the
// commands that read a ledger while no gateway runs (OpenBooks). What is decided about money package book decides:
// this one reads the rows that a decision needs, and writes those that it returns.
//
// In a gateway, package live decides about requests in memory and settles them into its log: this store takes up their
// courses behind that (TakeUp), in order. Its own Hold, Begin and Settle decide in the same way, and are for what live
// does not run: requests of other owners, and ledgers without it.
//
// # Writing
//
// One goroutine writes, on one connection. It takes every operation that waits, runs them in one transaction and
// commits once, in WAL mode with synchronous=FULL; then it answers them. So an answer means that the operation is on
// the disk, and a busy gateway pays for one sync where it has many callers: a commit takes all that came while the one
// before was on its way. Operations decide before they change
// anything: one that is refused leaves its neighbours alone, and one that fails half way is taken out and runs alone,
// after the others have run again without it. When a row cannot be written, nobody knows whose it is, and each of
// them runs alone. When a commit fails, everyone in it is told ErrUnavailable, also those that changed nothing,
// because what they saw was taken back.
//
// # Memory
//
// This process is the only one that admits requests and the writer its only one that writes, so the writer keeps,
// exactly as committed: accounts and keys that were used lately, the running requests, and prices. What requests
// write is collected until the commit, or until an operation reads from the database: accounts and keys are then
// written once, and holds, requests, attempts and entries many with one statement, in the order in which they lie. A
// transaction that is rolled back takes all of that memory with it, and so does another program that has written to
// the file (PRAGMA data_version, looked at inside every transaction): a repair by hand is seen, and never
// overwritten.
//
// What a request writes is small and in order (schema/2.sql, schema/4.sql): its hold one row in a table that has only
// what runs; its settlement a row at the end of requests, attempts and entries each, and its account's row of
// balances. What an account holds is the sum of its running requests, which the writer remembers and others read;
// what the key that paid last has spent is in balances, too: a hold changes no account, a settlement no key. Ids of
// requests begin with the time; others work, and cost a look into the table of settled requests.
//
// # Why no money is lost or doubled
//
// A hold, a further attempt with its raised hold, a settlement, a receipt and the end of a period are each one
// transaction: a crash leaves all of it or nothing. Before the commit of a settlement the request runs; after it, it
// is settled, and there is nothing between. A caller that was not answered may repeat:
//
//   - a settlement finds the request settled and returns what was charged the first time;
//   - a hold finds the request running and changes nothing; once it is settled, ErrExists;
//   - a receipt finds that its attempt does not wait any more;
//   - a top-up or a correction with a reference finds its entry. One without a reference is the only operation that
//     must
//     not be repeated blindly.
//
// A crash between hold and settlement leaves a running request. The next process has PATH.lock, which the system
// takes from a process only when that process is gone, so Recover may settle every request of another owner: at
// nothing, as pending, its attempts unproven. Money that no settlement recorded is not charged, and a receipt may add
// it later. A settlement that comes after recovery (the lock file was removed by hand, say, and the old process was
// only slow) finds the request settled and charges nothing.
//
// # When the disk does not do its part
//
// For the note of a reference nobody waits, and no caller waits longer than Options.WaitTimeout. Who gives up before
// the transaction has come to his operation is
// never run; that includes all the time that another program has the file locked. Who gives up later may have been
// committed after all: a hold that nobody knows of is then settled as free, its call not made, and an attempt counts
// as not made, unless it is repeated in time. A commit that fails is treated in the same way, for its end may be in
// the log, where whoever opens the file next takes it for a commit. Nothing else is needed when a disk is full,
// read-only or fails: the transaction is taken back, and the next one tries again. A connection on which none can
// begin is opened anew, and so is one whose log was removed, after what it had is in the database. A database that
// was moved or replaced is refused until it is back.
//
// What SQLite does not miss is a log that ends too early: a damaged frame ends it, and so does its file's absence. So
// a witness lies beside the database (witness.go, GAP-133): how many entries and acts there are, and the sum of the
// heads of all chains, written behind each commit and never before. A ledger that is behind it takes no money until
// an operator has decided; until then the witness stays as it is, so that it knows the newer files when they are put
// back. How far the ledger has come is known from reading all heads once, at the start, and whenever another program
// has written.
//
// Free pages go back to the file system in small transactions (shrink.go), which change no row. A file of before,
// which cannot do that (auto_vacuum is none), is written anew at a start, before anybody waits, and never while a
// loss is undecided.
//
// # What makes an entry
//
// Movements of money (top-ups, refunds, adjustments, allotments), and each settlement, receipt and closing, also one
// of nothing: its entry has the hash of what is on record of the request or the attempt (ledger.RequestRecord.Detail,
// ledger.AttemptRecord.Detail). Entries are numbered and chained by hash for each account, and its balance keeps the
// last hash, so an entry that was changed, removed or put in shows, unless everything after it and the balance were
// rewritten too; a checkpoint that is kept elsewhere shows that as well, of entries and of the audit trail. Acts are
// chained in the same way, by account. Nothing is numbered across accounts, for several nodes could not do that
// without waiting for one another: where a row lies in this file (entries.n, audit.n) is in no hash. Running requests
// come and go without an entry; meta has the sum of their rows' marks. By what an upstream is asked for a receipt
// (reference, of what runs and what waits) is no money and in no hash: another one brings another receipt or none, and
// an attempt's worst bounds what any receipt adds. It is gone when its attempt waits no more.
//
// # Reading
//
// Everything that operators and auditors read (books) is the same code for the Store and for a file without a
// gateway. Each list has a connection of its own and sees one moment; while it is read, the write-ahead log grows by
// all that is written, for nothing that it may still need is overwritten. What is large is read in the order in which
// it lies and never collected: groups, sums and sorts beyond some megabytes go to temporary files of SQLite's
// (SQLITE_TMPDIR). No index serves a list alone, for each would cost every request: the entries of an account are
// found through their links, those of a request through its row, and those of one that was pruned by reading the whole
// journal.
//
// Usage reads the sums of days (schema/21.sql, days.go), by key, route and profile, and one by one only the
// requests behind meta.summed, the entry up to which settlements are in a sum. The writer counts settlements as it
// makes them and adds some thousands of them at once, in a transaction that moves meta.summed with them, so that a
// crash leaves both or neither; what its memory has lost is read again from the tables. A receipt, a closing, a
// refund and a pruning change the sums in their own transaction, after what is unsummed. Beside the sums of keys
// lie those of their accounts and of the whole ledger, so that a year of an account with thousands of keys is some
// hundred rows; they lie by day first, so that what is added to today's is in few pages. A ledger whose sums knew
// no profile gets it from a chore (profiles.go), some hundred requests at a time; what it has not come to is read
// one by one where it is asked for.
//
// Verification is package audit's: this one gives it the rows (auditrows.go), and looks at its version, its
// witness, its pages, its schema (verify.go) and the sums of days that are sums of others (totals.go). It relies on
// nothing that it can recompute, and on the kept checkpoints for what nobody can. What it does not see when it is
// changed is listed, with the reasons, in verify_columns_test.go and in SECURITY.md. Pruned requests leave behind
// what they came to, so that the counters can still be recomputed.
package sqlite
