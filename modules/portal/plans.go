package portal

import (
	"github.com/fareway/fareway/modules/admin"
	"github.com/fareway/fareway/modules/portal/views"
)

// showPlans shows what each plan gives, and how many accounts are on it.
func showPlans(v *visit) error {
	var list []admin.AccountPlan
	if err := v.get("/fareway/plans", &list); err != nil {
		return err
	}
	page := v.page("Plans")
	var view views.Plans
	for i := range list {
		p := &list[i]
		view.List = append(view.List, views.Plan{Name: p.Name, Gone: p.Gone, Accounts: p.Accounts,
			Facts: planFacts(page, p)})
	}
	return v.show(views.PlansPage(page, view))
}
