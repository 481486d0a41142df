package portal

import (
	"net/http"
	"net/url"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/portal/views"
)

// maxMonths bounds the list of statements: ten years.
const maxMonths = 120

// statementsOf is the account whose statements are looked at, and where they are: the viewer's, or the one that an
// operator's page names.
func (v *visit) statementsOf() (a account, path string) {
	if v.place.operator == "" {
		return v.ofAccount(), "/portal/statements"
	}
	id := v.r.PathValue("id")
	return account{v.api(v.engine, v.actor()), id}, "/portal/operator/accounts/" + url.PathEscape(id) + "/statements"
}

func showStatements(v *visit) error {
	a, path := v.statementsOf()
	is, err := a.read(v.r.Context())
	if err != nil {
		return err
	}
	months := admin.StatementMonths(is.Created, v.engine.Now())
	page := v.page("Statements")
	if v.place.operator != "" {
		page.Title = v.language.Text("Statements of %s", is.Name)
	}
	return v.show(views.StatementsPage(page, path, months[:min(len(months), maxMonths)]))
}

// readStatement is the account's statement of the month that the address names.
func (v *visit) readStatement() (s *admin.Statement, err error) {
	a, _ := v.statementsOf()
	s = new(admin.Statement)
	err = a.Call(v.r.Context(), http.MethodGet, "/fareway/accounts/"+url.PathEscape(a.id)+"/statement?month="+
		url.QueryEscape(v.r.PathValue("month")), nil, s)
	if _, refused := v.refusedText(err); refused {
		return nil, errNotFound
	}
	return s, err
}

func showStatement(v *visit) error {
	s, err := v.readStatement()
	if err != nil {
		return err
	}
	_, path := v.statementsOf()
	page := v.page("Statements")
	page.Title = v.language.Text("Statement of %s", v.language.Month(s.Month))
	return v.show(views.StatementPage(page, path, s))
}

func downloadStatement(v *visit) error {
	s, err := v.readStatement()
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="statement-`+s.Month+`.csv"`)
	_ = s.WriteCSV(v.w) // the browser may be gone
	return nil
}
