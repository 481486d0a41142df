// Package book decides about money: what a hold, an attempt, a settlement, a receipt, a closing, a period, a
// movement, a setting, a key and a price change. Its functions take rows as values and return what they are to be, or
// a refusal. They know no database, clock, connection or context, and no randomness: ids, the moment and the actor
// are values.
//
// # What a store does
//
// It reads the rows that a decision takes, so that nobody else changes them meanwhile; it decides; and it writes, in
// one transaction, what the decision returns. Nothing else is needed, for nothing is decided by what is not in these
// rows:
//
//	                  takes                                            returns
//	DecideHold        payer; whether the request runs or is settled    the account's Balance, the running request
//	DecideAttempt     payer, running request                           the account's Balance, the running request
//	DecideSettlement  payer, running request                           account, line, entry; the request on record
//	DecideReceipt     payer, settled request, its attempts             account, line, entry, request, attempt
//	DecideClosing     the same                                         the same
//	EndPeriods        account; which allotments it has                 account, entries; lines begin anew
//	DecideTopUp,      account, the entry that has the reference; for   Change: account, entry, act,
//	DecideAdjustment, a refund the settled request, and of a           what is refunded of the request
//	DecideRefund      repeated one its later entries
//	settings, keys    account, key; which names and hashes are taken   Change: account, acts, keys
//	DecidePrice       the route's prices                               the version
//	RecordAct,        the trail of the acts about no account           act
//	AcceptLoss,
//	RecordPruning
//
// A payer is an account, the line of its key, what its terms are, and what the running requests of the line hold. An
// account is looked at only after its periods are up to date: who finds it Overdue calls EndPeriods first, and that
// stays, whatever becomes of the operation. Functions called Check and Repeats say what can be said with fewer rows,
// in the order in which a store comes to have them; they are part of the decision.
//
// An attempt begins at a price that the store has read. What a line holds and what an account holds (Balance.Held)
// are the sums of Running.Held, which a store may keep or make: what is decided moves both by the same amount. Sums
// of usage by day are no rows of a decision. They follow from requests on record, as lists do.
//
// # What comes out
//
// Values that are given are not changed, with one exception for the sake of its price: DecideSettlement concludes the
// attempts of the running request where they are. A store puts what is returned in place of what it gave, so
// decisions follow one another on the same rows within a transaction, and before any of it is written.
//
// Errors are of package ledger's kinds (ErrInvalid, ErrExists, ErrNotFound, ErrReference, ErrUsage), a refusal is a
// *ledger.Refusal; with an error nothing is returned and nothing is to be written. What a store does not find it says
// with NoAccount, NoKey, NoPrice, NoRequest and NoAttempt, so that all stores say the same. What is worth a line in a
// log is returned beside the change: Settled.LeftOut, Ended.Refused, Charged.Over.
//
// A decision may be made again on the same rows, and is the same. That makes a transaction that can be run again;
// what makes an operation that can be repeated is in the rules: the ids of requests and attempts, and references.
package book
