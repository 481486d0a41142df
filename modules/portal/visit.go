package portal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/gateway"
	"github.com/fareway/fareway/modules/internal/engine"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/internal/payments"
	"github.com/fareway/fareway/modules/internal/people"
	"github.com/fareway/fareway/modules/portal/texts"
	"github.com/fareway/fareway/modules/portal/views"
)

// visit is one request of a browser: who it is, what they may, and what a page needs.
type visit struct {
	*Handler
	w       http.ResponseWriter
	r       *http.Request
	engine  *engine.Engine
	service *people.Service // who may sign in
	place   *place
	nonce   string

	language *texts.Language
	client   people.Client
	token    string // of the session, "" for nobody's
	session  people.Session
	person   people.Person
	viewer   *views.Viewer // nil for nobody

	notice, fault string // for the page, in the language
	status        int    // of the page; 0: 200
}

var (
	errNotFound = errors.New("there is no such page")
	errInsecure = errors.New("the portal is served over https only")
	errForeign  = errors.New("the form came from elsewhere")
	errMayNot   = errors.New("this person may not do this")
	errBadForm  = errors.New("the form cannot be read")
	errTooMuch  = errors.New("the form is too long")
	errOther    = errors.New("another account is looked at by now")
)

// maxForm bounds what a form sends, in bytes.
const maxForm = 64 << 10

// Names of cookies. With the prefix browsers take it from this host over TLS only.
const (
	secureCookie, plainCookie = "__Host-fareway", "fareway"
	flowSuffix                = "_flow" // of what is begun elsewhere, with an issuer of OpenID Connect
	languageCookie            = "fareway_language"
	amountsCookie             = "fareway_amounts" // exactAmounts, or nothing
)

// open finds out who asks, and whether they may see the place.
func (v *visit) open() error {
	p := v.place
	v.findClient()
	v.findLanguage()
	if !v.client.Secure && !isLoopback(v.r.Host) {
		return errInsecure
	}
	if v.r.Method != http.MethodGet && v.r.Method != http.MethodHead {
		if p.signed {
			v.r.Body = http.MaxBytesReader(v.w, v.r.Body, payments.MaxEvent)
			return nil
		}
		if err := v.checkOrigin(); err != nil {
			return err
		}
		v.r.Body = http.MaxBytesReader(v.w, v.r.Body, cmp.Or(p.most, maxForm))
	}
	if err := v.findPerson(); err != nil {
		return err
	}
	if !p.open && v.viewer == nil {
		return people.ErrNoSession
	}
	if p.open {
		return nil
	}
	if err := p.check(v.viewer); err != nil || p.role == "" || v.r.Method != http.MethodPost {
		return err
	}
	form, err := v.form()
	if err != nil {
		return err
	}
	// Another page may have changed the account that is looked at since this form was shown.
	if shown := form.Get("account"); shown != "" && shown != v.viewer.Account.ID {
		return errOther
	}
	return nil
}

// findClient says who asks, as the site sees it: behind proxies that it trusts, what those say.
func (v *visit) findClient() {
	v.client = people.Client{Agent: v.r.UserAgent(), Host: v.r.Host, Secure: v.r.TLS != nil}
	if from := gateway.ClientAddress(v.r); from.IsValid() {
		v.client.Address = from.String()
	}
	if trusted, _ := caddyhttp.GetVar(v.r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		if proto := v.r.Header.Get("X-Forwarded-Proto"); proto != "" {
			v.client.Secure = strings.EqualFold(proto, "https")
		}
	}
}

// findLanguage is the person's, or the one that was chosen on a page before anybody had signed in, or the browser's.
func (v *visit) findLanguage() {
	set := ""
	if c, err := v.r.Cookie(languageCookie); err == nil {
		set = c.Value
	}
	if chosen := v.r.URL.Query().Get("language"); chosen != "" {
		set = texts.Choose(chosen, "").Code
		v.setCookie(languageCookie, set, 365*24*3600)
	}
	v.language = texts.Choose(set, v.r.Header.Get("Accept-Language"))
}

// How a browser is shown amounts.
const exactAmounts, shortAmounts = "exact", "short"

// wantsExactAmounts reports whether the browser is to be shown amounts to the microcent.
func (v *visit) wantsExactAmounts() bool {
	c, err := v.r.Cookie(amountsCookie)
	return err == nil && c.Value == exactAmounts
}

