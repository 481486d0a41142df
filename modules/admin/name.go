package admin

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/engine"
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_.@][A-Za-z0-9_.@-]{0,63}$`)

// checkName keeps the names of accounts and keys to what is safe in a URL, a shell and a log.
func checkName(kind, name string) error {
	if !namePattern.MatchString(name) {
		return problem(http.StatusBadRequest, "%s name %q: a name is 1 to 64 letters, digits and - _ . @, and does not "+
			"begin with -", kind, name)
	}
	return nil
}

// checkPlan sees whether the running configuration has the plan.
func checkPlan(e *engine.Engine, plan string) error {
	g := e.Current()
	if g == nil {
		return problem(http.StatusServiceUnavailable, "no configuration is active yet: try again in a moment")
	}
	if _, ok := g.Config.Plan(plan); ok {
		return nil
	}
	if err := notLoaded(e, g.Config, plan); err != nil {
		return err
	}
	names := PlanNames(g.Config)
	if len(names) == 0 {
		return problem(http.StatusBadRequest, "plan %q is not in %s: it has no plans; add a block `plan %q {}` or leave the "+
			"plan out", plan, g.Config.Path, plan)
	}
	if name := config.Nearest(plan, names); name != "" {
		return problem(http.StatusBadRequest, "plan %q is not in %s: did you mean %q?", plan, g.Config.Path, name)
	}
	return problem(http.StatusBadRequest, "plan %q is not in %s: it has %s", plan, g.Config.Path,
		strings.Join(names, ", "))
}

// notLoaded says so of a plan that the saved file has, or may have, and what serves has not; nil otherwise.
func notLoaded(e *engine.Engine, serving *config.Config, plan string) error {
	if config.Digest(serving.Path) == serving.Hash {
		return nil
	}
	f := e.FailedLoad()
	refused := f != nil && f.InFile
	_, saved, _ := config.LoadLedger(serving.Path)
	if saved == nil && refused {
		return problem(http.StatusConflict, "plan %q is not in the configuration that serves; it may be in %s as it is "+
			"saved, but that is refused: %s; `fareway gateway status` shows where, and saving it mended is enough",
			plan, serving.Path, f.Problem)
	}
	if saved == nil {
		return nil
	}
	if _, ok := saved.Plan(plan); !ok {
		return nil
	}
	if refused {
		return problem(http.StatusConflict, "plan %q is in %s as it is saved, but that is refused, and the configuration "+
			"before it serves on: %s; `fareway gateway status` shows where, and saving it mended is enough",
			plan, serving.Path, f.Problem)
	}
	return problem(http.StatusConflict, "plan %q is in %s as it is saved, but that is not loaded yet: it is within two "+
		"seconds, or at once by `fareway reload`; then try again", plan, serving.Path)
}

// PlanNames are the plans of a configuration.
func PlanNames(cfg *config.Config) []string {
	names := make([]string, len(cfg.Plans))
	for i, p := range cfg.Plans {
		names[i] = p.Name
	}
	return names
}
