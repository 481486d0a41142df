// Package verify is the contract's conformance suite as a product: `fareway gateway verify` runs it against any
// deployment and prints one status for each clause (VER-05, GAP-93). The tests of this package run the same
// checks against a real gateway, so what they prove is what the command finds.
//
// A clause that a client can see is stated here, and nowhere else; modules/contracttest has what needs the inside: a
// clock that is turned, the ledger's rows, providers of the tests' own. Both read replies with package wire.
//
// # How it is made
//
// register.tsv is the register of the contract's clauses, one a line: id, kind (api: a client can see it from
// outside; ops: it takes a gateway of one's own), the status it has when nothing was run, and its text. Clauses
// that state nothing to test are not in it.
//
// A [Check] proves one or more clauses. Its function gets a [T], and says what it found by ending: normally for
// proven, by T.Fatalf for a broken clause, by T.Pendingf where the deployment gave no way to find out. The files
// check_*.go hold the checks, one area of the contract each, and fields.tsv those that are one request and its answer.
// A check of kind api may know nothing of the models behind a deployment: it must hold whatever they say.
//
// The status of a clause is FAIL when any of its checks failed, Pending when any of them was (or none exists), and
// PASS otherwise. What the contract does not offer (VER-06 to VER-10) is EXCLUDED instead of PASS: its checks look
// whether it is refused, or ignored, as stated; where it is not, that is a FAIL.
//
// Requests that many checks look at are sent once (memo). Checks of money run first and one by one, the others
// side by side. What a run may send and spend is bounded by [Limits].
//
// Checks of kind ops (ops_*.go) run on gateways that the run starts: this executable as a child process over
// plugins/providertest/upstream, one for each configuration that they need (gateKind), one check at a time. What such
// a gateway writes is judged whole, whatever the check looks at: by its family's schema, and streams by the rules of
// their shape. A check has a customer of its own, says what the upstream answers, and is the operator through the
// admin API. Checks of what happens when something is away end the gateway's provider, and put a fault into its
// ledger. What the deployment gave no way to see, for its models answer as they like, is looked at there again
// (performRest).
//
// Only the gateway's build imports this package.
package verify
