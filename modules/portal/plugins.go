package portal

import "github.com/fareway/fareway/modules/portal/views"

// showPlugins shows the programs that providers run.
func showPlugins(v *visit) error {
	var view views.Plugins
	if err := v.get("/fareway/plugins", &view.List); err != nil {
		return err
	}
	return v.show(views.PluginsPage(v.page("Plugins"), view))
}
