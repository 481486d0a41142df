package ledger

// Shadow is the Endpoint of a call that is made beside a request, for comparison and at the operator's cost. It is a
// request of its own, of the same account, that holds nothing: so whatever becomes of it, nothing can be charged
// (GAP-110). Usage counts its attempt, and does not count it among the requests.
const Shadow = "shadow"

// ShadowID is the id of the call that is compared with a request.
func ShadowID(request string) string { return request + "-shadow" }
