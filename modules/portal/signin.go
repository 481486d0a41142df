package portal

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/views"
)

func showSignIn(v *visit) error {
	next := safeNext(v.r.URL.Query().Get("next"))
	if v.viewer != nil {
		v.redirect(next)
		return nil
	}
	return v.signInPage("", next)
}

func (v *visit) signInPage(email, next string) error {
	return v.show(views.SignInPage(v.page("Sign in"), views.SignIn{Email: email, Next: next,
		Issuers: v.service.Issuers(), Forgotten: v.mailsLinks()}))
}

func signIn(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	email, next := form.Get("email"), safeNext(form.Get("next"))
	in, err := v.service.SignIn(v.r.Context(), email, form.Get("password"), v.client)
	if errors.Is(err, people.ErrWrong) {
		v.status = http.StatusUnauthorized
		v.fault = v.language.Text("E-mail or password is not right.")
		return v.signInPage(email, next)
	}
	return v.enterWith(in, next, err)
}

// enterWith lets somebody in, or asks for the code first.
func (v *visit) enterWith(in people.SignedIn, next string, err error) error {
	switch {
	case err != nil:
		return err
	case in.Challenge != "":
		return v.show(views.CodePage(v.page("Second factor"), views.Code{Challenge: in.Challenge, Next: next}))
	}
	v.keep(in.Token)
	v.redirect(next)
	return nil
}

func enterCode(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	challenge, next := form.Get("challenge"), safeNext(form.Get("next"))
	in, err := v.service.EnterCode(v.r.Context(), challenge, form.Get("code"), v.client)
	if errors.Is(err, people.ErrWrong) {
		v.status = http.StatusUnauthorized
		v.fault = v.language.Text("That code is not right, or was used before.")
		return v.show(views.CodePage(v.page("Second factor"), views.Code{Challenge: challenge, Next: next}))
	}
	return v.enterWith(in, next, err)
}

func signOut(v *visit) error {
	if v.token != "" {
		if err := v.service.SignOut(v.r.Context(), v.token); err != nil {
			return err
		}
	}
	v.forget()
	v.done("/portal/sign-in", "signed-out")
	return nil
}

func selectAccount(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	for _, a := range v.viewer.Accounts {
		if a.ID == form.Get("account") {
			if err := v.service.SelectAccount(v.r.Context(), v.session, a.ID); err != nil {
				return err
			}
			v.redirect("/portal/")
			return nil
		}
	}
	return errNotFound
}

func showInvitation(v *visit) error {
	invitation, err := v.service.ReadInvitation(v.r.Context(), v.r.PathValue("token"))
	if err != nil {
		return err
	}
	return v.invitationPage(invitation, "", "")
}

func (v *visit) invitationPage(i people.Invitation, name, email string) error {
	view := views.Invitation{Invitation: i, AsksEmail: i.Email == "", Name: name, Email: email}
	if i.Account != "" {
		account, err := readAccount(v.r.Context(), v.api(v.engine, "portal"), i.Account)
		if err != nil {
			return err
		}
		view.Account = account.Name
	}
	title := "Welcome"
	if i.Reset {
		title = "A new password"
	}
	return v.show(views.InvitationPage(v.page(title), view))
}

func acceptInvitation(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	token := v.r.PathValue("token")
	invitation, err := v.service.ReadInvitation(v.r.Context(), token)
	if err != nil {
		return err
	}
	var in string
	if form.Get("as") == "self" && v.viewer != nil {
		in, _, err = v.service.AcceptAs(v.r.Context(), v.session, token, v.client)
	} else {
		in, _, err = v.service.Accept(v.r.Context(), token, people.Acceptance{Name: form.Get("name"),
			Password: form.Get("password"), Email: form.Get("email")}, v.client)
	}
	if errors.Is(err, people.ErrSignInFirst) {
		v.status = http.StatusConflict
		v.fault = v.language.Text("There is somebody with this e-mail already. Sign in as that, and open the link again.")
		return v.signInPage(invitation.Email, v.r.URL.Path)
	}
	if text, ok := v.refusedText(err); ok {
		v.status, v.fault = http.StatusBadRequest, text
		return v.invitationPage(invitation, form.Get("name"), form.Get("email"))
	}
	if err != nil {
		return err
	}
	if in == "" { // a second factor is asked for
		v.done("/portal/sign-in", "new-password")
		return nil
	}
	v.keep(in)
	v.done("/portal/", "welcome")
	return nil
}

