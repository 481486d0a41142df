// Package live decides what requests do in this process's memory, before the store behind it has a row of it
// (GAP-132). It is a ledger.Store over a store of its own process, and the engine's ledger.
//
// # What it keeps
//
// Accounts and lines of keys that were used lately, running requests, and prices: as the store has them, with what was
// decided since. A hold, a further attempt and a settlement are decided by package book under their account's lock, in
// microseconds, and change that memory. Everything else (what operators decide, receipts, periods) is the store's: what
// was decided before is taken up first, nobody decides about the account meanwhile, and it is read again afterwards. So
// money that comes in counts from its durable commit, and money that goes out from its decision. A request's end waits
// for that as well, for Options.WaitTimeout, and is then decided all the same, on what memory has: its client has the
// reply.
//
// # What is durable when
//
// A settlement is answered when the log has it. The store takes it up behind that, with others, in the order in which
// they were decided. When the log fails, its caller waits for the store instead.
//
// A hold's row is behind by Options.Interval at most, and is never written where its request ends before: the
// settlement carries it. Who has to wait for it (ledger.Hold.WriteBehind is false) waits for a commit. While the store
// does not take anything up, everybody waits, so that no hold is admitted whose row cannot be written.
//
// # A request in the store
//
// The store is told a request's course (book.Course): where it is now, or how it ended, with what that comes to. To
// take up the same again changes nothing. So the log can be read again after a crash, whatever the store had by then.
//
// # Who else writes
//
// Another program that has written into the store is noticed when a settlement is taken up: the account is then read
// again.
package live
