package portal

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/portal/views"
)

// setOwnCap sets the spend cap that the account's owner wants.
func (v *visit) setOwnCap(a account, form url.Values) error {
	is, err := a.read(v.r.Context())
	if err != nil {
		return err
	}
	if form.Get("was") != views.OwnCapField(&is) {
		return errChanged
	}
	var in admin.NewOwnCap
	if text := strings.TrimSpace(form.Get("cap")); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errBadForm
		}
		in.Credits = &n
	}
	return a.Call(v.r.Context(), http.MethodPost, "/fareway/accounts/"+url.PathEscape(a.id)+"/own-cap", in, &is)
}