// credits writes microcents as the browser is to be shown them.
func (v *visit) credits(microcents int64) string {
	p := views.Page{Language: v.language, ExactAmounts: v.wantsExactAmounts()}
	return p.Credits(microcents)
}

// selectAmounts has a browser be shown amounts to the microcent, or in short again.
func selectAmounts(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	switch form.Get("amounts") {
	case exactAmounts:
		v.setCookie(amountsCookie, exactAmounts, 365*24*3600)
	case shortAmounts:
		v.setCookie(amountsCookie, "", -1)
	default:
		return errBadForm
	}
	v.redirect(safeNext(form.Get("next")))
	return nil
}

// here is where the page that is shown can be asked for again, without what was done before.
func (v *visit) here() string {
	q := v.r.URL.Query()
	for _, once := range []string{"done", "payment", "language"} {
		q.Del(once)
	}
	if v.r.Method != http.MethodGet {
		q = nil
	}
	return views.Link(v.r.URL.EscapedPath(), q)
}

// isLoopback reports a host on which browsers trust plain HTTP as they do TLS.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// checkOrigin refuses what a page elsewhere has sent. Browsers say where a form is from, in one header or the other;
// what says it in neither is none.
func (v *visit) checkOrigin() error {
	h := v.r.Header
	if h.Get("Sec-Fetch-Site") == "" && (h.Get("Origin") == "" || h.Get("Origin") == "null") {
		return errForeign
	}
	if v.guard.Check(v.r) != nil {
		return errForeign
	}
	return nil
}

// origin is the address of the site, as the browser has it, without a slash at the end.
func (v *visit) origin() string {
	if v.client.Secure {
		return "https://" + v.r.Host
	}
	return "http://" + v.r.Host
}

func (v *visit) cookieName() string {
	if v.client.Secure {
		return secureCookie
	}
	return plainCookie
}

// findPerson finds who has signed in.
func (v *visit) findPerson() error {
	c, err := v.r.Cookie(v.cookieName())
	if err != nil {
		return nil //nolint:nilerr // nobody has
	}
	session, person, err := v.service.Session(v.r.Context(), c.Value, v.client)
	switch {
	case errors.Is(err, people.ErrNoSession):
		return nil
	case err != nil:
		return err
	}
	v.token, v.session, v.person = c.Value, session, person
	if person.Language != "" && v.r.URL.Query().Get("language") == "" {
		v.language = texts.Choose(person.Language, "")
	}
	v.viewer = &views.Viewer{Name: person.Name, Email: person.Email, Operator: string(person.Operator)}
	if err := v.findAccounts(); err != nil {
		if v.place.open || v.place.self && v.place.ledgerless {
			v.log.Warn("reading the accounts of who asks", "error", err)
			return nil // who signs out needs none
		}
		return err
	}
	return nil
}

// maxShownAccounts is how many of a person's accounts pages offer.
const maxShownAccounts = 50

// findAccounts finds which accounts somebody is in, and which one is looked at: the one that was selected, or the
// first.
func (v *visit) findAccounts() error {
	memberships, err := v.service.Memberships(v.r.Context(), v.person.ID)
	if err != nil {
		return err
	}
	api := v.api(v.engine, v.actor())
	for _, m := range memberships[:min(len(memberships), maxShownAccounts)] {
		account, err := readAccount(v.r.Context(), api, m.Account)
		if admin.StatusOf(err) == http.StatusNotFound {
			continue // a membership of another ledger's account
		}
		if err != nil {
			return err
		}
		v.viewer.Accounts = append(v.viewer.Accounts, views.AccountLink{ID: account.ID, Name: account.Name,
			Role: string(m.Role)})
	}
	for i := range v.viewer.Accounts {
		if a := &v.viewer.Accounts[i]; v.viewer.Account == nil || a.ID == v.session.Account {
			v.viewer.Account = a
		}
	}
	return nil
}

// actor is whom the audit trail puts down what is done.
func (v *visit) actor() string {
	if v.person.Email == "" {
		return "unknown via portal"
	}
	return v.person.Email + " via portal"
}

// keep has a browser keep a session until its window is closed; when it is over, the store says.
func (v *visit) keep(token string) { v.setCookie(v.cookieName(), token, 0) }