// sentPasskey is what the script sends of a browser's passkey.
type sentPasskey struct {
	Challenge  string          `json:"challenge"`
	Next       string          `json:"next"`
	Name       string          `json:"name"`
	Credential json.RawMessage `json:"credential"`
}

func (v *visit) readPasskey() (s sentPasskey, err error) {
	if err := json.NewDecoder(v.r.Body).Decode(&s); err != nil {
		return s, errBadForm
	}
	return s, nil
}

// answer sends a script JSON.
func (v *visit) answer(value any) error {
	v.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(v.w).Encode(value)
}

// asked is what a browser is asked for a passkey by.
type asked struct {
	Challenge string          `json:"challenge"`
	Options   json.RawMessage `json:"options"`
}

func beginPasskey(v *visit) error {
	challenge, options, err := v.service.BeginPasskey(v.r.Context(), v.client)
	if err != nil {
		return err
	}
	return v.answer(asked{challenge, options})
}

func finishPasskey(v *visit) error {
	sent, err := v.readPasskey()
	if err != nil {
		return err
	}
	in, err := v.service.FinishPasskey(v.r.Context(), sent.Challenge, sent.Credential, v.client)
	if errors.Is(err, people.ErrWrong) {
		v.status = http.StatusUnauthorized
		return v.show(views.MessagePage(v.page("Sign in"), v.language.Text("That is not right.")))
	}
	if err != nil {
		return err
	}
	v.keep(in.Token)
	return v.answer(map[string]string{"next": safeNext(sent.Next)})
}

func beginConfirmPasskey(v *visit) error {
	challenge, options, err := v.service.BeginConfirmPasskey(v.r.Context(), v.session)
	if err != nil {
		return err
	}
	return v.answer(asked{challenge, options})
}

func finishConfirmPasskey(v *visit) error {
	sent, err := v.readPasskey()
	if err != nil {
		return err
	}
	if err := v.service.FinishConfirmPasskey(v.r.Context(), v.session, sent.Challenge, sent.Credential); err != nil {
		return v.scriptRefused(err)
	}
	return v.answer(map[string]string{"next": safeNext(sent.Next)})
}

func beginAddPasskey(v *visit) error {
	challenge, options, err := v.service.BeginAddPasskey(v.r.Context(), v.session)
	if err != nil {
		return v.scriptRefused(err)
	}
	return v.answer(asked{challenge, options})
}

// scriptRefused is for a script, which cannot confirm who somebody is.
func (v *visit) scriptRefused(err error) error {
	if errors.Is(err, people.ErrConfirm) {
		return errMayNot
	}
	return err
}

func finishAddPasskey(v *visit) error {
	sent, err := v.readPasskey()
	if err != nil {
		return err
	}
	if err := v.service.FinishAddPasskey(v.r.Context(), v.session, sent.Challenge, sent.Name,
		sent.Credential); err != nil {
		return v.scriptRefused(err)
	}
	return v.answer(struct{}{})
}

// callback is where an issuer sends browsers back to.
func (v *visit) callback(name string) string {
	return v.origin() + "/portal/oidc/" + url.PathEscape(name) + "/callback"
}

// flow is what a browser keeps while it is at an issuer.
type flow struct {
	Challenge string `json:"c"`
	Next      string `json:"n"`
	Link      bool   `json:"l,omitempty"` // not to sign in, but to do so from then on, too
}

func beginOIDC(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	to, challenge, err := v.service.BeginOIDC(v.r.Context(), form.Get("name"), v.callback(form.Get("name")), v.client)
	if err != nil {
		return v.issuerFailed(err)
	}
	return v.goToIssuer(to, flow{Challenge: challenge, Next: safeNext(form.Get("next"))})
}

