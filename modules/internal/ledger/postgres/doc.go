// Package postgres keeps the ledger in a PostgreSQL database that several gateways share, each a node of its own. It
// is for the engine. What is decided about money package book decides: this one reads the rows that a decision needs,
// so that nobody else changes them meanwhile, and writes those that it returns.
//
// # A transaction
//
// A node has some lanes, each with a connection and a share of the accounts, the same share on all nodes. A lane
// takes all operations that wait (holds, attempts and settlements of many requests), and runs them in one
// transaction: a round trip locks the accounts in the order of their ids and reads what the operations need, they
// decide in memory (unit), and another (writeBuffer) changes and deletes rows, each table with one statement from
// arrays, copies new rows in, and commits. Then they are answered. Where statements are not prepared (a PgBouncer that
// knows none), or an operation has some of its own, what changes rows goes before that, in a round trip of its own.
//
// An account's row in balances is its lock. It is taken before anything else of the account is read, by a statement of
// its own, so that what is read behind it is what the one who had it before has committed (READ COMMITTED). What the
// server refuses is run again by account and then one by one; what met another transaction (40001, 40P01) at once. The
// row has the line of keys that has paid last, too (payer), so that most requests write one row for account and key;
// the view key_lines has all lines as they are.
//
// What requests need is found by the account, or by the request's id and the account: no statement on their way looks
// at rows of other accounts, no sequence counts, nothing is locked or notified by a session, and every transaction
// may be run again. That makes it possible to spread the tables by account (TestSpreadByAccount). It was tried with
// PostgreSQL 15 and its own partitions, and with no other database: not with Citus, CockroachDB or YugabyteDB, the
// last two of which know neither these settings nor, perhaps, partitions in this form.
//
// Check locks nothing and is in no lane: one statement answers all that wait.
//
// # A commit of which nobody knows whether it is
//
// The connection may be lost in a COMMIT, and a wait for the synchronous standby may be cancelled, which leaves the
// commit on the primary alone (a warning, class 01), or be ended by who empties synchronous_standby_names, which says
// nothing: where a standby is required, that is looked at behind each commit. All of these are doubt: the same
// operations run again, and what finds that it was carried out before writes a row of its node and commits, which
// waits for the standby as the first should have. So nothing is acknowledged that a failover loses. Holds, attempts,
// settlements and receipts can be
// repeated by the rules; what operators do is found again by the hash of its act. Nothing of ours cancels a commit:
// no deadline, no statement timeout, no cancel request of a connection that is given up. Whose callers have given up
// meanwhile is an orphan: the hold is released as one whose call was never made.
//
// # Nodes
//
// A process signs in with a lease, by the database's clock, and renews it on a connection of its own. It stops to
// admit before the lease can have lapsed, and the database says within each transaction, behind the locks, whether
// the node may still admit. Recover releases what nodes hold that are gone: whose lease was given back, or has stood
// unrenewed for as long as a lease lasts while the process that looks could have renewed its own, for behind an
// outage all leases have lapsed and all nodes live. A settlement that comes late is applied to what was released,
// once (book.DecideLate): it charges what it proves, at most what its attempts may cost. What fair use would have
// left free and a surcharge are not in it, for what is on record of the request says that there was none.
//
// A node remembers what it needs not read again: what operators have set for an account, as long as the account's
// trail of acts is what it was; which line a key belongs to, and prices, which never change; and the requests that it
// holds itself, whose rows it finds gone when it deletes them, if another node has released them.
//
// # Tables
//
// See schema. Requests and attempts lie in a partition for each month, by the time that their ids begin with; a
// repetition over midnight has the same id and so the same partition. Partitions are made by EndPeriods some months
// ahead, and dropped by Prune when they are over and it has emptied them; both lock the table, and so wait for others
// no longer than half a second, and try again another time. A version of the schema that is newer by one is worked
// with, so that old and new nodes run side by side.
//
// # Sums of days
//
// Usage reads sums by account, key, day of the settlement, route and profile. No request writes them: a chore of one
// node adds what an account has settled, some thousand entries in a transaction, and moves the account's mark
// (summed.entry) behind them. Who makes an entry of an account has its balance locked until he commits, so that a
// lower number is never committed after a higher one, and what the mark has passed is there. What an entry behind the
// mark is about is read one by one: a settlement, and a refund, of which the sums know the rest of the request.
// Requests that wait for receipts are in no sum, so that nothing is ever taken from one. So nodes that know no sums
// may settle, prove and refund beside. Requests stay in the sums when they are pruned; Prune adds them first, and where
// an older node prunes one that is not in them, a trigger marks the account's sums as broken, and they are made anew.
// Where sums are broken, or far behind, or times cut a day, requests are read instead.
//
// # Verification
//
// Package audit's. Entries are named by their account and their number there, and what a checkpoint is over by the
// heads that were kept with it, so that nothing is written and a replica will do (OpenBooks); accounts, keys and acts
// are numbered within each query. Holds are compared with what accounts and lines say that they hold, and are in no
// hash.
//
// # A ledger that comes from elsewhere
//
// Target is a move.Target. What an older ledger numbered across accounts (entries of format 1 and 2, acts of format 1)
// keeps that number beside, for it is in their hashes. While a move is not done nobody serves the database: who opens
// it looks before and behind his signing in, and a move looks for nodes behind its beginning, so that one of both sees
// the other.
package postgres
