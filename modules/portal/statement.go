package portal

import (
	"net/http"
	"net/url"

	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/portal/views"
)

// maxMonths bounds the list of statements: ten years.
const maxMonths = 120

func showStatements(v *visit) error {
	is, err := v.ofAccount().read(v.r.Context())
	if err != nil {
		return err
	}
	months := admin.StatementMonths(is.Created, v.engine.Now())
	return v.show(views.StatementsPage(v.page("Statements"), months[:min(len(months), maxMonths)]))
}

// readStatement is the account's statement of the month that the address names.
func (v *visit) readStatement() (s *admin.Statement, err error) {
	a := v.ofAccount()
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
	page := v.page("Statements")
	page.Title = v.language.Text("Statement of %s", v.language.Month(s.Month))
	return v.show(views.StatementPage(page, s))
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