// goToIssuer sends the browser to an issuer, and has it keep what it comes back with.
func (v *visit) goToIssuer(to string, f flow) error {
	value, err := json.Marshal(f)
	if err != nil {
		return err
	}
	v.setCookie(v.cookieName()+flowSuffix, encodeCookie(value), 600)
	v.redirect(to)
	return nil
}

// beginLink has who is signed in go to an issuer by which they want to sign in from then on, too.
func (v *visit) beginLink(name string) error {
	to, challenge, err := v.service.BeginLinkOIDC(v.r.Context(), v.session, name, v.callback(name))
	if errors.Is(err, people.ErrIssuer) {
		return v.linkFailed(err)
	}
	if err != nil {
		return err
	}
	return v.goToIssuer(to, flow{Challenge: challenge, Link: true})
}

// finishLink is where such a browser comes back.
func (v *visit) finishLink(challenge string) error {
	if v.viewer == nil {
		return people.ErrNoSession
	}
	err := v.service.FinishLinkOIDC(v.acting(), v.session, challenge, v.r.PathValue("name"), v.r.URL.Query())
	switch {
	case errors.Is(err, people.ErrConfirm):
		v.redirect("/portal/confirm?next=/portal/security")
		return nil
	case err != nil:
		return v.linkFailed(err)
	}
	v.done("/portal/security", "linked")
	return nil
}

// linkFailed says on the page from which it was begun why an issuer is not linked.
func (v *visit) linkFailed(err error) error {
	switch {
	case errors.Is(err, people.ErrExists):
		v.status = http.StatusConflict
		v.fault = v.language.Text("Whoever you are there signs in here already, as you or as somebody else.")
	case errors.Is(err, people.ErrIssuer):
		v.log.Warn("linking an issuer of OpenID Connect", "error", err)
		v.status = http.StatusBadGateway
		v.fault = v.language.Text("Signing in there did not work. Try again, or sign in another way.")
	default:
		return err
	}
	return v.securityPage(views.Security{})
}

func finishOIDC(v *visit) error {
	c, err := v.r.Cookie(v.cookieName() + flowSuffix)
	if err != nil {
		return people.ErrExpired
	}
	var f flow
	if json.Unmarshal(decodeCookie(c.Value), &f) != nil {
		return people.ErrExpired
	}
	v.setCookie(v.cookieName()+flowSuffix, "", -1)
	if f.Link {
		return v.finishLink(f.Challenge)
	}
	in, err := v.service.FinishOIDC(v.r.Context(), f.Challenge, v.r.PathValue("name"), v.r.URL.Query(), v.client)
	if err != nil {
		return v.issuerFailed(err)
	}
	return v.enterWith(in, safeNext(f.Next), nil)
}

// issuerFailed says what an issuer has to do with it.
func (v *visit) issuerFailed(err error) error {
	switch {
	case errors.Is(err, people.ErrNotInvited):
		v.status = http.StatusForbidden
		v.fault = v.language.Text("You are known there, but nobody has let you in here. Ask for an invitation.")
	case errors.Is(err, people.ErrSignInFirst):
		v.status = http.StatusConflict
		v.fault = v.language.Text("There is somebody with this e-mail here, who signs in in another way.")
	case errors.Is(err, people.ErrIssuer), errors.Is(err, people.ErrWrong):
		v.log.Warn("signing in by OpenID Connect", "error", err)
		v.status = http.StatusBadGateway
		v.fault = v.language.Text("Signing in there did not work. Try again, or sign in another way.")
	default:
		return err
	}
	return v.signInPage("", "/portal/")
}

func showConfirm(v *visit) error {
	return v.show(views.ConfirmPage(v.page("Confirm that it is you"), safeNext(v.r.URL.Query().Get("next"))))
}

func confirm(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	next := safeNext(form.Get("next"))
	err = v.service.Confirm(v.r.Context(), v.session, form.Get("password"), form.Get("code"))
	if errors.Is(err, people.ErrWrong) {
		v.status, v.fault = http.StatusUnauthorized, v.language.Text("That is not right.")
		return v.show(views.ConfirmPage(v.page("Confirm that it is you"), next))
	}
	if err != nil {
		return err
	}
	v.done(next, "confirmed")
	return nil
}
