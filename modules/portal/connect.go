package portal

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/internal/connect"
	"github.com/fareway/fareway/modules/internal/ledger"
	"github.com/fareway/fareway/modules/portal/views"
)

func showConnect(v *visit) error { return v.connectPage(&views.Connect{Key: views.KeyPlaceholder}) }

// connectPage shows how each client is pointed at the gateway.
func (v *visit) connectPage(view *views.Connect) error {
	view.URL = v.origin()
	gateway := connect.Gateway{URL: view.URL, Key: view.Key}
	if g := v.engine.Current(); g != nil {
		gateway.Window = g.ContextLength()
	}
	gateway.Output = connect.OutputLimit(gateway.Window)
	for _, c := range connect.Clients {
		gateway.Family = c.Families[0]
		shown := views.ConnectClient{Client: c, Env: c.Export(gateway), Examples: c.Examples(gateway)}
		if c.File != nil {
			file := c.File(gateway)
			content, err := file.Content()
			if err != nil {
				return err
			}
			shown.Path, shown.Content = "~/"+file.Path, string(content)
		}
		view.Clients = append(view.Clients, shown)
	}
	for _, s := range connect.Shapes {
		if !s.Stream {
			view.Shapes = append(view.Shapes, s)
		}
	}
	return v.show(views.ConnectPage(v.page("Connect"), view))
}

// tryConnection sends one real request with a key that somebody has entered, through the site as a client's would come,
// so that it is let in, limited and charged as a client's. Or it only shows the key in its places.
func tryConnection(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	view := &views.Connect{Key: strings.TrimSpace(form.Get("key")), Family: form.Get("family")}
	if _, ok := ledger.ParseKey(view.Key); !ok {
		v.status, v.fault = http.StatusBadRequest, v.language.Text("That is no key of this service: it begins with fwk_.")
		view.Key = views.KeyPlaceholder
		return v.connectPage(view)
	}
	if form.Get("act") != "try" {
		return v.connectPage(view)
	}
	i := slices.IndexFunc(connect.Shapes, func(s connect.Shape) bool { return s.Family == view.Family })
	if i < 0 {
		return errBadForm
	}
	answer, err := connect.Ask(v.r.Context(), v.origin(), view.Key, connect.Shapes[i], v.sendInside)
	view.Answer, view.Mine = &answer, answer.ID != "" && v.isMine(answer.ID)
	if err != nil {
		view.Failed = err.Error() // not by a status of its own, which proxies put a page of theirs in the place of
	}
	return v.connectPage(view)
}

// isMine reports whether a request's page is for who looks.
func (v *visit) isMine(id string) bool {
	var r admin.Request
	a := account{v.api(v.engine, v.actor()), ""}
	if a.Call(v.r.Context(), http.MethodGet, "/fareway/usage/"+id, nil, &r) != nil {
		return false // most often it was refused, so that there is none
	}
	return slices.ContainsFunc(v.viewer.Accounts, func(l views.AccountLink) bool { return l.ID == r.AccountID })
}

// errNoSite: the portal does not know the server that serves it.
var errNoSite = errors.New("this server cannot send itself a request")

// sendInside has the server that serves the portal serve a request, as if whoever asks had sent it.
func (v *visit) sendInside(r *http.Request) (*http.Response, error) {
	if v.site == nil {
		return nil, errNoSite
	}
	r.Host, r.RequestURI, r.RemoteAddr, r.TLS = v.r.Host, r.URL.RequestURI(), v.r.RemoteAddr, v.r.TLS
	// What a proxy in front says of who asks, and how, is so of this request, too.
	var says []string
	if server, ok := v.site.(*caddyhttp.Server); ok {
		says = server.ClientIPHeaders
	}
	for name, values := range v.r.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || slices.ContainsFunc(says, func(h string) bool {
			return http.CanonicalHeaderKey(h) == name
		}) {
			r.Header[name] = values
		}
	}
	return admin.InProcess(v.site, func(_ any, stack []byte) {
		v.log.Error("recovered from a panic", "stack", string(stack))
	}).RoundTrip(r)
}
