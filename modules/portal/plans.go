package portal

import "github.com/fareway/fareway/modules/portal/views"

// showPlans shows what each plan gives, and how many accounts are on it.
func showPlans(v *visit) error {
	var view views.Plans
	if err := v.get("/fareway/plans", &view.List); err != nil {
		return err
	}
	return v.show(views.PlansPage(v.page("Plans"), view))
}
