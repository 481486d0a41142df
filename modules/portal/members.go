package portal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"image/png"
	"net/http"
	"slices"

	"github.com/pquerna/otp"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/views"
)

// shownPeople is how many people a page shows.
const shownPeople = 100

func showMembers(v *visit) error { return v.membersPage(nil) }

func (v *visit) membersPage(link *views.MadeLink) error {
	id := v.viewer.Account.ID
	members, err := v.service.Members(v.r.Context(), id, v.r.URL.Query().Get("after"), shownPeople+1)
	if err != nil {
		return err
	}
	view := views.Members{Link: link}
	if len(members) > shownPeople {
		members = members[:shownPeople]
		view.More = members[shownPeople-1].Email
	}
	view.Members = members
	if v.viewer.MayManage() {
		if view.Invitations, err = v.service.Invitations(v.r.Context(), id, "", shownPeople); err != nil {
			return err
		}
	}
	return v.show(views.MembersPage(v.page("Members"), view))
}

// linkOf is the link of an invitation, where this browser is. Where links are mailed, and mail asks for that, it is
// mailed, too, and leads where the configuration says.
func (v *visit) linkOf(token string, made *people.Invitation, mail bool) *views.MadeLink {
	link := &views.MadeLink{PortalLink: admin.PortalLink{URL: v.origin(), Path: admin.InvitationPath + token,
		Email: made.Email, Expires: &made.Expires}}
	if mail && v.mailsLinks() {
		if v.service.AdmitLetter(v.r.Context(), v.person.ID) == nil {
			v.mailLink(v.r.Context(), &link.PortalLink, made)
		} else {
			link.MailError = v.language.Text("you have mailed many just now")
		}
	}
	link.Address = link.URL + link.Path
	return link
}

func changeMembers(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	ctx, id, person := v.acting(), v.viewer.Account.ID, form.Get("person")
	switch form.Get("act") {
	case "invite":
		var token string
		var made people.Invitation
		if token, made, err = v.service.Invite(ctx, people.Invitation{Email: form.Get("email"), Account: id,
			Role: people.Role(form.Get("role")), By: v.person.Email, Maker: v.person.ID}); err == nil {
			return v.membersPage(v.linkOf(token, &made, true))
		}
	case "role":
		if err = v.service.SetRole(ctx, id, person, people.Role(form.Get("role"))); err == nil {
			v.done("/portal/members", "saved")
			return nil
		}
	case "remove":
		if err = v.service.RemoveMember(ctx, id, person); err == nil {
			v.done("/portal/members", "removed")
			return nil
		}
	case "withdraw":
		if err = v.service.WithdrawInvitation(ctx, id, form.Get("invitation")); err == nil {
			v.done("/portal/members", "withdrawn")
			return nil
		}
	default:
		return errBadForm
	}
	if text, ok := v.refusedText(err); ok {
		v.status, v.fault = http.StatusBadRequest, text
		return v.membersPage(nil)
	}
	return err
}

func showSecurity(v *visit) error { return v.securityPage(views.Security{}) }

func (v *visit) securityPage(view views.Security) (err error) {
	ctx := v.r.Context()
	view.Session = v.session
	if view.Person, err = v.service.Person(ctx, v.person.ID); err != nil {
		return err
	}
	if view.Sessions, err = v.service.Sessions(ctx, v.person.ID); err != nil {
		return err
	}
	if view.Passkeys, err = v.service.Passkeys(ctx, v.person.ID); err != nil {
		return err
	}
	if view.Linked, err = v.service.Linked(ctx, v.person.ID); err != nil {
		return err
	}
	view.Linkable = slices.DeleteFunc(v.service.Issuers(), func(name string) bool {
		return slices.Contains(view.Linked, name)
	})
	if view.URI != "" {
		view.QR = drawCode(view.URI)
	}
	return v.show(views.SecurityPage(v.page("You, and how you sign in"), view))
}

// drawCode draws a QR code as an address of a picture; "" where it cannot be drawn: the secret stands beside it.
func drawCode(uri string) string {
	key, err := otp.NewKeyFromURL(uri)
	if err != nil {
		return ""
	}
	picture, err := key.Image(400, 400)
	if err != nil {
		return ""
	}
	var b bytes.Buffer
	if png.Encode(&b, picture) != nil {
		return ""
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

func changeSecurity(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	ctx, service, notice := v.acting(), v.service, "saved"
	var view views.Security
	switch form.Get("act") {
	case "profile":
		err = service.ChangeProfile(ctx, v.person.ID, people.Profile{Name: form.Get("name"), Language: form.Get("language"),
			Zone: form.Get("zone")})
	case "password":
		notice, err = "password", service.ChangePassword(ctx, v.session, form.Get("old"), form.Get("new"))
	case "link":
		return v.beginLink(form.Get("name"))
	case "unlink":
		notice, err = "removed", service.Unlink(ctx, v.session, form.Get("name"))
	case "begin-totp":
		if view.Secret, view.URI, err = service.BeginTOTP(ctx, v.session); err == nil {
			return v.securityPage(view)
		}
	case "confirm-totp":
		if view.Recovery, err = service.ConfirmTOTP(ctx, v.session, form.Get("code")); err == nil {
			v.notice = v.language.Text(notices["factor-on"])
			return v.securityPage(view)
		}
		if errors.Is(err, people.ErrWrong) {
			v.fault = v.language.Text("That code is not right, or was used before.")
			v.status = http.StatusBadRequest
			view.Secret, view.URI = form.Get("secret"), form.Get("uri")
			return v.securityPage(view)
		}
	case "remove-totp":
		notice, err = "factor-off", service.RemoveTOTP(ctx, v.session)
	case "remove-passkey":
		notice, err = "removed", service.RemovePasskey(ctx, v.session, form.Get("passkey"))
	case "revoke":
		notice, err = "ended", service.Revoke(ctx, v.person.ID, form.Get("session"))
	case "revoke-others":
		notice, err = "ended", service.RevokeOthers(ctx, v.session)
	default:
		return errBadForm
	}
	if err == nil {
		v.done("/portal/security", notice)
		return nil
	}
	if text, ok := v.refusedText(err); ok {
		v.status, v.fault = http.StatusBadRequest, text
		return v.securityPage(view)
	}
	return err
}
