package portal

import (
	"slices"

	"github.com/fareway/fareway/modules/portal/views"
)

// place is a page, or what a form of one does, with who may.
type place struct {
	pattern string // as http.ServeMux has it
	// open: nobody has to be signed in.
	open bool
	// signed: what is sent is no form of a page, and proves itself by what it says.
	signed bool
	// self is for everybody who has signed in; ledgerless, also while the ledger is away.
	self, ledgerless bool
	// role is the least that the viewer has to be in the account that is looked at, "" for a place of no account.
	role string
	// operator is the least that the viewer has to be for the gateway, "" for a place that is not for operators.
	operator string
	// most bounds what is sent, in bytes; 0: maxForm.
	most  int64
	serve func(*visit) error
}

// What somebody has to be at least, of the least first.
var (
	roles     = []string{"viewer", "member", "owner"}
	operators = []string{"read-only", "support", "admin"}
)

// accountStatements is where operators see the statements of an account.
const accountStatements = "/portal/operator/accounts/{id}/statements"

// places are all that there is, with who may see it. It is the one list of that.
var places = []place{
	{pattern: "GET /portal/sign-in", open: true, serve: showSignIn},
	{pattern: "POST /portal/sign-in", open: true, serve: signIn},
	{pattern: "GET /portal/forgotten", open: true, serve: showForgotten},
	{pattern: "POST /portal/forgotten", open: true, serve: forgetPassword},
	{pattern: "POST /portal/sign-in/code", open: true, serve: enterCode},
	{pattern: "POST /portal/sign-out", open: true, serve: signOut},
	{pattern: "GET /portal/invitation/{token}", open: true, serve: showInvitation},
	{pattern: "POST /portal/invitation/{token}", open: true, serve: acceptInvitation},
	{pattern: "POST /portal/passkey/begin", open: true, serve: beginPasskey},
	{pattern: "POST /portal/passkey/finish", open: true, serve: finishPasskey},
	{pattern: "POST /portal/oidc", open: true, serve: beginOIDC},
	{pattern: "GET /portal/oidc/{name}/callback", open: true, serve: finishOIDC},

	{pattern: "POST /portal/account", self: true, ledgerless: true, serve: selectAccount},
	{pattern: "POST /portal/amounts", self: true, ledgerless: true, serve: selectAmounts},
	{pattern: "GET /portal/security", self: true, ledgerless: true, serve: showSecurity},
	{pattern: "POST /portal/security", self: true, ledgerless: true, serve: changeSecurity},
	{pattern: "GET /portal/confirm", self: true, ledgerless: true, serve: showConfirm},
	{pattern: "POST /portal/confirm", self: true, ledgerless: true, serve: confirm},
	{pattern: "POST /portal/passkey/confirm/begin", self: true, ledgerless: true, serve: beginConfirmPasskey},
	{pattern: "POST /portal/passkey/confirm/finish", self: true, ledgerless: true, serve: finishConfirmPasskey},
	{pattern: "POST /portal/passkey/add/begin", self: true, ledgerless: true, serve: beginAddPasskey},
	{pattern: "POST /portal/passkey/add/finish", self: true, ledgerless: true, serve: finishAddPasskey},

	{pattern: "GET /portal/{$}", self: true, serve: showHome},
	{pattern: "GET /portal/requests", role: "viewer", serve: showRequests},
	{pattern: "GET /portal/requests/find", self: true, serve: findRequest},
	{pattern: "GET /portal/requests/{id}", self: true, serve: showRequest},
	{pattern: "GET " + livePath, role: "viewer", serve: tailRequests},
	{pattern: "GET /portal/keys", role: "viewer", serve: showKeys},
	{pattern: "POST /portal/keys", role: "member", serve: makeKey},
	{pattern: "GET /portal/keys/{id}", role: "member", serve: showKey},
	{pattern: "POST /portal/keys/{id}", role: "member", serve: changeKey},
	{pattern: "GET /portal/usage", role: "viewer", serve: showUsage},
	{pattern: "GET /portal/usage.csv", role: "viewer", serve: downloadUsage},
	{pattern: "GET /portal/usage/focus", role: "viewer", serve: downloadFocus},
	{pattern: "GET /portal/statements", role: "viewer", serve: showStatements},
	{pattern: "GET /portal/statements/{month}", role: "viewer", serve: showStatement},
	{pattern: "GET /portal/statements/{month}/csv", role: "viewer", serve: downloadStatement},
	{pattern: "GET /portal/statements/{month}/focus", role: "viewer", serve: downloadFocusOfMonth},
	{pattern: "GET /portal/credits", role: "viewer", serve: showCredits},
	{pattern: "POST /portal/credits", role: "owner", serve: changeCredits},
	{pattern: "POST /portal/stripe", open: true, signed: true, serve: receiveStripe},
	{pattern: "GET /portal/connect", role: "viewer", serve: showConnect},
	{pattern: "POST /portal/connect", role: "viewer", serve: tryConnection},
	{pattern: "GET /portal/members", role: "viewer", serve: showMembers},
	{pattern: "POST /portal/members", role: "owner", serve: changeMembers},

	{pattern: "GET /portal/operator/overview", operator: "read-only", serve: showOverview},
	{pattern: "GET /portal/operator/accounts", operator: "read-only", serve: showAccounts},
	{pattern: "POST /portal/operator/accounts", operator: "admin", serve: makeAccount},
	{pattern: "GET /portal/operator/accounts/{id}", operator: "read-only", serve: showAccount},
	{pattern: "POST /portal/operator/accounts/{id}", operator: "support", serve: changeAccount},
	{pattern: "GET " + accountStatements, operator: "read-only", serve: showStatements},
	{pattern: "GET " + accountStatements + "/{month}", operator: "read-only", serve: showStatement},
	{pattern: "GET " + accountStatements + "/{month}/csv", operator: "read-only", serve: downloadStatement},
	{pattern: "GET " + accountStatements + "/{month}/focus", operator: "read-only", serve: downloadFocusOfMonth},
	{pattern: "GET /portal/operator/plans", operator: "read-only", serve: showPlans},
	{pattern: "GET /portal/operator/routes", operator: "read-only", serve: showRoutes},
	{pattern: "GET /portal/operator/simulator", operator: "read-only", serve: showSimulator},
	{pattern: "POST /portal/operator/simulator", operator: "read-only", serve: simulate},
	{pattern: "GET /portal/operator/routes/{name}", operator: "read-only", serve: showRoute},
	{pattern: "GET /portal/operator/plugins", operator: "read-only", serve: showPlugins},
	{pattern: "GET /portal/operator/people", operator: "read-only", serve: showPeople},
	{pattern: "POST /portal/operator/people", operator: "support", serve: changePeople},
	{pattern: "GET /portal/operator/audit", operator: "read-only", serve: showAudit},
	{pattern: "GET /portal/operator/checkpoints", operator: "read-only", serve: showCheckpoints},
	{pattern: "POST /portal/operator/checkpoints", operator: "support", serve: changeCheckpoints},
	{pattern: "GET /portal/operator/checkpoints/{number}", operator: "read-only", serve: downloadCheckpoint},
	{pattern: "GET /portal/operator/configuration", operator: "read-only", serve: showConfiguration},
	{pattern: "GET " + candidatePath, operator: "admin", serve: showCandidate},
	{pattern: "POST " + candidatePath, operator: "admin", most: maxCandidate, serve: tryCandidate},
}

// Patterns are what the portal serves, as http.ServeMux has it: a test that looks at all of it takes the list from
// here.
func Patterns() (list []string) {
	for _, p := range places {
		list = append(list, p.pattern)
	}
	return list
}

// check is an error where somebody may not.
func (p *place) check(v *views.Viewer) error {
	switch {
	case p.self:
		return nil
	case p.operator != "":
		return atLeast(operators, v.Operator, p.operator)
	case v.Account == nil:
		return errNotFound
	}
	return atLeast(roles, v.Account.Role, p.role)
}

// atLeast is an error where what somebody is stands before what is needed.
func atLeast(ranks []string, is, needed string) error {
	at := slices.Index(ranks, is)
	if at < 0 {
		return errNotFound // not even that there is something
	}
	if at < slices.Index(ranks, needed) {
		return errMayNot
	}
	return nil
}