// setCookie has a browser keep a value for so many seconds; 0: until its window is closed, -1: not any more. It is lax,
// for an issuer of OpenID Connect leads back by a link.
func (v *visit) setCookie(name, value string, seconds int) {
	http.SetCookie(v.w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: v.client.Secure,
		HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

// encodeCookie makes a cookie's value of any bytes.
func encodeCookie(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// decodeCookie is what encodeCookie was given; nil of anything else.
func decodeCookie(text string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}

func (v *visit) forget() { v.setCookie(v.cookieName(), "", -1) }

// redirect answers a form: the browser asks for the page anew.
func (v *visit) redirect(path string) { http.Redirect(v.w, v.r, path, http.StatusSeeOther) }

// done sends on to a page that says what was done, by the name of a notice.
func (v *visit) done(path, notice string) {
	u := url.URL{Path: path, RawQuery: url.Values{"done": {notice}}.Encode()}
	v.redirect(u.String())
}

// notices are what pages say was done: by name, so that nobody can have a page say something by a link.
var notices = map[string]string{
	"saved": "Saved.", "ended": "Ended.", "signed-out": "You are signed out.", "removed": "Removed.",
	"withdrawn": "The invitation is withdrawn.", "credited": "The credits are added.",
	"again": "These credits had been added before: nothing was changed.", "refunded": "The charge is given back.",
	"password": "The password is changed, and all other sessions are ended.", "made": "It is made.",
	"new-password": "The password is set. Sign in with it.",
	"confirmed":    "Thank you. Do it once more now.", "factor-on": "The second factor is on.",
	"factor-off": "The second factor is off.", "welcome": "Welcome.", "written": "It is written, and serves.",
	"unchanged": "It is saved like that already.",
	"linked":    "You can sign in by it from now on, too. All other sessions are ended.",
}

// safeNext is where a sign-in leads to: a page of the portal, and nothing else.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/portal/") ||
		strings.ContainsAny(next, "\\\r\n\t") || strings.HasPrefix(next, "//") || strings.Contains(u.Path, "..") {
		return "/portal/"
	}
	return next
}

// page is what every page has.
func (v *visit) page(title string) *views.Page {
	p := &views.Page{Language: v.language, Title: v.language.Text(title), Path: v.r.URL.Path, Nonce: v.nonce,
		Site: v.r.Host, Viewer: v.viewer, Notice: v.notice, Fault: v.fault, Assets: assetLinks,
		ExactAmounts: v.wantsExactAmounts(), Here: v.here()}
	if p.Notice == "" {
		if text, ok := notices[v.r.URL.Query().Get("done")]; ok {
			p.Notice = v.language.Text(text)
		}
	}
	if zone, err := time.LoadLocation(v.person.Zone); err == nil && v.person.Zone != "" {
		p.Zone = zone
	}
	return p
}

// show answers with a page. It is written whole, so that one that fails is no half page.
func (v *visit) show(c templ.Component) error {
	var b bytes.Buffer
	if err := c.Render(v.r.Context(), &b); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.status != 0 {
		v.w.WriteHeader(v.status)
	}
	_, _ = b.WriteTo(v.w) // the browser may be gone
	return nil
}

// fail answers what went wrong, in words for who looks.
func (v *visit) fail(err error) {
	if v.language == nil {
		v.language = texts.English
	}
	say := func(status int, title, text string) {
		v.status = status
		if err := v.show(views.MessagePage(v.page(title), v.language.Text(text))); err != nil {
			v.log.Error("showing a page", "error", err)
		}
	}
	throttled := new(people.ThrottledError)
	status := admin.StatusOf(err)
	switch {
	case errors.Is(err, people.ErrNoSession):
		if v.r.Method == http.MethodGet && v.r.Header.Get("Accept") != "text/event-stream" {
			v.redirect(views.Link("/portal/sign-in", url.Values{"next": {safeNext(v.r.URL.RequestURI())}}))
			return
		}
		say(http.StatusUnauthorized, "Signed out", "You are signed out. Sign in, and try again.")
	case errors.Is(err, people.ErrConfirm):
		v.redirect(views.Link("/portal/confirm", url.Values{"next": {safeNext(v.r.URL.Path)}}))
	case errors.Is(err, errInsecure):
		say(http.StatusForbidden, "Not over plain HTTP", "The portal is served over https only: what you type could be "+
			"read on the way.")
	case errors.Is(err, errForeign):
		say(http.StatusForbidden, "Refused", "That did not come from a page of this portal, and was not done.")
	case errors.Is(err, errBadForm):
		say(http.StatusBadRequest, "Not understood", "What was sent cannot be read. Nothing was done.")
	case errors.Is(err, errTooMuch):
		say(http.StatusRequestEntityTooLarge, "Too long", "What was sent is longer than this page takes. Nothing was done.")
	case errors.Is(err, errMayNot):
		say(http.StatusForbidden, "Not yours to do", "Your role does not allow this.")
	case errors.As(err, &throttled):
		v.w.Header().Set("Retry-After", retryAfter(throttled.Wait))
		say(http.StatusTooManyRequests, "Too many attempts", "There were too many attempts. Wait a few minutes.")
	case errors.Is(err, errOther):
		say(http.StatusConflict, "Not done", "Another account is looked at by now: nothing was done. Go back to the "+
			"page, and choose the account.")
	case errors.Is(err, people.ErrNotInvited):
		say(http.StatusForbidden, "Not for you", "This link is for somebody else. Sign out, and open it again.")
	case errors.Is(err, people.ErrSignInFirst):
		say(http.StatusConflict, "Not done", "There is somebody with this e-mail already. Sign in as that, and open "+
			"the link again.")
	case errors.Is(err, people.ErrExpired):
		say(http.StatusGone, "Used or expired", "This link was used, withdrawn, or is too old. Ask for a new one.")
	case status == http.StatusGone:
		say(http.StatusGone, "Pruned", "The detail of this request was removed after the time that it is kept. The "+
			"movements of the balance still have what it was charged.")
	case errors.Is(err, errNotFound), errors.Is(err, people.ErrNotFound), status == http.StatusNotFound:
		say(http.StatusNotFound, "Not found", "There is nothing here, or it is not yours.")
	case errors.Is(err, people.ErrUnavailable), status == http.StatusServiceUnavailable:
		v.log.Warn("the portal cannot answer", "error", err)
		v.w.Header().Set("Retry-After", "5")
		say(http.StatusServiceUnavailable, "Away for a moment", "The portal cannot reach its database. Requests of the "+
			"API go on, as far as they can. Try again in a few seconds.")
	case errors.Is(err, people.ErrInvalid), errors.Is(err, people.ErrWrong), errors.Is(err, people.ErrExists),
		status >= 400 && status < 500:
		v.fault, _ = v.refusedText(err)
		say(cmp.Or(status, http.StatusBadRequest), "Not done", "Nothing was changed.")
	default:
		v.log.Error("serving a page of the portal", "page", v.place.pattern, "error", err)
		say(http.StatusInternalServerError, "Something is wrong here", "The fault is ours, and is in the log.")
	}
}

// refusedText is what a page says where what was asked for is refused, ok where it is such a refusal.
func (v *visit) refusedText(err error) (text string, ok bool) {
	weak := new(people.WeakError)
	switch status := admin.StatusOf(err); {
	case err == nil:
		return "", false
	case errors.As(err, &weak):
		return v.language.Text(map[people.Weakness]string{
			people.TooShort: "The password is too short: take 12 characters or more.",
			people.TooLong:  "The password is too long.",
			people.Common:   "The password is among those that are tried first: take another one.",
			people.Personal: "The password has your e-mail in it: take another one.",
		}[weak.Weakness]), true
	case errors.Is(err, people.ErrWrong):
		return v.language.Text("That is not right."), true
	case errors.Is(err, people.ErrLastOwner):
		return v.language.Text("An account needs an owner: make somebody else one first."), true
	case errors.Is(err, people.ErrLastAdmin):
		return v.language.Text("The gateway needs somebody who may do everything: make somebody else one first."), true
	case errors.Is(err, people.ErrExists):
		return v.language.Text("That is there already."), true
	case errors.Is(err, people.ErrInvalid):
		why := strings.TrimPrefix(err.Error(), people.ErrInvalid.Error()+": ")
		return v.language.Text("That cannot be taken: %s", why), true
	case status == http.StatusBadRequest, status == http.StatusConflict:
		return err.Error(), true
	}
	return "", false
}

// form is what was sent, of a form of a page.
func (v *visit) form() (url.Values, error) {
	if err := v.r.ParseForm(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, errTooMuch
		}
		return nil, errBadForm
	}
	return v.r.PostForm, nil
}

// acting is a context whose acts the audit trail puts down to who asks.
func (v *visit) acting() context.Context { return ledger.WithActor(v.r.Context(), v.actor()) }
