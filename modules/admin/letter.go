package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/fareway/fareway/modules/internal/alerts"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/people"
)

// mailsLinks is a problem where no mail block mails links.
func (a *API) mailsLinks() error {
	if g := a.engine.Current(); g == nil || g.Config.MailsLinks() == nil {
		return problem(http.StatusConflict, "no links are mailed here: write `links = true` into a mail block of the "+
			"alerts, and `url` into the block portal, or leave --mail out and hand the link over yourself")
	}
	return nil
}

// errNoMail: the configuration that mailed links was changed meanwhile.
var errNoMail = errors.New("no links are mailed here any more")

// MailLink mails a link to whom it is for, and writes down in it how that went. say is what texts are formatted with,
// as fmt.Sprintf, in somebody's language.
func MailLink(ctx context.Context, e *engine.Engine, link *PortalLink, v *people.Invitation,
	say func(format string, args ...any) string) {
	err := errNoMail
	if g := e.Current(); g != nil {
		if m := g.Config.MailsLinks(); m != nil {
			// Never where a browser says that it is: who asks may not be who gets the mail.
			link.URL = g.Config.Portal.URL
			err = e.Alerts().SendLetter(ctx, m, letterOf(link, v, say))
		}
	}
	if link.Mailed = err == nil; err != nil {
		link.MailError = err.Error()
	}
}

func letterOf(link *PortalLink, v *people.Invitation, say func(format string, args ...any) string) alerts.Letter {
	l := alerts.Letter{To: v.Email}
	var first, last string
	until := v.Expires.UTC().Format("2006-01-02 15:04 UTC")
	switch {
	case v.KeepsFactors:
		l.Subject = say("A new password")
		first = say("Somebody has asked for a new password for %s. If that was you, set it here, until %s:", v.Email, until)
		last = say("It takes your passkeys away; your second factor stays. If it was not you, there is nothing to do.")
	case v.Reset:
		l.Subject = say("A new password")
		first = say("You were given a link to set a new password for %s. It can be used once, until %s:", v.Email, until)
		last = say("It takes your second factor and your passkeys away, which you can set up anew then.")
	default:
		l.Subject = say("You are invited")
		first = say("You were invited to sign in as %s. The link can be used once, until %s:", v.Email, until)
		last = say("If you do not know what this is about, there is nothing to do.")
	}
	l.Text = first + "\n\n" + link.URL + link.Path + "\n\n" + last + "\n"
	return l
}
