package portal

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/views"
)

const (
	// maxLetters is how many links are made and mailed at a time for those who have asked, and letterTimeout how long one
	// may take.
	maxLetters    = 16
	letterTimeout = 2 * time.Minute
)

// mailsLinks reports whether links are mailed here.
func (v *visit) mailsLinks() bool {
	g := v.engine.Current()
	return g != nil && g.Config.MailsLinks() != nil
}

// mailLink mails a link in the language of the page. What a mail server says is for those who run the gateway: it may
// name what is behind it, and whom it knows.
func (v *visit) mailLink(ctx context.Context, link *admin.PortalLink, made *people.Invitation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), letterTimeout) // a browser may leave
	defer cancel()
	admin.MailLink(ctx, v.engine, link, made, v.language.Text)
	if link.MailError == "" {
		return
	}
	v.log.Error("mailing a link", "invitation", made.ID, "error", link.MailError)
	if v.viewer == nil || v.viewer.Operator == "" {
		link.MailError = v.language.Text("the mail server did not take it")
	}
}

func showForgotten(v *visit) error {
	if !v.mailsLinks() {
		return errNotFound
	}
	return v.show(views.ForgottenPage(v.page("Password forgotten"), false))
}

// forgetPassword mails somebody who has forgotten their password a link to set a new one. The answer is the same
// whoever asks, and is there before anything is looked up.
func forgetPassword(v *visit) error {
	if !v.mailsLinks() {
		return errNotFound
	}
	form, err := v.form()
	if err != nil {
		return err
	}
	if err := v.service.AdmitForgotten(v.r.Context(), v.client); err != nil {
		return err
	}
	select {
	case v.letters <- struct{}{}:
	default:
		// No other answer: that mails are on their way is known by who has an account.
		v.log.Warn("a link for a forgotten password was not made: too many are being mailed")
		return v.show(views.ForgottenPage(v.page("Password forgotten"), true))
	}
	ctx := context.WithoutCancel(v.r.Context())
	go func() {
		defer func() { <-v.letters }()
		defer func() {
			if p := recover(); p != nil { // nothing else would, and it would end the gateway
				v.log.Error("recovered from a panic", "stack", string(debug.Stack()))
			}
		}()
		ctx, cancel := context.WithTimeout(ctx, letterTimeout)
		defer cancel()
		token, made, err := v.service.ForgetPassword(ctx, form.Get("email"))
		if err != nil {
			v.log.Error("making a link for a forgotten password", "error", err)
			return
		}
		if token == "" {
			return
		}
		v.mailLink(ctx, &admin.PortalLink{Path: admin.InvitationPath + token}, &made)
	}()
	return v.show(views.ForgottenPage(v.page("Password forgotten"), true))
}
